"""What can be done with runs: ask for one, look at them, cancel one.

A request for a run makes one each time; that a request which is repeated makes no second one is the edge's doing, which
keeps its answer in the transaction that makes the run (replies/service.py).
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen import clock
from everwhen.core.filters import Filter
from everwhen.core.flex import MOST_WINDOW
from everwhen.core.ids import instant_of, scheduled_run_id
from everwhen.core.lifecycle import TERMINAL, CancelRequested, Refused, Run, RunState, decide
from everwhen.core.overlap import OverlapWish
from everwhen.core.quotas import day_of
from everwhen.core.reasons import Reason
from everwhen.core.retry import RetryPolicy
from everwhen.core.targets import WORKFLOW_QUEUE, workflow_of
from everwhen.core.zones import add
from everwhen.errors import Conflict, InvalidInput, NotFound, Unavailable
from everwhen.limits import quotas
from everwhen.lists import LAST_ID, Listed
from everwhen.overlap import service as overlap
from everwhen.payloads.references import share_payloads
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import line_topic, notify
from everwhen.runs import store
from everwhen.runs.ends import Ended, OnEnded, nobody_follows
from everwhen.runs.listing import service as listing
from everwhen.runs.listing.service import Asked
from everwhen.runs.model import (
    Attempt,
    LastError,
    PlannedAhead,
    RunEvent,
    RunFilter,
    RunRequest,
    RunRow,
    ScheduleTarget,
    TailedEvent,
    state_of,
)
from everwhen.runs.planning import ensure_partitions

MOST_AHEAD: Final = timedelta(days=360)
MOST_BEHIND: Final = timedelta(minutes=5)
"""How far back an asked-for instant may lie: clocks differ, and a request takes a while to arrive."""

CANCEL_ROUNDS: Final = 5
PENDING_PAGE: Final = 200
LIST_ROUNDS: Final = 5
MOST_TAILED: Final = 5_000

OnReady = Callable[[Connection, UUID, str], Awaitable[None]]
"""Called inside the transaction that lines a run up, when it is due at once: (connection, tenant, queue)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run with its state as of `now`. `last_error` is there when one dead run is read, and not in lists."""

    row: RunRow
    state: RunState
    last_error: LastError | None = None


async def request_run(
    db: Database,
    *,
    tenant_id: UUID,
    request: RunRequest,
    on_ready: OnReady | None = None,
    on_ended: OnEnded = nobody_follows,
) -> RunView:
    """Make the run that is asked for.

    Raises InvalidInput for an unknown task or schedule, or an instant out of range.
    """
    async with db.tenant(tenant_id) as conn:
        now, run_id = conn.now, clock.new_id(conn.now)
        due_at = _due_at(request, now)
        queue = await _line_up(conn, tenant_id, request, run_id=run_id, due_at=due_at, on_ended=on_ended)
        if on_ready is not None and due_at <= now:
            await on_ready(conn, tenant_id, queue)
        return await _read(conn, tenant_id, run_id)


async def get_run(db: Database, *, tenant_id: UUID, ref: str) -> RunView:
    """Read one run by its id or by `schedule@local-time+offset`; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        view = await read_run(conn, tenant_id=tenant_id, ref=ref)
        if view.state is not RunState.DEAD:
            return view
        last_error = await store.find_last_error(conn, tenant_id=tenant_id, run_id=view.row.run_id)
        return replace(view, last_error=last_error)


async def read_run(conn: Connection, *, tenant_id: UUID, ref: str) -> RunView:
    """Read one run in the caller's transaction, as `get_run` does, but for what a dead one died of."""
    return await _read(conn, tenant_id, await _resolve(conn, tenant_id, ref))


async def list_runs(
    db: Database, *, tenant_id: UUID, where: RunFilter, before: UUID = LAST_ID, limit: int
) -> Listed[RunView]:
    """Return up to `limit` runs with ids below `before`, the newest first.

    Raises InvalidInput when the filter names a schedule that does not exist.
    """
    async with db.tenant(tenant_id) as conn:
        asked = await asked_for(conn, tenant_id, where)
        return await _page(conn, asked, Filter(), before=before, limit=limit)


