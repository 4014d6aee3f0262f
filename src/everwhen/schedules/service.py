"""What can be done with schedules.

A change happens in one transaction that holds the schedule's watermark, so the planner is either before it or after it:

1. `planner.settle` decides every instant up to now under the revision that was in force; what is overdue becomes
   arrears of that revision.
2. Runs planned ahead of now are withdrawn: no worker can have seen them, and the new revision decides their instants
   anew. What is to be skipped was not decided ahead. A run that somebody has cancelled, or that was due before its
   instant, keeps that answer, and the watermark knows it (`answered`).
3. The new revision, its history row and the watermark (decided until now) are written.

A crash before the commit leaves all of it undone; a repeated request then starts from the same place.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from everwhen import clock
from everwhen.calendars.books import load_books, share_book
from everwhen.calendars.service import set_calendars
from everwhen.core.catchup import Rule
from everwhen.core.errors import TriggerError
from everwhen.core.ids import instant_of
from everwhen.core.quotas import Limit
from everwhen.core.reasons import Reason
from everwhen.core.targets import workflow_of
from everwhen.core.triggers import (
    Timing,
    bind,
    calendar_names,
    next_after,
    next_look,
    refuse_dense_rolls,
)
from everwhen.core.zones import FIRST_INSTANT, tz_version
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.limits import quotas
from everwhen.lists import Listed
from everwhen.pauses.service import refuse_until
from everwhen.payloads.references import set_payloads
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import ANY, Expected, refuse_stale
from everwhen.runs import service as runs
from everwhen.runs.ends import OnEnded, nobody_follows
from everwhen.schedules import gating, listing, planner, store, tagging
from everwhen.schedules.arrears import changes as arrears
from everwhen.schedules.arrears.preview import Preview
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import (
    CursorRow,
    Revision,
    RevisionAction,
    Schedule,
    ScheduleDraft,
    ScheduleState,
    Spec,
    bind_spec,
    parse_spec,
    schedule_from_row,
    seed_spec,
    spec_to_json,
)
from everwhen.targets import service as targets

_LABELS: Final = {"tags", "owner"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changes a schedule, why, and which revision of it."""

    by: str
    reason: str | None = None
    expected: Expected = ANY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a change did: the specs, when the withdrawn runs were due, and the revision that it made.

    `past` is what the new trigger has left to catch up on, counted; None: it begins at the present.
    """

    before: Spec
    after: Spec
    withdrawn: Sequence[datetime]
    paused: bool
    revision: int
    past: Preview | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A schedule that was resumed, and what becomes of what the pause left behind."""

    schedule: Schedule
    left_behind: Preview


async def create_schedule(db: Database, *, tenant_id: UUID, draft: ScheduleDraft, change: Change) -> Schedule:
    """Make a schedule that is decided up to now: its first run is the first instant after it.

    One that begins in the past has what lies between as arrears. It may begin paused, in the same transaction.

    Raises Conflict when the name is taken or the tenant has as many as it may have, InvalidInput when there is no such
    task, it begins too long ago or in the future, or fires too often, TriggerError when it never fires.
    """
    async with db.tenant(tenant_id) as conn:
        return await make_schedule(conn, tenant_id=tenant_id, draft=draft, change=change)


async def make_schedule(conn: Connection, *, tenant_id: UUID, draft: ScheduleDraft, change: Change) -> Schedule:
    """Make a schedule in the caller's transaction, as `create_schedule` does."""
    now, uid = conn.now, clock.new_id(conn.now)
    own = seed_spec(draft.spec, uid)
    names = calendar_names(own.timing)
    spec = bind_spec(own, await share_book(conn, tenant_id=tenant_id, names=names))
    refuse_never(spec)
    refuse_dense_rolls(spec.timing, after=now)
    since = arrears.beginning(spec, draft.since, now=now)
    await _insert(conn, tenant_id, uid, draft=draft, spec=own)
    limits = await quotas.refuse_over(conn, Limit.SCHEDULES, store.count_schedules, tenant_id=tenant_id)
    quotas.refuse_frequent(limits, spec.timing, after=now)
    await set_calendars(conn, tenant_id=tenant_id, schedule_uid=uid, names=names)
    await set_payloads(conn, tenant_id=tenant_id, schedule_uid=uid, value=draft.input)
    await tagging.note(conn, tenant_id=tenant_id, name=draft.name, tags=draft.tags)
    next_at = next_look(spec.timing, now) if draft.paused is None else None
    await store.insert_watermark(
        conn, tenant_id=tenant_id, uid=uid, decided_until=now, next_at=next_at, tz_version=tz_version()
    )
    await gating.keep(conn, tenant_id=tenant_id, uid=uid, after=spec)
    await _record(conn, tenant_id, uid, action=RevisionAction.CREATED, change=change)
    if since is not None:
        await arrears.begin_in_the_past(
            conn, tenant_id=tenant_id, uid=uid, spec=spec, since=since, is_paused=draft.paused is not None
        )
    return await _read(conn, tenant_id, draft.name)


