"""`everwhen workflow`, with a server: apply definitions, and run, watch, cancel and rerun them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import click

from everwhen.cli.bulk import retagging
from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.listing import filtered, given, json_option, list_pages, paged
from everwhen.cli.output import Columns, confirm, show_list, show_one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_FOUND: Final = 3

COLUMNS: Final[Columns] = {"NAME": "name", "VERSION": "version", "CHANGED": "updated_at"}
RUN_COLUMNS: Final[Columns] = {
    "RUN": lambda run: run["ref"] or run["id"],
    "WORKFLOW": "workflow",
    "VERSION": "version",
    "STATE": "state",
    "DUE": "due_at",
    "STARTED": "started_at",
    "FINISHED": "finished_at",
    "REASON": "reason",
}
NODE_COLUMNS: Final[Columns] = {
    "NODE": "id",
    "STATE": "state",
    "REASON": "reason",
    "WAITS FOR": lambda node: ", ".join(node["blocked_by"]) or None,
    "RUN": "run",
    "ENDED": "ended_at",
}


@click.command("apply")
@click.argument("file", type=click.File("rb"))
@click.option("--reason", help="Why; kept with the version.")
@with_api
def apply(*, api: Api, output: str, file: BinaryIO, reason: str | None) -> None:
    """Make the workflow that FILE defines (- for standard input), or its next version if it says anything new."""
    from everwhen.cli.workflow_simulate import decoded
    from everwhen.core.dag_values import MOST_DEFINITION_BYTES, WorkflowError

    try:
        definition: Any = decoded(file.read(4 * MOST_DEFINITION_BYTES))
    except WorkflowError as error:
        raise click.UsageError(error.message) from None
    name = cast("dict[str, Any]", definition).get("name") if isinstance(definition, dict) else None
    if not isinstance(name, str) or not name:
        raise click.UsageError("the definition needs a name")
    body = given(definition=definition, reason=reason)
    made = api.put(api.tenant_path("workflows", name), body=body)
    shown = {key: value for key, value in made.items() if output != "table" or key != "definition"}
    show_one(shown, kind="WorkflowList", output=output)


@click.command("list")
@filtered("tag:billing")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List workflows by name."""
    path = api.tenant_path("workflows")
    list_pages(api, path, kind="WorkflowList", output=output, columns=COLUMNS, paging=paging)


@click.command("runs")
@filtered("workflow:etl state:running")
@paged
@with_api
def runs(*, api: Api, output: str, **paging: Any) -> None:
    """List runs of workflows, the newest first; those that are parts of others are among them."""
    path = api.tenant_path("workflow-runs")
    list_pages(api, path, kind="WorkflowRunList", output=output, columns=RUN_COLUMNS, paging=paging, name="id")


@click.command("get")
@click.argument("name")
@with_api
def get(*, api: Api, output: str, name: str) -> None:
    """Show a workflow's latest definition, or where the nodes of a run are. NAME is a workflow's, or a run's."""
    if _is_run(name):
        _show_run(api.call("GET", api.tenant_path("workflow-runs", name)), output)
        return
    found = api.call("GET", api.tenant_path("workflows", name))
    if output == "table":
        click.echo(json.dumps(found["definition"], ensure_ascii=False, indent=2))
        return
    show_one(found, kind="WorkflowList", output=output)


