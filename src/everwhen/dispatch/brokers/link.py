"""A broker as the relay uses it: a connection that is made when it is needed, mailboxes that are made once, a circuit.

    closed ──anything raises BrokerAway──> open, for a while that grows to MOST_BACK_OFF ──> one try ──> closed | open

While the circuit is open nothing is asked of the broker, and nothing waits for it. What was to be announced stays where
it is, in the line, where whoever asks by HTTP finds it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from uuid import UUID

import structlog

from everwhen import metrics
from everwhen.dispatch.brokers.protocol import Broker, Published
from everwhen.worker.brokers.inbox import BrokerAway
from everwhen.worker.brokers.notices import Notice

FIRST_BACK_OFF: Final = 0.5
MOST_BACK_OFF: Final = 15.0

CHECK_SECONDS: Final = 15.0
"""How often it is looked whether a mailbox is still there."""

MOST_CHECKED: Final = 50
"""How many mailboxes are looked at in one tick."""

log = structlog.get_logger("everwhen.brokers")

_Line = tuple[UUID, str]
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Link:
    """One broker. `make` makes what talks to it, one for each connection."""

    kind: str
    make: Callable[[], Broker]
    first_back_off: float = FIRST_BACK_OFF
    is_away: bool = False
    detail: str = ""
    _broker: Broker | None = None
    _try_at: float = 0.0
    _back_off: float | None = None
    _checked: dict[_Line, float] = field(default_factory=dict[_Line, float])

    @property
    def is_open(self) -> bool:
        """Whether the broker is left alone for now."""
        return self.is_away and _clock() < self._try_at

    async def prepare(self, lines: Sequence[_Line]) -> list[_Line]:
        """Connect, and look whether these lines have their mailboxes; return those that had to be made.

        Some are looked at now, others in later calls: only what `has` says may be published to.
        """
        broker = await self._connected()
        stale = _clock() - CHECK_SECONDS
        due = sorted((line for line in lines if self._checked.get(line, 0.0) <= stale), key=self._age)
        made: list[_Line] = []
        for line in due[:MOST_CHECKED]:
            if await self._guarded(broker.ensure(broker.mailbox(*line))):
                made.append(line)
            self._checked[line] = _clock()
        self._closed()
        return made

    def has(self, line: _Line) -> bool:
        """Whether the line's mailbox was there the last time that somebody looked."""
        return line in self._checked

    async def publish(self, batch: Sequence[Notice]) -> Published:
        """Publish; mailboxes that are not there are made before the next time."""
        broker = await self._connected()
        published = await self._guarded(broker.publish(batch))
        if published.homeless:
            self._checked.clear()  # where one is gone the others may be: all of NATS's lie in one stream
        return published

    async def close(self) -> None:
        """Let go of the connection."""
        broker, self._broker = self._broker, None
        self._checked.clear()
        if broker is not None:
            await broker.close()

    def _age(self, line: _Line) -> float:
        return self._checked.get(line, 0.0)

    async def _connected(self) -> Broker:
        if self._broker is None:
            broker = self.make()
            try:
                await self._guarded(broker.connect())
            except BrokerAway:
                await broker.close()
                raise
            self._broker = broker
        return self._broker

    async def _guarded(self, call: Awaitable[T]) -> T:
        """Open the circuit when the broker is away."""
        try:
            return await call
        except BrokerAway as error:
            await self.close()
            self.detail = str(error)
            delay = self.first_back_off if self._back_off is None else self._back_off
            self._try_at, self._back_off = _clock() + delay, min(delay * 2, MOST_BACK_OFF)
            log.warning("broker.away", broker=self.kind, error=self.detail, retry_seconds=delay)
            self.is_away = True
            metrics.BROKER_UP.labels(self.kind).set(0)
            raise

    def _closed(self) -> None:
        if self.is_away:
            log.info("broker.back", broker=self.kind)
        self.is_away, self.detail, self._back_off = False, "", None
        metrics.BROKER_UP.labels(self.kind).set(1)


def _clock() -> float:
    return asyncio.get_running_loop().time()
