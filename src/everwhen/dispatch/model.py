"""What the hot path reads and writes.

The rows of which every run has one are structs: to make a frozen dataclass takes five times as long.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

DEADLINE_GRACE_SECONDS: Final = 5.0
"""How long after its execution time-out an attempt may still report: the worker enforces the time-out first."""

MOST_ATTEMPTS: Final = 10_000
"""How often a run is handed out at most. Attempts that were given back cost no retry, but somewhere there is an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """A lane as the claim locked it."""

    tenant_id: UUID
    queue: str
    weight: int
    virtual_time: float
    max_in_flight: int | None
    is_limited: bool
    has_tenant_limit: bool
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLaneRow:
    """A lane of any tenant as the claim locked it; without a tenant there is none.

    `following`, the same in every row, is the tenant behind whom the next claim begins to look; None: all were seen.
    """

    following: UUID | None
    tenant_id: UUID | None
    queue: str | None
    weight: int | None
    virtual_time: float | None
    max_in_flight: int | None
    is_limited: bool | None
    has_tenant_limit: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTenant:
    """A tenant with a limit; `is_held`: no other claim counts what it has in flight until this one ends."""

    tenant_id: UUID
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLoad:
    """How many runs of a tenant may be in flight (None: as many as there are), and how many are."""

    tenant_id: UUID
    most: int | None
    in_flight: int

    @property
    def room(self) -> int | None:
        """How many more may begin."""
        return None if self.most is None else max(0, self.most - self.in_flight)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOf:
    """A tenant's line at a queue."""

    tenant_id: UUID
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """How many leases a lane has open."""

    tenant_id: UUID
    queue: str
    in_flight: int


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a worker's hands, with what the worker needs to know; `input`, `stands_for` and
    `resources`, which it takes of its worker's, are JSON text.

    `is_limited`: its task says that not all of its runs may be under way at once, or begin at once. `is_stale`: there
    is a limit of which the claim did not know. `has_old`: something in the lines of the claim has grown old.
    """

    tenant_id: UUID
    run_id: UUID
    task: str
    queue: str
    priority: int
    attempt: int
    lease_token: int
    lease_until: datetime
    claimed_at: datetime
    deadline_at: datetime | None
    nominal_at: datetime | None
    due_at: datetime
    input: str
    stands_for: str | None
    schedule: str | None
    max_attempts: int
    total_deadline_at: datetime | None
    is_limited: bool
    resources: str | None
    is_stale: bool
    has_old: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRow:
    """Where a run stands that a claim named. Without a queue it is in no line."""

    run_id: UUID
    queue: str | None
    task: str | None
    available_at: datetime | None
    expires_at: datetime | None
    is_parked: bool
    is_held: bool
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A lease that was renewed, and whether its run shall stop."""

    run_id: UUID
    lease_token: int
    lease_until: datetime
    cancel_requested: bool


class HeldLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease as it stands, locked: what a report is decided upon. `retry` is the task's policy as JSON text.

    The policy and the deadline are there only where the report is judged by them. `due_at` is there only where the task
    limits its runs by it: by a total deadline or a maximum age for retries.
    """

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    attempt: int
    failures: int
    cancel_requested: bool
    retry: str | None
    total_deadline_seconds: float | None
    due_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredLease:
    """A lease that ran out, locked; `timed_out` when it was one of the attempt's time-outs that ended it.

    `started_at` None: its worker never said that the function had begun.
    """

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    attempt: int
    failures: int
    cancel_requested: bool
    retry: str | None
    total_deadline_seconds: float | None
    due_at: datetime | None
    timed_out: bool
    started_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueRun:
    """A run in the line that may not begin any more, locked. `due_at` None: its run is not there.

    `limit_group` says what it waited for, where that is a limit.
    """

    tenant_id: UUID
    run_id: UUID
    queue: str
    task: str
    available_at: datetime
    failures: int
    expires_at: datetime
    limit_group: str | None
    due_at: datetime | None
    retry: str | None
    total_deadline_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRenew:
    """A lease to renew, as its holder names it. `details` is JSON text; `started_at` None: not begun, or not said."""

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    details: str | None = None
    started_at: datetime | None = None
    is_zombie: bool = False


class ClosedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was closed; `followed_end` is the state that its run ended in, if it ended and is followed.

    `freed_queue` is there when its lane had a limit; `limited_task` when its lease counted for limits, with its key.
    """

    lease_token: int
    followed_end: str | None
    freed_queue: str | None
    limited_task: str | None
    limit_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A run that was moved; `followed_end` is the state that it ended in, if it ended and somebody follows that."""

    tenant_id: UUID
    run_id: UUID
    followed_end: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNow:
    """What a refused report's run is."""

    run_id: UUID
    state: str
