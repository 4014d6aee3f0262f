"""What a schedule's spec and state mean for its gate and for its count of failures.

Called by whoever changes a schedule, in the transaction that does, with the schedule locked. Runs that were lined up
before the schedule had a gate are adopted before the gate is touched: a report that holds such a run's lease may be
waiting for that gate.
"""

from uuid import UUID

from everwhen.overlap import service as overlap
from everwhen.postgres.pool import Connection
from everwhen.runs.ends import OnEnded
from everwhen.schedules import store
from everwhen.schedules.model import Spec


async def keep(
    conn: Connection, *, tenant_id: UUID, uid: UUID, after: Spec, before: Spec | None = None, is_paused: bool = False
) -> None:
    """Follow a new spec. A schedule that had a gate keeps it, open, for what is behind it and what it has let in."""
    had_gate = before is not None and before.overlap.is_gated
    if after.overlap.is_gated and before is not None and not had_gate:
        await overlap.adopt_runs(conn, tenant_id=tenant_id, schedule_uid=uid, now=conn.now)
    if after.overlap.is_gated or had_gate:
        await overlap.keep_gate(
            conn, tenant_id=tenant_id, schedule_uid=uid, overlap=after.overlap, is_paused=is_paused, now=conn.now
        )
    if after.pause_after_failures is not None:
        await store.save_streak(conn, tenant_id=tenant_id, uid=uid, pause_after=after.pause_after_failures)
    elif before is not None and before.pause_after_failures is not None:
        await store.drop_streak(conn, tenant_id=tenant_id, uid=uid)


async def pause(conn: Connection, *, tenant_id: UUID, uid: UUID, is_paused: bool) -> None:
    """Follow a pause or its end; either begins the count of failures anew."""
    await overlap.pause_gate(conn, tenant_id=tenant_id, schedule_uid=uid, is_paused=is_paused, now=conn.now)
    await store.reset_streak(conn, tenant_id=tenant_id, uid=uid)


async def release(conn: Connection, *, tenant_id: UUID, uid: UUID) -> bool:
    """Let the line go on; False when no dead run held it up."""
    return await overlap.release_line(conn, tenant_id=tenant_id, schedule_uid=uid, now=conn.now)


async def leave(conn: Connection, *, tenant_id: UUID, uid: UUID, on_ended: OnEnded) -> None:
    """Follow the end of the schedule: what it planned and was not let in is skipped; what was asked for is not."""
    await overlap.pause_gate(conn, tenant_id=tenant_id, schedule_uid=uid, is_paused=False, now=conn.now)
    await overlap.leave_behind(conn, tenant_id=tenant_id, schedule_uid=uid, now=conn.now, then=on_ended)
    await store.drop_streak(conn, tenant_id=tenant_id, uid=uid)
