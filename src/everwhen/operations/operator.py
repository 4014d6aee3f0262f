"""The operator: carries operations out, one bounded step after another.

A step takes the operation that has waited longest, looks how its runs have ended, asks the core what comes next, does
up to a batch of items, and writes counters, rate and items, all in one transaction that holds the operation's row. What
changes things that are defined is in `changing.py`.

Safe in any number of copies: SKIP LOCKED sends a second copy to another operation. If a copy dies before the commit,
none of the batch was made and the next step makes it again, with the same ids. After the commit all of it was, and
counted. A person's order waits for the step and is obeyed by the next one.

An operation that cannot go on (its schedule is gone, a row cannot be written) is stopped with a reason; it stops no
other one. What merely was too busy is tried again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import psycopg
import structlog

from everwhen import failpoints
from everwhen.core import bulk
from everwhen.core.backfill import Instant, backfilled_run_id
from everwhen.core.bulk import CHANGES, FINISHED, Do, OperationKind, OperationState, Stop, Watch
from everwhen.core.filters import parse
from everwhen.core.ids import derived_run_id
from everwhen.core.quotas import day_of
from everwhen.core.reasons import Reason
from everwhen.core.zones import tz_version
from everwhen.dead_letters import service as dead_letters
from everwhen.dead_letters.model import RedriveRequest
from everwhen.errors import EverwhenError
from everwhen.limits import quotas
from everwhen.operations import changing, plans, selecting, store
from everwhen.operations.model import (
    FIRST_SEQ,
    Backfill,
    Item,
    ItemOrder,
    ItemState,
    OperationRow,
    Request,
    parse_request,
)
from everwhen.operations.telling import tell_end
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick
from everwhen.runs import service as runs
from everwhen.runs.derived import Filling, Making, PastInstant, make_backfilled, make_redriven
from everwhen.runs.ends import Ended, OnEnded, nobody_follows
from everwhen.runs.listing.service import RUNS
from everwhen.runs.service import OnReady

SEEN_AT_ONCE: Final = 2_000
CANCELLED_AT_ONCE: Final = 100
BUSY: Final = timedelta(seconds=1)
USED_UP: Final = timedelta(minutes=1)

UNABLE: Final = (psycopg.DataError, psycopg.IntegrityError, EverwhenError, ValueError, LookupError, TypeError)
"""What stops one operation and must stop no other."""

log = structlog.get_logger("everwhen.operations")


class Result(NamedTuple):
    """What became of an item: `done` or `skipped`, why, and the run whose end counts."""

    seq: int
    state: str
    reason: Reason | None
    run_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The role. `batch` bounds how many items one step takes."""

    database: Database
    on_ready: OnReady | None = None
    on_ended: OnEnded = nobody_follows
    batch: int = 500
    name: str = "operator"
    interval: timedelta = timedelta(seconds=1)

    async def tick(self, now: datetime) -> Tick:
        """Take one step of the operation that is due first."""
        async with self.database.system() as conn:
            row = await store.lock_next(conn, now=now)
            if row is None:
                return Tick(next_at=await store.next_due(conn))
            after = await self._step_or_stop(conn, row)
            await _save(conn, after)
            if after.finished_at is not None and row.finished_at is None:
                await tell_end(conn, after)
            failpoints.hit("operator.before_commit")
        failpoints.hit("operator.after_commit")
        return Tick(done=after.done + after.skipped - row.done - row.skipped, more=True)

    async def _step_or_stop(self, conn: Connection, row: OperationRow) -> OperationRow:
        try:
            async with conn.transaction():  # a savepoint: the hold on the operation outlives what could not be done
                return await self._step(conn, row, parse_request(row.request))
        except UNABLE as error:
            if isinstance(error, EverwhenError) and error.retryable:
                return replace(row, next_at=conn.now + BUSY)
            log.exception("operation.unable", operation_id=str(row.id), tenant_id=str(row.tenant_id))
            return _stopped(row, Stop(OperationState.FAILED, Reason.OPERATION_UNABLE), now=conn.now)

    async def _step(self, conn: Connection, row: OperationRow, request: Request) -> OperationRow:
        match OperationState(row.state):
            case OperationState.PLANNED:
                return await _list(conn, row, request)
            case OperationState.ABORTING:
                return await self._withdraw(conn, row)
            case state if state in FINISHED:
                return await _look_after(conn, row, request)
            case _:
                return await self._work(conn, row, request)

    async def _work(self, conn: Connection, row: OperationRow, request: Request) -> OperationRow:
        now, limits = conn.now, request.limits
        row = await _see(conn, row)
        row = replace(row, canary_passed=bulk.passes_canary(row.progress, limits))
        step = bulk.decide(row.progress, limits, rate_at=row.rate_at, now=now, batch=self._batch(request))
        if isinstance(step, Stop):
            return _stopped(row, step, now=now)
        if isinstance(step, Do):
            row = await self._take(conn, row, request, step.most)
        next_at = bulk.next_look(step, limits=limits, rate_at=row.rate_at, moved_at=row.moved_at, now=now)
        if row.state_reason == Reason.QUOTA_RUNS_PER_DAY:  # the limit may be raised before the day is over
            next_at = min(quotas.next_day(now), now + USED_UP)
        return replace(row, next_at=next_at)

    def _batch(self, request: Request) -> int:
        if request.kind in CHANGES:
            return min(self.batch, changing.at_once(request.kind))
        cancels = request.kind is OperationKind.CANCEL_RUNS
        return min(self.batch, CANCELLED_AT_ONCE) if cancels else self.batch

    async def _take(self, conn: Connection, row: OperationRow, request: Request, most: int) -> OperationRow:
        items = await store.take_items(conn, tenant_id=row.tenant_id, operation_id=row.id, limit=most)
        if request.kind in CHANGES:
            return await self._change(conn, row, request, items)
        day = row.tenant_id, day_of(conn.now)
        if request.kind is not OperationKind.CANCEL_RUNS:
            items = items[: (await quotas.use_runs(conn, {day: len(items)})).get(day, len(items))]
            if not items:
                return replace(row, state_reason=Reason.QUOTA_RUNS_PER_DAY)
        results = await self._do(conn, row, request, items)
        await store.settle_items(
            conn,
            tenant_id=row.tenant_id,
            operation_id=row.id,
            seqs=[result.seq for result in results],
            states=[result.state for result in results],
            reasons=[result.reason for result in results],
            details=[None] * len(results),
            made_run_ids=[result.run_id for result in results],
        )
        done = sum(result.state == "done" for result in results)
        if request.kind is not OperationKind.CANCEL_RUNS:
            await quotas.give_back_runs(conn, {day: len(results) - done})
        return replace(
            row,
            state_reason=None,
            done=row.done + done,
            skipped=row.skipped + len(results) - done,
            rate_at=bulk.paced(request.limits.rate, rate_at=row.rate_at, now=conn.now, taken=len(items)),
            moved_at=conn.now,
        )

    async def _do(self, conn: Connection, row: OperationRow, request: Request, items: Sequence[Item]) -> list[Result]:
        match request.kind:
            case OperationKind.REDRIVE:
                return await self._redrive(conn, row, request, items)
            case OperationKind.BACKFILL:
                return await self._backfill(conn, row, request, items)
            case OperationKind.CANCEL_RUNS:
                return await self._cancel(conn, row, items)
            case _:
                raise AssertionError(f"{request.kind} changes what is defined")

    async def _change(
        self, conn: Connection, row: OperationRow, request: Request, items: Sequence[Item]
    ) -> OperationRow:
        planned = plans.decode(request.plan_token)
        assert planned is not None
        asked = changing.parse_filter(request.kind, request.filter or "", now=conn.now)
        step = changing.Step(row=row, request=request, asked=asked, as_of=planned.as_of, on_ended=self.on_ended)
        outcomes = await changing.carry_out(conn, step, items)
        await store.settle_items(
            conn,
            tenant_id=row.tenant_id,
            operation_id=row.id,
            seqs=[outcome.seq for outcome in outcomes],
            states=[ItemState.SUCCEEDED if outcome.reason is None else ItemState.SKIPPED for outcome in outcomes],
            reasons=[outcome.reason for outcome in outcomes],
            details=[outcome.detail for outcome in outcomes],
            made_run_ids=[None] * len(outcomes),
        )
        paced = bulk.paced(request.limits.rate, rate_at=row.rate_at, now=conn.now, taken=len(items))
        return replace(changing.counted(row, outcomes), rate_at=paced, moved_at=conn.now)

    async def _redrive(
        self, conn: Connection, row: OperationRow, request: Request, items: Sequence[Item]
    ) -> list[Result]:
        letter = parse(request.filter or "", RUNS, now=conn.now).text("letter")
        pairs = [(item.run_id, _redrive_id(row, item.run_id)) for item in items if item.run_id is not None]
        taken = await dead_letters.take(
            conn,
            tenant_id=row.tenant_id,
            pairs=pairs,
            request=RedriveRequest(by=row.requested_by, reason=row.reason, again=letter == dead_letters.REDRIVEN),
            named=letter == dead_letters.DISMISSED,
        )
        made = await make_redriven(
            conn,
            _making(row, request),
            [pair for pair in pairs if pair[0] in taken],
            priority=request.priority,
            on_ready=self.on_ready,
        )
        results = _results(items, [run_id for _, run_id in pairs], made, Reason.OPERATION_TAKEN)
        left = [dead for dead, _ in pairs if dead not in taken]
        nodes = await dead_letters.nodes_among(conn, tenant_id=row.tenant_id, run_ids=left) if left else set[UUID]()
        return [
            result._replace(reason=Reason.WORKFLOW_RERUN_INSTEAD) if item.run_id in nodes else result
            for item, result in zip(items, results, strict=True)
        ]

    async def _backfill(
        self, conn: Connection, row: OperationRow, request: Request, items: Sequence[Item]
    ) -> list[Result]:
        backfill = request.backfill
        assert backfill is not None
        instants = [_past(row, backfill, item) for item in items if item.nominal_at is not None]
        filling = Filling(schedule_uid=backfill.schedule_uid, priority=request.priority or 0, tz_version=tz_version())
        made = await make_backfilled(conn, _making(row, request), instants, filling, on_ready=self.on_ready)
        return _results(items, [each.run_id for each in instants], made, Reason.OPERATION_MADE_ALREADY)

    async def _cancel(self, conn: Connection, row: OperationRow, items: Sequence[Item]) -> list[Result]:
        run_ids = [item.run_id for item in items if item.run_id is not None]
        asked = await self._cancel_each(conn, row, run_ids, by=row.requested_by, reason=row.reason)
        return _results(items, run_ids, asked, Reason.RUN_ENDED)

    async def _withdraw(self, conn: Connection, row: OperationRow) -> OperationRow:
        """Cancel what an aborted operation made, a batch at a time."""
        if row.seen_seq == FIRST_SEQ:
            row = replace(await _see(conn, row), seen_seq=FIRST_SEQ)
        items = await store.list_done(
            conn, tenant_id=row.tenant_id, operation_id=row.id, after=row.seen_seq, limit=CANCELLED_AT_ONCE
        )
        run_ids = [item.made_run_id for item in items]
        reason = f"the operation {row.id} was aborted"
        await self._cancel_each(conn, row, run_ids, by=row.changed_by, reason=reason)
        if len(items) == CANCELLED_AT_ONCE:
            return replace(row, seen_seq=items[-1].seq, next_at=conn.now, moved_at=conn.now)
        return _stopped(row, Stop(OperationState.ABORTED, Reason.OPERATION_ABORTED), now=conn.now)

    async def _cancel_each(
        self, conn: Connection, row: OperationRow, run_ids: Sequence[UUID], *, by: str, reason: str
    ) -> set[UUID]:
        """Cancel these runs; return those that had not ended.

        What follows from their ends comes after all of them: it takes locks of its own, and whoever holds those must
        not wait for a run.
        """
        ended: list[Ended] = []

        async def collect(conn: Connection, more: Sequence[Ended], now: datetime) -> None:  # noqa: ARG001  # as followers are called
            ended.extend(more)

        asked = {
            run_id
            for run_id in sorted(run_ids)
            if await runs.cancel_in(
                conn, tenant_id=row.tenant_id, run_id=run_id, by=by, reason=reason, on_ended=collect
            )
        }
        if ended:
            await self.on_ended(conn, ended, conn.now)
        return asked


