"""Follows a calendar's change: plans the schedules that use it anew, a page a tick.

A change leaves a mark in its own transaction, with the version that was in force until then. Whoever takes the mark
locks a page of the calendar's users. What had passed before the change is decided by the calendar as it was, since an
instant that is excluded is recorded up to a quarter of an hour after it has come. What was planned for them beyond now
is withdrawn, and their watermarks are moved back to now, where the planner goes on by the new version. What had been
decided by now stays as it was, and so does a run that was rolled and was due.

Crash points: the page, its withdrawals and the new position commit together, so a second visit goes on where the first
one ended. A schedule that begins to use the calendar meanwhile has read the new version, since it held the calendar in
share mode; one that was planned by the old version before the mark was taken is among the users, and is locked here
after its planner has committed. The id of a run is made of its nominal instant, so none is made twice.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from everwhen.calendars.books import load_calendar
from everwhen.calendars.model import CalendarChange
from everwhen.calendars.service import take_changed_users
from everwhen.core.calendars import Calendar
from everwhen.core.reasons import Reason
from everwhen.core.zones import ZoneSource
from everwhen.postgres.pool import Connection
from everwhen.runs import service as runs
from everwhen.schedules import store
from everwhen.schedules.model import RezonedRow, ScheduleState
from everwhen.schedules.planner import settle
from everwhen.schedules.rezoning import version_of

PAGE: Final = 200
"""How many schedules one step plans anew."""

log = structlog.get_logger("everwhen.schedules")


async def follow_changes(conn: Connection, *, now: datetime, zones: ZoneSource | None = None) -> bool:
    """Have one page of schedules planned anew whose calendar has changed; tell whether there was one."""
    taken = await take_changed_users(conn, limit=PAGE)
    if taken is None:
        return False
    change, uids = taken
    await replan(conn, change, uids, now=now, zones=zones)
    log.info("calendar.followed", tenant_id=str(change.tenant_id), schedules=len(uids))
    return True


async def replan(
    conn: Connection, change: CalendarChange, uids: list[UUID], *, now: datetime, zones: ZoneSource | None
) -> None:
    """Withdraw what is planned beyond now for these schedules, and have the planner look at them at once."""
    tenant_id = change.tenant_id
    before = None
    if change.version is not None:
        before = await load_calendar(conn, tenant_id=tenant_id, name=change.calendar, version=change.version)
    rows = await store.lock_for_rezoning(conn, tenant_ids=[tenant_id], uids=uids)
    for row in rows:
        if row.state == ScheduleState.ACTIVE:
            decided_until = row.decided_until
            if before is not None and change.changed_at is not None:
                until = min(change.changed_at, now)
                decided_until = await _decided_before(conn, row, before, until=until, zones=zones)
            await _set_back(conn, row, decided_until=min(decided_until, now), now=now, zones=zones)


async def _decided_before(
    conn: Connection, row: RezonedRow, before: Calendar, *, until: datetime, zones: ZoneSource | None
) -> datetime:
    """Decide by the calendar as it was what had passed when it changed; return how far the schedule is decided."""
    if row.decided_until >= until:
        return row.decided_until
    try:
        async with conn.transaction():
            await settle(conn, row, now=until, calendar=before, zones=zones)
    except Exception as error:  # noqa: BLE001  # one bad schedule never stops the loop: its planner says what is wrong
        log.warning("calendar.not_settled", schedule_uid=str(row.schedule_uid), error=repr(error))
        return row.decided_until
    return until


async def _set_back(
    conn: Connection, row: RezonedRow, *, decided_until: datetime, now: datetime, zones: ZoneSource | None
) -> None:
    await runs.withdraw_planned(
        conn, tenant_id=row.tenant_id, schedule_uid=row.schedule_uid, now=now, reason=Reason.CALENDAR_CHANGED
    )
    await store.move_watermark(
        conn,
        tenant_id=row.tenant_id,
        uid=row.schedule_uid,
        decided_until=decided_until,
        next_at=now,
        skip_until=row.skip_until,
        skip_reason=row.skip_reason,
        tz_version=version_of(zones),
    )
