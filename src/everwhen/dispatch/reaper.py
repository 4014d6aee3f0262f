"""The reaper: leases that ran out, attempts past their time-out, runs past their start deadline.

    running, lease over  ──> retrying | dead | cancelled      the attempt is closed as lost or timed out
    waiting, too late    ──> expired

Safe in any number of copies. A copy locks what it decides on and passes over what another holds; the write is guarded
by the lease token. If it dies before the commit, the rows are unlocked and the next tick of any copy finds them.
Reaping twice is impossible: the first time removes the lease. A worker whose lease was reaped may still be at work; its
report is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from everwhen.core.lifecycle import RunState, Transition
from everwhen.core.reasons import Reason
from everwhen.dispatch import reports, store
from everwhen.dispatch.model import ExpiredLease
from everwhen.dispatch.reports import Closing
from everwhen.dispatch.service import close
from everwhen.postgres.pool import Database
from everwhen.roles import Tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaper:
    """The role. `batch` bounds what one tick takes of each kind."""

    database: Database
    jitter: Callable[[], float]
    batch: int = 500
    name: str = "reaper"
    interval: timedelta = timedelta(seconds=1)

    async def tick(self, now: datetime) -> Tick:
        """Close what ran out by `now`."""
        async with self.database.system() as conn:
            leases = await store.lock_expired_leases(conn, now=now, limit=self.batch)
            closings = [closed for lease in leases if (closed := self._closing(lease, now=now))]
            await close(conn, closings, now=now)
            expired = await store.expire_waiting(
                conn, now=now, limit=self.batch, state=RunState.EXPIRED, reason=Reason.START_DEADLINE
            )
        return Tick(done=len(closings) + expired, more=self.batch in {len(leases), expired})

    def _closing(self, lease: ExpiredLease, *, now: datetime) -> Closing | None:
        decision = reports.decide_expiry(lease, now=now, jitter=self.jitter())
        if not isinstance(decision, Transition):
            return None
        return Closing(
            tenant_id=lease.tenant_id, run_id=lease.run_id, lease_token=lease.lease_token, transition=decision
        )
