"""`everwhen queue`: what stands in queues, what they are, and pausing them."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.client import NOT_FOUND, Api, CallFailed, force_option, with_api
from everwhen.cli.listing import filtered, given, json_option, list_pages, paged, tagging, tags_given
from everwhen.cli.output import Columns, confirm, show_one

QUEUE_COLUMNS: Final[Columns] = {
    "NAME": "name",
    "WAITING": lambda queue: _counted(queue["line"]),
    "SINCE": lambda queue: queue["line"]["oldest_due_at"],
    "IN FLIGHT": lambda queue: queue["line"]["in_flight"],
    "LIMIT": lambda queue: queue["line"]["limit"],
    "SLOTS": lambda queue: _free(queue["line"]),
    "DRAINED IN": lambda queue: _lasting(queue["line"]["drain_seconds"]),
    "PAUSED": lambda queue: "yes" if queue["line"]["paused"] else "",
    "DELIVERY": lambda queue: "endpoint" if queue["has_endpoint"] else queue["delivery"],
    "WAITS FOR": lambda queue: ",".join(queue["line"]["reasons"]),
}
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


NONE: Final = "none"
"""What takes a limit away."""

MAKES: Final = ("tokens", "per_seconds", "burst")
KEPT: Final = ("max_in_flight", "rate", "delivery", "delivery_settings", "ageing_seconds", "tags")


@click.group(short_help="Show queues, define them, pause and resume them.")
def queue() -> None:
    """Show what stands in queues, say what they are, and pause them: runs go on becoming due, and wait."""


@queue.command("list")
@filtered("tag:billing delivery:pull")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List queues by name: how many runs wait, since when, how many are in flight, how long it takes to drain."""
    list_pages(api, api.tenant_path("queues"), kind="QueueList", output=output, columns=QUEUE_COLUMNS, paging=paging)


@queue.command("get")
@click.argument("name")
@with_api
def get(*, api: Api, output: str, name: str) -> None:
    """Show one queue, and what stands in it."""
    show_one(api.call("GET", api.tenant_path("queues", name)), kind="QueueList", output=output)


@queue.command("set")
@click.argument("name")
@click.option("--max-in-flight", metavar="NUMBER|none", help="How many runs may be in flight at once.")
@click.option("--rate", metavar="TOKENS/SECONDS[/BURST]|none", help="How fast runs begin: 100/60 is 100 a minute.")
@click.option("--delivery", help="How runs come to the fleet.")
@click.option("--delivery-settings", help="JSON, or @FILE.")
@click.option("--ageing-seconds", type=float, help="What waits so long for each step of priority goes first; 0: never.")
@tagging
@force_option
@with_api
def set_command(*, api: Api, output: str, name: str, force: bool, **said: Any) -> None:
    """Say what a queue is; what is not named stays. Holds for the next claim."""
    path = api.tenant_path("queues", name)
    tags = tags_given(said.pop("tags"), no_tags=said.pop("no_tags"))
    changes = _changes(**said) | tags
    present = _look(api, path)
    if present is None or not present["defined"]:
        show_one(api.call("PUT", path, body=changes, absent=True), kind="QueueList", output=output)
        return
    kept = {field: present[field] for field in KEPT}
    match = "*" if force else f'"rev-{present["revision"]}"'
    show_one(api.call("PUT", path, body=kept | changes, match=match), kind="QueueList", output=output)


@queue.command("delete")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete(*, api: Api, output: str, name: str, yes: bool, force: bool) -> None:  # noqa: ARG001  # there is nothing to print
    """Let everything about a queue be as by default; what waits in it goes on waiting."""
    confirm(f"Let everything about the queue {name} be as by default?", yes=yes)
    api.change("DELETE", api.tenant_path("queues", name), force=force)


@queue.command("share")
@click.argument("name")
@click.option("--weight", type=click.IntRange(1, 1000), help="What the tenant gets beside others.")
@click.option("--max-in-flight", metavar="NUMBER|none", help="How many of its runs may be in flight at once.")
@force_option
@with_api
def share(*, api: Api, output: str, name: str, weight: int | None, max_in_flight: str | None, force: bool) -> None:
    """Show the tenant's place at a queue that tenants share; set it, with a token of the platform."""
    path = api.tenant_path("queues", name, "share")
    if weight is None and max_in_flight is None:
        show_one(api.call("GET", path), kind="QueueShareList", output=output, name="weight")
        return
    body = given(weight=weight) | _number("max_in_flight", max_in_flight)
    show_one(api.change("PUT", path, body=body, force=force), kind="QueueShareList", output=output, name="weight")


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


def _look(api: Api, path: str) -> dict[str, Any] | None:
    """Return the queue, None where there is none."""
    try:
        return api.call("GET", path)
    except CallFailed as error:
        if error.exit_code != NOT_FOUND:
            raise
        return None


def _changes(
    *,
    max_in_flight: str | None,
    rate: str | None,
    delivery: str | None,
    delivery_settings: str | None,
    ageing_seconds: float | None,
) -> dict[str, Any]:
    settings = json_option(delivery_settings, option="--delivery-settings")
    said = given(delivery=delivery, delivery_settings=settings, ageing_seconds=ageing_seconds)
    return said | _number("max_in_flight", max_in_flight) | _rate(rate)


def _number(name: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text != NONE and not text.isdecimal():
        raise click.UsageError(f"--{name.replace('_', '-')} is a number, or {NONE}")
    return {name: None if text == NONE else int(text)}


def _rate(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text == NONE:
        return {"rate": None}
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
        raise click.UsageError(f"--rate is like 100/60, or 100/60/20 with a burst of 20, or {NONE}")
    return {"rate": dict(zip(MAKES, map(int, parts), strict=False))}


def _counted(line: dict[str, Any]) -> str:
    return f"{line['waiting']}+" if line["waiting_is_capped"] else str(line["waiting"])


def _free(line: dict[str, Any]) -> str:
    """Return how many slots of live workers are free, of how many; nothing where no worker announced itself."""
    return f"{line['free_slots']}/{line['slots']} free" if line["workers"] or line["held_back"] else ""


def _lasting(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"
