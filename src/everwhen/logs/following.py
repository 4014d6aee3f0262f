"""Following a log: what an attempt prints, as it prints it, until the attempt has ended.

A stream ends when the attempt has, and all of its log is sent; or after a while, or when the server stops. Whoever
reads was told at the beginning whether the attempt ran; if it did, he asks again from where he is, until it does not.
So a lost connection costs nothing either.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from everwhen.errors import Unavailable
from everwhen.logs.model import LogHead
from everwhen.logs.service import Logs

LOOK_SECONDS: Final = 1.0
FOLLOW_SECONDS: Final = 3_600.0
MOST_FOLLOWERS: Final = 200
"""How many logs one process lets be followed at once: each asks the database once in LOOK_SECONDS."""


@dataclass(slots=True, kw_only=True)
class Followers:
    """Who follows logs on this server; `close` sends them home."""

    look_seconds: float = LOOK_SECONDS
    most: int = MOST_FOLLOWERS
    _closed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _here: int = field(default=0, init=False)

    def close(self) -> None:
        """End all streams, once what they have is sent."""
        self._closed.set()

    def refuse_too_many(self) -> None:
        """Raise Unavailable when there are as many as there may be."""
        if self._here >= self.most:
            raise Unavailable("Too many logs are being followed on this server; try again.", code="log.busy")

    async def follow(self, logs: Logs, tenant_id: UUID, run: str, head: LogHead, *, start: int) -> AsyncIterator[bytes]:
        """Yield a log from `start` on, and what comes, until its attempt has ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + FOLLOW_SECONDS
        with self._counted():
            while True:
                async for chunk in logs.read(tenant_id, head, start=start, end=head.size_bytes):
                    start += len(chunk)
                    yield chunk
                if not head.is_open or self._closed.is_set() or loop.time() >= until:
                    return
                await self._pause()
                head = await logs.head(tenant_id, run, head.attempt)

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), self.look_seconds)

    @contextlib.contextmanager
    def _counted(self) -> Generator[None]:
        self._here += 1
        try:
            yield
        finally:
            self._here -= 1
