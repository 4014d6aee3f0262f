"""What schedules look like on the wire, in both directions."""

import dataclasses
import json
from typing import Annotated, Any, Final, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue, Strict, model_validator

from everwhen.core.calendar_use import MOST_CALENDARS, CalendarUse, parse_use
from everwhen.core.calendars import Roll
from everwhen.core.flex import Flex, FlexMode, parse_flex
from everwhen.core.overlap import (
    DEFAULT_BUFFERED,
    MOST_BUFFERED,
    MOST_RUNNING,
    OnFailure,
    Overlap,
    OverlapPolicy,
)
from everwhen.core.overlap_json import parse_overlap
from everwhen.core.presets import apply_preset
from everwhen.core.streaks import MOST_FAILURES
from everwhen.core.targets import workflow_of, workflow_task
from everwhen.core.triggers import (
    Timing,
    Trigger,
    draws,
    find_seed,
    parse_fold,
    parse_gap,
    parse_trigger,
    seed_trigger,
    trigger_to_json,
)
from everwhen.core.zones import FoldPolicy, GapPolicy
from everwhen.http.fields import Instant, Name, Owner, Payload, Priority, Sentence, Tags, Utc, Wire
from everwhen.http.payloads import PayloadValue, WithPayloads
from everwhen.http.reasons import ReasonCode, ReasonSentence
from everwhen.schedules.model import RevisionAction, Schedule, ScheduleDraft, ScheduleState, Spec
from everwhen.schedules.wire_catchup import CatchUpFields, CatchUpPreviewOut, catch_up_of
from everwhen.schedules.wire_triggers import AtTrigger, Text, TriggerIn

Gap = Annotated[GapPolicy | None, Field(description="For a local time that does not exist; null: by the trigger.")]
Preset = Annotated[
    Text | None,
    Field(description="Another scheduler, such as kubernetes, whose dialect, gap and fold hold where none is named."),
]
Fold = Annotated[FoldPolicy | None, Field(description="For a local time that occurs twice; null: by the trigger.")]


UNSAVED_SEED: Final = "preview"
"""What `H` is drawn from while there is no schedule, and so no uid, yet."""


class FlexIn(Wire):
    """How far a run may be put off, so that not everything is due at once."""

    mode: FlexMode = Field(description="fixed: not at all; hash: by the schedule's uid; smooth: as it was assigned.")
    window_seconds: Annotated[int, Strict(), Field(ge=1, le=86_400)]
    offset_seconds: Annotated[int, Strict(), Field(ge=0, lt=86_400)] | None = Field(
        default=None, description="Within the window; `smooth` only, which is given it by `smooth_schedules`."
    )


class OverlapIn(Wire):
    """What becomes of a run while earlier runs of its schedule have not ended."""

    policy: OverlapPolicy
    max_running: Annotated[int, Strict(), Field(ge=1, le=MOST_RUNNING)] | None = Field(
        default=None, description="How many may be let in and not ended; null: no limit under `allow`, else one."
    )
    max_buffered: Annotated[int, Strict(), Field(ge=1, le=MOST_BUFFERED)] | None = Field(
        default=None, description=f"`buffer_all` only: how many may wait; null: {DEFAULT_BUFFERED}."
    )
    on_failure: OnFailure = Field(
        default=OnFailure.CONTINUE, description="`strict_sequential` only: whether a dead run holds the line up."
    )


Failures = Annotated[
    Annotated[int, Strict(), Field(ge=1, le=MOST_FAILURES)] | None,
    Field(description="After how many failed runs in a row it pauses itself; null: never."),
]


class CalendarsIn(Wire):
    """Which calendars have to be open, and closed, when it runs; and where it goes when they are not."""

    open: list[Text] = Field(default_factory=list[str], max_length=MOST_CALENDARS)
    closed: list[Text] = Field(default_factory=list[str], max_length=MOST_CALENDARS)
    roll: Roll = Field(default=Roll.NONE, description="none: it is excluded; else the open day it is moved to.")


class TimingIn(Wire):
    """When to fire."""

    trigger: TriggerIn
    timezone: Text = "UTC"
    preset: Preset = None
    gap: Gap = None
    fold: Fold = None
    calendars: CalendarsIn | None = None


