"""What httpcore2 speaks HTTP over: one socket that is connected already, and TLS on it when the scheme asks for it.

httpcore2 asks its backend to connect to a host; this one has a single socket to give, whatever it is asked, and no way
to make another. A stream ends by being cut: nothing of ours waits for a peer's good-bye.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2


class OneSocket(httpcore2.AsyncNetworkBackend):
    """Gives out the socket that was dialed, once."""

    def __init__(self, connected: socket.socket, *, tls: bool) -> None:
        self._connected = connected
        self._tls = tls

    async def connect_tcp(  # noqa: PLR0917  # the library's signature
        self,
        host: str,  # noqa: ARG002  # where it leads was decided before
        port: int,  # noqa: ARG002  # as above
        timeout: float | None = None,  # noqa: ARG002, ASYNC109  # the exchange as a whole has its bound
        local_address: str | None = None,  # noqa: ARG002  # never asked for
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002  # as above
    ) -> httpcore2.AsyncNetworkStream:
        """See `httpcore2.AsyncNetworkBackend`."""
        if self._tls:
            return _Untouched(self._connected)
        return _Stream(*await asyncio.open_connection(sock=self._connected))


class _Untouched(httpcore2.AsyncNetworkStream):
    """A socket on which TLS begins with the first byte."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected

    async def aclose(self) -> None:
        self._connected.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109  # as above
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(
            *await asyncio.open_connection(sock=self._connected, ssl=ssl_context, server_hostname=server_hostname)
        )


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109  # as above
        return await self._reader.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109  # as above
        if buffer:
            self._writer.write(buffer)
            await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.transport.abort()
        await asyncio.sleep(0)  # the loop closes the socket in its next turn

    def get_extra_info(self, info: str) -> Any:
        return self._writer.get_extra_info(info)
