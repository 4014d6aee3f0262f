"""Threads for synchronous tasks: as many as are busy at once, reused, never waited for at exit.

The standard library's pool joins its threads when the interpreter ends, so one task that hangs would keep a drained
worker from exiting. These are daemons. And since the loop alone counts who is busy, handing over a run needs no
future, no semaphore and no callback.
"""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

log = logging.getLogger("everwhen.worker")

T = TypeVar("T")


class Threads(Generic[T]):
    """Calls `work(item)` on a thread for each submitted item. The caller bounds how many are out at once."""

    def __init__(self, work: Callable[[T], None], *, name: str) -> None:
        """Prepare; threads are made when there is work."""
        self._work = work
        self._name = name
        self._waiting: SimpleQueue[T | None] = SimpleQueue()
        self._made = 0

    def submit(self, item: T, *, busy: int) -> None:
        """Hand over an item; `busy` counts what is out, this one included. Call it from one thread only."""
        self._waiting.put(item)
        if busy > self._made:
            self._made += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._made}", daemon=True).start()

    def close(self) -> None:
        """Let idle threads end; busy ones end after their item."""
        for _ in range(self._made):
            self._waiting.put(None)

    def _serve(self) -> None:
        while (item := self._waiting.get()) is not None:
            try:
                self._work(item)
            except Exception:
                log.exception("task.thread_failed; the thread goes on")
            del item  # a thread that waits must not keep the last run's data alive
