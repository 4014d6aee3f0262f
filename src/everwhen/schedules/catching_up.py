"""Use-cases about catching up: what it would come to, and how far it has come. Nothing here writes."""

import asyncio
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from everwhen.core.arrears import Arrears
from everwhen.core.catchup import Cause, Rule
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.schedules import store
from everwhen.schedules.arrears.changes import beginning, planning_cursor
from everwhen.schedules.arrears.model import ArrearsRow, NewArrears
from everwhen.schedules.arrears.preview import Preview, preview_of, unfinished
from everwhen.schedules.arrears.service import as_arrears, list_arrears, overdue_arrears, stretch
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import ScheduleRow, ScheduleState, Spec, bind_spec, parse_spec
from everwhen.schedules.service import bound

_NIL: Final = UUID(int=0)


class _Asked(NamedTuple):
    tenant_id: UUID
    row: ScheduleRow
    spec: Spec


async def preview_catch_up(  # what is asked
    db: Database, *, tenant_id: UUID, name: str, cause: Cause | None, rule: Rule | None, since: datetime | None
) -> Preview:
    """Count what catching up on a schedule would come to now, by its own rules or by this one; change nothing.

    Raises NotFound, Conflict when it is about a pause and there is none, InvalidInput when it cannot begin there.
    """
    async with db.tenant(tenant_id) as conn:
        row = await store.get_schedule(conn, tenant_id=tenant_id, name=name)
        if row is None:
            raise NotFound("There is no schedule of this name.", code="schedule.unknown")
        books = await books_of(conn, [(tenant_id, row.spec)])
        spec = bind_spec(parse_spec(row.spec), books.get(tenant_id, {}))
        is_paused = row.state == ScheduleState.PAUSED
        cause = cause or (Cause.RESUME if is_paused else Cause.OUTAGE)
        if cause is Cause.RESUME and not is_paused:
            raise Conflict("The schedule is not paused.", code="schedule.not_paused")
        past, effective = await _past(conn, _Asked(tenant_id, row, spec), cause=cause, rule=rule, since=since)
    return await asyncio.to_thread(preview_of, past, cause=cause, rule=effective)


async def preview_creation(db: Database, *, tenant_id: UUID, spec: Spec, since: datetime | None) -> Preview | None:
    """Count what a schedule that is not saved would have to catch up on; None: it begins at the present.

    Raises InvalidInput when it cannot begin there.
    """
    async with db.tenant(tenant_id) as conn:
        now = conn.now
        timing = await bound(conn, tenant_id=tenant_id, timing=spec.timing)
    spec = Spec(timing=timing, catch_up=spec.catch_up, flex=spec.flex)
    begins = beginning(spec, since, now=now)
    if begins is None:
        return None
    rule = spec.catch_up.on_creation or spec.catch_up
    cursor = planning_cursor(_NIL, _NIL, spec, decided_until=begins)
    past = _told(stretch(cursor, Cause.CREATION, rule, revision=0, until=now), spec, now)
    return await asyncio.to_thread(preview_of, past, cause=Cause.CREATION, rule=rule)


async def list_catch_ups(db: Database, *, tenant_id: UUID, name: str, before: int, limit: int) -> list[ArrearsRow]:
    """Return what a schedule has had to catch up on, the newest first; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        row = await store.get_schedule(conn, tenant_id=tenant_id, name=name)
        if row is None:
            raise NotFound("There is no schedule of this name.", code="schedule.unknown")
        return await list_arrears(conn, tenant_id=tenant_id, schedule_uid=row.uid, before=before, limit=limit)


async def _past(
    conn: Connection, asked: _Asked, *, cause: Cause, rule: Rule | None, since: datetime | None
) -> tuple[list[Arrears], Rule]:
    tenant_id, row, spec = asked
    now, uid, catch_up = conn.now, row.uid, spec.catch_up
    if cause is Cause.CREATION:
        begins = beginning(spec, since, now=now)
        if begins is None:
            raise InvalidInput.at("/since", "Say where it would have begun.", code="schedule.since")
        effective = rule or catch_up.on_creation or catch_up
        cursor = planning_cursor(tenant_id, uid, spec, decided_until=begins)
        return _told(stretch(cursor, cause, effective, revision=0, until=now), spec, now), effective
    effective = rule or (catch_up.on_resume if cause is Cause.RESUME else catch_up)
    left = await unfinished(conn, tenant_id=tenant_id, uid=uid, rule=effective, now=now, override=rule is not None)
    since = row.decided_until
    answered = await runs.list_answered(conn, tenant_id=tenant_id, schedule_uid=uid, after=since, until=now)
    cursor = planning_cursor(tenant_id, uid, spec, decided_until=since, answered=answered)
    if cause is Cause.RESUME:
        return left + _told(stretch(cursor, cause, effective, revision=0, until=now), spec, now), effective
    found = None if row.state != ScheduleState.ACTIVE else overdue_arrears(cursor, spec, revision=0, now=now)
    if found is None:
        return left, effective
    late = stretch(cursor, cause, effective, revision=0, until=found.until)
    return left + _told(late, spec, now), effective


def _told(new: NewArrears | None, spec: Spec, now: datetime) -> list[Arrears]:
    return [] if new is None else [as_arrears(new, spec, now=now)]
