"""What catching up would come to: counted by verdict, with how long a paced replay takes, and said in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.core.arrears import NOTHING, Arrears, Counts, begin, survey
from everwhen.core.catchup import CatchUpPolicy, Cause, Rule
from everwhen.core.triggers import next_after
from everwhen.postgres.pool import Connection
from everwhen.schedules.arrears import store
from everwhen.schedules.arrears.model import ArrearsRow, arrears_from_row
from everwhen.schedules.arrears.service import list_unfinished, rule_text
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import Spec, bind_spec, parse_spec

MOST_VISITED: Final = 50_000
"""How many instants a preview visits, where they cannot be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What is left of a schedule's past, and what becomes of it.

    `exact` unless there was too much of it to visit: then there are more. `seconds` is how long its paced runs take;
    None when nothing paces them. `first_at` is the first fire of it, `until` its end; None: there is nothing.
    """

    cause: Cause
    rule: Rule
    counts: Counts
    exact: bool
    seconds: float | None
    first_at: datetime | None
    until: datetime | None
    sentence: str


def preview_of(past: Sequence[Arrears], *, cause: Cause, rule: Rule | None = None) -> Preview:
    """Count what becomes of some arrears. Takes a while: to be called off the event loop."""
    counts, exact, seconds = NOTHING, True, 0.0
    for each in past:
        begun = each if each.begun else begin(each)
        found, whole = survey(begun, most=MOST_VISITED)
        counts, exact = Counts(*(a + b for a, b in zip(counts, found, strict=True))), exact and whole
        if each.rule.rate is not None and each.rule.policy is CatchUpPolicy.REPLAY:
            seconds += found.runs / each.rule.rate
    rule = rule or (past[-1].rule if past else Rule())
    first = next_after(past[0].timing, past[0].after) if past else None
    return Preview(
        cause=cause,
        rule=rule,
        counts=counts,
        exact=exact,
        seconds=seconds or None,
        first_at=first,
        until=past[-1].until if past else None,
        sentence=_sentence(counts, cause, rule, exact=exact, seconds=seconds),
    )


async def unfinished(
    conn: Connection, *, tenant_id: UUID, uid: UUID, rule: Rule, now: datetime, override: bool = False
) -> list[Arrears]:
    """Return what is left of a schedule's past; what has no rule yet goes by this one, with `override` all of it."""
    rows = await list_unfinished(conn, tenant_id=tenant_id, schedule_uid=uid)
    if not rows:
        return []
    stored = await store.read_revision_specs(
        conn,
        tenant_ids=[tenant_id] * len(rows),
        uids=[uid] * len(rows),
        revisions=[row.revision for row in rows],
    )
    specs = {each.revision: each.spec for each in stored}
    books = await books_of(conn, ((tenant_id, text) for text in specs.values()))
    book = books.get(tenant_id, {})
    return [
        _told(row, bind_spec(parse_spec(specs[row.revision]), book), rule, now=now, override=override) for row in rows
    ]


def _told(row: ArrearsRow, spec: Spec, rule: Rule, *, now: datetime, override: bool) -> Arrears:
    """Return arrears as they would be worked on if they were released now."""
    if row.rule is None:
        row = replace(row, rule=rule_text(rule), as_of=now)
    found = arrears_from_row(row, spec)
    return replace(found, rule=rule, begun=False, first_run=None, last_run=None) if override else found


def _sentence(counts: Counts, cause: Cause, rule: Rule, *, exact: bool, seconds: float) -> str:
    if counts.total == 0:
        return f"Nothing {_PASSED[cause]}."
    more = "" if exact else "more than "
    parts = [f"{more}{counts.total} {_PASSED[cause]}"]
    runs = "1 run" if counts.runs == 1 else f"{counts.runs} runs"
    if rule.policy is CatchUpPolicy.COALESCE and counts.runs:
        parts.append(f"{runs} would stand for {counts.runs + counts.coalesced}")
    elif counts.runs:
        pace = f"would take {_duration(seconds)} at {rule.rate:g}/s" if seconds and rule.rate else "could start at once"
        parts.append(f"replay of {counts.runs} {pace}")
    if counts.missed + counts.skipped:
        parts.append(f"{counts.missed + counts.skipped} would be recorded as {_recorded(counts)}")
    return "; ".join(parts) + "."


def _recorded(counts: Counts) -> str:
    words = [word for word, count in (("missed", counts.missed), ("skipped", counts.skipped)) if count]
    return " and ".join(words)


_PASSED: Final = {
    Cause.OUTAGE: "missed",
    Cause.RESUME: "passed in the pause",
    Cause.CREATION: "lie between its beginning and now",
    Cause.EDIT: "would have fired since the old trigger last did",
}


def _duration(seconds: float) -> str:
    """Say a duration as people do: in its largest unit, and the next one while that is short."""
    whole = max(1, round(seconds))
    for unit, size, smaller, small in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest and whole < 10 * size else "")
    return f"{whole} s"
