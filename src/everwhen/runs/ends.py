"""Following the end of a run: what has to happen in the transaction that ends it.

Some ends have consequences: the next run of a schedule that allows one at a time, the next node of a workflow, the
pause after too many failures in a row. Whoever lines such a run up marks it (`is_followed`); the mark travels with it
from the line to the lease and back. Four places end a run that was lined up, and hand over what they ended, if marked:

    a worker's report, the reaper      dispatch.service.close
    the start deadline                 dispatch.reaper
    a cancel before it was claimed     runs.service.cancel_run

Invariants

1. A follower is called exactly once for each followed end, inside the transaction that ends the run, after the end is
   written. If it raises, the run has not ended.
2. A follower that waits for a lock waits while the ended runs' rows are locked: followers take their locks in the order
   of their keys, and never a lease or a place in the line of a run that is not their own.
3. A run that nobody follows costs nothing: no statement, no call.

Crash points: before the commit nothing has happened, neither the end nor what follows; after it, both.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from everwhen.postgres.pool import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A followed run that has just ended in `state`, one of the terminal words of a run."""

    tenant_id: UUID
    run_id: UUID
    state: str
    reason: str | None


OnEnded = Callable[[Connection, Sequence[Ended], datetime], Awaitable[None]]
"""Called inside the transaction that ended these runs: (connection, ended, now)."""


async def nobody_follows(conn: Connection, ended: Sequence[Ended], now: datetime) -> None:
    """Do nothing: for a process, or a test, without features that follow."""


def follow_with(*followers: OnEnded) -> OnEnded:
    """Join followers: each is called, in this order."""

    async def call_each(conn: Connection, ended: Sequence[Ended], now: datetime) -> None:
        for follower in followers:
            await follower(conn, ended, now)

    return call_each
