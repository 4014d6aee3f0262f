"""NATS JetStream: one work-queue stream for the installation, one durable pull consumer for each tenant's queue.

The stream is replicated and on disk; a message lies in it until its consumer has acknowledged it. `Nats-Msg-Id` makes
two publishes of one notice one message, within DUPLICATE_SECONDS.

JetStream acknowledges before the disk has it unless the server's `sync_interval` is `always`. That is a setting of the
server, not of a stream, and no client can see it: `everwhen doctor` asks the server's monitoring port. Even then a
broker is a hint here, and what it loses is told again.
"""

import asyncio
import contextlib
from collections.abc import Generator, Sequence
from typing import Any, Final
from uuid import UUID

import structlog

from everwhen.dispatch.brokers.naming import consumer, subject
from everwhen.dispatch.brokers.protocol import (
    ACK_WAIT_SECONDS,
    CALL_SECONDS,
    KEPT_SECONDS,
    MOST_DELIVERIES,
    Published,
)
from everwhen.worker.brokers.inbox import BrokerAddress, BrokerAway
from everwhen.worker.brokers.nats import connect_nats, disconnect_nats, failures, inbox_of, library
from everwhen.worker.brokers.notices import Notice, write_notice
from everwhen.worker.protocol import Mailbox

DUPLICATE_SECONDS: Final = 120.0
MOST_UNACKNOWLEDGED: Final = 10_000
MOST_MESSAGES: Final = 10_000_000
LEAST_VERSION: Final = (2, 12, 3)
"""Before it, messages that were acknowledged could be lost in more ways than one."""

log = structlog.get_logger("everwhen.brokers")


class NatsBroker:
    """One connection of the relay to NATS."""

    def __init__(self, address: BrokerAddress, *, prefix: str, replicas: int) -> None:
        """Use the stream of this name; it is made with so many replicas."""
        self._address = address
        self.prefix = prefix
        self._replicas = replicas
        self._connection: Any = None
        self._jetstream: Any = None

    def mailbox(self, tenant_id: UUID, queue: str) -> Mailbox:
        """Say which consumer of the stream it is."""
        name = consumer(tenant_id, queue)
        return Mailbox(tenant_id=tenant_id, queue=queue, broker="nats", name=name, stream=self.prefix)

    async def connect(self) -> None:
        """Connect to one of the servers."""
        self._connection = await connect_nats(self._address, name="everwhen relay", inbox=inbox_of("relay"))
        self._jetstream = self._connection.jetstream(timeout=CALL_SECONDS)
        version = self._connection.connected_server_version
        if (version.major, version.minor, version.patch) < LEAST_VERSION:
            log.warning("nats.old", version=str(version), least=".".join(map(str, LEAST_VERSION)))

    async def ensure(self, mailbox: Mailbox) -> bool:
        """Make the stream and the consumer where they are not there.

        A consumer goes with its stream: that it is not there may mean that what it had to deliver is lost.
        """
        not_found = library("nats.js.errors").NotFoundError
        with _away():
            try:
                await self._jetstream.consumer_info(self.prefix, mailbox.name)
            except not_found:
                await self._ensure_stream()
                await self._jetstream.add_consumer(self.prefix, self._consumer(mailbox))
                return True
            return False

    async def publish(self, batch: Sequence[Notice]) -> Published:
        """Publish all at once; each is acknowledged by itself."""
        answers = await asyncio.gather(*(self._publish(each) for each in batch), return_exceptions=True)
        acknowledged: set[str] = set()
        homeless: set[tuple[UUID, str]] = set()
        silence: BaseException | None = None
        for notice, answer in zip(batch, answers, strict=True):
            if isinstance(answer, library("nats.js.errors").NoStreamResponseError):
                homeless.add((notice.tenant_id, notice.queue))
            elif isinstance(answer, failures()):
                silence = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                acknowledged.add(notice.message_id)
        if silence is not None and not acknowledged and not homeless:
            raise BrokerAway(f"NATS takes nothing: {type(silence).__name__}: {silence}") from silence
        return Published(acknowledged=frozenset(acknowledged), homeless=frozenset(homeless))

    async def depth(self, mailbox: Mailbox) -> int:
        """Count what was not delivered, and what was not acknowledged."""
        with _away():
            info = await self._jetstream.consumer_info(self.prefix, mailbox.name)
            return info.num_pending + info.num_ack_pending

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            await disconnect_nats(self._connection)

    async def _publish(self, notice: Notice) -> None:
        await self._jetstream.publish(
            subject(self.prefix, notice.tenant_id, notice.queue),
            write_notice(notice),
            timeout=CALL_SECONDS,
            stream=self.prefix,
            headers={"Nats-Msg-Id": notice.message_id},
        )

    async def _ensure_stream(self) -> None:
        try:
            await self._jetstream.stream_info(self.prefix)
        except library("nats.js.errors").NotFoundError:
            api = library("nats.js.api")
            await self._jetstream.add_stream(
                api.StreamConfig(
                    name=self.prefix,
                    description="Notices of runs that wait; made by Everwhen's relay",
                    subjects=[f"{self.prefix}.*.*"],
                    retention=api.RetentionPolicy.WORK_QUEUE,
                    storage=api.StorageType.FILE,
                    num_replicas=self._replicas,
                    duplicate_window=DUPLICATE_SECONDS,
                    max_age=KEPT_SECONDS,
                    max_msgs=MOST_MESSAGES,
                    discard=api.DiscardPolicy.NEW,
                )
            )

    def _consumer(self, mailbox: Mailbox) -> Any:
        api = library("nats.js.api")
        return api.ConsumerConfig(
            durable_name=mailbox.name,
            filter_subject=subject(self.prefix, mailbox.tenant_id, mailbox.queue),
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_SECONDS,
            max_deliver=MOST_DELIVERIES,
            max_ack_pending=MOST_UNACKNOWLEDGED,
        )


@contextlib.contextmanager
def _away() -> Generator[None]:
    try:
        yield
    except failures() as error:
        raise BrokerAway(f"NATS: {type(error).__name__}: {error}") from error
