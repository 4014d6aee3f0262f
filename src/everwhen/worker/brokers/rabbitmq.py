"""Notices out of RabbitMQ: a consumer at each mailbox, all on one channel, as many unacknowledged as fit.

The queues are the server's to declare (see `everwhen.dispatch.brokers.rabbitmq`); here they are only read. The plain
connection of the client is used: its robust one is back before its consumers are, and its publishers hang.
"""

import asyncio
import contextlib
import importlib
from collections.abc import Generator, Sequence
from typing import Any, Final

from everwhen.worker.brokers.inbox import CONNECT_SECONDS, Arrivals, BrokerAddress, BrokerAway, tls_of
from everwhen.worker.brokers.notices import Delivery
from everwhen.worker.errors import ConfigurationError
from everwhen.worker.protocol import Mailbox

HEARTBEAT_SECONDS: Final = 10
LONGEST_HOLD_SECONDS: Final = 5.0
"""RabbitMQ has no delay: what is to come again later is held here so long, and then given back."""


def library(name: str) -> Any:
    """Import the client when it is first needed; raise ConfigurationError when it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError("RabbitMQ needs its client: pip install 'everwhen[rabbitmq]'") from error


def failures() -> tuple[type[Exception], ...]:
    """Return what the client raises when the server is away, or answers that something cannot be done."""
    errors = library("aiormq.exceptions")
    return (errors.AMQPError, errors.ChannelInvalidStateError, OSError, TimeoutError, RuntimeError)


async def connect_rabbitmq(address: BrokerAddress, *, name: str) -> Any:
    """Return a connection to one of the servers; raise BrokerAway when none of them lets us in."""
    why = "no server is named"
    for url in address.urls:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await library("aio_pika").connect(
                    url,
                    timeout=CONNECT_SECONDS,
                    heartbeat=HEARTBEAT_SECONDS,
                    ssl_context=tls_of(address),
                    client_properties={"connection_name": name},
                )
        except failures() as error:
            why = f"{type(error).__name__}: {error}".rstrip(": ")
    raise BrokerAway(f"RabbitMQ does not let us in: {why}")


class RabbitInbox:
    """One connection to RabbitMQ."""

    def __init__(self, address: BrokerAddress, *, name: str, size: int) -> None:
        """Take up to `size` messages ahead."""
        self._address = address
        self._name = name
        self._size = size
        self._arrivals = Arrivals(size)
        self._connection: Any = None
        self._held: set[asyncio.Task[None]] = set()

    async def open(self, mailboxes: Sequence[Mailbox]) -> None:
        """Connect, and consume from each mailbox."""
        self._connection = await connect_rabbitmq(self._address, name=self._name)
        with _away():
            async with asyncio.timeout(CONNECT_SECONDS):
                self._connection.close_callbacks.add(self._lost)
                channel = await self._connection.channel(publisher_confirms=False)
                channel.close_callbacks.add(self._lost)
                under = await channel.get_underlay_channel()
                under.on_consumer_cancel_callbacks.add(self._cancelled)
                await channel.set_qos(prefetch_count=self._size)
                for mailbox in mailboxes:
                    queue = await channel.get_queue(mailbox.name, ensure=False)
                    await queue.consume(self._arrived)

    async def take(self, limit: int, *, seconds: float) -> list[Delivery]:
        """Return what has come."""
        return await self._arrivals.take(limit, seconds=seconds)

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge."""
        with _away():
            for delivery in deliveries:
                await delivery.handle.ack()

    async def give_back(self, deliveries: Sequence[Delivery], *, seconds: float) -> None:
        """Let them come again after so long, or LONGEST_HOLD_SECONDS."""
        task = asyncio.create_task(_requeue_later(list(deliveries), min(seconds, LONGEST_HOLD_SECONDS)))
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    async def close(self) -> None:
        """Disconnect."""
        for task in self._held:
            task.cancel()
        if self._connection is not None:
            with contextlib.suppress(*failures()):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._connection.close()

    async def _arrived(self, message: Any) -> None:
        await self._arrivals.put(message.body, message)

    def _lost(self, *_: object) -> None:
        self._arrivals.end("the connection to RabbitMQ has ended")

    def _cancelled(self, *_: object) -> None:
        self._arrivals.end("a mailbox was deleted")


async def _requeue_later(deliveries: Sequence[Delivery], seconds: float) -> None:
    await asyncio.sleep(seconds)
    with contextlib.suppress(*failures()):
        for delivery in deliveries:
            await delivery.handle.nack(requeue=True)


@contextlib.contextmanager
def _away() -> Generator[None]:
    try:
        yield
    except failures() as error:
        raise BrokerAway(f"{type(error).__name__}: {error}") from error
