"""Takes a new release of the tz database into use: re-plans what it moves, and nothing else.

A watermark carries the release that its schedule was planned with. One that carries another release than ours is
*stale*. It is rezoned in one transaction that holds its lock:

    what is planned beyond now, and next_at, are as our release would have them     the release is noted, nothing else
    they differ                                                                     planned runs are withdrawn, the
                                                                                    watermark moves back to now, and a
                                                                                    revision `rezoned` says what moved

So no old release is needed to find out what moved: what was planned is the record of what it said. What had passed by
now stays as it was decided, since it happened under the release of its day. Runs that did not move keep their rows.

Two ways lead here. The planner never plans a stale schedule: it rezones it first. The sweep walks all watermarks once
after the start, a bounded page a tick, for those whose next instant is far away; after that it walks again every
SWEEP_EVERY, and then takes only older releases, so that while servers of two releases run side by side the newer wins
and the older does not fight it. A deliberate step back is taken at the start.

Crash points: before the commit nothing has happened; after it the stamp is ours, and a second visit finds nothing.
Run ids make a second plan of the same instant a no-op, so a run that only seemed to move is not doubled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from everwhen.core import planning
from everwhen.core.calendar_use import Book
from everwhen.core.planning import CatchUp, CatchUpPolicy, Cursor
from everwhen.core.reasons import Reason
from everwhen.core.trigger_json import instant_text
from everwhen.core.triggers import next_look, occurrences
from everwhen.core.zones import ZoneSource, tz_version
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.model import PlannedAhead
from everwhen.schedules import store
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import RevisionAction, RezonedRow, ScheduleState, Spec, Stamp, bind_spec, parse_spec

PAGE: Final = 2_000
"""How many watermarks one step of the sweep looks at."""

SWEEP_EVERY: Final = timedelta(minutes=10)
CHANGED_BY: Final = "everwhen"

_FIRST: Final = (UUID(int=0), UUID(int=0))
_REPLAY: Final = CatchUp(policy=CatchUpPolicy.REPLAY)
_TICK: Final = timedelta(microseconds=1)

log = structlog.get_logger("everwhen.schedules")


@dataclass(slots=True)
class Sweep:
    """How far one process has walked; forgotten when it ends."""

    position: tuple[UUID, UUID] = _FIRST
    finished_at: datetime | None = None
    rounds: int = 0
    moved: int = 0

    def rests(self, now: datetime) -> bool:
        """Whether a round has ended and the next is not due yet."""
        return self.finished_at is not None and self.finished_at <= now < self.finished_at + SWEEP_EVERY


async def sweep(database: Database, state: Sweep, *, now: datetime, zones: ZoneSource | None = None) -> bool:
    """Look at one page of watermarks; tell whether the round goes on."""
    if state.rests(now):
        return False
    version = version_of(zones)
    async with database.system() as conn:
        tenant_id, uid = state.position
        page = await store.page_watermarks(conn, after_tenant_id=tenant_id, after_uid=uid, limit=PAGE)
        stale = [each for each in page if _is_stale(each, version, first_round=state.rounds == 0)]
        state.moved += await rezone(conn, stale, now=now, zones=zones) if stale else 0
    if len(page) == PAGE:
        state.position, state.finished_at = (page[-1].tenant_id, page[-1].schedule_uid), None
        return True
    state.position, state.finished_at, state.rounds = _FIRST, now, state.rounds + 1
    return False


async def rezone(conn: Connection, stale: Sequence[Stamp], *, now: datetime, zones: ZoneSource | None) -> int:
    """Settle stale schedules under our release; return how many were moved by it."""
    version = version_of(zones)
    tenant_ids, uids = [each.tenant_id for each in stale], [each.schedule_uid for each in stale]
    rows = await store.lock_for_rezoning(conn, tenant_ids=tenant_ids, uids=uids)
    planned = await runs.list_planned_ahead(conn, tenant_ids=tenant_ids, schedule_uids=uids, now=now)
    stale_rows = [row for row in rows if row.tz_version != version]
    books = await books_of(conn, ((row.tenant_id, row.spec) for row in stale_rows), zones=zones)
    moves = [
        await _settled(conn, row, planned, book=books.get(row.tenant_id, {}), now=now, zones=zones)
        for row in stale_rows
    ]
    unmoved = [row for row, moved in zip(stale_rows, moves, strict=True) if not moved]
    await store.stamp_release(
        conn,
        tenant_ids=[row.tenant_id for row in unmoved],
        uids=[row.schedule_uid for row in unmoved],
        tz_version=version,
    )
    log.info("tz.rezoned", release=version, schedules=len(stale_rows), moved=sum(moves))
    return sum(moves)


def version_of(zones: ZoneSource | None) -> str:
    """Return the release of these zones; None stands for the installed ones."""
    return tz_version() if zones is None else zones.version


def _is_stale(stamp: Stamp, version: str, *, first_round: bool) -> bool:
    if stamp.tz_version is None or first_round:
        return stamp.tz_version != version
    return stamp.tz_version < version


async def _settled(
    conn: Connection,
    row: RezonedRow,
    planned: Mapping[UUID, Sequence[PlannedAhead]],
    *,
    book: Book,
    now: datetime,
    zones: ZoneSource | None,
) -> bool:
    """Re-plan one schedule if our release moves it; tell whether it did."""
    if row.state != ScheduleState.ACTIVE:
        return False
    try:
        spec = bind_spec(parse_spec(row.spec, zones), book)
        is_same = _is_same(row, spec, planned.get(row.schedule_uid, ()), now=now)
    except Exception as error:  # noqa: BLE001  # one bad schedule never stops the loop: it says why, and is passed over
        await _tell(conn, row, now=now, error=error)
        return False
    if is_same:
        return False
    await _replan(conn, row, spec, now=now, version=version_of(zones))
    return True


def _is_same(row: RezonedRow, spec: Spec, planned: Sequence[PlannedAhead], *, now: datetime) -> bool:
    """Tell whether our release has what is planned between now and the watermark, and looks again when that is due."""
    cursor = replace(_cursor(row, spec, decided_until=min(row.decided_until, now)), answered=())
    plan = planning.plan(cursor, now=now, until=row.decided_until, policy=_REPLAY, limit=planning.MOST_INSTANTS)
    ended = {each.run_id for each in planned if each.is_ended}
    ahead = {each.run_id for each in plan.runs if min(each.nominal_at, each.due_at) > now} - ended
    if ahead != {each.run_id for each in planned} - ended:
        return False
    following = next_look(spec.timing, row.decided_until, row.answered or ())
    return row.failures > 0 or following == row.next_at or _waits(row, spec)


def _waits(row: RezonedRow, spec: Spec) -> bool:
    """Tell whether the watermark stands before an instant that is to be skipped: the planner looks when it has come."""
    found = occurrences(spec.timing, after=row.decided_until, until=row.decided_until + _TICK, limit=1)
    return any(occurrence.skipped for occurrence in found)


def _cursor(row: RezonedRow, spec: Spec, *, decided_until: datetime) -> Cursor:
    return Cursor(
        tenant_id=row.tenant_id,
        schedule_uid=row.schedule_uid,
        timing=spec.timing,
        flex=spec.flex,
        decided_until=decided_until,
        skip_until=row.skip_until,
        skip_reason=None if row.skip_reason is None else Reason(row.skip_reason),
        answered=tuple(row.answered or ()),
    )


async def _replan(conn: Connection, row: RezonedRow, spec: Spec, *, now: datetime, version: str) -> None:
    withdrawn = await runs.withdraw_planned(
        conn, tenant_id=row.tenant_id, schedule_uid=row.schedule_uid, now=now, reason=Reason.SCHEDULE_REZONED
    )
    decided_until = min(row.decided_until, now)
    next_at = next_look(spec.timing, decided_until)
    await store.set_state(
        conn,
        tenant_id=row.tenant_id,
        uid=row.schedule_uid,
        revision=row.revision,
        state=ScheduleState.ACTIVE,
        reason=None,
        now=now,
    )
    await store.move_watermark(
        conn,
        tenant_id=row.tenant_id,
        uid=row.schedule_uid,
        decided_until=decided_until,
        next_at=next_at,
        skip_until=row.skip_until,
        skip_reason=row.skip_reason,
        tz_version=version,
    )
    await store.insert_revision(
        conn,
        tenant_id=row.tenant_id,
        uid=row.schedule_uid,
        action=RevisionAction.REZONED,
        changed_by=CHANGED_BY,
        reason=_sentence(row, next_at, withdrawn=len(withdrawn), version=version),
        tz_version=version,
        now=now,
    )


def _sentence(row: RezonedRow, next_at: datetime | None, *, withdrawn: int, version: str) -> str:
    before, after = ("never" if at is None else instant_text(at) for at in (row.next_at, next_at))
    first = f"tz database {row.tz_version or 'unknown'} → {version}: "
    moved = "" if before == after else f"looked for next at {before}, now at {after}; "
    return f"{first}{moved}{withdrawn} planned runs withdrawn"


async def _tell(conn: Connection, row: RezonedRow, *, now: datetime, error: Exception) -> None:
    """Let the planner come by at once, which puts the schedule off and shows why."""
    await store.put_off(
        conn,
        tenant_id=row.tenant_id,
        uid=row.schedule_uid,
        next_at=now,
        error=f"{type(error).__name__}: {error}"[:1000],
    )
