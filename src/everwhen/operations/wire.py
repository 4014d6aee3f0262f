"""What operations look like on the wire, in both directions."""

from datetime import datetime, timedelta, timezone
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field, Strict

from everwhen.core.backfill import Include
from everwhen.core.bulk import CHANGES, Limits, OperationKind, OperationState, Verb, seconds_left
from everwhen.core.filters import MOST_TEXT
from everwhen.core.lifecycle import RunState
from everwhen.core.overlap import OverlapWish
from everwhen.http.access import NAME_PATTERN
from everwhen.http.fields import Instant, Name, Priority, Sentence, Tags, Utc, Wire
from everwhen.http.reasons import ReasonCode
from everwhen.operations.kinds.protocol import Found
from everwhen.operations.model import ItemOrder, ItemRow, ItemState, OperationRow, Request, parse_request
from everwhen.operations.service import BACKFILL_PRIORITY, Ask, BackfillAsk, Planned
from everwhen.runs.model import ref_of
from everwhen.runs.service import RunView

Verdict = Literal["dead", "missed", "skipped", "coalesced", "expired", "cancelled"]


class BackfillIn(Wire):
    """Which instants of a schedule to fill."""

    schedule: Name
    start: Instant = Field(alias="from", description="The first instant that may be filled.")
    end: Instant = Field(alias="until", description="The first instant that is not filled any more; not in the future.")
    include: Include = Field(default=Include.NOT_RUN, description="`all`: also instants that have run.")
    only: list[Verdict] = Field(
        default_factory=list[Verdict], max_length=6, description="Only instants with one of these verdicts."
    )
    id: Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)] | None = Field(
        default=None, description="Tells backfills apart: the same id makes the same runs. Null: the request's own."
    )


class PlanIn(Wire):
    """What an operation is to do: to what a filter finds, or to a range of a schedule."""

    kind: OperationKind
    filter: Annotated[str, Field(max_length=MOST_TEXT)] = Field(
        default="",
        description="Which runs, schedules, tasks or workflows, in the terms of their list, such as `task:billing`; a "
        "redrive implies `state:dead letter:open`, a pause `state:active`, a resumption `state:paused`.",
    )
    backfill: BackfillIn | None = None
    tags: Tags = Field(default=(), description="What to give, or to take away: of kinds that do so.")
    until: Instant | None = Field(default=None, description="When a pause ends by itself; null: when somebody ends it.")
    order: ItemOrder = ItemOrder.OLDEST
    priority: Priority | None = Field(
        default=None, description=f"Of the runs it makes; null: the dead run's, or {BACKFILL_PRIORITY} for a backfill."
    )
    overlap: OverlapWish = Field(
        default=OverlapWish.WAIT,
        description="Where a schedule limits overlap: `wait` for room, `respect` its policy (may skip), `ignore` it.",
    )
    rate_per_second: Annotated[float, Strict(), Field(ge=0.001, le=10_000, allow_inf_nan=False)] | None = None
    canary: Annotated[int, Strict(), Field(ge=0, le=10_000)] = Field(
        default=0, description="So many first; the others only when all of these have succeeded."
    )
    stop_after_dead: Annotated[int, Strict(), Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Stop when so many of its runs are dead."
    )
    stop_dead_share: Annotated[float, Strict(), Field(ge=0, lt=1)] | None = Field(
        default=None, description="Stop when more than this share of its ended runs, from ten on, is dead."
    )

    def ask(self) -> Ask:
        """Return what is asked for."""
        return Ask(
            kind=self.kind,
            filter=self.filter,
            backfill=None if self.backfill is None else _backfill(self.backfill),
            order=self.order,
            priority=self.priority,
            overlap=self.overlap,
            limits=Limits(
                rate=self.rate_per_second,
                canary=self.canary,
                most_dead=self.stop_after_dead,
                most_dead_share=self.stop_dead_share,
            ),
            tags=self.tags,
            until=self.until,
        )


class OperationIn(PlanIn):
    """A plan to carry out, with the token that planning it gave."""

    plan_token: Annotated[str, Field(min_length=1, max_length=100)]
    reason: Sentence = Field(description="Why; kept with the operation and its runs.")


