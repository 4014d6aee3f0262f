"""What an explanation looks like on the wire."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, cast
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue

from everwhen.core.lifecycle import RunState
from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Category, Severity
from everwhen.explaining.service import Explanation, Said
from everwhen.http.fields import Utc
from everwhen.http.reasons import ReasonCode

MOST_REFS: Final = 20


class RefOut(BaseModel):
    """Something that a reason is about, by its kind and name."""

    kind: str = Field(description="`queue`, `task`, `worker`, `attempt`, `calendar` or `run`.")
    name: str


class SegmentOut(BaseModel):
    """A stretch of time, and why it was spent so."""

    since: Utc = Field(alias="from", serialization_alias="from")
    until: Utc = Field(alias="to", serialization_alias="to")
    seconds: float
    reason: ReasonCode
    category: Category | None = Field(description="Null for a code of a newer release.")
    severity: Severity | None
    sentence: str
    numbers: dict[str, JsonValue]
    refs: list[RefOut]


class RemedyOut(BaseModel):
    """What a person can do about a reason: in words, as a command, and the path of what it is about."""

    reason: ReasonCode
    text: str
    action: str | None
    href: str | None


class PolicyOut(BaseModel):
    """The rules that were in force: those of the schedule's revision, and the task's as they are now."""

    revision: int | None
    changed_at: Utc | None
    changed_by: str | None
    schedule: dict[str, JsonValue]
    task: dict[str, JsonValue]


class SpanOut(BaseModel):
    """The recorded span that the instant is one of."""

    first_at: Utc
    last_at: Utc
    instants: int


class ExplanationOut(BaseModel):
    """Why a run started when it did, or why there is none. The segments' durations sum to the lateness exactly."""

    ref: str
    run_id: UUID | None = Field(description="Null where nothing ran.")
    headline: str
    state: RunState | None = Field(description="Null for an instant that the schedule never intended.")
    reason: ReasonCode | None
    category: Category | None
    schedule: str | None
    task: str | None
    queue: str | None
    attempts: int
    intended_at: Utc
    intended_local: str
    until: Utc = Field(description="Where the segments end: `started_at`, else the run's end, or `evaluated_at`.")
    started_at: Utc | None = Field(description="The claim of the last attempt; null without one, or while it rests.")
    lateness_seconds: float
    segments: list[SegmentOut]
    also_blocking: list[SegmentOut] = Field(description="What else blocked it meanwhile.")
    policy_in_force: PolicyOut
    remedies: list[RemedyOut]
    span: SpanOut | None
    before: Utc | None = Field(description="The schedule's own instant before one that it does not intend.")
    after: Utc | None
    evaluated_at: Utc
    complete: bool = Field(description="False: something may have blocked it that nobody saw.")


def explanation_out(told: Explanation) -> ExplanationOut:
    """Return an explanation as the wire has it."""
    meaning = None if told.reason is None else MEANINGS.get(told.reason)
    local = told.intended_at.astimezone(timezone(told.offset))
    return ExplanationOut(
        ref=told.ref,
        run_id=told.run_id,
        headline=told.headline,
        state=told.state,
        reason=told.reason,
        category=None if meaning is None else meaning.category,
        schedule=told.schedule,
        task=told.task,
        queue=told.queue,
        attempts=told.attempts,
        intended_at=told.intended_at,
        intended_local=local.isoformat(),
        until=told.until,
        started_at=told.started_at,
        lateness_seconds=_seconds(told.until - told.intended_at),
        segments=[_segment(each) for each in told.segments],
        also_blocking=[_segment(each) for each in told.also],
        policy_in_force=PolicyOut(**told.policy),
        remedies=[
            RemedyOut(reason=each.reason, text=each.text, action=each.action, href=each.href) for each in told.remedies
        ],
        span=told.span and SpanOut(first_at=told.span.first_at, last_at=told.span.last_at, instants=told.span.instants),
        before=told.before,
        after=told.after,
        evaluated_at=told.evaluated_at,
        complete=told.is_complete,
    )


def _segment(said: Said) -> SegmentOut:
    segment = said.segment
    meaning = MEANINGS.get(segment.reason)
    return SegmentOut.model_validate({
        "from": segment.since,
        "to": segment.until,
        "seconds": _seconds(segment.duration),
        "reason": segment.reason,
        "category": None if meaning is None else meaning.category,
        "severity": None if meaning is None else meaning.severity,
        "sentence": said.sentence,
        "numbers": {name: _json(value) for name, value in segment.facts.items() if name not in _KINDS},
        "refs": list(_refs(segment.facts))[:MOST_REFS],
    })  # fmt: skip


_KINDS: Final[Mapping[str, str]] = {
    "queue": "queue",
    "task": "task",
    "worker": "worker",
    "attempt": "attempt",
    "calendar": "calendar",
    "run": "run",
    "runs": "run",
    "into": "run",
    "blocked_by": "run",
}


def _refs(facts: Mapping[str, Any]) -> Iterator[RefOut]:
    for name, kind in _KINDS.items():
        value: Any = facts.get(name)
        values: Sequence[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
        yield from (RefOut(kind=kind, name=str(each)) for each in values if each is not None)


def _json(value: Any) -> JsonValue:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def _seconds(span: timedelta) -> float:
    return span.total_seconds()
