"""What the sentinel notices, and what it keeps."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID


class FindingKind(StrEnum):
    """What can be amiss."""

    SCHEDULE_OVERDUE = "schedule.overdue"
    SCHEDULE_PUT_OFF = "schedule.put_off"
    GATE_STANDING_STILL = "gate.standing_still"
    CATCH_UP_STANDING_STILL = "catch_up.standing_still"
    OPERATION_STANDING_STILL = "operation.standing_still"
    WORKFLOW_STANDING_STILL = "workflow.standing_still"
    LINE_WAITING = "line.waiting"
    LINE_UNATTENDED = "line.unattended"
    LEASES_UNREAPED = "leases.unreaped"
    RUNS_UNEXPIRED = "runs.unexpired"
    ALERTS_STANDING_STILL = "alerts.standing_still"
    CHANNEL_DISABLED = "channel.disabled"


MEANINGS: Final = {
    FindingKind.SCHEDULE_OVERDUE: ("Nobody has planned a schedule that had to be.", "Is a scheduler running?"),
    FindingKind.SCHEDULE_PUT_OFF: ("A schedule cannot be planned, and was put off.", "Read its last error."),
    FindingKind.GATE_STANDING_STILL: (
        "Runs wait behind their schedule's gate, and nobody decides about them.",
        "Is a gatekeeper running?",
    ),
    FindingKind.CATCH_UP_STANDING_STILL: (
        "A schedule has instants to catch up on, and nobody does.",
        "Is a scheduler running? Else read its last error.",
    ),
    FindingKind.OPERATION_STANDING_STILL: ("An operation does not go on.", "Is an operator running?"),
    FindingKind.WORKFLOW_STANDING_STILL: (
        "Runs of a workflow wait to be moved on, and nobody does.",
        "Is a conductor running? Else read its log.",
    ),
    FindingKind.LINE_WAITING: (
        "Due runs of a queue wait for longer than they should.",
        "Add workers, or raise limits.",
    ),
    FindingKind.LINE_UNATTENDED: ("Runs of a queue are due, and no worker asks for them.", "Start a worker for it."),
    FindingKind.LEASES_UNREAPED: ("Leases of a queue ran out, and nobody closed them.", "Is a reaper running?"),
    FindingKind.RUNS_UNEXPIRED: (
        "Runs of a queue are past their start deadline, and nobody ended them.",
        "Is a reaper running?",
    ),
    FindingKind.ALERTS_STANDING_STILL: (
        "Alerts of a channel are due, or what happened is to be told, and nobody does.",
        "Is a notifier running?",
    ),
    FindingKind.CHANNEL_DISABLED: (
        "A channel refused what it was sent, and was disabled.",
        "Read its last error, mend it, then enable it.",
    ),
}
"""Each kind's sentence, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that is amiss now. `subject` is the schedule's name or the queue; `detail` is JSON text."""

    tenant_id: UUID
    subject: str
    since: datetime
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    """A line whose oldest due run waits for too long; `is_unattended` says that no worker asks for its runs."""

    tenant_id: UUID
    subject: str
    since: datetime
    detail: str
    is_unattended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is, or was, amiss."""

    finding_id: int
    tenant: str
    kind: str
    subject: str
    since: datetime
    opened_at: datetime
    seen_at: datetime
    closed_at: datetime | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """The instants since which planning and claiming are late; None or ahead: they are not."""

    next_look_at: datetime | None
    oldest_due_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCount:
    """How many findings of a kind are open."""

    kind: str
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSchedule:
    """A schedule whose punctuality is counted: how far it was, and how far it may be."""

    tenant_id: UUID
    schedule_uid: UUID
    objective_seconds: float
    measured_until: datetime
    decided_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When a run of a schedule was due and when it first started; None: not yet, or never.

    `counts` is false for what a policy or a person kept from running: it was neither on time nor late.
    """

    tenant_id: UUID
    schedule_uid: UUID
    due_at: datetime
    started_at: datetime | None
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedSpan:
    """Instants that were missed and stand in one row."""

    tenant_id: UUID
    schedule_uid: UUID
    first_at: datetime
    instants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """How late a schedule's starts may be (None: the default), how far they are counted, how often it was set."""

    objective_seconds: float | None
    measured_until: datetime
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedDay:
    """What a page of starts adds to one day of a schedule."""

    tenant_id: UUID
    schedule_uid: UUID
    day: date
    on_time: int
    late: int
    buckets: list[int]
