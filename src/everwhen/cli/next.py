"""`everwhen next`: when does an expression fire? Needs no server."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from datetime import datetime

    from everwhen.core.triggers import Occurrence, Timing


@click.command("next")
@click.argument("expr", required=False)
@click.option("--tz", "timezone", default="UTC", show_default=True, help="IANA time zone of the expression.")
@click.option("--from", "after", metavar="TIME", help="Start after this time; local unless it names an offset. [now]")
@click.option("--count", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many fires to show.")
@click.option("--gap", help="Local times that do not exist: skip, gap_end or shift. [automatic]")
@click.option("--fold", help="Local times that occur twice: first, second or both. [automatic]")
@click.option("--seconds", is_flag=True, help="The expression has six fields; the first is seconds.")
@click.option("--dialect", help="How the expression is read: vixie, vixie-ext, quartz, spring, eventbridge, … [vixie]")
@click.option("--preset", help="Do as another scheduler does, such as airflow; `everwhen presets` shows them.")
@click.option("--hash-seed", default="", help="What an H in the expression is drawn from, such as a schedule's uid.")
@click.option("--ahead", is_flag=True, help="Also how often a year, and which clock changes of two years touch it.")
@click.option("--batch", is_flag=True, help="Answer one JSON question per line of standard input.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def next_command(expr: str | None, *, batch: bool, **options: Any) -> None:
    """Show when a cron expression fires, in local time and UTC, with what clock changes do to it.

    With --batch each input line is {"trigger": {"kind": "cron", "expr": …}, "timezone", "after", "count", "gap",
    "fold", "preset"} and each output line {"fires": […], "local": […], "exhausted": …} or {"error": {…}}.
    """
    from everwhen.core.zones import use_tzdata_only

    use_tzdata_only()
    if batch:
        _answer_lines()
    elif expr is None:
        raise click.UsageError("give an expression, such as '30 2 * * *', or --batch")
    else:
        _show(expr, **options)


def _answer_lines() -> None:
    from everwhen.cli.next_batch import answers

    for line in answers(sys.stdin.buffer):
        click.echo(line)


def _show(  # what was asked for
    expr: str, *, timezone: str, after: str | None, count: int, output: str, ahead: bool, **options: Any
) -> None:
    from everwhen.core.errors import TriggerError

    try:
        timing = _timing(expr, timezone, **options)
        start = _start(after, timing)
        found = _occurrences(timing, start, count)
    except TriggerError as error:
        raise click.UsageError(f"{error.field}: {error.message} ({error.code})") from None
    if output == "json":
        items = [_as_json(occurrence) for occurrence in found]
        click.echo(json.dumps({"items": items, **_ahead_json(timing, start)} if ahead else items, indent=2))
        return
    click.echo(f"{expr}  {timezone}  gap {timing.effective_gap}, fold {timing.effective_fold}")
    for occurrence in found:
        click.echo(_as_line(occurrence))
    if sum(occurrence.skipped is None for occurrence in found) < count:
        click.echo("never again")
    if ahead:
        from everwhen.cli.next_ahead import as_lines

        click.echo("\n".join(as_lines(timing, start)))


def _ahead_json(timing: Timing, start: datetime) -> dict[str, Any]:
    from everwhen.cli.next_ahead import as_json

    return as_json(timing, start)


def _timing(
    expr: str, timezone: str, *, preset: str | None, dialect: str | None, gap: str | None, fold: str | None, **cron: Any
) -> Timing:
    from everwhen.core.presets import apply_preset
    from everwhen.core.triggers import Timing, parse_fold, parse_gap, parse_trigger

    named = {"dialect": dialect} if dialect is not None else {}
    given = {"trigger": {"kind": "cron", "expr": expr, **cron, **named}, "gap": gap, "fold": fold}
    found = apply_preset(given, preset)
    return Timing(parse_trigger(found["trigger"]), timezone, parse_gap(found["gap"]), parse_fold(found["fold"]))


def _start(after: str | None, timing: Timing) -> datetime:
    from everwhen.clock import process_now
    from everwhen.core.triggers import FoldPolicy, GapPolicy, parse_instant
    from everwhen.core.zones import resolve

    if after is None:
        return process_now()
    start = parse_instant(f"{after}T00:00" if "T" not in after else after, field="from")
    if start.tzinfo is not None:
        return start
    # "From midnight" includes midnight, and fires are strictly later.
    return _just_before(resolve(start, timing.zone, gap=GapPolicy.GAP_END, fold=FoldPolicy.FIRST)[0])


def _just_before(instant: datetime) -> datetime:
    from datetime import timedelta

    from everwhen.core.zones import add

    return add(instant, -timedelta(microseconds=1))


def _occurrences(timing: Timing, after: datetime, count: int) -> list[Occurrence]:
    """Return the occurrences up to and including the count-th fire."""
    from everwhen.core.triggers import fires, occurrences
    from everwhen.core.zones import LAST_INSTANT

    found = list(fires(timing, after=after, count=count))
    until = found[-1] if len(found) == count else LAST_INSTANT
    return occurrences(timing, after=after, until=until, limit=2 * count)


def _as_line(occurrence: Occurrence) -> str:
    from everwhen.core.trigger_json import instant_text

    utc = instant_text(occurrence.nominal_at)
    local = f"{occurrence.local:%a} {occurrence.local.isoformat(sep=' ')}"
    if occurrence.skipped is not None:
        return f"  {'skipped':<29}  {utc}  {_times(occurrence)} does not exist: clocks go forward over it"
    notes: list[str] = []
    if occurrence.missing:
        notes.append(f"for {_times(occurrence)}, which does not exist")
    if occurrence.repeated:
        notes.append("this local time occurs twice")
    return f"  {local}  {utc}  {'; '.join(notes)}".rstrip()


def _times(occurrence: Occurrence) -> str:
    first = occurrence.missing[0].isoformat(sep=" ")
    others = len(occurrence.missing) - 1
    return f"{first} (and {others} more)" if others else first


def _as_json(occurrence: Occurrence) -> dict[str, Any]:
    from everwhen.core.trigger_json import instant_text

    return {
        "nominal_at": instant_text(occurrence.nominal_at),
        "local": occurrence.local.isoformat(),
        "skipped": occurrence.skipped,
        "missing": [local.isoformat() for local in occurrence.missing],
        "repeated": occurrence.repeated,
    }
