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
        self._listening = False
        self._greeting: dict[asyncio.Task[Any], socket.socket] = {}
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

    @property
    def is_up(self) -> bool:
        """Whether anybody listens."""
        return self._listening

    def up(self) -> None:
        """Listen on the port that is ours."""
        self._call(self._up())

    def down(self) -> None:
        """Refuse connections and cut those that are open."""
        self._call(self._down())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _up(self) -> None:
        if not self._listening:
            self._held.listen(512)
            self._loop.add_reader(self._held, self._accept, self.tls())
            self._listening = True

    def _accept(self, context: ssl.SSLContext | None) -> None:
        """Take a connection ourselves: asyncio's own server forgets those whose TLS handshake is still under way."""
        try:
            taken, _ = self._held.accept()
        except OSError:
            return  # it has gone again
        taken.setblocking(False)
        greeting = self._loop.create_task(self._loop.connect_accepted_socket(self._counted, taken, ssl=context))
        self._greeting[greeting] = taken
        greeting.add_done_callback(self._greeted)

    def _greeted(self, greeting: asyncio.Task[Any]) -> None:
        taken = self._greeting.pop(greeting)
        if greeting.cancelled() or greeting.exception():  # the peer went away, or does not trust us: its test says so
            taken.close()

    async def _down(self) -> None:
        if self._listening:
            self._loop.remove_reader(self._held)
            self._listening = False
            self._held.close()
            self._held = _bound(self.port)
        await _ended(set(self._greeting))
        for transport in list(self.transports):
            transport.abort()
        self.transports.clear()

    async def _end(self) -> None:
        await _ended({task for task in asyncio.all_tasks() if task is not asyncio.current_task()})
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


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks, return_exceptions=True)


def _bound(port: int) -> socket.socket:
    held = socket.socket()
    held.setblocking(False)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held
