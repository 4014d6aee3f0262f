"""What can be done with operations: plan one, carry the plan out, look at it, pause, resume and abort it.

A plan is a dry run: it counts and shows, writes nothing, and gives a token that names what it saw. Carrying it out
means sending the same request with the token; it is looked at again as of the same instant, and a set that is another
one is refused. The operation's id is made of the token, so a request that is repeated makes no second operation.

Everything else is the operator's (`operator.py`). A person's order and a step of the operator meet at the operation's
row: whoever comes second waits for the other to commit. So when an abort has been answered, nothing more is made.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.core import ids
from everwhen.core.backfill import Include, Instant, backfill_id_of
from everwhen.core.bulk import CHANGES, MAKES_RUNS, TAGGING, Limits, OperationKind, OperationState, Verb
from everwhen.core.filters import Filter, moment
from everwhen.core.overlap import OverlapWish
from everwhen.core.reasons import Reason
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.operations import changing, plans, selecting, store
from everwhen.operations.kinds.protocol import Found
from everwhen.operations.model import (
    FIRST_SEQ,
    Backfill,
    ItemOrder,
    OperationRow,
    Request,
    request_to_json,
)
from everwhen.operations.plans import Token
from everwhen.pauses.service import refuse_until
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.service import RunView
from everwhen.schedules import service as schedules

SAMPLE: Final = 5
ITEMS_AT_ONCE: Final = 10_000
MOST_RECHECKED: Final = 10_000
"""Up to how many instants a backfill is looked at again before it is accepted; a larger one is, by the operator."""

MOST_BACK: Final = timedelta(days=3_650)
BACKFILL_PRIORITY: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAsk:
    """Which instants a caller wants filled; without an id the request's own."""

    schedule: str
    start: datetime
    end: datetime
    include: Include = Include.NOT_RUN
    only: tuple[str, ...] = ()
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a caller asks for: runs, schedules, tasks or workflows by a filter, or instants by a backfill.

    `tags` are what things are to be given, or what is to be taken from them; `until` is when a pause ends.
    """

    kind: OperationKind
    filter: str = ""
    backfill: BackfillAsk | None = None
    order: ItemOrder = ItemOrder.OLDEST
    priority: int | None = None
    overlap: OverlapWish = OverlapWish.WAIT
    limits: Limits = field(default_factory=Limits)
    tags: tuple[str, ...] = ()
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who carries out which plan, and why."""

    by: str
    reason: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonsOrder:
    """Who stops an operation or lets it go on, and why."""

    by: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a dry run saw. `whole`: it is all there is; else `count` is the most that one operation takes on."""

    ask: Ask
    filter: Filter | None
    backfill: Backfill | None
    count: int
    whole: bool
    token: str
    expires_at: datetime
    runs: Sequence[RunView]
    instants: Sequence[Instant]
    things: Sequence[Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """Where a person moves an operation, from where, and in which states that has been done already."""

    to: OperationState
    was: Sequence[OperationState]
    settled: Collection[OperationState]


_UNDER_WAY: Final = (OperationState.PLANNED, OperationState.RUNNING)
_STOPPED: Final = frozenset({OperationState.ABORTING, OperationState.ABORTED})
_STOPPABLE: Final = (*_UNDER_WAY, OperationState.PAUSED)
_ABORT: Final = _Move(to=OperationState.ABORTED, was=_STOPPABLE, settled=_STOPPED)
_ABORT_AND_CANCEL: Final = _Move(to=OperationState.ABORTING, was=_STOPPABLE, settled=_STOPPED)
_PAUSE: Final = _Move(to=OperationState.PAUSED, was=_UNDER_WAY, settled={OperationState.PAUSED})
# To `planned`: the operator looks what was listed, and goes on from there.
_RESUME: Final = _Move(to=OperationState.PLANNED, was=(OperationState.PAUSED,), settled=_UNDER_WAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What a look came to, and what of it cannot be told in an answer."""

    planned: Planned
    seen: Token
    run_ids: Sequence[UUID] = ()
    things: Sequence[Found] = ()


async def plan(db: Database, *, tenant_id: UUID, ask: Ask) -> Planned:
    """Look at what an operation would be about, and write nothing; raise InvalidInput."""
    _refuse_misfit(ask)
    async with db.tenant(tenant_id) as conn:
        as_of = plans.whole(conn.now)
    return (await _look(db, tenant_id=tenant_id, ask=ask, as_of=as_of)).planned