async def _insert(conn: Connection, tenant_id: UUID, uid: UUID, *, draft: ScheduleDraft, spec: Spec) -> None:
    await _hold_target(conn, tenant_id, draft.task)
    made = await store.insert_schedule(
        conn,
        tenant_id=tenant_id,
        uid=uid,
        name=draft.name,
        task=draft.task,
        spec=spec_to_json(spec),
        input=json.dumps(draft.input),
        priority=draft.priority,
        tags=draft.tags,
        owner=draft.owner,
        state=ScheduleState.ACTIVE if draft.paused is None else ScheduleState.PAUSED,
        state_reason=draft.paused,
        now=conn.now,
    )
    if made is None:
        raise Conflict(f"A schedule named {draft.name} exists already.", code="schedule.exists")


async def get_schedule(db: Database, *, tenant_id: UUID, name: str) -> Schedule:
    """Read one schedule; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await _read(conn, tenant_id, name)


async def read_schedule(conn: Connection, *, tenant_id: UUID, name: str) -> Schedule:
    """Read one schedule in the caller's transaction; raise NotFound."""
    return await _read(conn, tenant_id, name)


async def count_schedules(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many there are, paused ones included, in the caller's transaction."""
    return await store.count_schedules(conn, tenant_id=tenant_id)


async def count_active(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many there are that plan runs, in the caller's transaction."""
    return await store.count_active(conn, tenant_id=tenant_id)


async def list_schedules(
    db: Database, *, tenant_id: UUID, after: str = "", limit: int, where: str = ""
) -> Listed[Schedule]:
    """Return up to `limit` schedules after `after` that the filter `where` finds, by name; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        found = await listing.list_rows(conn, tenant_id=tenant_id, text=where, after=after, limit=limit)
        books = await books_of(conn, ((tenant_id, row.spec) for row in found.rows))
    book = books.get(tenant_id, {})
    rows = [schedule_from_row(row, now=conn.now, book=book) for row in found.rows]
    return Listed(rows=rows, following=found.following, asked=found.asked)


async def list_revisions(db: Database, *, tenant_id: UUID, name: str, after: int = 0, limit: int) -> list[Revision]:
    """Return up to `limit` revisions of a schedule after this one, oldest first; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        uid = (await _read(conn, tenant_id, name)).uid
        return await store.list_revisions(conn, tenant_id=tenant_id, uid=uid, after=after, limit=limit)


async def update_schedule(
    db: Database, *, tenant_id: UUID, name: str, changes: Callable[[Spec], Mapping[str, Any]], change: Change
) -> Schedule:
    """Make the next revision, with the fields of `ScheduleDraft` that `changes` returns for the spec in force.

    Raises NotFound, InvalidInput when there is no such task, TriggerError when it would never fire, Conflict when this
    version cannot read the spec in force.
    """
    async with db.tenant(tenant_id) as conn:
        await change_schedule(conn, tenant_id=tenant_id, name=name, changes=changes, change=change)
        return await _read(conn, tenant_id, name)


async def change_schedule(
    conn: Connection, *, tenant_id: UUID, name: str, changes: Callable[[Spec], Mapping[str, Any]], change: Change
) -> Changed:
    """Make the next revision in the caller's transaction, as `update_schedule` does; return what it changed."""
    cursor = await _locked(conn, tenant_id, name, change)
    in_force = spec_of(cursor)
    after = dict(changes(in_force))
    if after and after.keys() <= _LABELS:
        return await _relabel(conn, cursor, in_force, after, change=change)
    await planner.settle(conn, cursor, now=conn.now)
    withdrawn = await _withdraw(conn, cursor, Reason.SCHEDULE_CHANGED)
    if "spec" in after:
        after["spec"] = seed_spec(after["spec"], cursor.uid)
    spec = after.get("spec", in_force)
    names = calendar_names(spec.timing)
    book = await share_book(conn, tenant_id=tenant_id, names=sorted({*names, *calendar_names(in_force.timing)}))
    in_force, spec = bind_spec(in_force, book), bind_spec(spec, book)
    refuse_never(spec)
    refuse_dense_rolls(spec.timing, after=conn.now)
    if spec.timing != in_force.timing:
        quotas.refuse_frequent(await quotas.read(conn, tenant_id=tenant_id), spec.timing, after=conn.now)
    if book:
        await set_calendars(conn, tenant_id=tenant_id, schedule_uid=cursor.uid, names=names)
    if "input" in after:
        await set_payloads(conn, tenant_id=tenant_id, schedule_uid=cursor.uid, value=after["input"])
    await _replace(conn, cursor, after)
    await gating.keep(
        conn, tenant_id=tenant_id, uid=cursor.uid, before=in_force, after=spec, is_paused=_is_paused(cursor)
    )
    await _decide_from_now(conn, cursor, None if _is_paused(cursor) else spec)
    await _record(conn, tenant_id, cursor.uid, action=RevisionAction.UPDATED, change=change)
    past = None if _is_paused(cursor) else await arrears.edit_past(conn, cursor, in_force, spec)
    return Changed(
        before=in_force,
        after=spec,
        withdrawn=sorted(map(instant_of, withdrawn)),
        paused=_is_paused(cursor),
        revision=cursor.revision + 1,
        past=past,
    )


async def _relabel(
    conn: Connection, cursor: CursorRow, spec: Spec, after: Mapping[str, Any], *, change: Change
) -> Changed:
    """Make a revision that differs in its tags or owner: nothing is planned anew, what is planned ahead stays."""
    await tagging.relabel(conn, cursor, after)
    await _record(conn, cursor.tenant_id, cursor.uid, action=RevisionAction.UPDATED, change=change)
    spec = bind_spec(spec, await share_book(conn, tenant_id=cursor.tenant_id, names=calendar_names(spec.timing)))
    return Changed(before=spec, after=spec, withdrawn=(), paused=_is_paused(cursor), revision=cursor.revision + 1)


async def pause_schedule(
    db: Database, *, tenant_id: UUID, name: str, change: Change, until: datetime | None = None
) -> Schedule:
    """Stop planning, for good or until an instant; what is due and behind the gate stays there.

    Raises NotFound, Conflict when it is paused already, and InvalidInput when `until` has passed or lies too far ahead.
    """
    async with db.tenant(tenant_id) as conn:
        refuse_until(until, now=conn.now)
        cursor = await _locked(conn, tenant_id, name, change)
        await pause_locked(conn, cursor, change=change, until=until)
        return await _read(conn, tenant_id, name)


async def pause_locked(conn: Connection, cursor: CursorRow, *, change: Change, until: datetime | None = None) -> None:
    """Pause a schedule that the caller has locked; raise Conflict when it is paused already."""
    await planner.settle(conn, cursor, now=conn.now)
    if _is_paused(cursor):
        raise Conflict("The schedule is paused already.", code="schedule.paused")
    await _withdraw(conn, cursor, Reason.SCHEDULE_PAUSED)
    await arrears.hold_past(conn, cursor)
    await _set_state(conn, cursor, ScheduleState.PAUSED, change.reason, until=until)
    await gating.pause(conn, tenant_id=cursor.tenant_id, uid=cursor.uid, is_paused=True)
    await _decide_from_now(conn, cursor, None)
    await _record(conn, cursor.tenant_id, cursor.uid, action=RevisionAction.PAUSED, change=change)


async def resume_schedule(
    db: Database, *, tenant_id: UUID, name: str, change: Change, rule: Rule | None = None
) -> Resumed:
    """Plan again from now on, and say what becomes of what the pause left behind.

    It goes by the schedule's catch-up, or by `rule` this once. Raise NotFound, and Conflict when it is not paused.
    """
    async with db.tenant(tenant_id) as conn:
        cursor = await _locked(conn, tenant_id, name, change)
        left_behind = await resume_locked(conn, cursor, change=change, rule=rule)
        return Resumed(schedule=await _read(conn, tenant_id, name), left_behind=left_behind)


async def resume_locked(conn: Connection, cursor: CursorRow, *, change: Change, rule: Rule | None = None) -> Preview:
    """Resume a schedule that the caller has locked; raise Conflict when it is not paused."""
    if not _is_paused(cursor):
        raise Conflict("The schedule is not paused.", code="schedule.not_paused")
    spec = spec_of(cursor)
    spec = bind_spec(spec, await share_book(conn, tenant_id=cursor.tenant_id, names=calendar_names(spec.timing)))
    await _set_state(conn, cursor, ScheduleState.ACTIVE, None)
    await gating.pause(conn, tenant_id=cursor.tenant_id, uid=cursor.uid, is_paused=False)
    await _decide_from_now(conn, cursor, spec)
    await _record(conn, cursor.tenant_id, cursor.uid, action=RevisionAction.RESUMED, change=change)
    return await arrears.resume_past(conn, cursor, spec, rule=rule or spec.catch_up.on_resume)


async def release_schedule(db: Database, *, tenant_id: UUID, name: str, change: Change) -> Schedule:
    """Let the line of a strictly sequential schedule go on that a dead run holds up; one that goes on stays so.

    Raises NotFound.
    """
    async with db.tenant(tenant_id) as conn:
        cursor = await _locked(conn, tenant_id, name, change)
        if await gating.release(conn, tenant_id=tenant_id, uid=cursor.uid):
            state = ScheduleState(cursor.state)
            await _set_state(conn, cursor, state, cursor.state_reason, until=cursor.paused_until)
            await _record(conn, tenant_id, cursor.uid, action=RevisionAction.RELEASED, change=change)
        return await _read(conn, tenant_id, name)


async def delete_schedule(
    db: Database, *, tenant_id: UUID, name: str, change: Change, on_ended: OnEnded = nobody_follows
) -> None:
    """End a schedule for good; its history stays, its name is free. Raise NotFound.

    What it planned, is due and was not let in by its gate is skipped; `on_ended` hears of it.
    """
    async with db.tenant(tenant_id) as conn:
        await end_schedule(conn, tenant_id=tenant_id, name=name, change=change, on_ended=on_ended)


async def end_schedule(
    conn: Connection, *, tenant_id: UUID, name: str, change: Change, on_ended: OnEnded = nobody_follows
) -> None:
    """End a schedule in the caller's transaction, as `delete_schedule` does."""
    cursor = await _locked(conn, tenant_id, name, change)
    await planner.settle(conn, cursor, now=conn.now)
    await _withdraw(conn, cursor, Reason.SCHEDULE_DELETED)
    await arrears.drop_past(conn, cursor)
    await set_calendars(conn, tenant_id=tenant_id, schedule_uid=cursor.uid, names=())
    await set_payloads(conn, tenant_id=tenant_id, schedule_uid=cursor.uid, value=None)
    await tagging.follow(conn, cursor, ())
    await _set_state(conn, cursor, ScheduleState.DELETED, change.reason)
    await gating.leave(conn, tenant_id=tenant_id, uid=cursor.uid, on_ended=on_ended)
    await _decide_from_now(conn, cursor, None)
    await _record(conn, tenant_id, cursor.uid, action=RevisionAction.DELETED, change=change)


async def lock_schedule(conn: Connection, *, tenant_id: UUID, name: str, change: Change) -> CursorRow:
    """Lock a schedule for `pause_locked` or `resume_locked`; raise NotFound."""
    return await _locked(conn, tenant_id, name, change)


async def bound(conn: Connection, *, tenant_id: UUID, timing: Timing) -> Timing:
    """Return a timing with its calendars, as they are now."""
    books = await load_books(conn, ((tenant_id, name) for name in calendar_names(timing)))
    return bind(timing, books.get(tenant_id, {}))


def refuse_never(spec: Spec) -> None:
    """Raise TriggerError when there is not one instant, past or future, at which this would fire."""
    if next_after(spec.timing, FIRST_INSTANT) is None:
        raise TriggerError("trigger.never", "this trigger never fires under its gap and fold policies", field="trigger")


async def _replace(conn: Connection, cursor: CursorRow, after: Mapping[str, Any]) -> None:
    task = after.get("task", cursor.task)
    if task != cursor.task:
        await _hold_target(conn, cursor.tenant_id, task)
    await store.update_schedule(
        conn,
        tenant_id=cursor.tenant_id,
        uid=cursor.uid,
        revision=cursor.revision,
        task=task,
        spec=spec_to_json(after["spec"]) if "spec" in after else cursor.spec,
        input=json.dumps(after["input"]) if "input" in after else cursor.input,
        priority=after.get("priority", cursor.priority),
        tags=after.get("tags", cursor.tags),
        owner=after.get("owner", cursor.owner),
        now=conn.now,
    )
    await tagging.follow(conn, cursor, after.get("tags", cursor.tags))


async def _hold_target(conn: Connection, tenant_id: UUID, task: str) -> None:
    """Keep a schedule's target from being deleted until the schedule names it; raise InvalidInput without one."""
    if task not in await targets.hold(conn, tenant_id=tenant_id, names=[task]):
        raise _unknown_task(task)


async def _withdraw(conn: Connection, cursor: CursorRow, reason: Reason) -> list[UUID]:
    tenant_id, uid = cursor.tenant_id, cursor.uid
    return await runs.withdraw_planned(conn, tenant_id=tenant_id, schedule_uid=uid, now=conn.now, reason=reason)


async def _decide_from_now(conn: Connection, cursor: CursorRow, spec: Spec | None) -> None:
    """Move the watermark to now. Without a spec nothing is planned any more."""
    await store.move_watermark(
        conn,
        tenant_id=cursor.tenant_id,
        uid=cursor.uid,
        decided_until=conn.now,
        next_at=None if spec is None else next_look(spec.timing, conn.now),
        skip_until=None,
        skip_reason=None,
        tz_version=tz_version(),
    )


async def _set_state(
    conn: Connection, cursor: CursorRow, state: ScheduleState, reason: str | None, *, until: datetime | None = None
) -> None:
    await store.set_state(
        conn,
        tenant_id=cursor.tenant_id,
        uid=cursor.uid,
        revision=cursor.revision,
        state=state,
        reason=reason,
        until=until,
        now=conn.now,
    )


async def _record(conn: Connection, tenant_id: UUID, uid: UUID, *, action: RevisionAction, change: Change) -> None:
    await store.insert_revision(
        conn,
        tenant_id=tenant_id,
        uid=uid,
        action=action,
        changed_by=change.by,
        reason=change.reason,
        tz_version=tz_version(),
        now=conn.now,
    )


async def _locked(conn: Connection, tenant_id: UUID, name: str, change: Change) -> CursorRow:
    """Lock the schedule at the revision that the change means; each statement that writes it says so again."""
    cursor = await store.lock_cursor(conn, tenant_id=tenant_id, name=name)
    if cursor is None:
        raise _unknown()
    refuse_stale(change.expected, cursor.revision)
    return cursor


async def _read(conn: Connection, tenant_id: UUID, name: str) -> Schedule:
    row = await store.get_schedule(conn, tenant_id=tenant_id, name=name)
    if row is None:
        raise _unknown()
    books = await books_of(conn, [(tenant_id, row.spec)])
    return schedule_from_row(row, now=conn.now, book=books.get(tenant_id, {}))


def spec_of(cursor: CursorRow) -> Spec:
    """Return the spec in force; raise Conflict when this version cannot read it."""
    try:
        return parse_spec(cursor.spec)
    except (TriggerError, LookupError, TypeError, ValueError) as error:
        raise Conflict(
            "This version cannot read the schedule's spec: delete it, and make it anew.", code="schedule.unreadable"
        ) from error


def _is_paused(cursor: CursorRow) -> bool:
    return cursor.state == ScheduleState.PAUSED


def _unknown() -> NotFound:
    return NotFound("There is no schedule of this name.", code="schedule.unknown")


def _unknown_task(task: str) -> InvalidInput:
    if (workflow := workflow_of(task)) is not None:
        detail = f"There is no workflow named {workflow}: create it first."
        return InvalidInput.at("/workflow", detail, code="workflow.unknown")
    return InvalidInput.at("/task", f"There is no task named {task}: create it first.", code="task.unknown")
