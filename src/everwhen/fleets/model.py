"""A worker as it is stored, and the numbers of a queue's fleet."""

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from everwhen.core.fleets import Wish, WorkerState, state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What a worker says of itself when it starts. `tasks` None: it takes any."""

    instance: UUID
    name: str
    sdk: str | None
    version: str | None
    host: str | None
    pid: int | None
    slots: int
    tasks: list[str] | None
    queues: list[str]
    labels: dict[str, str]
    resources: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a worker says every few seconds."""

    instance: UUID
    held: int
    in_use: dict[str, float]
    heard: Wish
    is_stopping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a worker is told in return."""

    worker_id: UUID
    wish: str
    exits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker as it is known. `labels`, `resources` and `in_use` are JSON text."""

    worker_id: UUID
    name: str
    sdk: str | None
    version: str | None
    host: str | None
    pid: int | None
    slots: int
    tasks: list[str] | None
    queues: list[str]
    labels: str
    resources: str
    in_use: str
    announced_at: datetime
    last_seen_at: datetime
    held: int
    heard: str
    is_stopping: bool
    wish: str
    exits: bool
    wished_by: str | None
    wished_why: str | None
    wished_at: datetime | None

    def state(self, now: datetime) -> WorkerState:
        """Return what it is at an instant."""
        return state_of(
            wish=Wish(self.wish),
            heard=Wish(self.heard),
            held=self.held,
            is_stopping=self.is_stopping,
            last_seen_at=self.last_seen_at,
            now=now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker, and what it is now."""

    row: WorkerRow
    state: WorkerState

    @property
    def labels(self) -> dict[str, str]:
        """Return its labels."""
        return json.loads(self.row.labels)

    @property
    def resources(self) -> dict[str, float]:
        """Return what it has."""
        return json.loads(self.row.resources)

    @property
    def in_use(self) -> dict[str, float]:
        """Return what its runs take of that."""
        return json.loads(self.row.in_use)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRow:
    """A live worker of a queue, as far as a run that waits has to do with it; JSON as text."""

    tasks: list[str] | None
    labels: str
    resources: str
    in_use: str
    slots: int
    held: int
    wish: str
    is_stopping: bool

    @property
    def is_draining(self) -> bool:
        """Whether it will end, or be empty."""
        return self.is_stopping or self.wish == Wish.DRAINING

    @property
    def is_taking(self) -> bool:
        """Whether nothing holds it back."""
        return not self.is_stopping and self.wish == Wish.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """For want of what runs of a task wait in a line."""

    tenant_id: UUID
    queue: str
    task: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """A run that is leased to a worker of this name."""

    tenant_id: UUID
    run_id: UUID
    task: str
    queue: str
    attempt: int
    claimed_at: datetime
    started_at: datetime | None
    lease_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Those who work at a queue, the platform's among them: live ones, how many of them take runs, and their slots."""

    queue: str
    live: int
    taking: int
    slots: int
    held: int
    last_seen_at: datetime | None

    @property
    def free(self) -> int:
        """How many more runs those take that take any."""
        return max(0, self.slots - self.held)
