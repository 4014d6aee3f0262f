"""What the hot path reads and writes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

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


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """How many leases a lane has open."""

    tenant_id: UUID
    queue: str
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A run in a worker's hands, with what the worker needs to know; `input` is JSON text."""

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
    schedule: str | None
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A lease that was renewed, and whether its run shall stop."""

    run_id: UUID
    lease_token: int
    lease_until: datetime
    cancel_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A lease as it stands, locked: what a report is decided upon. `retry` is the task's policy as JSON text."""

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    attempt: int
    failures: int
    cancel_requested: bool
    retry: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredLease:
    """A lease that ran out, locked; `timed_out` when it was the attempt's time-out that ended it."""

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    attempt: int
    failures: int
    cancel_requested: bool
    retry: str | None
    timed_out: bool


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
