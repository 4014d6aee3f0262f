"""The gatekeeper: decides about held runs at the instant at which they are due.

It sleeps until the next one is due, so the due instant costs one look and no polling. What becomes due earlier than
it knows (somebody asks for a run, a planner writes one that is due at once) comes with a wake-up; a lost one costs
its interval. Safe in any number of copies: a gate that another copy, or the end of a run, holds is passed over and
looked at again a moment later. If it dies before the commit, the rows are as they were, and the next look decides the
same.

A line that cannot be decided, whatever is wrong with it, is put off and named in the log; it stops no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import psycopg
import structlog

from everwhen import failpoints
from everwhen.overlap import store
from everwhen.overlap.model import DueRun, GateKey
from everwhen.overlap.service import RETRY, decide_gates
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick
from everwhen.runs.ends import OnEnded, nobody_follows

BAD_LINE: Final = (psycopg.DataError, psycopg.IntegrityError, ValueError)
PUT_OFF: Final = timedelta(minutes=1)

log = structlog.get_logger("everwhen.overlap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gatekeeper:
    """The role. `batch` bounds how many runs one tick looks at; `on_ended` hears of those that it turns away."""

    database: Database
    batch: int = 500
    name: str = "gatekeeper"
    interval: timedelta = timedelta(seconds=1)
    on_ended: OnEnded = nobody_follows

    async def tick(self, now: datetime) -> Tick:
        """Decide about what is due by `now`."""
        try:
            async with self.database.system() as conn:
                due = await store.find_due(conn, now=now, limit=self.batch)
                done, passed_over = await self._decide(conn, due, now=now)
                failpoints.hit("gatekeeper.before_commit")
            failpoints.hit("gatekeeper.after_commit")
        except BAD_LINE:
            # One line cannot be decided. One at a time, so that it holds nobody else up.
            due, done, passed_over = await self._decide_one_by_one(now)
        async with self.database.system() as conn:
            next_at = await store.next_look(conn)
        if passed_over and next_at is not None:
            next_at = max(next_at, now + RETRY)
        return Tick(done=done, more=len(due) == self.batch and not passed_over, next_at=next_at)

    async def _decide(self, conn: Connection, due: Sequence[DueRun], *, now: datetime) -> tuple[int, bool]:
        """Return how many verdicts were written, and whether somebody else held a gate."""
        if not due:
            return 0, False
        keys = sorted({run.key for run in due})
        gates = await store.lock_free_gates(
            conn, tenant_ids=[key.tenant_id for key in keys], schedule_uids=[key.schedule_uid for key in keys]
        )
        written = await decide_gates(conn, gates, now=now, looked=[run.run_id for run in due], then=self.on_ended)
        return written, len(gates) < len(keys)

    async def _decide_one_by_one(self, now: datetime) -> tuple[Sequence[DueRun], int, bool]:
        async with self.database.system() as conn:
            due = await store.find_due(conn, now=now, limit=self.batch)
        done, passed_over = 0, False
        for key in sorted({run.key for run in due}):
            mine = [run for run in due if run.key == key]
            try:
                async with self.database.system() as conn:
                    written, passed = await self._decide(conn, mine, now=now)
                done, passed_over = done + written, passed_over or passed
            except BAD_LINE as error:
                await self._put_off(key, mine, error, now=now)
        return due, done, passed_over

    async def _put_off(self, key: GateKey, runs: Sequence[DueRun], error: Exception, *, now: datetime) -> None:
        log.error("line.put_off", schedule_uid=str(key.schedule_uid), exc_info=error)
        async with self.database.system() as conn:
            await store.put_off(
                conn, run_ids=[run.run_id for run in runs], tenant_id=key.tenant_id, until=now + PUT_OFF
            )