async def _list(conn: Connection, row: OperationRow, request: Request) -> OperationRow:
    """Make items of a backfill's next instants; when all are, hold them against the plan, and begin."""
    backfill = request.backfill
    if backfill is None or row.listed_until is None:
        return replace(row, state=OperationState.RUNNING, next_at=conn.now)
    if row.listed_until >= backfill.end - timedelta(microseconds=1):
        return _begin_or_refuse(row, request, now=conn.now)
    chunk = await selecting.next_chunk(conn, tenant_id=row.tenant_id, backfill=backfill, after=row.listed_until)
    await _insert_instants(conn, row, request, chunk.instants)
    return replace(
        row,
        listed_until=chunk.until,
        listed=selecting.digest_instants(row.listed, chunk.instants),
        listed_count=row.listed_count + len(chunk.instants),
        next_at=conn.now,
    )


def _begin_or_refuse(row: OperationRow, request: Request, *, now: datetime) -> OperationRow:
    planned = plans.decode(request.plan_token)
    listed = row.listed_count, plans.short_digest(row.listed)
    if planned is not None and listed == (planned.count, planned.items):
        return replace(row, state=OperationState.RUNNING, next_at=now)
    changed = replace(row, total=row.listed_count)
    return _stopped(changed, Stop(OperationState.FAILED, Reason.OPERATION_PLAN_CHANGED), now=now)


