"""Server-sent events: how a piece is written, and a response that is written piece by piece until it ends.

A piece goes out in one message, so a client has it whole or not at all. One that takes nothing for STALL_SECONDS has
its connection closed; what comes in after the request is waited for as well, since that is how a client's leaving is
heard of.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

MEDIA_TYPE: Final = "text/event-stream"
STALL_SECONDS: Final = 30.0


def piece(*, data: str | None = None, event: str | None = None, place: str | None = None) -> bytes:
    """Write a piece; without data it only says how far the stream is, which no handler is called for."""
    lines = [] if data is not None else [": so far"]
    lines += [] if event is None else [f"event: {event}"]
    lines += [] if place is None else [f"id: {place}"]
    lines += [] if data is None else [f"data: {line}" for line in data.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


def come_back_in(milliseconds: int) -> bytes:
    """Say how long a client waits before it connects again."""
    return f"retry: {milliseconds}\n\n".encode()


class EventStream(Response):
    """The pieces of a generator as they come. `on_end` is called once, however it ends, with whether it stalled."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        pieces: AsyncGenerator[bytes],
        *,
        on_end: Callable[[bool], None],
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces
        self._on_end = on_end
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # the protocol's
        """Send until the pieces end, the client leaves, or it takes nothing any more."""
        stalled = False
        telling = asyncio.ensure_future(self._tell(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
        except _Stalled:
            stalled = True
        finally:
            for task in (telling, leaving):
                task.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)
            with contextlib.suppress(RuntimeError):
                await self._pieces.aclose()
            self._on_end(stalled)

    async def _tell(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for each in self._pieces:
            await self._within(send({"type": "http.response.body", "body": each, "more_body": True}))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _within(self, sending: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._stall_seconds):
                await sending
        except TimeoutError:
            raise _Stalled from None


class _Stalled(Exception):  # noqa: N818  # never leaves this module
    """The client takes nothing any more."""


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
