"""What is read of deliveries."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """A message to one receiver. The texts are JSON."""

    delivery_id: UUID
    channel: str
    recipient: str
    state: str
    is_test: bool
    resend_of: UUID | None
    subscriptions: str
    total: int
    counts: str
    shown: str
    window_from: datetime
    window_to: datetime
    created_at: datetime
    due_at: datetime
    look_at: datetime | None
    tries: int
    finished_at: datetime | None
    response: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TryRow:
    """One try of a delivery."""

    number: int
    began_at: datetime
    ended_at: datetime | None
    outcome: str | None
    response: str | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something that happened, as a signal would have said it. `detail` is JSON text."""

    kind: str
    at: datetime
    run_id: UUID | None
    attempt: int | None
    subject: str | None
    detail: str | None
