"""The feed: the one look at what is new that all streams of a process share.

It runs in every process that serves the API. While nobody listens it only sees to it that the last cut does not get
old, so that whoever returns reads short stretches. Wake-ups are taken for what they are, hints that something happened;
they are gathered for SPACING, so a flood of them costs no more than so many looks.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from everwhen import roles
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import ANYTHING, Wakeups
from everwhen.roles import Loop, Tick
from everwhen.streaming import store
from everwhen.streaming.hub import CUT_SECONDS, Hub

LISTENING: Final = timedelta(milliseconds=250)
IDLE: Final = timedelta(seconds=CUT_SECONDS)
SPACING: Final = timedelta(milliseconds=50)
KEPT: Final = timedelta(hours=24)
"""For how long a place can be returned to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The role."""

    hub: Hub
    name: str = "feed"

    @property
    def interval(self) -> timedelta:
        """Short while somebody listens."""
        return LISTENING if self.hub.is_heard else IDLE

    async def tick(self, now: datetime) -> Tick:  # noqa: ARG002  # as every role's
        """Hand out what is new."""
        return Tick(done=await self.hub.look())


async def run_feed(hub: Hub, wakeups: Wakeups, stop: asyncio.Event) -> None:
    """Run the role until told to stop; while somebody listens every wake-up is one for it."""

    async def database_clock() -> datetime:
        async with hub.database.system() as conn:
            return conn.now

    with wakeups.subscribe(ANYTHING) as anything:

        async def wait(seconds: float) -> None:
            if not hub.is_heard:
                await hub.wait_until_heard(seconds)
                return
            await anything.wait(seconds)
            await asyncio.sleep(SPACING.total_seconds())

        await roles.run(Feed(hub=hub), Loop(clock=database_clock, wait_for_wakeup=wait, stop=stop))


async def sweep_cuts(conn: Connection, *, now: datetime, limit: int) -> int:
    """Delete up to `limit` cuts that nobody may return to any more."""
    before = int((now - KEPT).timestamp() * 1_000_000)
    return await store.drop_cuts(conn, before=before, limit=limit)
