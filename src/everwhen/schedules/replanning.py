"""Follows a calendar's change: plans the schedules that use it anew, a page a tick.

A change leaves a mark in its own transaction. Whoever takes the mark locks a page of the calendar's users, withdraws
what was planned for them beyond now, and moves their watermarks back to now, where the planner goes on by the new one.
What had been decided by now stays as it was, and so does a run that was rolled from an instant that has passed.

Crash points: the page, its withdrawals and the new position commit together, so a second visit goes on where the first
one ended. A schedule that begins to use the calendar meanwhile has read the new version, since it held the calendar in
share mode; one that was planned by the old version before the mark was taken is among the users, and is locked here
after its planner has committed. The id of a run is made of its nominal instant, so none is made twice.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from everwhen.calendars.service import take_changed_users
from everwhen.core.reasons import Reason
from everwhen.core.zones import ZoneSource
from everwhen.postgres.pool import Connection
from everwhen.runs import service as runs
from everwhen.schedules import store
from everwhen.schedules.model import RezonedRow, ScheduleState
from everwhen.schedules.rezoning import version_of

PAGE: Final = 200
"""How many schedules one step plans anew."""

log = structlog.get_logger("everwhen.schedules")


async def follow_changes(conn: Connection, *, now: datetime, zones: ZoneSource | None = None) -> bool:
    """Have one page of schedules planned anew whose calendar has changed; tell whether there was one."""
    taken = await take_changed_users(conn, limit=PAGE)
    if taken is None:
        return False
    tenant_id, uids = taken
    await replan(conn, tenant_id, uids, now=now, zones=zones)
    log.info("calendar.followed", tenant_id=str(tenant_id), schedules=len(uids))
    return True


async def replan(
    conn: Connection, tenant_id: UUID, uids: list[UUID], *, now: datetime, zones: ZoneSource | None
) -> None:
    """Withdraw what is planned beyond now for these schedules, and have the planner look at them at once."""
    rows = await store.lock_for_rezoning(conn, tenant_ids=[tenant_id], uids=uids)
    for row in rows:
        if row.state == ScheduleState.ACTIVE:
            await _set_back(conn, row, now=now, zones=zones)


async def _set_back(conn: Connection, row: RezonedRow, *, now: datetime, zones: ZoneSource | None) -> None:
    await runs.withdraw_planned(
        conn, tenant_id=row.tenant_id, schedule_uid=row.schedule_uid, now=now, reason=Reason.CALENDAR_CHANGED
    )
    await store.move_watermark(
        conn,
        tenant_id=row.tenant_id,
        uid=row.schedule_uid,
        decided_until=min(row.decided_until, now),
        next_at=now,
        skip_until=row.skip_until,
        skip_reason=row.skip_reason,
        tz_version=version_of(zones),
    )
