"""A schedule: trigger, policies, target and input. What is computed from it lives in `core`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any
from uuid import UUID

from everwhen.core.calendar_use import Book, parse_use, use_to_json
from everwhen.core.catchup import CatchUp, catch_up_to_json, parse_catch_up
from everwhen.core.errors import TriggerError
from everwhen.core.flex import Flex, flex_to_json, parse_flex
from everwhen.core.overlap import Overlap
from everwhen.core.overlap_json import overlap_to_json, parse_overlap
from everwhen.core.streaks import Count
from everwhen.core.triggers import (
    Timing,
    bind,
    calendar_names,
    next_after,
    parse_fold,
    parse_gap,
    parse_trigger,
    seed_trigger,
    trigger_to_json,
)
from everwhen.core.zones import ZoneSource

PARSED_SPECS = 20_000
"""How many parsed specs a process remembers: parsing costs more than planning, and specs hardly change."""


class ScheduleState(StrEnum):
    """What a schedule does at present."""

    ACTIVE = "active"
    PAUSED = "paused"  # intends nothing; its instants are recorded as skipped when it is resumed
    DELETED = "deleted"  # its row stays for its history's sake, its name is free


class RevisionAction(StrEnum):
    """What made a revision."""

    CREATED = "created"
    UPDATED = "updated"
    PAUSED = "paused"
    RESUMED = "resumed"
    RELEASED = "released"  # somebody let its line go on that a dead run held up
    REZONED = "rezoned"  # a new release of the tz database moved what was planned
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """When a schedule fires, how far its runs may be put off, and what becomes of instants that passed unseen.

    `overlap` says what becomes of a run while earlier ones have not ended; after `pause_after_failures` runs in a row
    that were planned and failed, the schedule pauses itself. `preset` names the preset that completed it; it is told,
    and decides nothing.
    """

    timing: Timing
    catch_up: CatchUp = field(default_factory=CatchUp)
    flex: Flex | None = None
    overlap: Overlap = field(default_factory=Overlap)
    pause_after_failures: int | None = None
    preset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDraft:
    """What a caller decides about a schedule. Without a priority the task's holds.

    `since` lets it begin in the past; None: at the present, unless its catch-up says otherwise. `paused` is why it
    begins paused; None: it does not.
    """

    name: str
    task: str
    spec: Spec
    input: Any = field(default_factory=dict[str, Any])
    priority: int | None = None
    tags: tuple[str, ...] = ()
    owner: str | None = None
    since: datetime | None = None
    paused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as it is now. `definition` is its spec as JSON text, `next_at` its next fire, None without one."""

    uid: UUID
    name: str
    state: ScheduleState
    state_reason: str | None
    paused_until: datetime | None
    revision: int
    task: str
    definition: str
    input: Any
    priority: int | None
    tags: list[str]
    owner: str | None
    created_at: datetime
    updated_at: datetime
    decided_until: datetime
    next_at: datetime | None
    last_error: str | None

    @property
    def spec(self) -> Spec:
        """The spec; raises TriggerError when this version cannot plan by it."""
        return parse_spec(self.definition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule and its cursor as they are stored. `next_at` is when the planner looks next."""

    uid: UUID
    name: str
    state: str
    state_reason: str | None
    paused_until: datetime | None
    revision: int
    task: str
    spec: str
    input: str
    priority: int | None
    tags: list[str]
    owner: str | None
    created_at: datetime
    updated_at: datetime
    decided_until: datetime
    next_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleHead:
    """As much of a schedule as a filter checks."""

    uid: UUID
    name: str
    state: str
    task: str
    tags: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRow:
    """A schedule locked for a change, with how far it was decided, and what beyond that is answered all the same."""

    tenant_id: UUID
    uid: UUID
    name: str
    state: str
    state_reason: str | None
    paused_until: datetime | None
    revision: int
    task: str
    spec: str
    input: str
    priority: int | None
    tags: list[str]
    owner: str | None
    updated_at: datetime
    decided_until: datetime
    skip_until: datetime | None
    skip_reason: str | None
    answered: list[datetime] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    """A schedule that the planner has locked: its cursor, and how often in a row its planning failed."""

    tenant_id: UUID
    schedule_uid: UUID
    decided_until: datetime
    skip_until: datetime | None
    skip_reason: str | None
    answered: list[datetime] | None
    failures: int
    tz_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpec:
    """The spec of a schedule as JSON text, and its revision."""

    uid: UUID
    revision: int
    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What a schedule became by one change, and who made it."""

    revision: int
    action: str
    task: str
    spec: str
    input: str
    priority: int | None
    tags: list[str]
    owner: str | None
    changed_by: str
    reason: str | None
    changed_at: datetime
    tz_version: str | None
    paused_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Which release of the tz database a schedule was planned with; None: before releases were recorded."""

    tenant_id: UUID
    schedule_uid: UUID
    tz_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWith:
    """How many schedules were planned with a release of the tz database; None: before releases were recorded."""

    tz_version: str | None
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """What a forecast reads of a schedule."""

    tenant_id: UUID
    uid: UUID
    name: str
    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RezonedRow:
    """A schedule locked to be planned by another release of the tz database."""

    tenant_id: UUID
    schedule_uid: UUID
    state: str
    revision: int
    spec: str
    decided_until: datetime
    next_at: datetime | None
    skip_until: datetime | None
    skip_reason: str | None
    answered: list[datetime] | None
    failures: int
    tz_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreakRun:
    """An ended run that counts for its schedule's failures in a row."""

    tenant_id: UUID
    schedule_uid: UUID
    run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """A schedule's failures in a row, as they were locked."""

    tenant_id: UUID
    schedule_uid: UUID
    pause_after: int
    failures: int
    run_ids: list[UUID]
    pause_at: datetime | None

    def count(self) -> Count:
        """Return what is counted."""
        return Count(
            pause_after=self.pause_after, failures=self.failures, run_ids=tuple(self.run_ids), pause_at=self.pause_at
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedChange:
    """A schedule that is to be paused or resumed by itself, and when."""

    tenant_id: UUID
    schedule_uid: UUID
    at: datetime


@lru_cache(maxsize=PARSED_SPECS)
def parse_spec(text: str, zones: ZoneSource | None = None) -> Spec:
    """Read what `spec_to_json` made; raise TriggerError when this version cannot plan by it.

    Zones come from the installed tz database, or from `zones`.
    """
    data = json.loads(text)
    return Spec(
        timing=timing_from_data(data, zones=zones),
        flex=parse_flex(data.get("flex")),
        overlap=parse_overlap(data.get("overlap")),
        pause_after_failures=data.get("pause_after_failures"),
        preset=data.get("preset"),
        catch_up=parse_catch_up(data["catch_up"]),
    )


def timing_from_data(data: Mapping[str, Any], *, zones: ZoneSource | None = None) -> Timing:
    """Read the part of a spec that says when it fires, with zones of the installed release or of another one."""
    return Timing(
        parse_trigger(data.get("trigger")),
        data.get("timezone") or "UTC",
        parse_gap(data.get("gap")),
        parse_fold(data.get("fold")),
        zones,
        parse_use(data.get("calendars")),
    )


def spec_to_json(spec: Spec) -> str:
    """Return the spec as it is stored."""
    return json.dumps(spec_to_data(spec))


def spec_to_data(spec: Spec) -> dict[str, Any]:
    """Return the spec as JSON data: the wire's form."""
    timing, catch_up = spec.timing, spec.catch_up
    return {
        "trigger": trigger_to_json(timing.trigger),
        "timezone": timing.timezone,
        "gap": timing.gap and timing.gap.value,
        "fold": timing.fold and timing.fold.value,
        "catch_up": catch_up_to_json(catch_up),
        "flex": flex_to_json(spec.flex),
        # Left out of most specs: whoever plans looks for the word before it reads anything.
        **({} if timing.calendars is None else {"calendars": use_to_json(timing.calendars)}),
        # The mere presence of these two says that the schedule has a gate, and that somebody follows its runs.
        **({"overlap": overlap_to_json(spec.overlap)} if spec.overlap.is_gated else {}),
        **({} if spec.pause_after_failures is None else {"pause_after_failures": spec.pause_after_failures}),
        **({} if spec.preset is None else {"preset": spec.preset}),
    }


def bind_spec(spec: Spec, book: Book) -> Spec:
    """Return the spec with its calendars."""
    return replace(spec, timing=bind(spec.timing, book)) if book and calendar_names(spec.timing) else spec


def seed_spec(spec: Spec, uid: UUID) -> Spec:
    """Return the spec of this schedule: an `H` in its trigger is drawn from the uid, which no change touches."""
    trigger = seed_trigger(spec.timing.trigger, str(uid))
    return spec if trigger == spec.timing.trigger else replace(spec, timing=replace(spec.timing, trigger=trigger))


def schedule_from_row(row: ScheduleRow, *, now: datetime, book: Book) -> Schedule:
    """Read a stored schedule as of `now`. One that cannot be planned says why, and hides no other one of its list."""
    next_at, last_error = None, row.last_error
    try:
        if row.state == ScheduleState.ACTIVE:
            next_at = next_after(bind_spec(parse_spec(row.spec), book).timing, now)
    except TriggerError as error:
        last_error = f"{error.code}: {error.message}"
    return Schedule(
        uid=row.uid,
        name=row.name,
        state=ScheduleState(row.state),
        state_reason=row.state_reason,
        paused_until=row.paused_until,
        revision=row.revision,
        task=row.task,
        definition=row.spec,
        input=json.loads(row.input),
        priority=row.priority,
        tags=row.tags,
        owner=row.owner,
        created_at=row.created_at,
        updated_at=row.updated_at,
        decided_until=row.decided_until,
        next_at=next_at,
        last_error=last_error,
    )