async def find_runs(
    db: Database, *, tenant_id: UUID, text: str, implied: str = "", before: UUID = LAST_ID, limit: int
) -> Listed[RunView]:
    """Return runs as `list_runs` does, by a filter's text and by terms that are implied.

    Raises InvalidInput when the filter cannot be read, no index serves it, or it names a schedule that does not exist.
    """
    async with db.tenant(tenant_id) as conn:
        asked = listing.read_filter(text, now=conn.now, pointer="query:filter", implied=implied)
        where = await asked_for(conn, tenant_id, listing.run_filter(asked))
        return await _page(conn, where, asked, before=before, limit=limit)


async def read_views(conn: Connection, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[RunView]:
    """Return these runs, in this order, in the caller's transaction; those that are gone are left out."""
    rows = {row.run_id: row for row in await store.read_runs(conn, tenant_id=tenant_id, run_ids=run_ids)}
    return _views([rows[run_id] for run_id in run_ids if run_id in rows], conn.now)


async def cancel_in(
    conn: Connection, *, tenant_id: UUID, run_id: UUID, by: str, reason: str | None, on_ended: OnEnded
) -> bool:
    """Cancel a run in the caller's transaction, as `cancel_run` does; return False when it ended otherwise or is gone.

    Raises Unavailable when it changes hands too fast.
    """
    detail = _cancel_detail(by, reason)
    for _ in range(CANCEL_ROUNDS):
        try:
            view = await _read(conn, tenant_id, run_id)
            if await _cancel(conn, tenant_id, view, detail=detail, on_ended=on_ended):
                return True
        except (NotFound, Conflict):
            return False
    raise Unavailable("The run changes hands too fast; try again.", code="run.busy")


async def cancel_pending(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, by: str, reason: str, on_ended: OnEnded
) -> int:
    """Cancel what waits of a schedule, in the caller's transaction, and leave alone what runs; return how many.

    Raises Unavailable when they change hands too fast.
    """
    detail, cancelled = _cancel_detail(by, reason), 0
    for state in (RunState.WAITING, RunState.RETRYING):
        asked = Asked(tenant_id=tenant_id, where=RunFilter(state=state), schedule_uid=schedule_uid)
        before: UUID | None = LAST_ID
        while before is not None:
            page = await listing.page_ids(conn, asked, before=before, limit=PENDING_PAGE)
            for run_id in page.run_ids:
                cancelled += await _cancel_unless_running(conn, tenant_id, run_id, detail=detail, on_ended=on_ended)
            before = page.following
    return cancelled


async def _cancel_unless_running(
    conn: Connection, tenant_id: UUID, run_id: UUID, *, detail: str, on_ended: OnEnded
) -> bool:
    for _ in range(CANCEL_ROUNDS):
        view = await find_run(conn, tenant_id=tenant_id, run_id=run_id)
        if view is None or view.state in {RunState.RUNNING, *TERMINAL}:
            return False
        if await _cancel(conn, tenant_id, view, detail=detail, on_ended=on_ended):
            return True
    raise Unavailable("The run changes hands too fast; try again.", code="run.busy")


async def list_of_schedule(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, before: UUID = LAST_ID, limit: int
) -> list[RunView]:
    """Return up to `limit` runs of a schedule, deleted or not, the newest first, in the caller's transaction."""
    asked = Asked(tenant_id=tenant_id, where=RunFilter(), schedule_uid=schedule_uid)
    for _ in range(LIST_ROUNDS):  # one that is withdrawn between the two looks would make a page look like the last one
        page = await listing.page_ids(conn, asked, before=before, limit=limit)
        rows = await store.read_runs(conn, tenant_id=tenant_id, run_ids=page.run_ids)
        if len(rows) == len(page.run_ids):
            return _views(rows, conn.now)
    raise Unavailable("The schedule changes too fast to list its runs; try again.", code="run.busy")


async def make_run(
    conn: Connection,
    *,
    tenant_id: UUID,
    request: RunRequest,
    on_ready: OnReady | None = None,
    on_ended: OnEnded = nobody_follows,
) -> UUID:
    """Make the run that is asked for in the caller's transaction, which is what makes it once; return its id."""
    run_id, due_at = clock.new_id(conn.now), _due_at(request, conn.now)
    queue = await _line_up(conn, tenant_id, request, run_id=run_id, due_at=due_at, on_ended=on_ended)
    if on_ready is not None and due_at <= conn.now:
        await on_ready(conn, tenant_id, queue)
    return run_id


async def asked_for(conn: Connection, tenant_id: UUID, where: RunFilter) -> Asked:
    """Return the filter with its schedule's uid; raise InvalidInput when there is no such schedule."""
    schedule_uid = None if where.schedule is None else (await _target(conn, tenant_id, where.schedule)).uid
    return Asked(tenant_id=tenant_id, where=where, schedule_uid=schedule_uid)


async def list_attempts(db: Database, *, tenant_id: UUID, ref: str) -> list[Attempt]:
    """Return every attempt of a run, the open one last; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        run = await _read(conn, tenant_id, await _resolve(conn, tenant_id, ref))
        return await store.list_attempts(conn, tenant_id=tenant_id, run_id=run.row.run_id)


async def list_events(db: Database, *, tenant_id: UUID, ref: str, after: int = 0, limit: int) -> list[RunEvent]:
    """Return up to `limit` events of a run after this one, oldest first; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        run = await _read(conn, tenant_id, await _resolve(conn, tenant_id, ref))
        return await store.list_events(conn, tenant_id=tenant_id, run_id=run.row.run_id, after=after, limit=limit)


async def find_run(conn: Connection, *, tenant_id: UUID, run_id: UUID) -> RunView | None:
    """Read a run in the caller's transaction; None when there is none."""
    row = await store.get_run(conn, tenant_id=tenant_id, run_id=run_id)
    return None if row is None else _view(row, conn.now)


async def find_in_need_of(conn: Connection, *, tenant_id: UUID, text: str) -> UUID | None:
    """Return a run that may still be executed and whose input has this text in it, in the caller's transaction."""
    return await store.find_in_need_of(conn, tenant_id=tenant_id, text=text)


async def id_of_instant(conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, nominal_at: datetime) -> UUID:
    """Return the id that a schedule's run at this instant has, or would have."""
    last_due_at = add(nominal_at, MOST_WINDOW)
    moved = await store.find_nominal(
        conn, tenant_id=tenant_id, schedule_uid=schedule_uid, nominal_at=nominal_at, last_due_at=last_due_at
    )
    return moved or scheduled_run_id(tenant_id, schedule_uid, nominal_at=nominal_at, due_at=nominal_at)


async def history_of(conn: Connection, *, tenant_id: UUID, run_id: UUID, limit: int) -> list[RunEvent]:
    """Return the first `limit` events of a run, in the caller's transaction."""
    return await store.list_events(conn, tenant_id=tenant_id, run_id=run_id, after=0, limit=limit)


async def attempts_of(conn: Connection, *, tenant_id: UUID, run_id: UUID) -> list[Attempt]:
    """Return the attempts of a run, in the caller's transaction."""
    return await store.list_attempts(conn, tenant_id=tenant_id, run_id=run_id)


async def cancel_run(
    db: Database,
    *,
    tenant_id: UUID,
    ref: str,
    by: str,
    reason: str | None,
    on_ended: OnEnded = nobody_follows,
) -> RunView:
    """End a run that nobody holds, or ask its holder to stop; a run that is cancelled already stays so.

    Raises NotFound, and Conflict when the run ended otherwise.
    """
    detail = _cancel_detail(by, reason)
    async with db.tenant(tenant_id) as conn:
        run_id = await _resolve(conn, tenant_id, ref)
        for _ in range(CANCEL_ROUNDS):
            view = await _read(conn, tenant_id, run_id)
            if await _cancel(conn, tenant_id, view, detail=detail, on_ended=on_ended):
                return await _read(conn, tenant_id, run_id)
    raise Unavailable("The run changes hands too fast; try again.", code="run.busy")


async def list_planned_ahead(
    conn: Connection, *, tenant_ids: Sequence[UUID], schedule_uids: Sequence[UUID], now: datetime
) -> dict[UUID, list[PlannedAhead]]:
    """Return what schedules have planned that is not due yet, by schedule."""
    found: dict[UUID, list[PlannedAhead]] = {}
    for row in await store.list_planned_ahead(conn, tenant_ids=tenant_ids, schedule_uids=schedule_uids, now=now):
        found.setdefault(row.schedule_uid, []).append(row)
    return found


async def list_answered(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, after: datetime, until: datetime
) -> list[datetime]:
    """Return at which instants of a stretch a schedule has runs already, in the caller's transaction."""
    return await store.list_answered(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, after=after, until=until)


async def withdraw_planned(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, now: datetime, reason: Reason
) -> list[UUID]:
    """Take back the runs planned for a schedule after `now`, in the caller's transaction; return their ids.

    What has ended stays: nobody takes an end back.
    """
    return await store.withdraw_planned(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, now=now, reason=reason)


async def _page(conn: Connection, asked: Asked, text: Filter, *, before: UUID, limit: int) -> Listed[RunView]:
    """Read a page; a run that is withdrawn between the two looks is left out."""
    page = await listing.page_ids(conn, asked, before=before, limit=limit)
    rows = await store.read_runs(conn, tenant_id=asked.tenant_id, run_ids=page.run_ids)
    following = None if page.following is None else str(page.following)
    return Listed(rows=_views(rows, conn.now), following=following, asked=text)


def _cancel_detail(by: str, reason: str | None) -> str:
    return json.dumps({"by": by} | ({} if reason is None else {"reason": reason}))


async def _cancel(conn: Connection, tenant_id: UUID, view: RunView, *, detail: str, on_ended: OnEnded) -> bool:
    """Return False when the run moved meanwhile, so that the caller looks again."""
    if view.state is RunState.CANCELLED or view.row.cancel_requested_at is not None:
        return True
    # Cancelling draws no jitter and asks no policy: they are arguments of other answers.
    answer = decide(Run(state=view.state), CancelRequested(), now=conn.now, policy=RetryPolicy(), jitter=0.0)
    if isinstance(answer, Refused):
        raise Conflict(f"The run is {view.state} already.", code=answer.reason)
    reason = answer.reason or Reason.CANCEL_REQUESTED
    key = {"tenant_id": tenant_id, "run_id": view.row.run_id}
    if answer.to is RunState.RUNNING:
        if view.row.queue == WORKFLOW_QUEUE:
            await notify(conn, [line_topic(tenant_id, WORKFLOW_QUEUE)])  # a worker hears of it by its next heartbeat
        return bool(await store.request_cancel(conn, **key, reason=reason, detail=detail, now=conn.now))
    write = store.cancel_held if view.row.is_held else store.cancel_waiting
    is_followed = await write(conn, **key, reason=reason, detail=detail, now=conn.now)
    if is_followed:
        await on_ended(conn, [Ended(**key, state=answer.to, reason=reason)], conn.now)
    return is_followed is not None


async def _line_up(
    conn: Connection, tenant_id: UUID, request: RunRequest, *, run_id: UUID, due_at: datetime, on_ended: OnEnded
) -> str:
    """Write the run, into the line of its queue or behind its schedule's gate; return its queue."""
    target = None
    if request.schedule is not None:
        target = await store.share_schedule_target(conn, tenant_id=tenant_id, name=request.schedule)
        if target is None:
            raise _unknown_schedule()
    task = target.task if target else request.task
    admitted = task and await store.admit_run(
        conn, tenant_id=tenant_id, task=task, day=day_of(due_at), usual=quotas.USUAL_RUNS
    )
    if not admitted:
        workflow = workflow_of(task or "")
        if workflow is not None:
            detail = f"There is no workflow named {workflow}: create it first."
            raise InvalidInput.at("/workflow", detail, code="workflow.unknown")
        raise InvalidInput.at("/task", f"There is no task named {task}: create it first.", code="task.unknown")
    if not admitted.granted:
        raise quotas.runs_used_up(due_at)
    if request.has_input:
        await share_payloads(conn, tenant_id=tenant_id, value=request.input)
    await ensure_partitions(conn, [instant_of(run_id)])
    row: dict[str, Any] = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "task": task,
        "schedule_uid": target and target.uid,
        "schedule_revision": target and target.revision,
        "priority": target.priority if target and request.priority is None else request.priority,
        "due_at": due_at,
        "input": target.input if target and not request.has_input else json.dumps(request.input),
        "now": conn.now,
    }
    if target is not None and target.is_gated and request.overlap is not OverlapWish.IGNORE:
        made = await store.insert_held(conn, **row, is_patient=request.overlap is OverlapWish.WAIT)
        await overlap.expect(conn, tenant_id=tenant_id, schedule_uid=target.uid, run_id=run_id, then=on_ended)
    else:
        made = await store.insert_requested(conn, **row, is_followed=target is not None and target.is_followed)
    assert made is not None  # a deleted task's row stays
    return made.queue


