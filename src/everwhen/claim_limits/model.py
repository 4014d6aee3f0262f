"""What limits at the claim read and write."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from everwhen.core.claim_limits import Rate, rate_of

TaskKey = tuple[UUID, str]
"""A tenant's task."""


class CandidateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A due run, locked. `limit_key` None: its task has no limit; empty: it makes no key. `requires` is JSON text.

    `is_old`: it has waited for so long that it goes before all that are not, whatever their priority.
    """

    tenant_id: UUID
    queue: str
    task: str
    priority: int
    available_at: datetime
    run_id: UUID
    limit_group: str | None
    is_old: bool
    place: str
    limit_key: str | None
    requires: str | None

    @property
    def rank(self) -> tuple[bool, int, datetime, UUID]:
        """Its place in the order of its line."""
        return not self.is_old, 0 if self.is_old else -self.priority, self.available_at, self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimit:
    """The limits of a task, locked."""

    tenant_id: UUID
    task: str
    queue: str
    max_in_flight: int | None
    rate_tokens: int | None
    rate_seconds: float | None
    rate_burst: int | None
    rate_full_at: datetime | None
    has_keys: bool
    key_max_in_flight: int | None
    key_rate_tokens: int | None
    key_rate_seconds: float | None
    key_rate_burst: int | None
    key_version: int
    has_parked: bool
    release_at: datetime | None
    adopts_until: datetime | None
    requires: str | None

    @property
    def key(self) -> TaskKey:
        """Whose they are."""
        return self.tenant_id, self.task

    @property
    def rate(self) -> Rate | None:
        """How many of its runs may begin in a stretch of time."""
        return rate_of(self.rate_tokens, self.rate_seconds, self.rate_burst)

    @property
    def key_rate(self) -> Rate | None:
        """The same for each key."""
        return rate_of(self.key_rate_tokens, self.key_rate_seconds, self.key_rate_burst)

    @property
    def prefix(self) -> str:
        """How the keys begin that it makes now."""
        return f"{self.key_version}:" if self.has_keys else ""

    @property
    def is_over(self) -> bool:
        """Say whether the task has no limit any more."""
        return self.max_in_flight is None and self.rate_tokens is None and not self.has_keys and self.requires is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingTask:
    """A task of which runs are parked that fit a worker; `requires` is JSON text."""

    tenant_id: UUID
    task: str
    requires: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOf:
    """A tenant's task, by name."""

    tenant_id: UUID
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is in flight of a task, or of one of its keys, and how many runs stand in the line that were let go."""

    tenant_id: UUID
    task: str
    limit_key: str | None
    in_flight: int
    offered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRate:
    """The bucket of a key."""

    tenant_id: UUID
    task: str
    limit_key: str
    full_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRun:
    """A run that was let go, and what it had waited for."""

    tenant_id: UUID
    queue: str
    task: str
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOf:
    """A tenant's line at a queue."""

    tenant_id: UUID
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRun:
    """A run that is parked, the limits of its task and its keys, and what is in flight by them."""

    task: str
    limit_group: str
    parked_at: datetime | None
    max_in_flight: int | None
    key_max_in_flight: int | None
    rate_tokens: int | None
    rate_seconds: float | None
    key_rate_tokens: int | None
    key_rate_seconds: float | None
    release_at: datetime | None
    requires: str | None
    in_flight: int
    key_in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRate:
    """How fast runs of a line may begin, and its bucket; `full_at` None: it is full."""

    tenant_id: UUID
    queue: str
    rate_tokens: int
    rate_seconds: float
    rate_burst: int
    full_at: datetime | None

    @property
    def rate(self) -> Rate:
        """The rate."""
        return Rate(tokens=self.rate_tokens, seconds=self.rate_seconds, burst=self.rate_burst)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineLimits:
    """What limits a line: its own limit, its tenant's, and its rate with its bucket; None: nothing does."""

    queue: str
    max_in_flight: int | None
    in_flight: int
    tenant_limit: int | None
    tenant_in_flight: int | None
    rate_tokens: int | None
    rate_seconds: float | None
    rate_burst: int | None
    full_at: datetime | None

    @property
    def rate(self) -> Rate | None:
        """How fast its runs may begin."""
        return rate_of(self.rate_tokens, self.rate_seconds, self.rate_burst)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullLine:
    """A line that is shut by a limit, and which one."""

    tenant_id: UUID
    queue: str
    reason: str
