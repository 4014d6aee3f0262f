"""`everwhen operation`: bulk work that is under way, or was."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.bulk import end_as, progress_line, watch
from everwhen.cli.client import Api, with_api
from everwhen.cli.listing import filtered, given, list_pages, paged
from everwhen.cli.output import Columns, confirm, show_one

COLUMNS: Final[Columns] = {
    "ID": "id",
    "KIND": "kind",
    "STATE": "state",
    "DONE": lambda operation: f"{operation['counts']['done']}/{operation['counts']['total']}",
    "SUCCEEDED": lambda operation: operation["counts"]["succeeded"],
    "DEAD": lambda operation: operation["counts"]["dead"],
    "BY": "requested_by",
    "CREATED": "created_at",
    "WHY": "reason",
}


ITEM_COLUMNS: Final[Columns] = {
    "NUMBER": "number",
    "ITEM": lambda item: item["name"] or item["nominal_at"] or item["run_id"],
    "STATE": "state",
    "REASON": "reason_code",
    "REFUSAL": "refusal",
    "RUN": "made_run_id",
}


@click.group(short_help="Bulk work: list, watch, pause, resume and abort operations.")
def operation() -> None:
    """Look at bulk operations, and stop them."""


@operation.command("list")
@filtered("kind:redrive since:7d")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List operations, the newest first."""
    path = api.tenant_path("operations")
    list_pages(api, path, kind="OperationList", output=output, columns=COLUMNS, paging=paging, name="id")


@operation.command("get")
@click.argument("operation_id")
@with_api
def get(*, api: Api, output: str, operation_id: str) -> None:
    """Show one operation, and how far it is."""
    found = api.call("GET", api.tenant_path("operations", operation_id))
    if output == "table":
        click.echo(progress_line(found), err=True)
    show_one(found, kind="OperationList", output=output, name="id")


@operation.command("items")
@click.argument("operation_id")
@filtered("state:skipped")
@paged
@with_api
def items(*, api: Api, output: str, operation_id: str, **paging: Any) -> None:
    """List what an operation is about, and what has become of each: which were skipped, and why."""
    path = api.tenant_path("operations", operation_id, "items")
    list_pages(api, path, kind="ItemList", output=output, columns=ITEM_COLUMNS, paging=paging, name="number")


@operation.command("watch")
@click.argument("operation_id")
@click.option("--timeout", type=float, default=3600.0, show_default=True, help="For how many seconds.")
@with_api
def watch_command(*, api: Api, output: str, operation_id: str, timeout: float) -> None:
    """Follow an operation until it has ended. Interrupting this stops nothing."""
    found = watch(api, api.call("GET", api.tenant_path("operations", operation_id)), seconds=timeout)
    show_one(found, kind="OperationList", output=output, name="id")
    end_as(found)


@operation.command("abort")
@click.argument("operation_id")
@click.option("--reason", required=True, help="Why; kept with the operation.")
@click.option("--cancel-runs", is_flag=True, help="Also cancel its runs that have not ended.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_api
def abort(*, api: Api, output: str, operation_id: str, reason: str, cancel_runs: bool, yes: bool) -> None:
    """Make nothing more from now on."""
    confirm(f"Abort the operation {operation_id}?", yes=yes)
    body = {"reason": reason, "cancel_runs": cancel_runs}
    made = api.call("POST", api.tenant_path("operations", operation_id, "abort"), body=body)
    show_one(made, kind="OperationList", output=output, name="id")


@operation.command("pause")
@click.argument("operation_id")
@click.option("--reason", help="Why; kept with the operation.")
@with_api
def pause(*, api: Api, output: str, operation_id: str, reason: str | None) -> None:
    """Make nothing until it is resumed."""
    made = api.call("POST", api.tenant_path("operations", operation_id, "pause"), body=given(reason=reason))
    show_one(made, kind="OperationList", output=output, name="id")


@operation.command("resume")
@click.argument("operation_id")
@click.option("--reason", help="Why; kept with the operation.")
@with_api
def resume(*, api: Api, output: str, operation_id: str, reason: str | None) -> None:
    """Go on where it was paused."""
    made = api.call("POST", api.tenant_path("operations", operation_id, "resume"), body=given(reason=reason))
    show_one(made, kind="OperationList", output=output, name="id")
