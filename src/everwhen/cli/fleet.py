"""`everwhen worker list` and what follows from it: who works, and orders to take nothing more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import click

from everwhen.cli.client import Api, CallFailed, with_api
from everwhen.cli.listing import filtered, given, list_pages, paged
from everwhen.cli.output import Columns, Row, confirm, show_list, show_one

GAVE_UP: Final = 7
NOT_FOUND: Final = 3
POLL_SECONDS: Final = 1.0
EMPTY: Final = frozenset({"drained", "lost"})


def _text(pairs: dict[str, Any]) -> str | None:
    return (
        " ".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in pairs.items()
        )
        or None
    )


COLUMNS: Final[Columns] = {
    "NAME": "name",
    "STATE": "state",
    "HOLDS": lambda worker: f"{worker['held']}/{worker['slots']}",
    "QUEUES": lambda worker: ",".join(worker["queues"]),
    "LABELS": lambda worker: _text(worker["labels"]),
    "VERSION": "version",
    "HOST": "host",
    "SEEN": "seen_at",
    "ID": "id",
}
RUN_COLUMNS: Final[Columns] = {
    "RUN": "run",
    "TASK": "task",
    "QUEUE": "queue",
    "ATTEMPT": "attempt",
    "CLAIMED": "claimed_at",
    "LEASE UNTIL": "lease_until",
}

VERSION_COLUMNS: Final[Columns] = {
    "VERSION": "version",
    "WORKERS": "workers",
    "TAKING": "taking",
    "HELD BACK": "held_back",
    "LOST": "lost",
    "HOLDS": lambda version: f"{version['held']}/{version['slots']}",
    "NEWEST": "newest_at",
}

platform_option = click.option(
    "--platform", is_flag=True, help="Of the platform's workers; needs a token with the role platform."
)


def ordering(function: Callable[..., None]) -> Callable[..., None]:
    """Add what every order takes: whom it is for, and why."""
    function = platform_option(function)
    function = click.option("--yes", is_flag=True, help="Do not ask, where a filter finds several.")(function)
    function = click.option("--reason", help="Why; shown with the worker.")(function)
    function = click.option("--filter", "text", help="Every worker that this finds, such as 'label:zone=a'.")(function)
    return click.argument("workers", nargs=-1, metavar="[NAME|ID]...")(function)


@click.command("list")
@filtered("state:draining queue:mails label:zone=a")
@paged
@platform_option
@with_api
def list_command(*, api: Api, output: str, platform: bool, **paging: Any) -> None:
    """List workers, in the order in which they came; lost ones for a day."""
    list_pages(
        api, _path(api, platform=platform), kind="WorkerList", output=output, columns=COLUMNS, paging=paging, name="id"
    )


@click.command("get")
@click.argument("worker", metavar="NAME|ID")
@platform_option
@with_api
def get(*, api: Api, output: str, worker: str, platform: bool) -> None:
    """Show a worker, and the runs that it holds."""
    found = api.call("GET", _path(api, _id_of(api, worker, platform=platform), platform=platform))
    if output != "table":
        show_one(found, kind="WorkerList", output=output, name="id")
        return
    runs = found.pop("runs")
    show_one(found, kind="WorkerList", output=output, name="id")
    if runs:
        click.echo()
        show_list(runs, kind="HeldRunList", output=output, columns=RUN_COLUMNS, name="run")


@click.command("versions")
@click.option("--filter", "text", default="", help="Of the workers that this finds, such as 'queue:mails'.")
@platform_option
@with_api
def versions(*, api: Api, output: str, text: str, platform: bool) -> None:
    """Count workers by the version of their application: how many of a fleet are still on the old one."""
    found = summaries(_find(api, text, platform=platform))
    show_list(found, kind="WorkerVersionList", output=output, columns=VERSION_COLUMNS, name="version")


def summaries(workers: list[Row]) -> list[Row]:
    """Return what workers of each version there are, that one last of which a worker came last."""
    by_version: dict[str, list[Row]] = {}
    for worker in workers:
        by_version.setdefault(worker["version"] or "(none)", []).append(worker)
    found = [_summary(version, group) for version, group in by_version.items()]
    return sorted(found, key=lambda each: (each["newest_at"], each["version"]))


def _summary(version: str, group: list[Row]) -> Row:
    alive = [worker for worker in group if worker["state"] != "lost"]
    taking = [worker for worker in alive if worker["state"] == "active"]
    return {
        "version": version,
        "workers": len(alive),
        "taking": len(taking),
        "held_back": len(alive) - len(taking),
        "lost": len(group) - len(alive),
        "held": sum(worker["held"] for worker in alive),
        "slots": sum(worker["slots"] for worker in alive),
        "newest_at": max(worker["announced_at"] for worker in group),
    }


@click.command("drain")
@ordering
@click.option("--exit", "exits", is_flag=True, help="End its process, with 0, once it is empty.")
@click.option("--wait", is_flag=True, help="Wait until all of them are empty, or gone.")
@click.option("--timeout", type=float, default=1800.0, show_default=True, help="Seconds to wait; then exit code 7.")
@with_api
def drain(*, api: Api, output: str, exits: bool, wait: bool, timeout: float, reason: str | None, **whom: Any) -> None:
    """Give workers nothing more: they finish what they have, and say when they are empty."""
    ordered = _order(api, "drain", given(reason=reason, exit=exits or None), **whom)
    if wait:
        ordered = _wait_until_empty(api, ordered, seconds=timeout, platform=whom["platform"])
    _show(ordered, output)


@click.command("cordon")
@ordering
@with_api
def cordon(*, api: Api, output: str, reason: str | None, **whom: Any) -> None:
    """Give workers nothing more, and let them stay."""
    _show(_order(api, "cordon", given(reason=reason), **whom), output)


@click.command("uncordon")
@ordering
@with_api
def uncordon(*, api: Api, output: str, reason: str | None, **whom: Any) -> None:
    """Give workers runs again that were cordoned or drained."""
    _show(_order(api, "uncordon", given(reason=reason), **whom), output)


COMMANDS: Final = (list_command, get, versions, drain, cordon, uncordon)


def _path(api: Api, *parts: str, platform: bool) -> str:
    return "/".join(["/v1/workers", *parts]) if platform else api.tenant_path("workers", *parts)


def _order(  # noqa: PLR0913  # whom it is for, in every way to say so
    api: Api,
    verb: str,
    body: dict[str, Any],
    *,
    workers: tuple[str, ...],
    text: str | None,
    yes: bool,
    platform: bool,
) -> list[Row]:
    if bool(workers) == (text is not None):
        raise click.UsageError("name workers, by name or id, or say --filter")
    if text is None:
        ids = [_id_of(api, worker, platform=platform) for worker in workers]
    else:
        ids = [worker["id"] for worker in _find(api, text, platform=platform) if worker["state"] != "lost"]
        if ids:
            confirm(f"{verb.capitalize()} {len(ids)} workers?", yes=yes)
    return [api.call("POST", _path(api, each, verb, platform=platform), body=body) for each in ids]


def _id_of(api: Api, worker: str, *, platform: bool) -> str:
    """Return the id of a worker by its id or its name; of several of one name the one that is not lost."""
    try:
        return str(UUID(worker))
    except ValueError:
        pass
    quoted = worker.replace("\\", "\\\\").replace('"', '\\"')
    found = _find(api, f'name:"{quoted}"', platform=platform)
    alive = [each for each in found if each["state"] != "lost"] or found
    if len(alive) > 1:
        ids = ", ".join(each["id"] for each in alive[:5])
        raise click.UsageError(f"{len(alive)} workers have the name {worker}: give one's id, such as {ids}")
    if not alive:
        detail = f"There is no worker of the name {worker}; `everwhen worker list` shows those that there are."
        raise CallFailed({"detail": detail, "code": "worker.unknown"}, exit_code=NOT_FOUND)
    return alive[0]["id"]


def _find(api: Api, text: str, *, platform: bool) -> list[Row]:
    page = api.call("GET", _path(api, platform=platform), filter=text, limit=200)
    found = page["items"]
    while page["next"]:
        page = api.call("GET", page["next"])
        found += page["items"]
    return found


def _wait_until_empty(api: Api, ordered: list[Row], *, seconds: float, platform: bool) -> list[Row]:
    """Look until each is drained, or gone; what is lost will not say so any more. Exit with 7 when time is up."""
    import time

    until = time.monotonic() + seconds
    seen: dict[str, Row] = {worker["id"]: worker for worker in ordered}
    left = [each for each, worker in seen.items() if worker["state"] not in EMPTY]
    while left:
        for each in left:
            seen[each] = _look(api, seen[each], platform=platform)
        left = [each for each in left if seen[each]["state"] not in {*EMPTY, "gone"}]
        if left and time.monotonic() >= until:
            names = ", ".join(f"{seen[each]['name']} holds {seen[each]['held']}" for each in left[:5])
            click.echo(f"everwhen: gave up waiting; {len(left)} not empty: {names}", err=True)
            raise SystemExit(GAVE_UP)
        if left:
            time.sleep(POLL_SECONDS)
    return list(seen.values())


def _look(api: Api, worker: Row, *, platform: bool) -> Row:
    try:
        return api.call("GET", _path(api, worker["id"], platform=platform))
    except CallFailed as error:
        if error.exit_code != NOT_FOUND:
            raise
        return {**worker, "state": "gone", "held": 0}  # it has ended, and said so


def _show(ordered: list[Row], output: str) -> None:
    show_list(ordered, kind="WorkerList", output=output, columns=COLUMNS, name="id")