def _due_at(request: RunRequest, now: datetime) -> datetime:
    at = now if request.at is None else request.at.astimezone(UTC)
    if at > now + MOST_AHEAD:
        raise InvalidInput.at("/at", f"at lies more than {MOST_AHEAD.days} days ahead.", code="run.at_too_far")
    if at < now - MOST_BEHIND:
        raise InvalidInput.at("/at", "at lies in the past; leave it out to run at once.", code="run.at_past")
    return at


async def _target(conn: Connection, tenant_id: UUID, schedule: str) -> ScheduleTarget:
    target = await store.find_schedule_target(conn, tenant_id=tenant_id, name=schedule)
    if target is None:
        raise _unknown_schedule()
    return target


async def _resolve(conn: Connection, tenant_id: UUID, ref: str) -> UUID:
    """Return the id that a reference means. It is computed, so it need not be the id of a run that exists."""
    name, at, local = ref.rpartition("@")
    try:
        if not at:
            return UUID(ref)
        nominal_at = datetime.fromisoformat(local).astimezone(UTC) if _has_offset(local) else None
    except (ValueError, OverflowError):
        raise _unknown() from None
    target = None if nominal_at is None else await store.find_schedule_target(conn, tenant_id=tenant_id, name=name)
    if target is None or nominal_at is None:
        raise _unknown()
    return await id_of_instant(conn, tenant_id=tenant_id, schedule_uid=target.uid, nominal_at=nominal_at)


