"""`everwhen workflow`: test a definition without a server, and draw it."""

from __future__ import annotations

import json
import sys

import click


@click.group(short_help="Workflows: graphs of tasks.")
def workflow() -> None:
    """Look at workflows: tasks composed into a directed acyclic graph."""


@workflow.command("simulate")
@click.option("--batch", is_flag=True, help="Answer one JSON object per line of standard input.")
def simulate(*, batch: bool) -> None:
    """Play a graph with scripted outcomes through, and print what becomes of every node. Needs no server.

    Standard input is {"nodes": [{"id", "needs": [ids], "rule", "outcome": "success" | "failed" | "skipped" | [one per
    attempt], "duration", "max_attempts", "retry_delay"}], "cancel_at": number | null}. The answer is {"nodes": {id:
    {"state", "attempts", "start", "end"}}, "run", "run_leaf"}, or {"error": {"code", "message", "pointer"}}; then,
    without --batch, the exit code is 2.
    """
    from everwhen.cli.workflow_simulate import answer_whole, answers

    if batch:
        for line in answers(sys.stdin.buffer):
            click.echo(line)
        return
    found = answer_whole(sys.stdin.buffer)
    click.echo(json.dumps(found))
    if "error" in found:
        sys.exit(2)
