"""The planner: from locked schedules to written plans, all in the caller's transaction.

A schedule that is found behind is not planned through its past: what is overdue becomes arrears in the transaction that
moves the watermark past it, and is worked off elsewhere (see `arrears`). So live planning never waits for the past.

Two doors. `plan_due` is the scheduler's: a batch of schedules over all tenants. `settle` is for a change of one
schedule: it decides, under the revision still in force, what is already due, so that the new revision starts at now.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import psycopg
import structlog

from everwhen import failpoints
from everwhen.core import planning
from everwhen.core.calendar_use import Book
from everwhen.core.calendars import Calendar
from everwhen.core.catchup import Cause
from everwhen.core.errors import TriggerError
from everwhen.core.planning import Cursor, Plan
from everwhen.core.reasons import Reason
from everwhen.core.zones import ZoneSource
from everwhen.errors import Conflict
from everwhen.overlap.service import GATEKEEPER_TOPIC
from everwhen.postgres.fetch import instants_text
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import notify
from everwhen.runs.planning import record_plans
from everwhen.schedules import store
from everwhen.schedules.arrears.model import NewArrears
from everwhen.schedules.arrears.service import open_arrears, overdue_arrears, stretch, unfinished_grace
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import (
    CursorRow,
    DueSchedule,
    RezonedRow,
    ScheduleState,
    Spec,
    Stamp,
    StoredSpec,
    bind_spec,
    parse_spec,
)
from everwhen.schedules.rezoning import rezone, version_of

MOST_PUT_OFF: Final = timedelta(hours=1)
MOST_INSTANTS_A_BATCH: Final = 5_000
"""The most instants that one transaction plans, over all its schedules: what a crash would make us do again."""

UNWRITABLE: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
"""What PostgreSQL says of a plan that it cannot hold."""

log = structlog.get_logger("everwhen.schedules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What one batch came to."""

    runs: int
    schedules: int
    more: bool


async def plan_due(
    conn: Connection, *, now: datetime, ahead: timedelta, batch: int, zones: ZoneSource | None = None
) -> Planned:
    """Plan the schedules whose next instant is due within `ahead`.

    They are planned for twice as long, so that one which fires every second is looked at once in `ahead`, not once a
    second. One that was planned with another release of the tz database is rezoned, and planned by the next call.
    """
    look = _Look(now=now, horizon=now + ahead, until=now + 2 * ahead, zones=zones)
    locked = await store.lock_due(conn, horizon=look.horizon, limit=batch)
    failpoints.hit("scheduler.after_claim")
    due = await _rezoned(conn, locked, look)
    stored = await _specs(conn, due) if due else []
    pairs = list(zip(due, stored, strict=True))
    books = await books_of(conn, ((each.tenant_id, spec.spec) for each, spec in pairs), zones=zones)
    plans: list[_Made] = []
    instants = 0
    for schedule, spec in pairs:
        written = spec, books.get(schedule.tenant_id) if books else None
        made = await _plan_or_put_off(conn, schedule, written, look)
        if made is not None:
            plans.append(made)
            instants += len(made.plan.runs) + len(made.plan.verdicts)
        if instants >= MOST_INSTANTS_A_BATCH:
            break
    runs = await _write_or_put_off(conn, plans, look)
    if any(made.is_gated and made.plan.runs for made in plans):
        await notify(conn, [GATEKEEPER_TOPIC])
    more = (
        len(locked) == batch
        or len(due) < len(locked)
        or instants >= MOST_INSTANTS_A_BATCH
        or any(made.plan.more for made in plans)
    )
    return Planned(runs=runs, schedules=len(plans), more=more)


async def settle(  # what was in force
    conn: Connection,
    schedule: CursorRow | RezonedRow,
    *,
    now: datetime,
    calendar: Calendar | None = None,
    zones: ZoneSource | None = None,
) -> None:
    """Decide what is due by now under the revision in force; the caller holds the schedule's lock and moves its cursor.

    `calendar` is one that has changed since, as it was.

    What is overdue becomes arrears of that revision. So does all that passed in a pause; it is held until the schedule
    is resumed, which says what becomes of it. One whose stored spec this version cannot read intends nothing that could
    be told, and can be deleted all the same.
    """
    if not _is_readable(schedule.spec):
        return
    books = await books_of(conn, [(schedule.tenant_id, schedule.spec)], zones=zones)
    book = {**books.get(schedule.tenant_id, {}), **({} if calendar is None else {calendar.name: calendar})}
    spec = bind_spec(parse_spec(schedule.spec, zones), book)
    cursor, revision = _cursor(schedule, spec), schedule.revision
    if schedule.state == ScheduleState.PAUSED:
        held = stretch(cursor, Cause.RESUME, None, revision=revision, until=now, is_held=True)
        await open_arrears(conn, [held], now=now)
        return
    overdue = overdue_arrears(cursor, spec, revision=revision, now=now)
    if overdue is not None:
        cursor = replace(cursor, decided_until=overdue.until)
    if cursor.decided_until < now:
        plan = planning.plan(cursor, now=now, until=now, policy=spec.catch_up)
        if plan.more and cursor.skip_until is None:
            rest = unfinished_grace(cursor, revision=revision, until=now)
            await open_arrears(conn, [overdue, rest], now=now)
            return
        if plan.more:
            raise Conflict(
                "The schedule is still catching up on what it missed; try again in a while.",
                code="schedule.catching_up",
            )
        await record_plans(conn, [(cursor, plan)], now=now, tz_version=version_of(zones))
    await open_arrears(conn, [overdue], now=now)


