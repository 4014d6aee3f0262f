"""What runs look like on the wire, in both directions."""

import json
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue, model_validator

from everwhen.core.fingerprints import likeness, likeness_without_error
from everwhen.core.lifecycle import AttemptOutcome, EventKind, RunState
from everwhen.core.overlap import OverlapWish
from everwhen.core.sentences import sentence_of
from everwhen.core.targets import workflow_of, workflow_task
from everwhen.core.tellings import Voice
from everwhen.http.fields import Instant, Name, Payload, Priority, Sentence, Utc, Wire
from everwhen.http.payloads import PayloadText, PayloadValue, WithPayloads
from everwhen.http.reasons import ReasonCode, ReasonSentence
from everwhen.runs.model import Attempt, LastError, RunEvent, RunRequest, RunRow, nominal_local, ref_of
from everwhen.runs.service import RunView


class RunIn(Wire):
    """A run to make: of a task, of a workflow, or of a schedule as it is at present."""

    task: Name | None = None
    workflow: Name | None = None
    schedule: Name | None = None
    input: Payload = Field(default_factory=dict, description="Left out for a schedule: its own input.")
    priority: Priority | None = Field(default=None, description="Null: the schedule's, or the task's.")
    at: Instant | None = Field(default=None, description="When it becomes due, with its offset; null: now.")
    overlap: OverlapWish = Field(
        default=OverlapWish.RESPECT,
        description="Of a schedule with an overlap policy: respect it, wait for room whatever it says, or ignore it.",
    )

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if sum(name is not None for name in (self.task, self.workflow, self.schedule)) != 1:
            raise ValueError("name a task, a workflow or a schedule, and one of them only")
        if self.schedule is None and self.overlap is not OverlapWish.RESPECT:
            raise ValueError("overlap is about the runs of a schedule: name one")
        return self

    def request(self) -> RunRequest:
        """Return what is asked for."""
        return RunRequest(
            task=self.task if self.workflow is None else workflow_task(self.workflow),
            schedule=self.schedule,
            input=self.input,
            has_input="input" in self.model_fields_set,
            priority=self.priority,
            at=self.at,
            overlap=self.overlap,
        )


class CancelIn(Wire):
    """Why a run is cancelled."""

    reason: Sentence | None = None


class LastErrorOut(WithPayloads):
    """What a dead run died of. Errors that are alike have one fingerprint, and one sentence."""

    attempt: int
    outcome: AttemptOutcome
    type: str | None = Field(description="The error's class; null when the attempt left no error.")
    message: PayloadText
    fingerprint: str | None
    sentence: PayloadText


class StandsFor(BaseModel):
    """The instants that a coalesced run stands for: all of them counted, the oldest listed."""

    count: int
    first: Utc
    last: Utc
    instants: list[Utc]


class RunOut(WithPayloads):
    """A run. `nominal_at` is what its schedule intended, `nominal_local` the same by the schedule's clock."""

    id: UUID
    ref: str | None = Field(description="`schedule@local time with offset`, for a run that a schedule intended.")
    state: RunState
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    blocked_by: list[UUID] = Field(description="The runs, or some of them, that it waits for behind the gate.")
    waits_since: Utc | None = Field(description="Since when it waits for this reason, behind the gate or at a limit.")
    task: str
    workflow: str | None = Field(description="The workflow that it is a run of, which `task` names with a prefix.")
    queue: str
    priority: int
    schedule: str | None
    schedule_revision: int | None
    source: str
    nominal_at: Utc | None
    nominal_local: str | None
    due_at: Utc
    planned_at: Utc
    available_at: Utc | None = Field(description="When a worker may take it, while it is in the line.")
    expires_at: Utc | None = Field(description="From then on it may not start any more.")
    tz_version: str | None = Field(description="The release of the tz database that its instant was planned with.")
    claimed_at: Utc | None = Field(description="When the present attempt began, while there is one.")
    worker: str | None
    lease_until: Utc | None
    cancel_requested_at: Utc | None
    finished_at: Utc | None
    attempts: int
    last_error: LastErrorOut | None = Field(description="Of a dead run, when it alone is read; null in lists.")
    input: PayloadValue
    origin_run_id: UUID | None = Field(description="The run that this one was made from.")
    redriven_as: UUID | None = Field(description="The run that was last made from this one.")
    operation_id: UUID | None = Field(description="The bulk operation that made it.")
    letter: Literal["open", "redriven", "dismissed"] | None = Field(
        description="For a dead run: what was done about it."
    )
    fingerprint: str | None = Field(description="For a dead run: equal for errors that are alike.")
    stands_for: StandsFor | None = Field(
        default=None, description="The missed instants that this run stands for, itself among them; null: its own only."
    )


