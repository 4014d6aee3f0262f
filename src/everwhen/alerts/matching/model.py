"""What the matching reads and writes."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Something that happened and that somebody listens for. `detail` is JSON text."""

    tenant_id: UUID
    signal_id: int
    kind: str
    at: datetime
    run_id: UUID | None
    attempt: int | None
    subject: str | None
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A tenant whose signals are matched now, and its name."""

    tenant_id: UUID
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A subscription in force, and where it sends to."""

    tenant_id: UUID
    name: str
    scope: str
    target: str | None
    kinds: list[str]
    filter: str
    after_failures: int
    pierces: bool
    channels: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is told of a run."""

    tenant_id: UUID
    run_id: UUID
    task: str
    queue: str
    source: str
    nominal_at: datetime | None
    due_at: datetime
    schedule_uid: UUID | None
    schedule: str | None
    zone: str | None
    workflow: str | None
    reason: str | None
    attempts: int | None
    most_attempts: int | None
    fingerprint: str | None
    error: str | None
    tags: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastEnd:
    """How a run before another one of its row ended."""

    tenant_id: UUID
    before_run_id: UUID
    run_id: UUID
    state: str
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """What is told of a schedule."""

    tenant_id: UUID
    uid: UUID
    name: str
    task: str
    zone: str | None
    tags: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutletState:
    """A receiver, locked: its pace, its channel's manner, and what gathers for it. `quiet` is JSON text."""

    tenant_id: UUID
    channel: str
    recipient: str
    opens_at: datetime | None
    urgent_opens_at: datetime | None
    allowance: datetime | None
    gathering: UUID | None
    urgent_gathering: UUID | None
    window_seconds: float
    messages_an_hour: int | None
    quiet: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldKey:
    """A receiver that has now been told of an occasion, by this delivery."""

    tenant_id: UUID
    channel: str
    recipient: str
    occasion_id: UUID
    delivery_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """A message that still takes occasions. The texts are JSON."""

    tenant_id: UUID
    delivery_id: UUID
    subscriptions: str
    total: int
    counts: str
    shown: str
    window_from: datetime
    window_to: datetime
