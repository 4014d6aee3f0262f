"""RabbitMQ: one quorum queue for each tenant's queue, published to by the default exchange, with confirms.

A confirm says that a majority of the queue's replicas has the message on disk. Publishing is mandatory: a message whose
queue is not there comes back, instead of being confirmed and dropped. A queue that is full refuses, and what was
refused is told later. RabbitMQ does not know a message again by its id; a second one changes nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final
from uuid import UUID

from everwhen.dispatch.brokers.naming import subject
from everwhen.dispatch.brokers.protocol import CALL_SECONDS, KEPT_SECONDS, MOST_DELIVERIES, Published
from everwhen.worker.brokers.inbox import CONNECT_SECONDS, BrokerAddress, BrokerAway
from everwhen.worker.brokers.notices import Notice, write_notice
from everwhen.worker.brokers.rabbitmq import connect_rabbitmq, failures, library
from everwhen.worker.protocol import Mailbox

MOST_MESSAGES: Final = 100_000
"""How many one queue holds at most; the relay's window is far below it."""

ARGUMENTS: Final = {
    "x-queue-type": "quorum",
    "x-delivery-limit": MOST_DELIVERIES,
    "x-message-ttl": int(KEPT_SECONDS * 1000),
    "x-max-length": MOST_MESSAGES,
    "x-overflow": "reject-publish",
}


class RabbitBroker:
    """One connection of the relay to RabbitMQ."""

    def __init__(self, address: BrokerAddress, *, prefix: str) -> None:
        """Begin the queues' names with this."""
        self._address = address
        self.prefix = prefix
        self._connection: Any = None
        self._channel: Any = None

    def mailbox(self, tenant_id: UUID, queue: str) -> Mailbox:
        """Say which queue it is."""
        name = subject(self.prefix, tenant_id, queue)
        return Mailbox(tenant_id=tenant_id, queue=queue, broker="rabbitmq", name=name)

    async def connect(self) -> None:
        """Connect to one of the nodes."""
        self._connection = await connect_rabbitmq(self._address, name="everwhen relay")
        async with _answers():
            self._channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)

    async def ensure(self, mailbox: Mailbox) -> bool:
        """Declare the queue where it is not there."""
        if await self._exists(mailbox):
            return False
        async with _answers(), self._side_channel() as channel:
            await channel.declare_queue(mailbox.name, durable=True, arguments=ARGUMENTS)
        return True

    async def publish(self, batch: Sequence[Notice]) -> Published:
        """Publish all at once; each is confirmed by itself."""
        answers = await asyncio.gather(*(self._publish(each) for each in batch), return_exceptions=True)
        errors = library("aiormq.exceptions")
        acknowledged: set[str] = set()
        homeless: set[tuple[UUID, str]] = set()
        silence: BaseException | None = None
        for notice, answer in zip(batch, answers, strict=True):
            if isinstance(answer, errors.PublishError):
                homeless.add((notice.tenant_id, notice.queue))
            elif isinstance(answer, errors.DeliveryError):
                continue  # refused: the queue is full, or has no majority
            elif isinstance(answer, failures()):
                silence = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                acknowledged.add(notice.message_id)
        if silence is not None and not acknowledged and not homeless:
            raise BrokerAway(f"RabbitMQ takes nothing: {type(silence).__name__}: {silence}") from silence
        return Published(acknowledged=frozenset(acknowledged), homeless=frozenset(homeless))

    async def depth(self, mailbox: Mailbox) -> int:
        """Count what is ready to be delivered."""
        async with _answers(), self._side_channel() as channel:
            queue = await channel.declare_queue(mailbox.name, passive=True)
            return queue.declaration_result.message_count

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            with contextlib.suppress(*failures()):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._connection.close()

    async def _publish(self, notice: Notice) -> None:
        pika = library("aio_pika")
        message = pika.Message(
            write_notice(notice),
            content_type="application/json",
            delivery_mode=pika.DeliveryMode.PERSISTENT,
            message_id=notice.message_id,
        )
        name = subject(self.prefix, notice.tenant_id, notice.queue)
        await self._channel.default_exchange.publish(message, name, mandatory=True, timeout=CALL_SECONDS)

    async def _exists(self, mailbox: Mailbox) -> bool:
        not_found = library("aiormq.exceptions").ChannelNotFoundEntity
        async with _answers():
            try:
                async with self._side_channel() as channel:
                    await channel.declare_queue(mailbox.name, passive=True)
            except not_found:
                return False
            return True

    @contextlib.asynccontextmanager
    async def _side_channel(self) -> AsyncGenerator[Any]:
        """Open a channel for one question: an answer that is an error closes it."""
        channel = await self._connection.channel(publisher_confirms=False)
        try:
            yield channel
        finally:
            with contextlib.suppress(*failures()):
                await channel.close()


@contextlib.asynccontextmanager
async def _answers() -> AsyncGenerator[None]:
    """Bound a question, and say that the broker is away when there is no answer, or one that helps nobody."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            yield
    except failures() as error:
        raise BrokerAway(f"RabbitMQ: {type(error).__name__}: {error}") from error
