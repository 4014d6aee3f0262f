"""The reaper: leases that ran out, attempts past their time-out, runs past their start deadline.

    running, lease over  ──> retrying | dead | cancelled      the attempt is closed as lost or timed out
    waiting, too late    ──> expired | dead                   past its start or total deadline, or too old for a retry
    parked               ──> in its line again                there is room, and nobody has said so

Safe in any number of copies. A copy locks what it decides on and passes over what another holds; the write is guarded
by the lease token. If it dies before the commit, the rows are unlocked and the next tick of any copy finds them.
A lease whose run cannot be written back, whatever is wrong with it, is put off and named in the log; it stops nobody.
Reaping twice is impossible: the first time removes the lease. A worker whose lease was reaped may still be at work; its
report is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import psycopg
import structlog

from everwhen import failpoints, metrics
from everwhen.claim_limits.releasing import Backstop
from everwhen.claim_limits.telling import full_lines
from everwhen.core.lifecycle import Transition
from everwhen.dispatch import reports, store
from everwhen.dispatch.model import ExpiredLease, Moved, OverdueRun
from everwhen.dispatch.reports import Closing
from everwhen.dispatch.service import close, count_closed, follow
from everwhen.fleets.telling import find_wants
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick
from everwhen.runs.ends import OnEnded, nobody_follows

BAD_ROW: Final = (psycopg.DataError, psycopg.IntegrityError)
PUT_OFF: Final = timedelta(minutes=10)

log = structlog.get_logger("everwhen.dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaper:
    """The role. `batch` bounds what one tick takes of each kind."""

    database: Database
    jitter: Callable[[], float]
    batch: int = 500
    name: str = "reaper"
    interval: timedelta = timedelta(seconds=1)
    on_ended: OnEnded = nobody_follows
    backstop: Backstop = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "backstop", Backstop(self.database))

    async def tick(self, now: datetime) -> Tick:
        """Close what ran out by `now`."""
        try:
            closed, full = await self._reap(now)
        except BAD_ROW:
            # One lease cannot be written back. One at a time, so that it holds nobody else up.
            closed, full = await self._reap_one_by_one(now)
        async with self.database.system() as conn:
            overdue = await store.lock_overdue(conn, now=now, limit=self.batch)
            ends = await _decide(conn, overdue, now=now)
            await follow(conn, await _end(conn, ends, now=now), now=now, on_ended=self.on_ended)
            failpoints.hit("expiry.before_commit")
        failpoints.hit("expiry.after_commit")
        for _, end in ends:  # of what was committed, for whoever collects metrics
            metrics.ENDED.labels(end.to.value).inc()
        offered = await self.backstop.look(now)
        return Tick(done=closed + len(overdue) + offered, more=full or len(overdue) == self.batch)

    async def _reap(self, now: datetime) -> tuple[int, bool]:
        async with self.database.system() as conn:
            leases = await store.lock_expired_leases(conn, now=now, limit=self.batch)
            closings = [closed for lease in leases if (closed := self._closing(lease, now=now))]
            await close(conn, closings, now=now, on_ended=self.on_ended)
            failpoints.hit("reaper.before_commit")
        failpoints.hit("reaper.after_commit")
        count_closed(closings)
        return len(closings), len(leases) == self.batch

    async def _reap_one_by_one(self, now: datetime) -> tuple[int, bool]:
        """Close what can be closed; put off, and name, what cannot."""
        closed = 0
        for _ in range(self.batch):
            async with self.database.system() as conn:
                leases = await store.lock_expired_leases(conn, now=now, limit=1)
                for lease in leases:
                    closed += await self._close_or_put_off(conn, lease, now=now)
            if not leases:
                return closed, False
        return closed, True

    async def _close_or_put_off(self, conn: Connection, lease: ExpiredLease, *, now: datetime) -> bool:
        closing = self._closing(lease, now=now)
        try:
            async with conn.transaction():  # a savepoint: the lock on the lease outlives what it could not do
                await close(conn, [closing] if closing else [], now=now, on_ended=self.on_ended)
        except BAD_ROW as error:
            log.exception("lease.put_off", run_id=str(lease.run_id), error=str(error))
            await store.put_off_lease(conn, tenant_id=lease.tenant_id, run_id=lease.run_id, until=now + PUT_OFF)
            return False
        return closing is not None

    def _closing(self, lease: ExpiredLease, *, now: datetime) -> Closing | None:
        decision = reports.decide_expiry(lease, now=now, jitter=self.jitter())
        return reports.closing_of_expired(lease, transition=decision) if isinstance(decision, Transition) else None


async def _decide(
    conn: Connection, overdue: Sequence[OverdueRun], *, now: datetime
) -> list[tuple[OverdueRun, Transition]]:
    """Decide on the ends; a line that a limit shuts, or that nobody serves, has no place for its runs: that is why."""
    lines = {(run.tenant_id, run.queue) for run in overdue if run.limit_group is None}
    full = await full_lines(conn, sorted(lines), now=now)
    wants = await find_wants(
        conn, sorted({(run.tenant_id, run.queue, run.task) for run in overdue if run.limit_group is None}), now=now
    )
    decided = [
        (
            run,
            reports.decide_overdue(
                run,
                shut_by=full.get((run.tenant_id, run.queue)) or wants.get((run.tenant_id, run.queue, run.task)),
                now=now,
            ),
        )
        for run in overdue
    ]
    return [(run, decision) for run, decision in decided if isinstance(decision, Transition)]


async def _end(conn: Connection, ends: Sequence[tuple[OverdueRun, Transition]], *, now: datetime) -> list[Moved]:
    if not ends:
        return []
    return await store.end_overdue(
        conn,
        tenant_ids=[run.tenant_id for run, _ in ends],
        run_ids=[run.run_id for run, _ in ends],
        states=[end.to.value for _, end in ends],
        reasons=[end.reason.value for _, end in ends if end.reason],
        now=now,
    )
