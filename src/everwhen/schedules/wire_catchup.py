"""What catching up looks like on the wire, in both directions."""

import json
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, Field, JsonValue, Strict, model_validator

from everwhen.core.arrears import Counts
from everwhen.core.catchup import (
    LEAST_RATE,
    MOST_MAX_RUNS,
    MOST_RATE,
    SKIPPED,
    CatchUp,
    CatchUpPolicy,
    Cause,
    Keep,
    Order,
    Rule,
    rule_to_json,
)
from everwhen.http.fields import Instant, Priority, Seconds, Sentence, Utc, Wire
from everwhen.http.reasons import ReasonCode
from everwhen.schedules.arrears.model import ArrearsRow
from everwhen.schedules.arrears.preview import Preview

MOST_WINDOW_SECONDS: Final = 366 * 86_400
"""A year: what Temporal looks back after an outage, unless told otherwise."""


class RuleFields(Wire):
    """What becomes of instants that passed undecided, for one cause."""

    policy: CatchUpPolicy
    keep: Keep = Field(
        default=Keep.LATEST, description="Which one a coalesced run is, and which run beyond `max_runs` do not."
    )
    window_seconds: Annotated[float, Strict(), Field(ge=0, le=MOST_WINDOW_SECONDS, allow_inf_nan=False)] | None = Field(
        default=None, description="An instant late by more than this never runs."
    )
    max_runs: Annotated[int, Strict(), Field(ge=1, le=MOST_MAX_RUNS)] | None = Field(
        default=None, description="`replay` only: how many run at most; null: all."
    )
    rate: Annotated[float, Strict(), Field(ge=LEAST_RATE, le=MOST_RATE, allow_inf_nan=False)] | None = Field(
        default=None, description="`replay` only: runs a second; null: as fast as they can be claimed."
    )
    order: Order = Field(default=Order.OLDEST_FIRST, description="`replay` only.")
    priority: Priority | None = Field(default=None, description="Of the runs; null: by `priority_offset`.")
    priority_offset: Annotated[int, Strict(), Field(ge=-9, le=9)] = Field(
        default=-1, description="Added to what the schedule's runs have; 0 is the lowest priority there is."
    )

    @model_validator(mode="after")
    def _replay_only(self) -> Self:
        many = self.max_runs is not None or self.rate is not None or self.order is not Order.OLDEST_FIRST
        if many and self.policy is not CatchUpPolicy.REPLAY:
            raise ValueError("max_runs, rate and order are about a replay: set policy to replay, or leave them out")
        return self


class CatchUpFields(RuleFields):
    """What becomes of instants that passed while nobody looked, and of those that passed for another cause."""

    policy: CatchUpPolicy = CatchUpPolicy.COALESCE
    grace_seconds: Seconds = Field(default=60.0, description="An instant late by no more than this runs in any case.")
    on_resume: RuleFields | None = Field(
        default=None, description="What passed in a pause; null: it is recorded as skipped."
    )
    on_creation: RuleFields | None = Field(
        default=None,
        description="What lies between a beginning in the past and now; null: as `since` says, else it begins now.",
    )
    on_edit: RuleFields | None = Field(
        default=None, description="What a new trigger intends since the old one last did; null: it begins now."
    )


class ResumeIn(Wire):
    """Why a schedule is resumed, and what becomes of what the pause left behind, this once."""

    reason: Sentence | None = None
    catch_up: RuleFields | None = Field(default=None, description="Null: as the schedule's `on_resume` says.")


class CatchUpPreviewIn(Wire):
    """Which catching up to count, and by which rule; null: the schedule's own."""

    cause: Literal[Cause.OUTAGE, Cause.RESUME, Cause.CREATION] | None = Field(
        default=None, description="Null: resume when it is paused, else outage. An edit has its own dry run."
    )
    catch_up: RuleFields | None = None
    since: Instant | None = Field(default=None, description="With `creation`: where it would have begun.")


class CatchUpCountsOut(BaseModel):
    """How many instants, by what becomes of them."""

    runs: int
    coalesced: int
    skipped: int
    missed: int
    total: int


class CatchUpPreviewOut(BaseModel):
    """What catching up comes to."""

    cause: Cause
    catch_up: dict[str, JsonValue]
    counts: CatchUpCountsOut
    exact: bool = Field(description="False: there was too much to count; there are more.")
    seconds: float | None = Field(description="How long a paced replay takes; null: nothing paces it.")
    first_at: Utc | None
    until: Utc | None
    sentence: str


class ArrearsOut(BaseModel):
    """A stretch of a schedule's past, and how far it has been caught up on."""

    id: int
    cause: Cause
    state: Literal["held", "open", "finished"]
    catch_up: dict[str, JsonValue] | None = Field(description="The rule; null: decided when it is resumed.")
    skip_reason: ReasonCode
    revision: int
    since: Utc = Field(description="It is later than this,")
    until: Utc = Field(description="up to this.")
    rest_after: Utc = Field(description="What is left is later than this,")
    rest_until: Utc = Field(description="up to this.")
    counts: CatchUpCountsOut = Field(description="What has become of the rest.")
    opened_at: Utc
    look_at: Utc | None
    last_error: str | None
    finished_at: Utc | None


def rule_of(fields: RuleFields) -> Rule:
    """Return a rule."""
    return Rule(**_rule(fields))


def catch_up_of(fields: CatchUpFields) -> CatchUp:
    """Return the catch-up of a schedule."""
    return CatchUp(
        **_rule(fields),
        grace=timedelta(seconds=fields.grace_seconds),
        on_resume=SKIPPED if fields.on_resume is None else rule_of(fields.on_resume),
        on_creation=None if fields.on_creation is None else rule_of(fields.on_creation),
        on_edit=None if fields.on_edit is None else rule_of(fields.on_edit),
    )


def preview_out(preview: Preview) -> CatchUpPreviewOut:
    """Return a preview as the wire has it."""
    return CatchUpPreviewOut(
        cause=preview.cause,
        catch_up=rule_to_json(preview.rule),
        counts=_counts(preview.counts),
        exact=preview.exact,
        seconds=preview.seconds,
        first_at=preview.first_at,
        until=preview.until,
        sentence=preview.sentence,
    )


def arrears_out(row: ArrearsRow) -> ArrearsOut:
    """Return arrears as the wire has them."""
    state: Literal["held", "open", "finished"] = "held" if row.look_at is None else "open"
    return ArrearsOut(
        id=row.arrears_id,
        cause=Cause(row.cause),
        state=state if row.finished_at is None else "finished",
        catch_up=None if row.rule is None else json.loads(row.rule),
        skip_reason=row.skip_reason,
        revision=row.revision,
        since=row.since,
        until=row.until,
        rest_after=row.rest_after,
        rest_until=row.rest_until,
        counts=_counts(Counts(row.runs, row.coalesced, row.skipped, row.missed)),
        opened_at=row.as_of,
        look_at=row.look_at,
        last_error=row.last_error,
        finished_at=row.finished_at,
    )


def _rule(fields: RuleFields) -> dict[str, Any]:
    window = fields.window_seconds
    return {
        "policy": fields.policy,
        "keep": fields.keep,
        "window": None if window is None else timedelta(seconds=window),
        "max_runs": fields.max_runs,
        "rate": fields.rate,
        "order": fields.order,
        "priority": fields.priority,
        "priority_offset": fields.priority_offset,
    }


def _counts(counts: Counts) -> CatchUpCountsOut:
    return CatchUpCountsOut(**counts._asdict(), total=counts.total)
