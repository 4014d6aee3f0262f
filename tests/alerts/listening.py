"""A server in a thread of its own that can be down for a while and come back on the same port.

Down means that its port is still its own and nobody listens there: connections are refused, and no other test gets the
port. What is open is cut.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Coroutine
from typing import Any, Self


class Server:
    """Subclasses say what is spoken in `protocol`; use it as a context manager."""

    def __init__(self) -> None:
        self._held = _bound(0)
        self.port: int = self._held.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._listening: asyncio.Server | None = None
        self.transports: set[Any] = set()
        self.connections = 0

    def protocol(self) -> asyncio.BaseProtocol:
        """Make what speaks on one connection."""
        raise NotImplementedError

    def tls(self) -> ssl.SSLContext | None:
        """TLS from the first byte, or None."""
        return None

    def __enter__(self) -> Self:
        self._thread.start()
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._held.close()

    def up(self) -> None:
        """Listen on the port that is ours."""
        self._call(self._up())

    def down(self) -> None:
        """Refuse connections and cut those that are open."""
        self._call(self._down())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _up(self) -> None:
        if self._listening is None:
            self._listening = await self._loop.create_server(
                self._counted, sock=self._held, ssl=self.tls(), backlog=512
            )

    async def _down(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None
            self._held = _bound(self.port)
        for transport in list(self.transports):
            transport.abort()
        self.transports.clear()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.gather(*others, return_exceptions=True)
        for _ in range(5):  # what is cut is closed a turn of the loop later
            await asyncio.sleep(0)

    def _counted(self) -> asyncio.BaseProtocol:
        made: Any = self.protocol()
        met, lost = made.connection_made, made.connection_lost

        def connection_made(transport):
            self.connections += 1
            self.transports.add(transport)
            met(transport)

        def connection_lost(error):
            self.transports = {other for other in self.transports if not other.is_closing()}
            lost(error)

        made.connection_made, made.connection_lost = connection_made, connection_lost
        return made


def _bound(port: int) -> socket.socket:
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held
