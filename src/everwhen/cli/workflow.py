"""`everwhen workflow`: test a definition without a server, and draw it; what needs one is in `workflow_live`."""

from __future__ import annotations

import json
import sys
from typing import BinaryIO

import click

from everwhen.cli.workflow_live import COMMANDS


@click.group(short_help="Workflows: graphs of tasks.")
def workflow() -> None:
    """Define, run and look at workflows: tasks composed into a directed acyclic graph."""


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
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--title", help="What to write above it. [the workflow's name]")
@click.option("--run", "ref", help="Draw this run with its live states instead; asks the server.")
@click.option("-t", "--tenant", help="With --run: the tenant's name. [env: EVERWHEN_TENANT]")
def graph(*, file: BinaryIO | None, title: str | None, ref: str | None, tenant: str | None) -> None:
    """Draw the definition in FILE (- for standard input) as SVG on standard output; that needs no server."""
    if (file is None) == (ref is None):
        raise click.UsageError("name either a file or a --run")
    click.echo(_fetched(ref or "", tenant) if file is None else _drawn(file, title))


def _fetched(ref: str, tenant: str | None) -> str:
    from everwhen.cli.client import Api, failure_of, find_target, one_line_failures

    with one_line_failures("table"):
        api = Api(find_target(tenant=tenant))
        click.get_current_context().call_on_close(api.close)
        answer = api.send("GET", api.tenant_path("workflow-runs", ref, "graph.svg"))
        if not answer.is_success:
            raise failure_of(answer)
        return answer.text
    raise AssertionError("a failure ends the command")


def _drawn(file: BinaryIO, title: str | None) -> str:
    from everwhen.cli.workflow_simulate import decoded
    from everwhen.core.dag_json import parse_workflow
    from everwhen.core.dag_values import MOST_DEFINITION_BYTES, WorkflowError
    from everwhen.workflows.graph_svg import render

    try:
        found = parse_workflow(decoded(file.read(4 * MOST_DEFINITION_BYTES)))
    except WorkflowError as error:
        faults = "; ".join(f"{fault.pointer or '/'}: {fault.message} ({fault.code})" for fault in error.faults)
        raise click.UsageError(faults) from None
    return render(found, title=title or found.name or "workflow")


for command in COMMANDS:
    workflow.add_command(command)