class PreviewIn(TimingIn):
    """A timing to look ahead with, from now or from an instant."""

    count: Annotated[int, Strict(), Field(ge=1, le=100)] = 5
    catch_up: CatchUpFields | None = Field(
        default=None, description="Accepted, so that a schedule's own body can be sent."
    )
    flex: FlexIn | None = None
    since: Instant | None = Field(default=None, description="Where it would begin, in the past; null: as it says.")
    overlap: OverlapIn | None = None


class ScheduleFields(TimingIn):
    """What a schedule is, but for its name; what is left out is as by default."""

    task: Name | None = None
    workflow: Name | None = Field(default=None, description="What becomes due, instead of a task.")
    catch_up: CatchUpFields = Field(default_factory=CatchUpFields)
    flex: FlexIn | None = None
    overlap: OverlapIn | None = Field(default=None, description="Null: `allow`, runs may overlap.")
    pause_after_failures: Failures = None
    input: Payload = Field(default_factory=dict)
    priority: Priority | None = Field(default=None, description="Null: the task's.")
    tags: Tags = ()
    since: Instant | None = Field(
        default=None,
        description="Where it begins, in the past, by `catch_up.on_creation` (else `catch_up` itself); null: now.",
    )
    paused: Sentence | None = Field(
        default=None, description="Why it begins paused; null: it begins active. It is read when it is made."
    )

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.task is None) == (self.workflow is None):
            raise ValueError("name either a task or a workflow")
        return self

    @property
    def target(self) -> str:
        """What becomes due, as it stands among the tasks."""
        return self.task or workflow_task(self.workflow or "")


class ScheduleIn(ScheduleFields):
    """A schedule to make."""

    name: Name
    owner: Owner | None = Field(default=None, description="Who declares it; null: nobody, it is made by hand.")


class ScheduleReplacement(ScheduleFields):
    """What a schedule is to be from now on; what is left out becomes the default, but for its owner, which stays."""

    owner: Owner | None = Field(default=None, description="Who declares it; left out, that stays.")
    reason: Sentence | None = Field(default=None, description="Why; kept with the revision.")


class ScheduleChange(Wire):
    """The fields of a schedule to change; what is left out stays. `catch_up` is replaced as a whole.

    With a preset, the dialect, gap and fold that are left out are the preset's.
    """

    task: Name = Field(default_factory=str)
    workflow: Name = Field(default_factory=str, description="What becomes due, instead of a task.")
    trigger: TriggerIn = Field(default_factory=lambda: AtTrigger(kind="at", at=""))
    timezone: Text = Field(default_factory=str)
    preset: Preset = None
    gap: Gap = None
    fold: Fold = None
    calendars: CalendarsIn | None = None
    catch_up: CatchUpFields = Field(default_factory=CatchUpFields)
    flex: FlexIn | None = None
    overlap: OverlapIn | None = None
    pause_after_failures: Failures = None
    input: Payload = Field(default_factory=dict)
    priority: Priority | None = None
    tags: Tags = ()
    owner: Owner | None = None
    reason: Sentence | None = Field(default=None, description="Why; kept with the revision.")

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if {"task", "workflow"} <= self.model_fields_set:
            raise ValueError("name either a task or a workflow")
        return self


class PauseIn(Wire):
    """Why a schedule is paused, and until when."""

    reason: Sentence
    until: Instant | None = Field(default=None, description="When it is resumed by itself; null: by somebody.")


class ReasonIn(Wire):
    """Why something is done."""

    reason: Sentence | None = None


class ScheduleOut(WithPayloads):
    """A schedule. `next_at` is its next fire; null while it has none."""

    uid: UUID
    name: str
    state: ScheduleState
    state_reason: str | None
    paused_until: Utc | None = Field(description="When its pause ends by itself; null: not paused, or by somebody.")
    revision: int
    task: str
    workflow: str | None = Field(description="The workflow that becomes due, which `task` names with a prefix.")
    trigger: dict[str, JsonValue]
    timezone: str
    preset: str | None = Field(default=None, description="The preset that completed it; null: none, or changed since.")
    gap: GapPolicy | None
    fold: FoldPolicy | None
    calendars: dict[str, JsonValue] | None = None
    catch_up: dict[str, JsonValue]
    flex: dict[str, JsonValue] | None = None
    overlap: dict[str, JsonValue] | None = Field(default=None, description="Null: `allow`, runs may overlap.")
    pause_after_failures: int | None = None
    input: PayloadValue
    priority: int | None
    tags: list[str]
    owner: str | None = Field(description="Who declares it; null: nobody, it was made by hand.")
    next_at: Utc | None
    last_error: str | None = Field(description="Why the planner put the schedule off; null when it did not.")
    created_at: Utc
    updated_at: Utc


