"""The notifier: matches what happened, watches what does not, sends what is due, and forgets what is past its time.

It polls: a signal is written by whatever made it happen, and a wake-up in each of those transactions would cost more
than the half second that it saves (a commit with NOTIFY takes a global lock). Safe in any number of copies: tenants'
turns, deliveries and old rows are all taken with SKIP LOCKED, and every result is guarded by its lease.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from everwhen.alerts.delivering import store
from everwhen.alerts.delivering.courier import Courier, retention_ends
from everwhen.alerts.matching.matcher import match_signals
from everwhen.alerts.watching.watch import EVERY, watch
from everwhen.postgres.pool import Database
from everwhen.roles import Tick

PATIENCE_SECONDS: Final = 0.25
"""How long a tick waits for a send to end when there is more to send than room."""

SWEEP_EVERY: Final = timedelta(minutes=1)
SWEPT: Final = 500


@dataclass(slots=True)
class _Last:
    """When the last sweep found nothing more, and when the watch looked last."""

    swept_at: datetime | None = None
    watched_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    """The role."""

    database: Database
    courier: Courier
    retention_days: float = 90.0
    name: str = "notifier"
    interval: timedelta = timedelta(milliseconds=500)
    last: _Last = field(default_factory=_Last)

    async def tick(self, now: datetime) -> Tick:
        """Watch and sweep when it is time, match one batch, begin what can be sent."""
        watched = await self._watch(now)
        matched, more = await match_signals(self.database, public_url=self.courier.post.public_url)
        begun = await self.courier.begin(now)
        swept = await self._sweep(now)
        async with self.database.system() as conn:
            next_at = await store.next_look(conn)
        is_due = next_at is not None and next_at <= now
        if is_due and not begun:  # its channel is at its limit: go on as soon as a send ends
            more = await self.courier.wait(PATIENCE_SECONDS) or more
        return Tick(
            done=watched + matched + begun + swept,
            more=more or begun > 0 or swept == SWEPT,
            next_at=None if is_due else next_at,
        )

    async def close(self) -> None:
        """End what is under way."""
        await self.courier.close()

    async def _watch(self, now: datetime) -> int:
        if self.last.watched_at is not None and now < self.last.watched_at + EVERY:
            return 0
        self.last.watched_at = now
        return await watch(self.database, now=now)

    async def _sweep(self, now: datetime) -> int:
        if self.last.swept_at is not None and now < self.last.swept_at + SWEEP_EVERY:
            return 0
        async with self.database.system() as conn:
            gone = await store.delete_old(conn, before=retention_ends(now, self.retention_days), limit=SWEPT)
        if gone < SWEPT:
            self.last.swept_at = now
        return gone