async def start(db: Database, *, tenant_id: UUID, ask: Ask, asked: Asked) -> tuple[OperationRow, bool]:
    """Carry out a plan: return the operation, and whether it was there already.

    Raises InvalidInput for what `plan` refuses, a token that is none, or more than one operation takes on; Conflict
    when the plan is too old, or what it saw has changed.
    """
    _refuse_misfit(ask)
    seen = plans.decode(asked.token)
    if seen is None:
        raise InvalidInput.at("/plan_token", "This is no plan token: plan first.", code="operation.plan_token")
    operation_id = ids.operation_id(tenant_id, token=asked.token, at=seen.as_of)
    async with db.tenant(tenant_id) as conn:
        known = await store.get_operation(conn, tenant_id=tenant_id, operation_id=operation_id)
        now = conn.now
    if known is not None:
        return known, True
    if not seen.as_of <= now < seen.as_of + plans.VALID:
        raise Conflict("The plan is older than 10 minutes: plan anew.", code="operation.plan_expired")
    looked = await _look(db, tenant_id=tenant_id, ask=ask, as_of=seen.as_of, trusted=seen)
    _refuse_change(looked, seen)
    async with db.tenant(tenant_id) as conn:
        made = await _write(conn, looked, operation_id=operation_id, tenant_id=tenant_id, asked=asked)
        return await read_operation(conn, tenant_id, operation_id), not made


