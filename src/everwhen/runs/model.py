"""A run: the durable record of one intended execution, with its attempts and events."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from everwhen.core.ids import SOURCE_SCHEDULE
from everwhen.core.lifecycle import RunState, resting_state
from everwhen.core.overlap import OverlapWish


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run and wherever its row is at present: in the line, behind a gate, under a lease, or ended.

    `is_held` until its schedule's gate lets it in; once it is due, `reason` is why it waits there since
    `waits_since`, and `blocked_by` the runs that it waits for. `reason_facts` are the numbers of what blocks the whole
    line that it waits in, JSON as text. `origin_run_id` is the run that it was made from,
    `redriven_as` the run that was last made from it, `letter` what somebody has done about a dead one.
    """

    run_id: UUID
    schedule_uid: UUID | None
    schedule: str | None
    schedule_revision: int | None
    source: str
    task: str
    queue: str
    priority: int
    nominal_at: datetime | None
    utc_offset_seconds: int | None
    due_at: datetime
    planned_at: datetime
    expires_at: datetime | None
    tz_version: str | None
    input: str
    origin_run_id: UUID | None
    operation_id: UUID | None
    redriven_as: UUID | None
    letter: str | None
    fingerprint: str | None
    stands_for: str | None
    available_at: datetime | None
    failures: int | None
    worker: str | None
    claimed_at: datetime | None
    lease_until: datetime | None
    cancel_requested_at: datetime | None
    ended_state: str | None
    reason: str | None
    finished_at: datetime | None
    attempts: int
    is_held: bool
    blocked_by: list[UUID] | None
    waits_since: datetime | None
    reason_facts: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a run; without an outcome it is the one under way. `error` and `result` are JSON text.

    `fingerprint` is equal for attempts that ended alike; None for those that did well.
    """

    attempt: int
    worker: str
    claimed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    outcome: str | None
    reason: str | None
    error: str | None
    result: str | None
    fingerprint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastError:
    """How a run's last attempt that did not do well ended; `kind` and `message` are None where it left no error."""

    attempt: int
    outcome: str
    kind: str | None
    message: str | None
    fingerprint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One decision about a run. `detail` is JSON text."""

    event_id: int
    at: datetime
    kind: str
    attempt: int | None
    reason: str | None
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTarget:
    """What a schedule would run: for running it by hand. `input` is JSON text."""

    uid: UUID
    revision: int
    task: str
    input: str
    priority: int | None
    is_followed: bool
    is_gated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The queue of a task, and whether its tenant may have one more run (`granted`), of `most` a day."""

    queue: str
    granted: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinedUp:
    """A run that has its place in the line of a queue."""

    run_id: UUID
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a caller asks for: a task's run or a schedule's, now (`at` None) or at an instant.

    `input` counts only when `has_input`: a schedule has one of its own. `overlap` is about the schedule's other runs.
    """

    task: str | None = None
    schedule: str | None = None
    input: Any = field(default_factory=dict[str, Any])
    has_input: bool = False
    priority: int | None = None
    at: datetime | None = None
    overlap: OverlapWish = OverlapWish.RESPECT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs; what is None does not count. `due_*` bound the instant in the id, `ended_*` that of the end.

    `fingerprint` '' stands for dead runs without one; `planned_before` counts for runs that have not ended.
    """

    schedule: str | None = None
    task: str | None = None
    state: RunState | None = None
    source: str | None = None
    reason: str | None = None
    fingerprint: str | None = None
    letter: str | None = None
    operation_id: UUID | None = None
    origin_run_id: UUID | None = None
    due_from: datetime | None = None
    due_before: datetime | None = None
    ended_from: datetime | None = None
    ended_before: datetime | None = None
    planned_before: datetime | None = None


def state_of(row: RunRow, *, now: datetime) -> RunState | None:
    """Name a run's state; None when it was withdrawn while it was read."""
    if row.ended_state is not None:
        return RunState(row.ended_state)
    if row.claimed_at is not None:
        return RunState.RUNNING
    if row.available_at is None:
        return None
    return resting_state(available_at=row.available_at, failures=row.failures or 0, now=now)


def nominal_local(row: RunRow) -> datetime | None:
    """The nominal instant as its schedule's clock showed it, in its pass of a fold."""
    if row.nominal_at is None or row.utc_offset_seconds is None:
        return None
    return row.nominal_at.astimezone(timezone(timedelta(seconds=row.utc_offset_seconds)))


def ref_of(row: RunRow) -> str | None:
    """Return `schedule@local-time+offset`, the name of an intended run; None for one that no schedule intends.

    A redrive or a backfill has the instant of the run that it stands in for, and not its name.
    """
    local = nominal_local(row)
    if local is None or row.schedule is None or row.source != SOURCE_SCHEDULE:
        return None
    plain = local.second == 0 and local.microsecond == 0
    return f"{row.schedule}@{local.isoformat(timespec='minutes') if plain else local.isoformat()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailedEvent:
    """An event with as much of its run as a person needs to recognise it."""

    event_id: int
    at: datetime
    kind: str
    attempt: int | None
    reason: str | None
    run_id: UUID
    task: str
    schedule: str | None
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAhead:
    """A run that its schedule planned and that is not due yet; `is_ended` when somebody has cancelled it."""

    schedule_uid: UUID
    run_id: UUID
    is_ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an instant: the state of a run of it, `live` when that has not ended, `redriven` when it was."""

    nominal_at: datetime
    outcome: str
