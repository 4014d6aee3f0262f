"""Counts failures in a row, in the transaction that ends a run, and pauses the schedule that has too many.

The count is exact: it moves with the end. The pause follows a moment later, in a transaction of its own, since it
decides what is due and withdraws what is planned, which must not hold up the report that tells of the failure. In
between stands `pause_at`: a crash leaves it, and whoever looks next pauses the schedule.

Locks: a follower locks counts by their keys, after the gates (see overlap/service.py). To pause, the schedule is locked
first and its count after; whoever resumes or edits it meanwhile has reset `pause_at`, and nothing is paused.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.core.lifecycle import RunState
from everwhen.core.streaks import Count, count_ends
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import notify, role_topic
from everwhen.runs.ends import Ended
from everwhen.schedules import store
from everwhen.schedules.model import Streak

ATTENDANT_TOPIC: Final = role_topic("attendant")


async def follow(conn: Connection, ended: Sequence[Ended], now: datetime) -> None:
    """Count those of the ended runs that count: what has to be told of ended runs."""
    states = {(each.tenant_id, each.run_id): RunState(each.state) for each in ended}
    runs = await store.find_streak_runs(conn, tenant_ids=[key[0] for key in states], run_ids=[key[1] for key in states])
    if not runs:
        return
    streaks = await store.lock_streaks(
        conn,
        tenant_ids=sorted({run.tenant_id for run in runs}),
        uids=sorted({run.schedule_uid for run in runs}),
    )
    for streak in streaks:
        mine = [run.run_id for run in runs if run.schedule_uid == streak.schedule_uid]
        await _count(conn, streak, [(run_id, states[streak.tenant_id, run_id]) for run_id in sorted(mine)], now=now)


async def _count(conn: Connection, streak: Streak, ends: Sequence[tuple[UUID, RunState]], *, now: datetime) -> None:
    before = streak.count()
    after = count_ends(before, ends, now=now)
    if after == before:
        return
    await write(conn, streak, after)
    if after.pause_at is not None:
        await notify(conn, [ATTENDANT_TOPIC])


async def write(conn: Connection, streak: Streak, count: Count) -> None:
    """Write what a locked count has become."""
    await store.write_streak(
        conn,
        tenant_id=streak.tenant_id,
        uid=streak.schedule_uid,
        failures=count.failures,
        run_ids=count.run_ids,
        pause_at=count.pause_at,
    )
