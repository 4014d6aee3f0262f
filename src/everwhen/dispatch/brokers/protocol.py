"""What a kind of broker has to be able to do for the relay: five calls, each bounded, each good for one connection.

The promises, which `tests/dispatch/brokers/test_conformance.py` holds every kind to:

* `connect` raises BrokerAway or returns with a connection; whoever gets BrokerAway from any call closes and connects
  anew. No call hangs: each has a time-out of its own.
* `ensure` makes a mailbox that is not there, and says so: what was told before is lost then.
* `publish` returns the ids of those messages that the broker has acknowledged as stored by its majority, and no other.
  One that is not among them may have been stored nevertheless. The same id within a short time is one message, where
  the broker can tell.
* A mailbox can be read by its own tenant alone, given the rights that docs/operate/brokers.md spells out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from everwhen.worker.brokers.notices import Notice
from everwhen.worker.protocol import Mailbox

CALL_SECONDS: Final = 5.0
"""How long one answer of a broker may take."""

ACK_WAIT_SECONDS: Final = 60.0
"""How long a consumer may keep a message without a word before another one gets it."""

MOST_DELIVERIES: Final = 20
"""How often one message is delivered before the broker leaves it be: the relay tells anew."""

KEPT_SECONDS: Final = 3_600.0
"""How long a broker keeps a message that nobody takes out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What came of a batch: the ids that were acknowledged, and the lines (tenant, queue) that have no mailbox."""

    acknowledged: frozenset[str]
    homeless: frozenset[tuple[UUID, str]] = frozenset()


class Broker(Protocol):
    """One connection to a broker, as the relay uses it."""

    def mailbox(self, tenant_id: UUID, queue: str) -> Mailbox:
        """Say where notices of this tenant's queue lie. Pure."""
        ...

    async def connect(self) -> None:
        """Connect; raise BrokerAway."""
        ...

    async def ensure(self, mailbox: Mailbox) -> bool:
        """Make the mailbox if it is not there; return whether it had to be made. Raises BrokerAway."""
        ...

    async def publish(self, batch: Sequence[Notice]) -> Published:
        """Publish all, and wait for what the broker says of each. Raises BrokerAway when it says nothing at all."""
        ...

    async def depth(self, mailbox: Mailbox) -> int:
        """Return how many messages lie there. Raises BrokerAway."""
        ...

    async def close(self) -> None:
        """Let go of the connection, in bounded time; raises nothing."""
        ...
