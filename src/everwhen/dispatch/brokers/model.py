"""What the relay reads and writes."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from everwhen.worker.brokers.notices import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokeredLine:
    """A line whose queue a broker delivers: how many runs are told of, how many may be, and when one is due next."""

    tenant_id: UUID
    queue: str
    broker: str
    window: int
    told: int
    is_paused: bool
    next_due: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A run's attempt that is this relay's to announce."""

    tenant_id: UUID
    run_id: UUID
    queue: str
    broker: str
    attempt: int
    told_at: datetime

    @property
    def notice(self) -> Notice:
        """Return the message."""
        return Notice(
            tenant_id=self.tenant_id,
            queue=self.queue,
            run_id=self.run_id,
            attempt=self.attempt,
            told_at=self.told_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Telling):
    """One that was told before; not to be told again unless it still waits."""

    still_waits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineKey:
    """A line, and the broker that its queue is delivered by."""

    tenant_id: UUID
    queue: str
    broker: str
