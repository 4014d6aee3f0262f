"""A line whose queue a broker delivers, a broker in memory that can be told to fail, and a relay between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from everwhen.dispatch.brokers.link import Link
from everwhen.dispatch.brokers.protocol import Published
from everwhen.dispatch.brokers.relay import Relay
from everwhen.postgres.pool import Database
from everwhen.worker.brokers.inbox import BrokerAway
from everwhen.worker.brokers.notices import Notice
from everwhen.worker.protocol import Mailbox
from tests.dispatch.scene import LINE, Line, rows


@dataclass
class MemoryBroker:
    """Keeps what it is given. `is_away`: nothing works; `takes` None: everything, else how many of each batch."""

    kind: str = "nats"
    is_away: bool = False
    takes: int | None = None
    mailboxes: set[str] = field(default_factory=set)
    messages: list[Notice] = field(default_factory=list)
    connections: int = 0
    calls: int = 0

    def mailbox(self, tenant_id: UUID, queue: str) -> Mailbox:
        return Mailbox(tenant_id=tenant_id, queue=queue, broker=self.kind, name=f"{tenant_id.hex}.{queue}")

    async def connect(self) -> None:
        self._call()
        self.connections += 1

    async def ensure(self, mailbox: Mailbox) -> bool:
        self._call()
        made = mailbox.name not in self.mailboxes
        self.mailboxes.add(mailbox.name)
        return made

    async def publish(self, batch: Any) -> Published:
        self._call()
        housed = [each for each in batch if self.mailbox(each.tenant_id, each.queue).name in self.mailboxes]
        taken = housed[: self.takes] if self.takes is not None else housed
        self.messages += taken
        homeless = frozenset((each.tenant_id, each.queue) for each in batch if each not in housed)
        return Published(acknowledged=frozenset(each.message_id for each in taken), homeless=homeless)

    async def depth(self, mailbox: Mailbox) -> int:
        return sum(self.mailbox(each.tenant_id, each.queue) == mailbox for each in self.messages)

    async def close(self) -> None:
        pass

    def lose_everything(self) -> None:
        """As if the stream had been deleted."""
        self.mailboxes.clear()
        self.messages.clear()

    def told(self) -> list[UUID]:
        """The runs that it was told of, in order."""
        return [each.run_id for each in self.messages]

    def _call(self) -> None:
        self.calls += 1
        if self.is_away:
            raise BrokerAway("it is not there")


def make_relay(db: Database, *brokers: MemoryBroker, **changes: Any) -> Relay:
    """A relay that talks to these."""
    return Relay(database=db, links={each.kind: link_to(each) for each in brokers}, **changes)


def link_to(broker: MemoryBroker) -> Link:
    """A link whose circuit closes at once, for tests that have no time."""
    return Link(kind=broker.kind, make=lambda: broker, first_back_off=0.0)


async def deliver_by(line: Line, broker: str = "nats", *, queue: str = LINE, settings: str = "{}") -> None:
    """Let a broker deliver a queue."""
    await rows(
        line.db,
        """insert into everwhen.queues (tenant_id, name, delivery, delivery_settings, created_at, updated_at)
           values (%s, %s, %s, %s::jsonb, now(), now())
           on conflict (tenant_id, name) do update
           set delivery = excluded.delivery, delivery_settings = excluded.delivery_settings
           returning 1""",
        line.tenant.id,
        queue,
        broker,
        settings,
    )


async def outbox(db: Database) -> Mapping[UUID, tuple[int, int, bool]]:
    """What stands there: attempt, tellings, published."""
    found = await rows(db, "select run_id, attempt, tellings, published_at is not null from everwhen.outbox")
    return {run_id: (attempt, tellings, published) for run_id, attempt, tellings, published in found}