def _has_offset(local: str) -> bool:
    return datetime.fromisoformat(local).tzinfo is not None


async def _read(conn: Connection, tenant_id: UUID, run_id: UUID) -> RunView:
    row = await store.get_run(conn, tenant_id=tenant_id, run_id=run_id)
    view = None if row is None else _view(row, conn.now)
    if view is None:
        raise _unknown()
    return view


def _view(row: RunRow, now: datetime) -> RunView | None:
    state = state_of(row, now=now)
    return None if state is None else RunView(row=row, state=state)


def _views(rows: Sequence[RunRow], now: datetime) -> list[RunView]:
    return [view for row in rows if (view := _view(row, now)) is not None]


def _unknown_schedule() -> InvalidInput:
    return InvalidInput.at("/schedule", "There is no schedule of this name.", code="schedule.unknown")


def _unknown() -> NotFound:
    return NotFound("There is no such run.", code="run.unknown")


async def tail(db: Database, *, tenant_id: UUID, after: int, since: timedelta) -> list[TailedEvent]:
    """Return up to MOST_TAILED events numbered above `after`, of runs due no longer than `since` ago."""
    async with db.tenant(tenant_id) as conn:
        return await store.tail_events(
            conn, tenant_id=tenant_id, since=conn.now - since, after=after, limit=MOST_TAILED
        )
