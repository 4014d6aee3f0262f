"""A probe: whether a worker's process lives, and is ready, as a process manager asks over HTTP. Opt-in.

    GET /live     200 while the event loop answers; one that is blocked says nothing, and the asker stops waiting
    GET /ready    200 while runs are claimed; 503 with a word: the server is away, it is held back, or it stops

A worker that is not ready gives nothing away by it: it holds what it holds. So `/ready` is for whoever replaces a fleet
step by step, `/live` for whoever restarts what hangs; a server that is away is no reason to restart a worker.
What is asked is bounded: a line, a few seconds, a few connections at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from everwhen.worker.errors import ConfigurationError

MOST_BYTES: Final = 8_192
MOST_ASKERS: Final = 32
PATIENCE_SECONDS: Final = 5.0


@dataclass(slots=True, kw_only=True)
class Probe:
    """What answers. `not_ready` returns why not, None when it is ready."""

    not_ready: Callable[[], str | None]
    _askers: int = field(default=0, init=False)

    @asynccontextmanager
    async def listening(self, address: str) -> AsyncGenerator[int]:
        """Answer at `host:port` while the block lasts; return the port. Raises ConfigurationError."""
        host, port = read_address(address)
        try:
            server = await asyncio.start_server(self._answer, host, port, limit=MOST_BYTES)
        except OSError as error:
            raise ConfigurationError(f"probe {address!r}: {error.strerror or error}") from error
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._askers += 1
        try:
            if self._askers <= MOST_ASKERS:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response(request))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has hung up, or says nothing that could be answered
        finally:
            self._askers -= 1
            with contextlib.suppress(OSError):
                writer.close()

    def _response(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        status, said = self._say(method, rest.partition(b" ")[0].partition(b"?")[0])
        body = b"" if method == b"HEAD" else f"{said}\n".encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        return f"{head}Content-Length: {len(said) + 1}\r\nConnection: close\r\n\r\n".encode() + body

    def _say(self, method: bytes, path: bytes) -> tuple[HTTPStatus, str]:
        if method not in {b"GET", b"HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, "ask with GET"
        if path == b"/live":
            return HTTPStatus.OK, "live"
        if path == b"/ready":
            why = self.not_ready()
            return (HTTPStatus.OK, "ready") if why is None else (HTTPStatus.SERVICE_UNAVAILABLE, why)
        return HTTPStatus.NOT_FOUND, "ask for /live or /ready"


def read_address(text: str) -> tuple[str, int]:
    """Read `host:port`; raise ConfigurationError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise ConfigurationError(f"probe is {text!r}, must be host:port, such as 0.0.0.0:8090")
    return host.strip("[]"), int(port)
