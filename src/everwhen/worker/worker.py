"""`Worker`: the tasks of a fleet, and the command to work."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar, Unpack

from everwhen.worker._clock import jitter, monotonic
from everwhen.worker.banner import banner
from everwhen.worker.capturing import captured_output
from everwhen.worker.errors import ConfigurationError
from everwhen.worker.session import ExitCode, Session
from everwhen.worker.settings import Options, Settings, resolve
from everwhen.worker.stats import Stats
from everwhen.worker.tasks import TaskRegistry
from everwhen.worker.transport import HttpTransport, Transport

F = TypeVar("F", bound=Callable[..., Any])
TransportFactory = Callable[[Settings], Transport]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """A set of tasks and how to work on them.

    Settings come from `run(...)`, then from here, then from the environment (`EVERWHEN_URL`, `EVERWHEN_TOKEN`,
    `EVERWHEN_QUEUES` …), then from the defaults; the environment is read when the worker starts.
    """

    def __init__(self, *, transport: TransportFactory = HttpTransport, **options: Unpack[Options]) -> None:
        """Create a worker without tasks. `transport` makes what carries its messages."""
        self.tasks = TaskRegistry()
        self.stats = Stats()
        self._options = options
        self._transport = transport
        self._guard = threading.Lock()
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked = False

    def task(self, name: str, *, timeout: timedelta | float | None = None) -> Callable[[F], F]:
        """Register the decorated function under a stable name; it stays an ordinary function.

        `timeout` is a timedelta, or seconds, counted from the start of each attempt. Raises DuplicateTask when the name
        is taken and ConfigurationError when the function cannot be a task.
        """

        def register(function: F) -> F:
            self.tasks.add(function, name=name, timeout=timeout)
            return function

        return register

    def settings(self, **overrides: Unpack[Options]) -> Settings:
        """Return the settings that `run` with these overrides would use; raise ConfigurationError."""
        return resolve(overrides, self._options, environ=os.environ)

    def run(self, **overrides: Unpack[Options]) -> int:
        """Work until SIGTERM or Ctrl-C, drain, and return the exit code; raise ConfigurationError before starting.

        In a thread other than the main one there are no signals: call `stop()`.
        """
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(self.serve(**overrides))
        finally:
            # Not `asyncio.run`: it would wait for ever for a task function that ignores its cancellation.
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()

    async def serve(self, **overrides: Unpack[Options]) -> int:
        """Do as `run` does, on the running event loop."""
        settings = self.settings(**overrides)
        if not len(self.tasks):
            raise ConfigurationError("this worker has no tasks; decorate a function with @worker.task(name)")
        print(banner(settings, self.tasks), file=sys.stderr, flush=True)  # noqa: T201 - the one thing it prints
        session = Session(
            settings=settings,
            tasks=self.tasks,
            transport=self._transport(settings),
            clock=monotonic,
            jitter=jitter,
            stats=self.stats,
        )
        captured = captured_output() if settings.capture_output else nullcontext()
        with self._serving(session), _signals(session.stop), captured:
            code = await session.run()
        _say_goodbye(code, self.stats)
        return int(code)

    def stop(self) -> None:
        """Drain, from any thread; called a second time, do not wait for what runs."""
        with self._guard:
            self._stop_asked = True
            if self._session is not None and self._loop is not None:
                self._loop.call_soon_threadsafe(self._session.stop)

    @contextmanager
    def _serving(self, session: Session) -> Generator[None]:
        with self._guard:
            if self._session is not None:
                raise ConfigurationError("this worker is running already")
            self._session, self._loop = session, asyncio.get_running_loop()
            if self._stop_asked:
                session.stop()
        try:
            yield
        finally:
            with self._guard:
                self._session = self._loop = None
                self._stop_asked = False


@contextmanager
def _signals(stop: Callable[[], None]) -> Generator[None]:
    """Let SIGTERM and SIGINT stop the worker, where signals arrive: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _say_goodbye(code: ExitCode, stats: Stats) -> None:
    ended = {ExitCode.DRAINED: "drained", ExitCode.FAILED: "failed", ExitCode.UNAUTHORISED: "token refused"}[code]
    done = f"{stats.succeeded} succeeded, {stats.failed} failed, {stats.cancelled} cancelled"
    left = f"{stats.released} given back, {stats.lost} lost"
    print(f"everwhen worker: {ended}; {stats.claimed} claimed, {done}, {left}", file=sys.stderr)  # noqa: T201 - as above
