"""Wake-ups: who waits for work hears within milliseconds that there is some, through LISTEN/NOTIFY.

A wake-up is a hint, never a fact. It says "look now", carries no more than an opaque topic, and may be lost: by a
broken connection, by a transaction that forgot to send it. Everybody who waits for one therefore polls, too.

One connection of its own listens for the whole process. While it is down nothing is heard, so every waiter is woken
once when it listens again: what happened in between is found by looking. An idle connection is asked a question every
PROBE_SECONDS, because a half-open one would be silent for ever; PROBE_TIMEOUT_SECONDS later its socket is cut.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from everwhen.core.targets import WORKFLOW_QUEUE
from everwhen.postgres.pool import TCP_DEFAULTS, cut

CHANNEL = "everwhen"
ANYTHING = ""
"""The topic of who wants to hear every wake-up, whatever it is about."""

PROBE_SECONDS = 15.0
PROBE_TIMEOUT_SECONDS = 5.0
FIRST_BACK_OFF_SECONDS = 0.1
MAX_BACK_OFF_SECONDS = 5.0

_LOG = logging.getLogger(__name__)
# PostgreSQL folds equal notifications of one transaction into one, and delivers them when it commits.
_NOTIFY = "select pg_notify(%(channel)s, topic) from unnest(%(topics)s::text[]) as topic"


def queue_topic(tenant_id: UUID | None, queue: str) -> str:
    """The topic of one tenant's queue, or of the platform's (None). It reveals neither."""
    name = f"{tenant_id or ''}/{queue}"
    return hashlib.blake2s(name.encode(), digest_size=12).hexdigest()


def role_topic(name: str) -> str:
    """The topic that wakes a role."""
    return queue_topic(None, f"role:{name}")


def line_topic(tenant_id: UUID, queue: str) -> str:
    """The topic of whoever serves a queue: its workers, or the conductor, at whose queue no worker waits."""
    return role_topic("conductor") if queue == WORKFLOW_QUEUE else queue_topic(tenant_id, queue)


def worker_topic(owner: UUID, instance: UUID) -> str:
    """The topic that sends the waiting claims of one worker home."""
    return queue_topic(owner, f"worker:{instance}")


def topics_of_lane(tenant_id: UUID, queue: str) -> tuple[str, str]:
    """The topics of all who may take from a lane: its tenant's workers, and the platform's at a shared queue."""
    return line_topic(tenant_id, queue), queue_topic(None, queue)


async def notify(conn: AsyncConnection[Any], topics: Iterable[str]) -> None:
    """Wake whoever waits for these topics, once the transaction commits; each topic once, in one round trip."""
    if distinct := sorted(set(topics)):
        await conn.execute(_NOTIFY, {"channel": CHANNEL, "topics": distinct})


class Waiter:
    """Somebody who waits for any of some topics. A wake-up between two waits is kept."""

    def __init__(self, wakeups: "Wakeups", topics: frozenset[str], on_wake: Callable[[], None] | None = None) -> None:
        self._wakeups = wakeups
        self._event = asyncio.Event()
        self._on_wake = on_wake
        self.topics = topics

    async def wait(self, timeout_seconds: float) -> bool:
        """Return True when woken, False after the time-out. Either way look for work: a wake-up is a hint."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken

    def take(self) -> bool:
        """Tell, without waiting, whether a wake-up has come since the last one that was taken."""
        woken = self._event.is_set()
        self._event.clear()
        return woken

    def wake(self) -> None:
        self._event.set()
        if self._on_wake is not None:
            self._on_wake()

    def close(self) -> None:
        """Wait for nothing any more."""
        self._wakeups.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ChangingWaiter:
    """A waiter whose topics are asked for before each wait. Close it, or use it in a `with` block."""

    def __init__(self, wakeups: "Wakeups", topics: Callable[[], frozenset[str]]) -> None:
        self._wakeups = wakeups
        self._topics = topics
        self._waiter = wakeups.subscribe(*topics())

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait as a waiter does; not at all where the topics have changed: what was sent before was not heard."""
        wanted = self._topics()
        if wanted == self._waiter.topics:
            return await self._waiter.wait(timeout_seconds)
        self._waiter.close()
        self._waiter = self._wakeups.subscribe(*wanted)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiter.close()


class Wakeups:
    """The listener of one process. Run `listen_forever` as a task; subscribe before or after it has started."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = make_conninfo(
            conninfo, **{**TCP_DEFAULTS, "application_name": "everwhen wakeups", **conninfo_to_dict(conninfo)}
        )
        self._waiters: dict[str, set[Waiter]] = {}
        self.listening = asyncio.Event()

    def subscribe(self, *topics: str, on_wake: Callable[[], None] | None = None) -> Waiter:
        """Make a waiter for these topics, which also calls `on_wake`. Close it, or use it in a `with` block."""
        waiter = Waiter(self, frozenset(topics), on_wake)
        for topic in topics:
            self._waiters.setdefault(topic, set()).add(waiter)
        return waiter

    def forget(self, waiter: Waiter) -> None:
        for topic in waiter.topics:
            waiters = self._waiters.get(topic, set())
            waiters.discard(waiter)
            if not waiters:
                self._waiters.pop(topic, None)

    def wake(self, topic: str) -> None:
        for waiter in tuple(self._waiters.get(topic, ())):
            waiter.wake()

    def wake_everybody(self) -> None:
        for topic in tuple(self._waiters):
            self.wake(topic)

    async def listen_forever(self) -> None:
        """Listen, and connect again with a growing pause whenever the connection is lost. Ends by cancellation only."""
        back_off = FIRST_BACK_OFF_SECONDS
        while True:
            try:
                await self._listen()
            except psycopg.Error as error:
                _LOG.warning("wakeups.lost", extra={"error": str(error), "retry_in_seconds": back_off})
            if self.listening.is_set():
                self.listening.clear()
                back_off = FIRST_BACK_OFF_SECONDS
            await asyncio.sleep(back_off)
            back_off = min(back_off * 2, MAX_BACK_OFF_SECONDS)

    async def _listen(self) -> None:
        async with await AsyncConnection.connect(self._conninfo, autocommit=True) as conn:
            await conn.execute(f"LISTEN {CHANNEL}")
            self.listening.set()
            self.wake_everybody()  # what was sent before this moment was not heard
            while True:
                async for notice in conn.notifies(timeout=PROBE_SECONDS):
                    self.wake(notice.payload)
                    self.wake(ANYTHING)
                await _probe(conn)


async def _probe(conn: AsyncConnection[Any]) -> None:
    timer = asyncio.get_running_loop().call_later(PROBE_TIMEOUT_SECONDS, cut, conn)
    try:
        await conn.execute("SELECT 1")
    finally:
        timer.cancel()
