"""`everwhen workflow`: test a definition without a server, and draw it."""

from __future__ import annotations

import json
import sys
from typing import BinaryIO

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


@workflow.command("graph")
@click.argument("file", type=click.File("rb"))
@click.option("--title", help="What to write above it. [the workflow's name]")
def graph(*, file: BinaryIO, title: str | None) -> None:
    """Draw the definition in FILE (- for standard input) as SVG on standard output. Needs no server."""
    from everwhen.cli.workflow_simulate import decoded
    from everwhen.core.dag_json import parse_workflow
    from everwhen.core.dag_values import MOST_DEFINITION_BYTES, WorkflowError
    from everwhen.workflows.graph_svg import render

    try:
        found = parse_workflow(decoded(file.read(4 * MOST_DEFINITION_BYTES)))
    except WorkflowError as error:
        faults = "; ".join(f"{fault.pointer or '/'}: {fault.message} ({fault.code})" for fault in error.faults)
        raise click.UsageError(faults) from None
    click.echo(render(found, title=title or found.name or "workflow"))
