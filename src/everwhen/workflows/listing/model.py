"""A workflow's run in a list."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from everwhen.runs.service import RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """As much of a run as a filter checks. Without a state it has vanished while it was read."""

    run_id: UUID
    task: str
    source: str
    due_at: datetime
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a run is by, once it has started."""

    run_id: UUID
    version: int
    generation: int
    rerun_of: UUID | None
    started_at: datetime | None
    deadline_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRunItem:
    """A run, and what it is by; None until it has started."""

    run: RunView
    begun: Begun | None
