"""A task of the task service: a schedule of ours, by the id that its user gave it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from everwhen.core.task_status import RunOutcome, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTask:
    """A task as it is stored. `cron` is empty for one that runs once, at `run_at`."""

    id: UUID
    owner: str
    dedup_id: str
    schedule_uid: UUID | None
    cron: str
    run_at: datetime | None
    delay_seconds: float | None
    priority: int
    digest: str
    payload_name: str | None
    is_enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None

    @property
    def schedule(self) -> str:
        """The name of its schedule."""
        return f"task-{self.id.hex}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a user says of a task, without its payload. What is None was not said.

    `cron` '' is once: after `delay`, at `timestamp`, or now.
    """

    cron: str | None = None
    delay: timedelta | None = None
    timestamp: datetime | None = None
    priority: int | None = None

    @property
    def names_an_instant(self) -> bool:
        """Whether it says when to run once."""
        return self.delay is not None or self.timestamp is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One run of a task, as its history tells it."""

    run_id: UUID
    scheduled_at: datetime
    outcome: RunOutcome
    reason: str | None
    claimed_at: datetime | None
    finished_at: datetime | None
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task with how it stands, and the newest of its history."""

    task: ServiceTask
    status: TaskStatus
    next_at: datetime | None
    history: list[TaskRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What a post came to: whether the task is new, and if not, what was said otherwise and does not count."""

    view: TaskView
    is_new: bool
    ignored: list[str]
