"""Serving HTTP and ending on a signal: what a process does with its sockets, whatever the application is.

A socket is bound before anything else is started, so that a request that comes early is kept, not refused. A server
ends when it is told to: what waits is sent home first, then requests in progress have SHUTDOWN_SECONDS.
"""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Generator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from everwhen.errors import ConfigurationError

SHUTDOWN_SECONDS: Final = 3
"""How long requests in progress may take to end; waiting claims are sent home before."""

KEEP_ALIVE_SECONDS: Final = 75
"""Longer than a client keeps an idle connection, so that a request never meets one that we are closing."""


def listen(host: str, port: int, *, any_port: bool = False) -> socket.socket:
    """Bind before anything else is started: a request that comes early is kept, not refused."""
    try:
        return _bound(host, port)
    except OSError as error:
        if any_port and error.errno == errno.EADDRINUSE:
            return _bound(host, 0)
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with EVERWHEN_PORT"
        ) from error


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
    )[0]
    # With its protocol named, or asyncio leaves Nagle's algorithm on: 31 ms an answer instead of 0.4.
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


def start_server(
    app: ASGIApp,
    tasks: asyncio.TaskGroup,
    end: asyncio.Event,
    listening: socket.socket,
    *,
    before_end: Callable[[], None],
) -> None:
    """Serve `app` in the group until `end` is set; `before_end` sends home what waits."""
    server = _server(app)

    async def serve_it() -> None:
        await server.serve(sockets=[listening])
        if not end.is_set():
            raise RuntimeError("a server of ours ended by itself")

    async def end_it() -> None:
        await end.wait()
        before_end()
        server.should_exit = True

    tasks.create_task(serve_it())
    tasks.create_task(end_it())


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` at the first SIGINT or SIGTERM, and end the process at the second."""

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            raise SystemExit(128 + number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: this process has one owner of signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _server(app: ASGIApp) -> _Server:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        server_header=False,
        proxy_headers=False,  # http/addresses.py decides whom to believe
        date_header=False,
    )
    return _Server(config)