class AttemptOut(WithPayloads):
    """One try at a run; without an outcome it is under way. `started_at` is what its worker said."""

    attempt: int
    worker: str
    claimed_at: Utc
    started_at: Utc | None
    finished_at: Utc | None
    outcome: AttemptOutcome | None
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    error: PayloadValue
    result: PayloadValue
    fingerprint: str | None = Field(description="Equal for attempts that ended alike; null for those that did well.")


class EventOut(BaseModel):
    """One decision about a run."""

    id: int
    at: Utc
    kind: EventKind | str = Field(description="A newer release may know more kinds.")
    attempt: int | None
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    detail: JsonValue


class AttemptsOut(BaseModel):
    """Every attempt of a run."""

    items: list[AttemptOut]


def _sentence(row: RunRow) -> str | None:
    """Say why, with the numbers of what blocks its line; an older release's code is told as nothing."""
    if row.reason is None or row.reason_facts is None or sentence_of(row.reason) is None:
        return sentence_of(row.reason)
    return Voice().sentence(row.reason, json.loads(row.reason_facts))


def run_out(view: RunView) -> RunOut:
    """Return a run as the wire has it."""
    row, local = view.row, nominal_local(view.row)
    return RunOut(
        id=row.run_id,
        ref=ref_of(row),
        state=view.state,
        reason=row.reason,
        reason_sentence=_sentence(row),
        blocked_by=row.blocked_by or [],
        waits_since=row.waits_since,
        task=row.task,
        workflow=workflow_of(row.task),
        queue=row.queue,
        priority=row.priority,
        schedule=row.schedule,
        schedule_revision=row.schedule_revision,
        source=row.source,
        nominal_at=row.nominal_at,
        nominal_local=local and local.isoformat(),
        due_at=row.due_at,
        planned_at=row.planned_at,
        available_at=row.available_at,
        expires_at=row.expires_at,
        tz_version=row.tz_version,
        claimed_at=row.claimed_at,
        worker=row.worker,
        lease_until=row.lease_until,
        cancel_requested_at=row.cancel_requested_at,
        finished_at=row.finished_at,
        attempts=row.attempts,
        last_error=None if view.last_error is None else last_error_out(view.last_error),
        input=json.loads(row.input),
        origin_run_id=row.origin_run_id,
        redriven_as=row.redriven_as,
        operation_id=row.operation_id,
        letter=_letter(row.letter) if view.state is RunState.DEAD else None,
        fingerprint=row.fingerprint,
        stands_for=_value(row.stands_for),
    )


def _letter(stored: str | None) -> Literal["open", "redriven", "dismissed"]:
    return stored if stored == "redriven" or stored == "dismissed" else "open"  # noqa: PLR1714  # narrows the type


def last_error_out(error: LastError) -> LastErrorOut:
    """Return what a run died of as the wire has it."""
    like = likeness_without_error(error.outcome)
    if error.kind is not None:
        like = likeness(kind=error.kind, message=error.message or "")
    return LastErrorOut(
        attempt=error.attempt,
        outcome=AttemptOutcome(error.outcome),
        type=error.kind,
        message=error.message,
        fingerprint=error.fingerprint,
        sentence=like.sentence,
    )


def attempt_out(attempt: Attempt) -> AttemptOut:
    """Return an attempt as the wire has it."""
    return AttemptOut(
        attempt=attempt.attempt,
        worker=attempt.worker,
        claimed_at=attempt.claimed_at,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        outcome=None if attempt.outcome is None else AttemptOutcome(attempt.outcome),
        reason=attempt.reason,
        reason_sentence=sentence_of(attempt.reason),
        error=_value(attempt.error),
        result=_value(attempt.result),
        fingerprint=attempt.fingerprint,
    )


def event_out(event: RunEvent) -> EventOut:
    """Return an event as the wire has it."""
    return EventOut(
        id=event.event_id,
        at=event.at,
        kind=event.kind,
        attempt=event.attempt,
        reason=event.reason,
        reason_sentence=sentence_of(event.reason),
        detail=_value(event.detail),
    )


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)