async def _insert_instants(conn: Connection, row: OperationRow, request: Request, instants: Sequence[Instant]) -> None:
    sign = 1 if request.order is ItemOrder.OLDEST else -1
    first = row.listed_count
    await store.insert_items(
        conn,
        tenant_id=row.tenant_id,
        operation_id=row.id,
        seqs=[sign * number for number in range(first, first + len(instants))],
        run_ids=[None] * len(instants),
        nominal_ats=[each.nominal_at for each in instants],
        utc_offsets=[int(each.utc_offset.total_seconds()) for each in instants],
    )


async def _see(conn: Connection, row: OperationRow) -> OperationRow:
    """Count how runs have ended; the next look goes on where this one stopped, or begins anew."""
    seen = await store.see_ends(
        conn, tenant_id=row.tenant_id, operation_id=row.id, after=row.seen_seq, limit=SEEN_AT_ONCE
    )
    found = seen.succeeded + seen.dead + seen.ended
    return replace(
        row,
        succeeded=row.succeeded + seen.succeeded,
        dead=row.dead + seen.dead,
        ended=row.ended + seen.ended,
        seen_seq=seen.last_seq if seen.looked == SEEN_AT_ONCE and seen.last_seq is not None else FIRST_SEQ,
        moved_at=conn.now if found else row.moved_at,
    )


