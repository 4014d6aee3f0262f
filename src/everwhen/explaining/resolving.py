"""What a name means: a run, or an instant of a schedule at which there is none.

A name is a run's id, or `schedule@time`. A schedule's name may have belonged to several schedules, one after the other:
meant is the one that was there at that time, or the newest one. Its time is read with the timing in force at the
instant, since a change may have moved it to another zone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.core.errors import TriggerError
from everwhen.core.instants import Named, ScheduleFacts, read_name
from everwhen.core.triggers import Timing
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.explaining import store
from everwhen.explaining.model import Generation, RevisionRow, SpanRow
from everwhen.postgres.pool import Connection
from everwhen.runs import service as runs
from everwhen.runs.service import RunView
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import ScheduleState, bind_spec, parse_spec

MOST_GENERATIONS: Final = 20
"""How many schedules of one name, one after the other, are looked at."""

MOST_SPANS: Final = 500
"""How many neighbouring spans that say the same are joined, on either side: half a million instants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a name means. With `view` a run; else the instant `at` of a schedule, which may lie in a recorded span.

    `missing` is the local time that was named and does not exist; `local` is how the name told the time.
    """

    now: datetime
    view: RunView | None = None
    timing: Timing | None = None
    schedule: ScheduleFacts | None = None
    schedule_uid: UUID | None = None
    revision: RevisionRow | None = None
    at: datetime | None = None
    local: str = ""
    missing: datetime | None = None
    span: SpanRow | None = None
    spans: Sequence[SpanRow] = ()


async def resolve(conn: Connection, tenant_id: UUID, ref: str) -> Found:
    """Return what a name means; raise NotFound, or InvalidInput for one that is no time, or two."""
    name, at, text = ref.rpartition("@")
    if not at:
        return await _by_id(conn, tenant_id, ref)
    _check_syntax(text)
    generations = await store.find_generations(conn, tenant_id=tenant_id, name=name, limit=MOST_GENERATIONS)
    if not generations:
        raise _unknown()
    guess = await _in_force(conn, tenant_id, generations[0], conn.now)
    generation = _there_at(_read(ref, text, guess.timing).at, generations)
    then = await _in_force(conn, tenant_id, generation, _read(ref, text, guess.timing).at)
    named = _read(ref, text, then.timing)
    return await _at_instant(conn, tenant_id, generation, then, named=named, ref=ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class _InForce:
    revision: RevisionRow
    timing: Timing


async def _by_id(conn: Connection, tenant_id: UUID, ref: str) -> Found:
    try:
        run_id = UUID(ref)
    except ValueError:
        raise _unknown() from None
    view = await runs.find_run(conn, tenant_id=tenant_id, run_id=run_id)
    if view is None:
        raise _unknown()
    row, timing = view.row, None
    if row.schedule_uid is not None and row.nominal_at is not None:
        revision = await store.get_revision(
            conn, tenant_id=tenant_id, schedule_uid=row.schedule_uid, revision=row.schedule_revision or 1
        )
        timing = None if revision is None else await _timing_or_none(conn, tenant_id, revision.spec)
    return Found(now=conn.now, view=view, timing=timing)


async def _at_instant(
    conn: Connection, tenant_id: UUID, generation: Generation, then: _InForce, *, named: Named, ref: str
) -> Found:
    name, _, text = ref.rpartition("@")
    run_id = await runs.id_of_instant(conn, tenant_id=tenant_id, schedule_uid=generation.uid, nominal_at=named.at)
    view = await runs.find_run(conn, tenant_id=tenant_id, run_id=run_id)
    span = None
    if view is None:
        span = await store.find_span(conn, tenant_id=tenant_id, schedule_uid=generation.uid, at=named.at)
    arrears = await store.find_arrears(conn, tenant_id=tenant_id, schedule_uid=generation.uid, at=named.at)
    spans = () if span is None else await _near(conn, tenant_id, generation.uid, span)
    return Found(
        now=conn.now,
        view=view,
        timing=then.timing,
        schedule=replace(_facts(generation, name, then.timing), arrears=arrears),
        schedule_uid=generation.uid,
        revision=then.revision,
        at=named.at,
        local=text,
        missing=named.missing,
        span=span,
        spans=spans,
    )


async def _near(conn: Connection, tenant_id: UUID, schedule_uid: UUID, span: SpanRow) -> Sequence[SpanRow]:
    return await store.list_spans_near(
        conn,
        tenant_id=tenant_id,
        schedule_uid=schedule_uid,
        first_at=span.first_at,
        verdict=span.verdict,
        reason=span.reason,
        limit=MOST_SPANS,
    )


def _facts(generation: Generation, name: str, timing: Timing) -> ScheduleFacts:
    is_deleted = generation.state == ScheduleState.DELETED
    return ScheduleFacts(
        name=name,
        timing=timing,
        created_at=generation.created_at,
        decided_until=generation.decided_until,
        deleted_at=generation.updated_at if is_deleted else None,
        is_paused=generation.state == ScheduleState.PAUSED,
        state_reason=generation.state_reason,
        failures=generation.failures,
        last_error=generation.last_error,
    )


def _there_at(at: datetime, generations: list[Generation]) -> Generation:
    """Return the schedule that was there at an instant; the one that came next, else the newest."""
    after = [each for each in generations if each.state != ScheduleState.DELETED or each.updated_at > at]
    return after[-1] if after else generations[0]


async def _in_force(conn: Connection, tenant_id: UUID, generation: Generation, at: datetime) -> _InForce:
    revision = await store.revision_in_force(conn, tenant_id=tenant_id, schedule_uid=generation.uid, at=at)
    timing = None if revision is None else await _timing_or_none(conn, tenant_id, revision.spec)
    if revision is None or timing is None:
        raise Conflict("This version cannot read what the schedule was at that time.", code="schedule.unreadable")
    return _InForce(revision=revision, timing=timing)


async def _timing_or_none(conn: Connection, tenant_id: UUID, spec: str) -> Timing | None:
    try:
        books = await books_of(conn, [(tenant_id, spec)])
        return bind_spec(parse_spec(spec), books.get(tenant_id, {})).timing
    except (TriggerError, LookupError, TypeError, ValueError):
        return None


def _check_syntax(text: str) -> None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        detail = "After @ stands a time such as 2026-11-30T02:30, or with its offset 2026-11-30T02:30+01:00."
        raise InvalidInput.at("path:run", detail, code="run.ref.syntax") from None


def _read(ref: str, text: str, timing: Timing) -> Named:
    try:
        named = read_name(text, timing)
    except (ValueError, OverflowError):
        raise InvalidInput.at("path:run", "The time lies beyond the calendar.", code="run.ref.syntax") from None
    if named.others:
        name = ref.rpartition("@")[0]
        both = " and ".join(f"{name}@{timing.zone.local(at).isoformat()}" for at in (named.at, *named.others))
        detail = f"{text} occurs twice in {timing.timezone}: name {both}, whichever is meant."
        raise InvalidInput.at("path:run", detail, code="run.ref.ambiguous")
    return named


def _unknown() -> NotFound:
    return NotFound("There is no such run.", code="run.unknown")
