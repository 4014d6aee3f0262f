"""The scheduler: plans runs a little ahead of the instant at which they are due, so that the instant costs nothing.

    watermark ──────────────> now ──────────> now + ahead ──────────> now + 2 x ahead
      decided   catch-up            planned ahead

Runs are planned ahead; what is to be skipped is decided when its instant has come (see `core/planning.py`).

What is overdue is arrears, and the second half of a tick works some of them off (see `arrears/worker.py`), after the
live planning and apart from it.

One tick takes a batch of schedules whose next instant comes within `ahead`, plans each up to twice that, and moves the
watermarks, in one transaction. Safe in any number of copies: each schedule is locked by whoever plans it, others pass
over it (SKIP LOCKED), and run ids make a second plan of the same instant a no-op. If a copy dies before the commit, its
locks go and the watermarks stand where they were; if it dies after, the work is done. A clock that steps back plans
nothing anew, since the watermark is the authority; one that steps forward plans early, and nothing is handed out before
the database's own clock says that it is due.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from everwhen import failpoints
from everwhen.core.zones import ZoneSource
from everwhen.postgres.pool import Database
from everwhen.roles import Tick
from everwhen.schedules import store
from everwhen.schedules.arrears.worker import (
    FEW_ARREARS,
    FEW_INSTANTS,
    MOST_ARREARS,
    MOST_INSTANTS,
    WorkedOff,
    work_off,
)
from everwhen.schedules.planner import plan_due
from everwhen.schedules.replanning import follow_changes
from everwhen.schedules.rezoning import Sweep, sweep

REST: Final = timedelta(milliseconds=200)
"""The least time between two looks that find nothing more to do: what lies `ahead` can wait to be planned together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """The role. `batch` bounds how many schedules one tick takes."""

    database: Database
    ahead: timedelta = timedelta(seconds=30)
    batch: int = 500
    name: str = "scheduler"
    interval: timedelta = timedelta(seconds=1)
    zones: ZoneSource | None = None
    rezoned: Sweep = field(default_factory=Sweep)

    async def tick(self, now: datetime) -> Tick:
        """Plan one batch as of `now`; before, follow a changed calendar, or a new tz release, by a page."""
        sweeping = await sweep(self.database, self.rezoned, now=now, zones=self.zones)
        failpoints.hit("scheduler.before_claim")
        async with self.database.system() as conn:
            following = await follow_changes(conn, now=now, zones=self.zones)
            planned = await plan_due(conn, now=now, ahead=self.ahead, batch=self.batch, zones=self.zones)
            next_due = None if planned.more else await store.next_due(conn)
            failpoints.hit("scheduler.before_commit")
        failpoints.hit("scheduler.after_commit")
        worked = await self._work_off(now, is_behind=planned.more)
        next_at = None
        # What is due and was not taken is in another copy's hands: to look again at once would only get in its way.
        if next_due is not None and next_due > now + self.ahead:
            next_at = max(next_due - self.ahead, now + REST)
        if worked.next_at is not None and worked.next_at > now:
            turn = max(worked.next_at, now + REST)
            next_at = turn if next_at is None else min(next_at, turn)
        more = planned.more or sweeping or following or (worked.arrears > 0 and worked.is_more(now))
        return Tick(done=planned.runs + worked.runs, more=more, next_at=next_at)

    async def _work_off(self, now: datetime, *, is_behind: bool) -> WorkedOff:
        """Work some arrears off, in a transaction of its own: few of them while live planning is behind."""
        arrears, instants = (FEW_ARREARS, FEW_INSTANTS) if is_behind else (MOST_ARREARS, MOST_INSTANTS)
        async with self.database.system() as conn:
            return await work_off(conn, now=now, arrears=arrears, instants=instants, zones=self.zones)
