"""Schedules that are paused or resumed by themselves: a pause that has an end, and too many failures in a row.

Each change locks the schedule and looks whether it is still to be made; then it is the change that a person makes,
with a revision of its own. The count of failures is locked after the schedule, as everywhere (see streaks.py).
"""

from datetime import datetime
from typing import Final

from everwhen.postgres.pool import Connection
from everwhen.schedules import service, store
from everwhen.schedules.model import ScheduleState, TimedChange
from everwhen.schedules.service import Change

BY: Final = "everwhen"
TIME_IS_UP: Final = "the pause was to end now"
MOST_NAMED: Final = 5
"""How many of the failed runs the reason of a pause names; the others are in the list of runs."""


async def find_wanted(conn: Connection, *, limit: int) -> tuple[list[TimedChange], list[TimedChange]]:
    """Return schedules to be resumed and schedules to be paused, up to `limit` of each, those due first."""
    return await store.find_pauses_to_end(conn, limit=limit), await store.find_failing(conn, limit=limit)


async def resume_in_time(conn: Connection, wanted: TimedChange, now: datetime) -> bool:
    """Resume a schedule whose pause ends by now; False when it does no longer."""
    cursor = await store.lock_cursor_of(conn, tenant_id=wanted.tenant_id, uid=wanted.schedule_uid)
    if cursor is None or cursor.paused_until is None or cursor.paused_until > now:
        return False
    await service.resume_locked(conn, cursor, change=Change(by=BY, reason=TIME_IS_UP))
    return True


async def pause_failing(conn: Connection, wanted: TimedChange, now: datetime) -> bool:
    """Pause a schedule that fails; False when somebody has paused, resumed or changed it since."""
    cursor = await store.lock_cursor_of(conn, tenant_id=wanted.tenant_id, uid=wanted.schedule_uid)
    if cursor is None:
        return False
    streaks = await store.lock_streaks(conn, tenant_ids=[wanted.tenant_id], uids=[wanted.schedule_uid])
    failing = next((each for each in streaks if each.pause_at is not None and each.pause_at <= now), None)
    if failing is None:
        return False
    if cursor.state == ScheduleState.PAUSED:
        await store.reset_streak(conn, tenant_id=wanted.tenant_id, uid=wanted.schedule_uid)
        return False
    named = ", ".join(str(run_id) for run_id in reversed(failing.run_ids[-MOST_NAMED:]))
    reason = f"schedule.failing: {failing.failures} runs in a row have failed, the latest {named}"
    await service.pause_locked(conn, cursor, change=Change(by=BY, reason=reason))
    return True


async def put_off(conn: Connection, wanted: TimedChange, *, until: datetime, now: datetime) -> None:
    """Try a change again later."""
    tenant_id, uid = wanted.tenant_id, wanted.schedule_uid
    await store.put_off_failing(conn, tenant_id=tenant_id, uid=uid, until=until, now=now)
    await store.put_off_resuming(conn, tenant_id=tenant_id, uid=uid, until=until, now=now)
