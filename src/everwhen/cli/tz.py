"""`everwhen tz`: what a release of the tz database does to schedules. Needs no network but the server's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from everwhen.cli.client import Api, with_api
from everwhen.cli.output import API_VERSION

if TYPE_CHECKING:
    from everwhen.core.zones import ZoneSource
    from everwhen.schedules.tz_report import Releases, ScheduleMoves

MOST_SHOWN: Final = 10
PAGE: Final = 200
LONGEST_LINE: Final = 1 << 20
LARGEST_ARCHIVE: Final = 750_000


@click.group(short_help="Compare releases of the tz database.")
def tz() -> None:
    """Look at releases of the tz database (time zones)."""


@tz.command("diff")
@click.argument("old")
@click.argument("new")
@click.option("--days", default=730, show_default=True, type=click.IntRange(1, 36_525), help="How far to look ahead.")
@click.option("--from", "after", metavar="TIME", help="Start after this instant. [now]")
@click.option("--offline", is_flag=True, help="Read specs from standard input, one JSON object a line; ask no server.")
@click.option("--moves", "shown", default=MOST_SHOWN, show_default=True, type=click.IntRange(0, 10_000),
              help="How many moves of each schedule to show.")  # fmt: skip
@with_api
def diff(  # noqa: PLR0913  # what was asked for
    *, api: Api, output: str, old: str, new: str, days: int, after: str | None, offline: bool, shown: int
) -> None:
    """List every schedule whose fires move from release OLD to NEW, with the moves.

    OLD and NEW are folders of zone files, tzdata wheels or zips, or `installed`. With --offline a line is a schedule as
    `schedule list -o ndjson` prints it; a bare spec with trigger, timezone, gap and fold will do.
    """
    from everwhen.schedules.tz_report import compare_releases

    releases = _releases(old, new, days=days, after=after)
    specs = _lines() if offline else _schedules(api)
    found = list(compare_releases(specs, releases))
    if output == "table":
        _show(found, releases, shown=shown)
    else:
        _print_json(found, releases, output=output, shown=shown)


@tz.command("show")
@with_api
def show(*, api: Api, output: str) -> None:
    """Say which release the server plans with, and whether every schedule is planned by it."""
    found = api.call("GET", api.tenant_path("tz"))
    if output != "table":
        click.echo(json.dumps({"apiVersion": API_VERSION, "kind": "TzRelease"} | found, indent=2))
        return
    click.echo(f"The server plans with {found['release']}.")
    for each in found["planned_with"]:
        click.echo(f"  {each['schedules']:>6}  planned with {each['release'] or 'a release that was not recorded'}")


@tz.command("review")
@click.argument("archive", type=click.Path(exists=True, dir_okay=False))
@click.option("--days", default=730, show_default=True, type=click.IntRange(1, 3_660), help="How far to look ahead.")
@with_api
def review(*, api: Api, output: str, archive: str, days: int) -> None:
    """Ask the server what a release in ARCHIVE would do once it runs on it: a tzdata wheel, or a zip of zone files.

    Unlike `diff` it compares with the server's own release, and calendars count: what they exclude moves nobody.
    """
    import base64
    from pathlib import Path

    data = Path(archive).read_bytes()
    if len(data) > LARGEST_ARCHIVE:
        raise click.UsageError(f"{archive} has {len(data)} bytes; at most {LARGEST_ARCHIVE} are sent; use tz diff")
    body = {"archive": base64.b64encode(data).decode(), "days": days, "after": None}
    found = api.call("POST", api.tenant_path("tz", "review"), body=body)
    affected, looked, following = list(found["affected"]), found["looked"], found["following"]
    while following is not None:
        more = api.call("POST", api.tenant_path("tz", "review"), body=body | {"after": following})
        affected += more["affected"]
        looked, following = looked + more["looked"], more["following"]
    if output != "table":
        document = {"apiVersion": API_VERSION, "kind": "TzReview"} | found
        click.echo(json.dumps(document | {"affected": affected, "looked": looked, "following": None}, indent=2))
        return
    click.echo(f"{found['old']} → {found['new']}, {found['start']} to {found['until']}")
    for each in affected:
        counts = ", ".join(f"{each[kind]} {kind}" for kind in ("moved", "added", "removed") if each[kind])
        click.echo(f"\n{each['name']}  {each['timezone']}  {each['error'] or counts}")
        for move in each["moves"]:
            click.echo(f"  {move['kind']:<7}  {move['old_local'] or '-'}  →  {move['new_local'] or '-'}")
    click.echo(f"\n{len(affected)} of {looked} schedules are affected")


def _releases(old: str, new: str, *, days: int, after: str | None) -> Releases:
    from datetime import timedelta

    from everwhen.clock import process_now
    from everwhen.core.errors import TriggerError
    from everwhen.core.trigger_values import as_utc
    from everwhen.core.triggers import parse_instant
    from everwhen.core.zones import add
    from everwhen.schedules.tz_report import Releases

    try:
        start = process_now() if after is None else as_utc(parse_instant(after, field="from"), name="from")
    except TriggerError as error:
        raise click.UsageError(f"--from: {error.message} ({error.code})") from None
    return Releases(old=_source(old), new=_source(new), after=start, until=add(start, timedelta(days=days)))


def _source(where: str) -> ZoneSource:
    from everwhen.errors import InvalidInput
    from everwhen.schedules.tz_sources import open_source

    try:
        return open_source(where)
    except InvalidInput as error:
        raise click.UsageError(error.detail) from None


def _schedules(api: Api) -> Iterator[tuple[str, dict[str, Any]]]:
    path: str | None = f"{api.tenant_path('schedules')}?limit={PAGE}"
    while path:
        page = api.call("GET", path)
        yield from ((item["name"], item) for item in page["items"])
        path = page["next"]


def _lines() -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(sys.stdin, start=1):
        if not line.strip():
            continue
        try:
            spec = json.loads(line) if len(line) <= LONGEST_LINE else None
        except (ValueError, RecursionError):
            spec = None
        if not isinstance(spec, dict):
            raise click.UsageError(f"line {number} of standard input is no JSON object")
        named: dict[str, Any] = {str(key): value for key, value in spec.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        yield str(named.get("name", f"line {number}")), named


def _show(found: list[ScheduleMoves], releases: Releases, *, shown: int) -> None:
    click.echo(f"{releases.old.version} → {releases.new.version}, {_until(releases)}")
    for each in (each for each in found if each.affected):
        if each.comparison is None:
            click.echo(f"\n{each.name}  {each.timezone}  cannot be told: {each.error}")
            continue
        click.echo(f"\n{each.name}  {each.timezone}")
        for move in each.comparison.moves[:shown]:
            sides = [side and f"{side.isoformat(sep=' ')} ({_utc(side)})" for side in (move.before, move.after)]
            click.echo(f"  {move.kind:<7}  {sides[0] or '-'}  →  {sides[1] or '-'}")
        if len(each.comparison.moves) > shown:
            click.echo(f"  and {len(each.comparison.moves) - shown} more")
    click.echo("\n" + _summary_line(found))


def _summary_line(found: list[ScheduleMoves]) -> str:
    from everwhen.schedules.tz_report import summarise

    totals = summarise(found)
    line = (
        f"{totals['affected']} of {totals['schedules']} schedules are affected: {totals['moved']} fires moved, "
        f"{totals['added']} added, {totals['removed']} removed"
    )
    cut = f"; {totals['cut']} fire too often to be compared to the end" if totals["cut"] else ""
    return line + cut + (f"; {totals['errors']} cannot be told" if totals["errors"] else "")


def _print_json(found: list[ScheduleMoves], releases: Releases, *, output: str, shown: int) -> None:
    from everwhen.schedules.tz_report import summarise

    affected = [each for each in found if each.affected]
    items = [_item(each, shown) for each in affected]
    if output != "json":
        for item in items:
            click.echo(item["name"] if output == "name" else json.dumps(item, ensure_ascii=False))
        return
    document = {
        "apiVersion": API_VERSION,
        "kind": "TzDiff",
        "old": releases.old.version,
        "new": releases.new.version,
        "from": _utc(releases.after),
        "until": _utc(releases.until),
        "summary": summarise(found),
        "items": items,
        "next": None,
    }
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def _item(each: ScheduleMoves, shown: int) -> dict[str, Any]:
    from everwhen.core.compare import Comparison, MoveKind

    comparison = each.comparison or Comparison(moves=(), unchanged=0, until=each.after, cut=True)
    return {
        "name": each.name,
        "timezone": each.timezone,
        "error": each.error,
        **{kind.value: comparison.count(kind) for kind in MoveKind},
        "unchanged": comparison.unchanged,
        "compared_until": _utc(comparison.until),
        "cut": comparison.cut,
        "moves": [
            {
                "kind": move.kind.value,
                "old_at": move.before and _utc(move.before),
                "new_at": move.after and _utc(move.after),
                "old_local": move.before and move.before.isoformat(),
                "new_local": move.after and move.after.isoformat(),
            }
            for move in comparison.moves[:shown]
        ],
    }


def _until(releases: Releases) -> str:
    return f"{_utc(releases.after)} to {_utc(releases.until)}"


def _utc(at: Any) -> str:
    from datetime import UTC

    from everwhen.core.trigger_json import instant_text

    return instant_text(at.astimezone(UTC))
