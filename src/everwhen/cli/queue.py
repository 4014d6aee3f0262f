"""`everwhen queue`: pausing queues, and what is paused."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.client import Api, with_api
from everwhen.cli.listing import filtered, given, list_pages, paged
from everwhen.cli.output import Columns, show_one

PAUSE_COLUMNS: Final[Columns] = {
    "QUEUE": lambda pause: pause["queue"] or "(all)",
    "BY": "paused_by",
    "SINCE": "paused_at",
    "UNTIL": "paused_until",
    "WHY": "reason",
}
CHANGE_COLUMNS: Final[Columns] = {
    "AT": "changed_at",
    "QUEUE": lambda change: change["queue"] or "(all)",
    "ACTION": "action",
    "BY": "changed_by",
    "UNTIL": "paused_until",
    "WHY": "reason",
}


@click.group(short_help="Pause and resume queues.")
def queue() -> None:
    """Pause queues: nothing is handed out, while runs go on becoming due, and wait."""


@queue.command("pause")
@click.argument("name")
@click.option("--reason", required=True, help="Why; shown to whoever wonders.")
@click.option("--until", help="When it ends by itself, with its offset. [default: when somebody ends it]")
@with_api
def pause(*, api: Api, output: str, name: str, reason: str, until: str | None) -> None:
    """Hand out nothing from a queue."""
    made = api.call("POST", api.tenant_path("queues", name, "pause"), body=given(reason=reason, until=until))
    show_one(made, kind="PauseList", output=output, name="queue")


@queue.command("resume")
@click.argument("name")
@click.option("--reason", help="Why.")
@with_api
def resume(*, api: Api, output: str, name: str, reason: str | None) -> None:
    """Hand out from a queue again."""
    api.call("POST", api.tenant_path("queues", name, "resume"), body=given(reason=reason))
    if output == "name":
        click.echo(name)


@queue.command("pauses")
@filtered("by:alice")
@paged
@with_api
def pauses(*, api: Api, output: str, **paging: Any) -> None:
    """List what is paused: the whole tenant, and queues."""
    path = api.tenant_path("pauses")
    list_pages(api, path, kind="PauseList", output=output, columns=PAUSE_COLUMNS, paging=paging, name="queue")


@queue.command("changes")
@filtered("queue:mails since:7d")
@paged
@with_api
def changes(*, api: Api, output: str, **paging: Any) -> None:
    """List who paused and resumed what, and why."""
    path = api.tenant_path("pauses", "changes")
    list_pages(api, path, kind="PauseChangeList", output=output, columns=CHANGE_COLUMNS, paging=paging, name="id")