def schedule_out(schedule: Schedule) -> ScheduleOut:
    """Return a schedule as the wire has it."""
    return ScheduleOut(
        uid=schedule.uid,
        name=schedule.name,
        state=schedule.state,
        state_reason=schedule.state_reason,
        paused_until=schedule.paused_until,
        revision=schedule.revision,
        task=schedule.task,
        workflow=workflow_of(schedule.task),
        input=schedule.input,
        priority=schedule.priority,
        tags=schedule.tags,
        owner=schedule.owner,
        next_at=schedule.next_at,
        last_error=schedule.last_error,
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
        **json.loads(schedule.definition),
    )


class ResumedOut(ScheduleOut):
    """A schedule that was resumed, and what becomes of what the pause left behind."""

    left_behind: CatchUpPreviewOut


class FieldChange(BaseModel):
    """A field that a change gave another value; nested ones are named like `catch_up.policy`."""

    field: str
    before: JsonValue
    after: JsonValue


class RevisionOut(WithPayloads):
    """What a schedule became by one change."""

    revision: int
    action: RevisionAction
    task: str
    spec: dict[str, JsonValue]
    input: PayloadValue
    priority: int | None
    tags: list[str]
    owner: str | None
    changed_by: str
    reason: str | None
    changed_at: Utc
    tz_version: str | None = Field(description="The release of the tz database that it was made with.")
    changes: list[FieldChange] = Field(description="What differs from the revision before.")
    paused_until: Utc | None = Field(description="When the pause that it made was to end by itself.")


class FireOut(BaseModel):
    """An instant that a schedule intends: as UTC, and as its zone's clocks show it, with the offset."""

    at: Utc
    local: str
    verdict: Literal["fires", "skipped"]
    reason: ReasonCode | None
    reason_sentence: ReasonSentence
    flags: list[Literal["dst_gap", "dst_fold", "excluded", "rolled", "flexed"]]
    due_at: Utc | None = Field(description="When the run becomes due; null when that depends on the schedule's uid.")
    neighbours: int | None = Field(
        description="How many of the tenant's schedules fire in the same minute; null beyond the first ten."
    )


class TouchOut(BaseModel):
    """A clock change ahead, and how many local times it skips, moves, doubles, or leaves to one pass."""

    at: Utc
    offset_before_seconds: int
    offset_after_seconds: int
    skipped: int
    moved: int
    doubled: int
    once: int


class PreviewOut(BaseModel):
    """The next instants; `exhausted` when there are no more than these."""

    sentence: str | None = Field(description="The trigger in English, without its zone.")
    overlap: str = Field(description="What happens while earlier runs have not ended, in English.")
    fires_per_year: int
    fires_per_year_exact: bool = Field(description="False: extrapolated from the first 20,000.")
    transitions: list[TouchOut] = Field(description="Clock changes of the next two years that touch it.")
    hash_seed: str | None = Field(
        description="What `H` is drawn from: the schedule's uid, or of an unsaved one what was given, else `preview`."
    )
    neighbours_complete: bool = Field(description="False: only the first 2,000 schedules were looked at.")
    tz_version: str
    timezone: str
    gap: GapPolicy
    fold: FoldPolicy
    items: list[FireOut]
    exhausted: bool
    past: CatchUpPreviewOut | None = Field(
        default=None, description="What it would have to catch up on if it were created; null: it would begin now."
    )


class _Rule(NamedTuple):
    """A trigger and its policies."""

    trigger: Trigger
    gap: GapPolicy | None
    fold: FoldPolicy | None


_FOLLOWED: Final = ("overlap", "pause_after_failures")
_COMPLETED: Final = {"trigger", "preset", "gap", "fold"}
"""What a preset completes: once one of them changes without a preset, it is no longer the preset's."""


