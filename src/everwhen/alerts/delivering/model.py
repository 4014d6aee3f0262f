"""What sending reads and writes."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class DeliveryState(StrEnum):
    """Where a delivery is."""

    GATHERING = "gathering"  # it takes more occasions until it is due
    SENDING = "sending"  # a notifier holds its lease
    RETRYING = "retrying"  # a try failed; another follows
    DELIVERED = "delivered"
    DEAD = "dead"


class TryOutcome(StrEnum):
    """What came of a try."""

    DELIVERED = "delivered"
    FAILED = "failed"  # it may succeed later
    REFUSED = "refused"  # it never will
    ABANDONED = "abandoned"  # nobody knows: its notifier is gone, so the receiver may have it


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A delivery that this notifier is to send now, as its row and its channel's are. The texts are JSON.

    Without `kind` its channel is gone, without `is_known` its receiver is.
    """

    tenant_id: UUID
    tenant: str
    delivery_id: UUID
    channel: str
    recipient: str
    is_test: bool
    subscriptions: str
    total: int
    counts: str
    shown: str
    window_from: datetime
    window_to: datetime
    tries: int
    first_tried_at: datetime
    lease_token: int
    kind: str | None
    configuration: str | None
    channel_state: str | None
    state_reason: str | None
    is_known: bool
    is_verified: bool
    is_unsubscribed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    """A secret of a channel, sealed."""

    tenant_id: UUID
    channel: str
    name: str
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHealth:
    """A channel after what has just come of a try."""

    state: str
    refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be sent, over all tenants."""

    pending: int
    oldest_due_at: datetime | None
