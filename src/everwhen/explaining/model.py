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
    unknown_tasks: list[str]


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