def timing_of(body: TimingIn) -> Timing:
    """Return the timing; raise TriggerError."""
    rule = _rule_of(_trigger_data(body.trigger), body)
    return Timing(rule.trigger, body.timezone, rule.gap, rule.fold, calendars=calendars_of(body.calendars))


def seeded(timing: Timing) -> Timing:
    """Return the timing of a schedule that has no uid yet, with a seed to draw from."""
    if not draws(timing.trigger) or find_seed(timing.trigger):
        return timing
    return dataclasses.replace(timing, trigger=seed_trigger(timing.trigger, UNSAVED_SEED))


def calendars_of(fields: CalendarsIn | None) -> CalendarUse | None:
    """Return the use of calendars; raise TriggerError."""
    return None if fields is None else parse_use(fields.model_dump(mode="json"))


def flex_of(fields: FlexIn | None) -> Flex | None:
    """Return the flex window; raise TriggerError."""
    return None if fields is None else parse_flex(fields.model_dump(exclude_none=True))


def overlap_of(fields: OverlapIn | None) -> Overlap:
    """Return the overlap policy; raise TriggerError."""
    return Overlap() if fields is None else parse_overlap(fields.model_dump(mode="json", exclude_none=True))


def draft_of(name: str, body: ScheduleFields) -> ScheduleDraft:
    """Return the draft of a schedule; raise TriggerError."""
    return ScheduleDraft(
        name=name,
        task=body.target,
        spec=Spec(
            timing=timing_of(body),
            catch_up=catch_up_of(body.catch_up),
            flex=flex_of(body.flex),
            overlap=overlap_of(body.overlap),
            pause_after_failures=body.pause_after_failures,
            preset=body.preset,
        ),
        input=body.input,
        priority=body.priority,
        tags=body.tags,
        owner=body.owner if isinstance(body, ScheduleIn | ScheduleReplacement) else None,
        since=body.since,
        paused=body.paused,
    )


def changes_of(body: ScheduleChange, spec: Spec) -> dict[str, Any]:
    """Return the fields of a draft that a change names; those of the spec are merged into the present one."""
    given = body.model_fields_set
    changes: dict[str, Any] = {
        name: getattr(body, name) for name in ("task", "input", "priority", "tags", "owner") if name in given
    }
    if "workflow" in given:
        changes["task"] = workflow_task(body.workflow)
    if given & {"trigger", "timezone", "preset", "gap", "fold", "calendars", "catch_up", "flex", *_FOLLOWED}:
        old, rule = spec.timing, _changed_rule(body, spec.timing)
        changes["spec"] = Spec(
            timing=Timing(
                rule.trigger,
                body.timezone if "timezone" in given else old.timezone,
                rule.gap,
                rule.fold,
                calendars=calendars_of(body.calendars) if "calendars" in given else old.calendars,
            ),
            catch_up=catch_up_of(body.catch_up) if "catch_up" in given else spec.catch_up,
            flex=flex_of(body.flex) if "flex" in given else spec.flex,
            overlap=overlap_of(body.overlap) if "overlap" in given else spec.overlap,
            pause_after_failures=(
                body.pause_after_failures if "pause_after_failures" in given else spec.pause_after_failures
            ),
            preset=body.preset if given & _COMPLETED else spec.preset,
        )
    return changes


def _changed_rule(body: ScheduleChange, old: Timing) -> _Rule:
    given = body.model_fields_set
    if body.preset is None:
        return _Rule(
            parse_trigger(_trigger_data(body.trigger)) if "trigger" in given else old.trigger,
            body.gap if "gap" in given else old.gap,
            body.fold if "fold" in given else old.fold,
        )
    if "trigger" in given:
        return _rule_of(_trigger_data(body.trigger), body)
    kept = trigger_to_json(old.trigger)
    kept.pop("dialect", None)  # the text stays, and is read as the preset reads it
    return _rule_of(kept, body)


def _rule_of(trigger: dict[str, Any], body: TimingIn | ScheduleChange) -> _Rule:
    found = apply_preset({"trigger": trigger, "gap": body.gap, "fold": body.fold}, body.preset)
    return _Rule(parse_trigger(found["trigger"]), parse_gap(found["gap"]), parse_fold(found["fold"]))


def _trigger_data(trigger: TriggerIn) -> dict[str, Any]:
    """Return what was sent: a preset completes what was not."""
    return trigger.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