class AbortIn(Wire):
    """Why an operation is aborted, and whether what it made goes as well."""

    reason: Sentence
    cancel_runs: bool = Field(default=False, description="Also cancel its runs that have not ended.")


class OrderIn(Wire):
    """Why an operation is paused or goes on."""

    reason: Sentence | None = None


class SampleOut(BaseModel):
    """One item: a run, an instant (`local` by the schedule's clock), or a schedule, task or workflow by its name."""

    name: str | None = None
    run_id: UUID | None
    ref: str | None
    task: str | None
    state: RunState | None
    at: Utc
    local: str | None


class BackfillOut(BaseModel):
    """Which instants are filled."""

    id: str
    schedule: str
    start: Utc = Field(serialization_alias="from")
    end: Utc = Field(serialization_alias="until")
    include: Include
    only: list[str]


class PlanOut(BaseModel):
    """What an operation would be about. Nothing was written; the token holds for ten minutes."""

    kind: OperationKind
    filter: str | None = Field(description="The filter in force, with what it had left open.")
    backfill: BackfillOut | None
    count: int
    exact: bool = Field(description="False: there are more, and one operation takes on no more than `count`.")
    seconds: float | None = Field(description="How long it takes at its rate; null without one.")
    sentences: list[str]
    sample: list[SampleOut]
    plan_token: str
    expires_at: Utc


class CountsOut(BaseModel):
    """Items: `done` + `skipped` + `left` = `total`. Of those done, how their runs ended, as far as was seen."""

    total: int
    done: int
    skipped: int
    left: int
    succeeded: int
    dead: int
    ended_otherwise: int
    under_way: int


class ItemOut(BaseModel):
    """One item, and what has become of it."""

    number: int = Field(description="Its place in the order.")
    state: ItemState = Field(description="`done`: its run has not ended, as far as was seen.")
    reason_code: ReasonCode | None = Field(description="Why it was skipped.")
    refusal: str | None = Field(description="The code of the problem that a request for it alone would have met.")
    name: str | None = Field(description="Of a schedule, task or workflow.")
    run_id: UUID | None = Field(description="Of the run that was to be redriven, or cancelled.")
    nominal_at: Utc | None = Field(description="Of the instant that was to be filled.")
    made_run_id: UUID | None = Field(description="The run whose end counts.")


class OperationOut(BaseModel):
    """An operation as it is now."""

    id: UUID
    kind: OperationKind
    state: OperationState
    reason_code: ReasonCode | None = Field(description="Why it stopped, if it did.")
    reason: str
    requested_by: str
    created_at: Utc
    changed_by: str
    changed_reason: str | None
    changed_at: Utc
    finished_at: Utc | None
    filter: str | None
    backfill: BackfillOut | None
    tags: list[str]
    until: Utc | None
    order: ItemOrder
    priority: int | None
    overlap: OverlapWish
    rate_per_second: float | None
    canary: int
    canary_passed: bool
    stop_after_dead: int | None
    stop_dead_share: float | None
    counts: CountsOut
    eta_seconds: float | None = Field(description="Until every item is done, by its rate or its speed so far.")


def plan_out(planned: Planned) -> PlanOut:
    """Return a plan as the wire has it."""
    rate = planned.ask.limits.rate
    seconds = None if rate is None else planned.count / rate
    return PlanOut(
        kind=planned.ask.kind,
        filter=planned.filter and planned.filter.canonical,
        backfill=None
        if planned.backfill is None
        else BackfillOut.model_validate(planned.backfill, from_attributes=True),
        count=planned.count,
        exact=planned.whole,
        seconds=seconds,
        sentences=_sentences(planned, seconds),
        sample=[
            *map(_run_sample, planned.runs),
            *(_instant_sample(each.nominal_at, each.utc_offset) for each in planned.instants),
            *map(_thing_sample, planned.things),
        ],
        plan_token=planned.token,
        expires_at=planned.expires_at,
    )