def _is_readable(spec: str) -> bool:
    try:
        parse_spec(spec)
    except (TriggerError, LookupError, TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look of the planner: what is due by the horizon is planned until a little later."""

    now: datetime
    horizon: datetime
    until: datetime
    zones: ZoneSource | None


class _Made(NamedTuple):
    """A schedule, its plan, when to look at it again, and what of its past becomes arrears."""

    schedule: DueSchedule
    cursor: Cursor
    plan: Plan
    next_at: datetime | None
    overdue: NewArrears | None
    is_gated: bool


async def _rezoned(conn: Connection, due: Sequence[DueSchedule], look: _Look) -> Sequence[DueSchedule]:
    version = version_of(look.zones)
    stale = [each for each in due if each.tz_version != version]
    if not stale:
        return due
    stamps = [Stamp(tenant_id=each.tenant_id, schedule_uid=each.schedule_uid, tz_version=None) for each in stale]
    await rezone(conn, stamps, now=look.now, zones=look.zones)
    return [each for each in due if each.tz_version == version]


async def _specs(conn: Connection, due: Sequence[DueSchedule]) -> list[StoredSpec]:
    """Return the schedules' specs, in their order."""
    stored = await store.read_specs(
        conn,
        tenant_ids={schedule.tenant_id for schedule in due},
        uids=[schedule.schedule_uid for schedule in due],
    )
    specs = {each.uid: each for each in stored}
    return [specs[schedule.schedule_uid] for schedule in due]


async def _plan_or_put_off(
    conn: Connection, schedule: DueSchedule, written: tuple[StoredSpec, Book | None], look: _Look
) -> _Made | None:
    try:
        stored, book = written
        spec = parse_spec(stored.spec, look.zones)
        if book:
            spec = bind_spec(spec, book)
        cursor = _cursor(schedule, spec)
        overdue = overdue_arrears(cursor, spec, revision=stored.revision, now=look.now)
        live = cursor if overdue is None else replace(cursor, decided_until=overdue.until)
        plan = planning.plan(live, now=look.now, until=look.until, policy=spec.catch_up)
        next_at = _next_at(plan, look)
        return _Made(schedule, cursor, plan, next_at, overdue, spec.overlap.is_gated)
    except Exception as error:  # noqa: BLE001  # one bad schedule never stops the loop: it is put off, and says why
        await _put_off(conn, schedule, error, look)
        return None


async def _write_or_put_off(conn: Connection, plans: Sequence[_Made], look: _Look) -> int:
    """Write the plans, and find one that cannot be written by halves, so that it keeps no other back."""
    if not plans:
        return 0
    try:
        async with conn.transaction():
            pairs = [(made.cursor, made.plan) for made in plans]
            runs = await record_plans(conn, pairs, now=look.now, tz_version=version_of(look.zones))
            await open_arrears(conn, [made.overdue for made in plans], now=look.now)
            await _advance(conn, plans, version_of(look.zones))
            return runs
    except UNWRITABLE as error:
        if len(plans) == 1:
            await _put_off(conn, plans[0].schedule, error, look)
            return 0
    half = len(plans) // 2
    return await _write_or_put_off(conn, plans[:half], look) + await _write_or_put_off(conn, plans[half:], look)


async def _put_off(conn: Connection, schedule: DueSchedule, error: Exception, look: _Look) -> None:
    wait = min(timedelta(minutes=1) * 2 ** min(schedule.failures, 10), MOST_PUT_OFF)
    log.warning("schedule.put_off", schedule_uid=str(schedule.schedule_uid), error=repr(error))
    await store.put_off(
        conn,
        tenant_id=schedule.tenant_id,
        uid=schedule.schedule_uid,
        next_at=look.horizon + wait,  # beyond the horizon, or the next tick would take it again
        error=f"{type(error).__name__}: {error}".replace("\x00", "")[:1000],
    )


def _next_at(plan: Plan, look: _Look) -> datetime | None:
    """Return when to look again: a look comes `ahead` of what is stored, and not before something can be decided."""
    if plan.look_from is None or plan.next_at is None:
        return plan.next_at
    return max(plan.next_at, plan.look_from + (look.horizon - look.now))


async def _advance(conn: Connection, plans: Sequence[_Made], tz_version: str) -> None:
    await store.advance_watermarks(
        conn,
        tenant_ids=[made.cursor.tenant_id for made in plans],
        uids=[made.cursor.schedule_uid for made in plans],
        old=[made.cursor.decided_until for made in plans],
        new=[made.plan.decided_until for made in plans],
        next=[made.next_at for made in plans],
        tz_version=tz_version,
    )
    if beyond := [made for made in plans if made.plan.answered]:
        await store.note_answered(
            conn,
            tenant_ids=[made.cursor.tenant_id for made in beyond],
            uids=[made.cursor.schedule_uid for made in beyond],
            answered=[instants_text(made.plan.answered) for made in beyond],
        )


def _cursor(schedule: DueSchedule | CursorRow | RezonedRow, spec: Spec) -> Cursor:
    return Cursor(
        tenant_id=schedule.tenant_id,
        schedule_uid=schedule.uid if isinstance(schedule, CursorRow) else schedule.schedule_uid,
        timing=spec.timing,
        flex=spec.flex,
        decided_until=schedule.decided_until,
        skip_until=schedule.skip_until,
        skip_reason=None if schedule.skip_reason is None else Reason(schedule.skip_reason),
        answered=tuple(schedule.answered or ()),
    )
