"""What is observed of lines, and what an explanation is made of, as it is stored."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingLine:
    """A line whose oldest due run has waited for a while, with what is seen of it."""

    tenant_id: UUID
    queue: str
    oldest_due_at: datetime
    due: int
    in_flight: int
    max_in_flight: int | None
    filled_at: datetime | None
    is_held: bool
    last_seen_at: datetime | None
    live_workers: int
    live_slots: int
    cordoned: int
    draining: int
    held_back_at: datetime | None
    unknown_tasks: list[str]
    rests_until: datetime | None
    rests_since: datetime | None
    endpoint_failures: int | None
    endpoint_error: str | None
    broker: str | None
    broker_away_since: datetime | None
    tenant_limit: int | None
    tenant_in_flight: int | None
    rate_tokens: int | None
    rate_seconds: float | None
    rate_burst: int | None
    rate_full_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneKey:
    """A line, and since when its oldest due run has waited, if one has for long enough."""

    tenant_id: UUID
    queue: str
    oldest_due_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineState:
    """What blocks a line, or a task of it, and has not ended. `facts` is JSON text."""

    tenant_id: UUID
    queue: str
    task: str
    reason: str
    since: datetime
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One of the schedules that have had a name. `updated_at` is when it was deleted, if it was."""

    uid: UUID
    state: str
    state_reason: str | None
    created_at: datetime
    updated_at: datetime
    decided_until: datetime
    failures: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """What a schedule was under one revision. `spec` is JSON text."""

    revision: int
    action: str
    task: str
    spec: str
    changed_by: str
    reason: str | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """What a task says of its runs, as it is now. `retry` is JSON text."""

    retry: str
    timeout_seconds: float | None
    heartbeat_timeout_seconds: float | None
    start_deadline_seconds: float | None
    total_deadline_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRow:
    """A recorded span. `detail` is JSON text."""

    first_at: datetime
    last_at: datetime
    instants: int
    verdict: str
    reason: str
    recorded_at: datetime
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedRow:
    """What blocked a line. `facts` is JSON text."""

    reason: str
    since: datetime
    until: datetime | None
    opened_at: datetime
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseChange:
    """A queue, or the whole tenant (`queue` empty), was paused or went on."""

    queue: str
    action: str
    reason: str | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRow:
    """A stretch in which somebody watched the lines."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AheadRow:
    """How many runs of a priority are ahead of one."""

    priority: int
    ahead: int
