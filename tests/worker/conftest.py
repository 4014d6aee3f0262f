"""A fake server on loopback, and workers in threads that end with their test."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from everwhen.worker import Worker
from tests.worker.fake_server import PATIENCE_SECONDS, TOKEN, FakeServer, wait_until


class RunningWorker:
    """A worker in a thread of its own, as a service would run it."""

    def __init__(self, worker: Worker, server: FakeServer, **options: Any) -> None:
        self.worker = worker
        self.code: int | None = None
        settings = {"url": server.url, "token": TOKEN, "concurrency": 4, "wait_seconds": 2.0, "drain_seconds": 30.0}
        self._settings = settings | options
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.code = self.worker.run(**self._settings)

    def stop(self) -> None:
        self.worker.stop()

    def join(self) -> int | None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the worker did not end"
        return self.code

    def close(self) -> None:
        if self._thread.is_alive():
            self.stop()
            self.stop()
            self.join()


@pytest.fixture
def fleet() -> Iterator[FakeServer]:
    """The server's side of the protocol."""
    server = FakeServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def start(fleet: FakeServer) -> Iterator[Any]:
    """A function that starts a worker against the fake server."""
    started: list[RunningWorker] = []

    def start_worker(worker: Worker, **options: Any) -> RunningWorker:
        running = RunningWorker(worker, fleet, **options)
        started.append(running)
        return running

    yield start_worker
    for running in started:
        running.close()


@pytest.fixture
def until() -> Any:
    """Wait for a condition with a deadline."""
    return wait_until