def operation_out(row: OperationRow, *, now: datetime) -> OperationOut:
    """Return an operation as the wire has it."""
    request, progress = parse_request(row.request), row.progress
    over = row.finished_at is not None
    return OperationOut(
        id=row.id,
        kind=OperationKind(row.kind),
        state=OperationState(row.state),
        reason_code=row.state_reason,
        reason=row.reason,
        requested_by=row.requested_by,
        created_at=row.created_at,
        changed_by=row.changed_by,
        changed_reason=row.changed_reason,
        changed_at=row.changed_at,
        finished_at=row.finished_at,
        filter=request.filter,
        backfill=_backfill_out(request),
        tags=list(request.tags),
        until=request.until,
        order=request.order,
        priority=request.priority,
        overlap=request.overlap,
        rate_per_second=request.limits.rate,
        canary=request.limits.canary,
        canary_passed=row.canary_passed,
        stop_after_dead=request.limits.most_dead,
        stop_dead_share=request.limits.most_dead_share,
        counts=CountsOut(
            total=row.total,
            done=row.done,
            skipped=row.skipped,
            left=progress.left,
            succeeded=row.succeeded,
            dead=row.dead,
            ended_otherwise=row.ended,
            under_way=progress.under_way,
        ),
        eta_seconds=None if over else seconds_left(progress, rate=request.limits.rate, elapsed=now - row.created_at),
    )


def item_out(row: ItemRow) -> ItemOut:
    """Return an item as the wire has it."""
    return ItemOut(
        number=row.seq,
        state=ItemState(row.state),
        reason_code=row.reason,
        refusal=row.detail,
        name=row.name,
        run_id=row.run_id,
        nominal_at=row.nominal_at,
        made_run_id=row.made_run_id,
    )


def _backfill(body: BackfillIn) -> BackfillAsk:
    return BackfillAsk(
        schedule=body.schedule,
        start=body.start,
        end=body.end,
        include=body.include,
        only=tuple(body.only),
        id=body.id,
    )


def _backfill_out(request: Request) -> BackfillOut | None:
    if request.backfill is None:
        return None
    return BackfillOut.model_validate(request.backfill, from_attributes=True)


def _sentences(planned: Planned, seconds: float | None) -> list[str]:
    count = f"{planned.count:,}" if planned.whole else f"More than {planned.count:,}"
    what = {
        OperationKind.REDRIVE: f"{count} dead runs would be run anew, each as a new run that is linked to it.",
        OperationKind.BACKFILL: f"{count} instants would get a run.",
        OperationKind.CANCEL_RUNS: f"{count} runs would be cancelled.",
    }.get(planned.ask.kind) or _change_sentence(planned.ask, count)
    told = [what]
    if not planned.whole:
        told.append("That is more than one operation takes on: narrow what is meant.")
    if seconds is not None:
        told.append(f"At {planned.ask.limits.rate:g} a second that takes {timedelta(seconds=round(seconds))}.")
    if planned.ask.limits.canary:
        told.append(f"The first {planned.ask.limits.canary:,} have to succeed before the others are made.")
    return told


def _change_sentence(ask: Ask, count: str) -> str:
    verb, thing = CHANGES[ask.kind]
    tags = ", ".join(ask.tags)
    done = {
        Verb.PAUSE: "paused" if ask.until is None else f"paused until {ask.until.isoformat()}",
        Verb.RESUME: "resumed, each with its own catch-up",
        Verb.TAG: f"given {tags}",
        Verb.UNTAG: f"relieved of {tags}",
        Verb.DELETE: "deleted",
    }[verb]
    return f"{count} {thing}{'' if count == '1' else 's'} would be {done}."


def _thing_sample(found: Found) -> SampleOut:
    return SampleOut(name=found.name, run_id=None, ref=None, task=None, state=None, at=found.created_at, local=None)


def _run_sample(view: RunView) -> SampleOut:
    row = view.row
    return SampleOut(
        run_id=row.run_id, ref=ref_of(row), task=row.task, state=view.state, at=row.nominal_at or row.due_at, local=None
    )


def _instant_sample(at: datetime, offset: timedelta) -> SampleOut:
    local = at.astimezone(timezone(offset)).isoformat()
    return SampleOut(run_id=None, ref=None, task=None, state=None, at=at, local=local)