async def get_operation(db: Database, *, tenant_id: UUID, operation_id: UUID) -> OperationRow:
    """Read one operation; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await read_operation(conn, tenant_id, operation_id)


async def abort(
    db: Database, *, tenant_id: UUID, operation_id: UUID, order: PersonsOrder, cancel_runs: bool = False
) -> OperationRow:
    """Make nothing more from now on; with `cancel_runs` also cancel the runs that it made and that have not ended.

    Aborting twice changes nothing. Raises NotFound, and Conflict when it has ended otherwise.
    """
    return await _move(db, tenant_id, operation_id, _ABORT_AND_CANCEL if cancel_runs else _ABORT, order=order)


async def pause(db: Database, *, tenant_id: UUID, operation_id: UUID, order: PersonsOrder) -> OperationRow:
    """Stop for a while; raise NotFound, and Conflict when it is not under way."""
    return await _move(db, tenant_id, operation_id, _PAUSE, order=order)


async def resume(db: Database, *, tenant_id: UUID, operation_id: UUID, order: PersonsOrder) -> OperationRow:
    """Go on; raise NotFound, and Conflict when it is not paused."""
    return await _move(db, tenant_id, operation_id, _RESUME, order=order)


async def _move(db: Database, tenant_id: UUID, operation_id: UUID, move: _Move, *, order: PersonsOrder) -> OperationRow:
    to = move.to
    over = to is OperationState.ABORTED
    async with db.tenant(tenant_id) as conn:
        moved = await store.change_state(
            conn,
            tenant_id=tenant_id,
            operation_id=operation_id,
            state=to,
            was=move.was,
            changed_by=order.by,
            changed_reason=order.reason,
            state_reason=Reason.OPERATION_ABORTED if to in _STOPPED else None,
            seen_seq=FIRST_SEQ,
            next_at=None
            if to is OperationState.PAUSED
            else conn.now,  # an aborted one is watched to the end of its runs
            finished_at=conn.now if over else None,
            now=conn.now,
        )
        row = await read_operation(conn, tenant_id, operation_id)
    if not moved and row.state not in move.settled:
        raise Conflict(f"The operation is {row.state}.", code="operation.state")
    return row


async def _look(db: Database, *, tenant_id: UUID, ask: Ask, as_of: datetime, trusted: Token | None = None) -> _Looked:
    """Look at what is meant as of an instant. A large backfill whose plan is trusted is not looked at again."""
    if ask.kind is OperationKind.BACKFILL:
        assert ask.backfill is not None
        return await _look_back(db, tenant_id=tenant_id, ask=ask, as_of=as_of, trusted=trusted)
    if ask.kind in CHANGES:
        return await _look_at_things(db, tenant_id=tenant_id, ask=ask, as_of=as_of)
    asked = selecting.read_bulk_filter(ask.kind, ask.filter, as_of=as_of)
    async with db.tenant(tenant_id) as conn:
        found = await selecting.select_runs(conn, tenant_id=tenant_id, kind=ask.kind, asked=asked, as_of=as_of)
        run_ids = found.run_ids if ask.order is ItemOrder.OLDEST else found.run_ids[::-1]
        sample = await runs.read_views(conn, tenant_id=tenant_id, run_ids=run_ids[:SAMPLE])
    seen = Token(
        as_of=as_of,
        count=len(run_ids),
        items=plans.short_digest(selecting.digest_runs(found.run_ids)),
        request=plans.digest_of(ask.kind, asked.canonical),
    )
    return _Looked(
        planned=_planned(ask, seen, filter=asked, whole=found.whole, runs=sample), seen=seen, run_ids=run_ids
    )


async def _look_at_things(db: Database, *, tenant_id: UUID, ask: Ask, as_of: datetime) -> _Looked:
    asked = changing.read_bulk_filter(ask.kind, ask.filter, as_of=as_of)
    refuse_until(ask.until, now=as_of)
    async with db.tenant(tenant_id) as conn:
        found = await changing.select(conn, tenant_id=tenant_id, kind=ask.kind, asked=asked, as_of=as_of)
    whole = len(found) <= changing.MOST_THINGS
    found = found[: changing.MOST_THINGS]
    until = () if ask.until is None else (moment(ask.until),)
    seen = Token(
        as_of=as_of,
        count=len(found),
        items=plans.short_digest(changing.digest(found)),
        request=plans.digest_of(ask.kind, asked.canonical, ",".join(ask.tags), *until),
    )
    things = found if ask.order is ItemOrder.OLDEST else found[::-1]
    planned = _planned(ask, seen, filter=asked, whole=whole, things=things[:SAMPLE])
    return _Looked(planned=planned, seen=seen, things=things)


async def _look_back(db: Database, *, tenant_id: UUID, ask: Ask, as_of: datetime, trusted: Token | None) -> _Looked:
    assert ask.backfill is not None
    backfill = await _backfill(db, tenant_id, ask.backfill, as_of=as_of)
    request = plans.digest_of(ask.kind, *_parts_of(backfill), backfill.id)
    if trusted is not None and trusted.count > MOST_RECHECKED and trusted.request == request:
        seen = trusted
        return _Looked(planned=_planned(ask, seen, backfill=backfill, whole=True), seen=seen)
    digest, count, sample = b"", 0, list[Instant]()
    async for chunk in selecting.each_chunk(db, tenant_id=tenant_id, backfill=backfill):
        digest = selecting.digest_instants(digest, chunk.instants)
        count += len(chunk.instants)
        sample = _sampled(sample, chunk.instants, ask.order)
        if count > selecting.MOST_INSTANTS:
            break
    whole, count = count <= selecting.MOST_INSTANTS, min(count, selecting.MOST_INSTANTS)
    seen = Token(as_of=as_of, count=count, items=plans.short_digest(digest), request=request)
    return _Looked(planned=_planned(ask, seen, backfill=backfill, whole=whole, instants=sample), seen=seen)


def _sampled(sample: list[Instant], found: Sequence[Instant], order: ItemOrder) -> list[Instant]:
    if order is ItemOrder.OLDEST:
        return (sample + list(found[:SAMPLE]))[:SAMPLE]
    return (list(found[-SAMPLE:])[::-1] + sample)[:SAMPLE]


async def _backfill(db: Database, tenant_id: UUID, ask: BackfillAsk, *, as_of: datetime) -> Backfill:
    if not ask.start < ask.end <= as_of:
        detail = "from lies before until, and until is not in the future."
        raise InvalidInput.at("/backfill/until", detail, code="backfill.range")
    if ask.start < as_of - MOST_BACK:
        raise InvalidInput.at(
            "/backfill/from", f"from lies more than {MOST_BACK.days} days back.", code="backfill.range"
        )
    async with db.tenant(tenant_id) as conn:
        try:
            schedule = await schedules.read_schedule(conn, tenant_id=tenant_id, name=ask.schedule)
        except NotFound:
            raise InvalidInput.at(
                "/backfill/schedule", "There is no schedule of this name.", code="schedule.unknown"
            ) from None
    made = Backfill(
        id="",
        schedule=ask.schedule,
        schedule_uid=schedule.uid,
        start=ask.start,
        end=ask.end,
        include=ask.include,
        only=tuple(sorted(set(ask.only))),
    )
    return replace(made, id=ask.id or backfill_id_of(*_parts_of(made)))


def _parts_of(backfill: Backfill) -> list[str]:
    bounds = [moment(backfill.start), moment(backfill.end)]
    return [str(backfill.schedule_uid), *bounds, backfill.include, ",".join(backfill.only)]


def _planned(ask: Ask, seen: Token, *, whole: bool, **found: Any) -> Planned:
    return Planned(
        ask=ask,
        filter=found.get("filter"),
        backfill=found.get("backfill"),
        count=seen.count,
        whole=whole,
        token=plans.encode(seen),
        expires_at=seen.as_of + plans.VALID,
        runs=found.get("runs", ()),
        instants=found.get("instants", ()),
        things=found.get("things", ()),
    )


def _refuse_change(looked: _Looked, seen: Token) -> None:
    """Refuse what is not what was planned. A cancel may find fewer runs, since runs end by themselves; never more."""
    found = looked.seen
    if not looked.planned.whole:
        detail = f"More than {found.count} items; narrow what is meant, and do it in several operations."
        raise InvalidInput(detail, code="operation.too_large")
    if found.request != seen.request:
        raise Conflict("The plan is one for another request: plan anew.", code="operation.plan_changed")
    fewer = looked.planned.ask.kind is OperationKind.CANCEL_RUNS and found.count <= seen.count
    if not fewer and (found.count, found.items) != (seen.count, seen.items):
        detail = f"The plan saw {seen.count} items; now there are {found.count}, or others: plan anew."
        raise Conflict(detail, code="operation.plan_changed")


def _refuse_misfit(ask: Ask) -> None:
    """Refuse what does not go together."""
    fills, limits = ask.kind is OperationKind.BACKFILL, ask.limits
    if fills != (ask.backfill is not None):
        detail = "A backfill names its range, and nothing else does."
        raise InvalidInput.at("/backfill", detail, code="operation.misfit")
    if fills and ask.filter:
        raise InvalidInput.at("/filter", "A backfill is of a schedule's range.", code="operation.misfit")
    about_runs = ask.priority, ask.overlap, replace(limits, rate=None)
    if ask.kind not in MAKES_RUNS and about_runs != (None, OverlapWish.WAIT, Limits()):
        detail = "This makes no runs: it takes a rate, and nothing that is about the runs it would make."
        raise InvalidInput.at("/kind", detail, code="operation.misfit")
    verb, _ = CHANGES.get(ask.kind, (None, None))
    if bool(ask.tags) != (verb in TAGGING):
        detail = "Say which tags to give, or to take away; nothing else takes tags."
        raise InvalidInput.at("/tags", detail, code="operation.misfit")
    if ask.until is not None and verb is not Verb.PAUSE:
        raise InvalidInput.at("/until", "Only a pause has an end.", code="operation.misfit")
    if ask.backfill is not None and ask.backfill.only and ask.backfill.include is Include.ALL:
        raise InvalidInput.at("/backfill/only", "Either all instants, or only some.", code="operation.misfit")


async def _write(conn: Connection, looked: _Looked, *, operation_id: UUID, tenant_id: UUID, asked: Asked) -> bool:
    """Write the operation with its items; return False when somebody did so before."""
    planned, count = looked.planned, looked.seen.count
    priority = planned.ask.priority
    if planned.backfill is not None and priority is None:
        priority = BACKFILL_PRIORITY
    request = Request(
        kind=planned.ask.kind,
        filter=planned.filter and planned.filter.canonical,
        backfill=planned.backfill,
        order=planned.ask.order,
        priority=priority,
        overlap=planned.ask.overlap,
        limits=planned.ask.limits,
        plan_token=asked.token,
        tags=planned.ask.tags,
        until=planned.ask.until,
    )
    made = await store.insert_operation(
        conn,
        tenant_id=tenant_id,
        operation_id=operation_id,
        kind=request.kind,
        request=request_to_json(request),
        requested_by=asked.by,
        reason=asked.reason,
        total=count,
        canary_passed=request.limits.canary == 0,
        listed_until=planned.backfill and selecting.first_look(planned.backfill),
        listed=b"",
        listed_count=0,
        seen_seq=FIRST_SEQ,
        now=conn.now,
    )
    if made:
        for first in range(0, len(looked.run_ids), ITEMS_AT_ONCE):
            part = looked.run_ids[first : first + ITEMS_AT_ONCE]
            await _insert_runs(conn, tenant_id, operation_id, part, first=first)
        for first in range(0, len(looked.things), ITEMS_AT_ONCE):
            things = looked.things[first : first + ITEMS_AT_ONCE]
            await store.insert_things(
                conn,
                tenant_id=tenant_id,
                operation_id=operation_id,
                seqs=range(first, first + len(things)),
                names=[each.name for each in things],
                uids=[each.uid for each in things],
            )
    return bool(made)


async def _insert_runs(
    conn: Connection, tenant_id: UUID, operation_id: UUID, run_ids: Sequence[UUID], *, first: int
) -> None:
    nothing = [None] * len(run_ids)
    await store.insert_items(
        conn,
        tenant_id=tenant_id,
        operation_id=operation_id,
        seqs=range(first, first + len(run_ids)),
        run_ids=run_ids,
        nominal_ats=nothing,
        utc_offsets=nothing,
    )


async def read_operation(conn: Connection, tenant_id: UUID, operation_id: UUID) -> OperationRow:
    """Read one operation in the caller's transaction; raise NotFound."""
    row = await store.get_operation(conn, tenant_id=tenant_id, operation_id=operation_id)
    if row is None:
        raise NotFound("There is no such operation.", code="operation.unknown")
    return row
