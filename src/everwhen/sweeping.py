"""The sweeper: deletes what has had its time and nobody will ask for again, in bounded batches.

Each kind is a function that deletes up to a number of rows and says how many; nothing depends on when that happens,
because whoever reads looks at the time himself. Safe in any number of copies.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick


class Sweep(Protocol):
    """Deletes rows of one kind that are over by `now`, at most `limit`; returns how many."""

    def __call__(self, conn: Connection, *, now: datetime, limit: int) -> Awaitable[int]:
        """Delete a batch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeper:
    """The role. `batch` bounds what one tick deletes of each kind."""

    database: Database
    sweeps: Sequence[Sweep]
    batch: int = 1_000
    name: str = "sweeper"
    interval: timedelta = timedelta(seconds=60)

    async def tick(self, now: datetime) -> Tick:
        """Delete a batch of each kind."""
        done, more = 0, False
        for sweep in self.sweeps:
            async with self.database.system() as conn:
                deleted = await sweep(conn, now=now, limit=self.batch)
            done, more = done + deleted, more or deleted == self.batch
        return Tick(done=done, more=more)