async def _look_after(conn: Connection, row: OperationRow, request: Request) -> OperationRow:
    """Count how the runs of an operation end that has stopped before they did; it does nothing else any more."""
    row = await _see(conn, row)
    if not row.progress.under_way:
        return replace(row, next_at=None)
    look = bulk.next_look(Watch(), limits=request.limits, rate_at=row.rate_at, moved_at=row.moved_at, now=conn.now)
    return replace(row, next_at=look)


def _stopped(row: OperationRow, stop: Stop, *, now: datetime) -> OperationRow:
    next_at = now if row.progress.under_way else None
    return replace(row, state=stop.state, state_reason=stop.reason, next_at=next_at, finished_at=now, moved_at=now)


def _results(items: Sequence[Item], run_ids: Sequence[UUID], done: set[UUID], otherwise: Reason) -> list[Result]:
    return [
        Result(item.seq, "done", None, run_id) if run_id in done else Result(item.seq, "skipped", otherwise, None)
        for item, run_id in zip(items, run_ids, strict=True)
    ]


def _redrive_id(row: OperationRow, dead_run_id: UUID) -> UUID:
    return derived_run_id(row.tenant_id, dead_run_id, by=f"operation:{row.id}", at=row.created_at)


def _past(row: OperationRow, backfill: Backfill, item: Item) -> PastInstant:
    assert item.nominal_at is not None
    run_id = backfilled_run_id(
        row.tenant_id, backfill.schedule_uid, nominal_at=item.nominal_at, backfill_id=backfill.id
    )
    offset = timedelta(seconds=item.utc_offset_seconds or 0)
    return PastInstant(run_id=run_id, nominal_at=item.nominal_at, utc_offset=offset)


def _making(row: OperationRow, request: Request) -> Making:
    return Making(
        tenant_id=row.tenant_id,
        by=row.requested_by,
        reason=row.reason,
        operation_id=row.id,
        overlap=request.overlap,
    )


async def _save(conn: Connection, row: OperationRow) -> None:
    await store.save_operation(
        conn,
        tenant_id=row.tenant_id,
        operation_id=row.id,
        state=row.state,
        state_reason=row.state_reason,
        done=row.done,
        skipped=row.skipped,
        succeeded=row.succeeded,
        dead=row.dead,
        ended=row.ended,
        total=row.total,
        canary_passed=row.canary_passed,
        listed_until=row.listed_until,
        listed=row.listed,
        listed_count=row.listed_count,
        rate_at=row.rate_at,
        seen_seq=row.seen_seq,
        next_at=row.next_at,
        moved_at=row.moved_at,
        finished_at=row.finished_at,
    )
