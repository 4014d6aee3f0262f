"""A queue: where a tenant's runs wait for a fleet, with what the tenant and the platform say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from everwhen.core.filters import Moment, Vocabulary, Word, within

AGEING_SECONDS: Final = 3_600.0
"""How long a run waits, by default, for each priority that it lies below the highest, before it counts as old."""


class DeliveryKind(StrEnum):
    """How the runs of a queue come to its fleet; each has a line in `deliveries.DELIVERIES`."""

    PULL = "pull"
    NATS = "nats"
    RABBITMQ = "rabbitmq"


QUEUES: Final = Vocabulary(
    fields={
        "tag": Word(),
        "owner": Word(),
        "delivery": Word(choices=frozenset(DeliveryKind)),
        "updated": Moment(),
    },
    short=within("updated"),
)
"""What a filter of queues says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many runs begin in so many seconds at most, and so many at once after a rest."""

    tokens: int
    seconds: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDraft:
    """What a tenant decides about one of its queues. `owner` counts where `has_owner` is set; else it stays."""

    max_in_flight: int | None = None
    rate: Rate | None = None
    delivery: DeliveryKind = DeliveryKind.PULL
    delivery_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ageing_seconds: float | None = AGEING_SECONDS
    tags: tuple[str, ...] = ()
    owner: str | None = None
    has_owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue as it is now. One that is not defined is as by default, and at the revision 0 if it never was.

    `delivery_settings` is JSON text. `limit` is what holds for the tenant's runs that are in flight at once.
    """

    name: str
    is_defined: bool
    max_in_flight: int | None
    rate_tokens: int | None
    rate_seconds: float | None
    rate_burst: int | None
    delivery: str
    delivery_settings: str
    ageing_seconds: float | None
    tags: list[str]
    owner: str | None
    revision: int
    created_at: datetime | None
    updated_at: datetime | None
    weight: int
    share_max_in_flight: int | None
    limit: int | None
    has_endpoint: bool

    @property
    def rate(self) -> Rate | None:
        """How fast runs begin at most."""
        if self.rate_tokens is None or self.rate_seconds is None or self.rate_burst is None:
            return None
        return Rate(tokens=self.rate_tokens, seconds=self.rate_seconds, burst=self.rate_burst)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """A tenant's place at a queue that tenants share, as the platform says; at the revision 0 it never did."""

    weight: int
    max_in_flight: int | None
    revision: int
    changed_by: str | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """What stands in a line, counted up to a bound. `blockages` is JSON text: what the observer has noted of it."""

    queue: str
    waiting: int
    oldest_due_at: datetime | None
    in_flight: int
    is_paused: bool
    last_asked_at: datetime | None
    workers: int
    slots: int
    free_slots: int
    held_back: int
    blockages: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceRow:
    """How long the attempts of a queue took that were among the latest of its tenant."""

    queue: str
    mean_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What stands in a line now. `is_capped`: more is waiting than was counted.

    `tenant_limit` and `tenant_in_flight` are of all lines of the tenant together; `rate` is how fast runs may begin,
    as `why` tells it, with what is left.
    """

    waiting: int
    is_capped: bool
    oldest_due_at: datetime | None
    in_flight: int
    limit: int | None
    tenant_limit: int | None
    tenant_in_flight: int | None
    rate: Mapping[str, Any] | None
    is_paused: bool
    last_asked_at: datetime | None
    workers: int
    slots: int
    free_slots: int
    held_back: int
    blockages: list[Mapping[str, Any]]
    mean_seconds: float | None
    drain_seconds: float | None

    @property
    def reasons(self) -> list[str]:
        """Return what keeps its runs waiting, each reason once."""
        return sorted({each["reason"] for each in self.blockages})