@click.command("delete")
@click.argument("name")
@click.option("--reason", help="Why; kept with the audit.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete(*, api: Api, output: str, name: str, reason: str | None, yes: bool, force: bool) -> None:
    """Give a workflow's name back; refused while something uses it. What has run keeps its version."""
    confirm(f"Delete the workflow {name}?", yes=yes)
    api.change("DELETE", api.tenant_path("workflows", name), reason=reason, force=force)
    if output == "name":
        click.echo(name)


@click.command("run")
@click.argument("name")
@click.option("--at", help="When it becomes due, with its offset. [default: now]")
@click.option("--input", "input_text", metavar="JSON", help="The run's input; @FILE reads it from a file.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 goes first, 0 last; holds for its nodes, too.")
@click.option("--key", help="Idempotency key: the same key makes one run. [default: a new one]")
@click.option("--wait", is_flag=True, help="Wait for its end; exit code 10 unless it succeeded.")
@click.option("--timeout", type=float, default=1800.0, show_default=True, help="Seconds to wait; then exit code 7.")
@with_api
def run(*, api: Api, output: str, name: str, input_text: str | None, key: str | None, **options: Any) -> None:
    """Ask for a run of a workflow, now or at an instant."""
    from everwhen.cli.run import ask_for_run

    wait, timeout = options.pop("wait"), options.pop("timeout")
    body = given(workflow=name, **options)
    if input_text is not None:
        body["input"] = json_option(input_text, option="--input")
    ask_for_run(api, body, key=key, output=output, seconds=timeout if wait else None)


@click.command("cancel")
@click.argument("ref")
@click.option("--reason", help="Why; kept with the event.")
@with_api
def cancel(*, api: Api, output: str, ref: str, reason: str | None) -> None:
    """Stop what runs and what waits of a run; its finally-nodes still run."""
    made = api.call("POST", api.tenant_path("workflow-runs", ref, "cancel"), body=given(reason=reason))
    _show_run(made, output)


@click.command("rerun")
@click.argument("ref")
@click.option("--from", "nodes", multiple=True, help="A node to begin again from; several times for several nodes.")
@click.option("--reason", help="Why; kept with the event.")
@with_api
def rerun(*, api: Api, output: str, ref: str, nodes: Sequence[str], reason: str | None) -> None:
    """Run a part of an ended run again, as its next generation. [default: from all nodes that failed]"""
    body = given(nodes=list(nodes) or None, reason=reason)
    _show_run(api.call("POST", api.tenant_path("workflow-runs", ref, "rerun"), body=body), output)


@click.command("why")
@click.argument("ref")
@click.argument("node", required=False)
@with_api
def why(*, api: Api, output: str, ref: str, node: str | None) -> None:
    """Say why a run stands where it stands: what each open node waits for, and what failed. NODE tells of one only."""
    from everwhen.cli.why import show_node

    if node is not None:
        show_node(api, ref, node, output=output)
        return
    found = api.call("GET", api.tenant_path("workflow-runs", ref))
    states = {each["id"]: each["state"].replace("_", " ") for each in found["nodes"]}
    telling = [each for each in found["nodes"] if each["state"] not in {"succeeded", "skipped"}]
    if output != "table":
        show_list(telling, kind="NodeList", output=output, columns={}, name="id")
        return
    click.echo(_summary(found))
    for each in telling:
        click.echo(" ".join(_told(each, states)))


def _show_run(found: Any, output: str) -> None:
    if output != "table":
        show_one({"id": found["run"]["id"], **found}, kind="WorkflowRunList", output=output, name="id")
        return
    show_list(found["nodes"], kind="NodeList", output=output, columns=NODE_COLUMNS, name="id")
    click.echo(_summary(found), err=True)


def _summary(found: Any) -> str:
    made = found["run"]
    said = [f"{made['id']} is {made['state']}"]
    if made["reason_sentence"]:
        said.append(made["reason_sentence"].rstrip("."))
    if found["generation"] > 1:
        said.append(f"generation {found['generation']}")
    estimate = found["estimate"]
    if estimate and not made["finished_at"]:
        said.append(f"expected to end at {estimate['ends_at']}")
        if estimate["outlook"]:
            said.append(f"its deadline: {estimate['outlook'].replace('_', ' ')}")
    return "; ".join(said)


def _told(node: Mapping[str, Any], states: Mapping[str, str]) -> list[str]:
    said = [f"{node['id']} is {node['state'].replace('_', ' ')}: {node['reason_sentence'] or 'It is under way.'}"]
    if node["blocked_by"]:
        said.append(f"It waits for {', '.join(f'{name} ({states[name]})' for name in node['blocked_by'])}.")
    if node["blocked_at"] and node["blocked_at"] not in node["blocked_by"]:
        said.append(f"That comes down to {node['blocked_at']}.")
    if node["detail"] and node["detail"].get("message"):
        said.append(node["detail"]["message"])
    if node["run"]:
        said.append(f"More: everwhen why {node['run']}")
    return said


def _is_run(name: str) -> bool:
    from uuid import UUID

    try:
        return "@" in name or bool(UUID(name))
    except ValueError:
        return False


COMMANDS: Final = (apply, list_command, get, delete, run, runs, cancel, rerun, why, *retagging("workflow"))
