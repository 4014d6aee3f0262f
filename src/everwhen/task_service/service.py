"""What users of the task service can do with their tasks. Each use-case is one transaction.

A task is a schedule of ours: a cron trigger in UTC, or one instant. Its runs are runs of the task EXECUTOR, at a queue
where a fleet of executors waits; their input refers to the payload. What a user may not know of schedules is decided
here:

* A post of a dedup_id that the user has a task of already gives that task, as it is, and says what was otherwise.
* A change holds for everything that has not begun. What waits is cancelled; if the task's time stays as it is, a run of
  the new definition takes the place of what waited. What runs goes on to its end.
* A task that is disabled makes no runs, and what waits is cancelled. Enabled again it goes on from then: instants that
  have passed meanwhile are recorded as skipped, that of a task that runs once, too.
* A deleted task is there to be read, with its history, and its dedup_id is free.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen import clock
from everwhen.core.errors import TriggerError
from everwhen.core.payloads import reference_to
from everwhen.core.retry import RetryPolicy
from everwhen.core.task_status import outcome_of, status_of
from everwhen.core.triggers import Timing, next_after, parse_trigger
from everwhen.errors import InvalidInput, NotFound, Unavailable
from everwhen.lists import LAST_ID
from everwhen.payloads.model import Described, Staged
from everwhen.payloads.service import Payloads
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.ends import OnEnded, nobody_follows
from everwhen.runs.model import RunRequest
from everwhen.runs.service import OnReady, RunView
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, ScheduleState, Spec
from everwhen.schedules.service import Change
from everwhen.task_service import store
from everwhen.task_service.model import Posted, ServiceTask, TaskRun, TaskView, Wish
from everwhen.tasks.model import TaskDraft
from everwhen.tasks.service import ensure_task

EXECUTOR: Final = "task-service"
"""The task that a fleet of executors knows, and what it runs is in the input."""

QUEUE: Final = "tasks"
PRIORITY: Final = 5
LOST_TRIES: Final = 3
"""How often a run is tried whose executor was lost. One whose program failed is not tried again."""

MOST_BEHIND: Final = timedelta(minutes=5)
MOST_AHEAD: Final = timedelta(days=3_650)
SOON: Final = timedelta(seconds=1)
"""When `now` is: a schedule's first instant lies after the one at which it is made."""

HISTORY: Final = 50

Told = Callable[[Connection, TaskView | None, TaskView], Awaitable[None]]
"""Called in the transaction that makes or changes a task: (connection, the task before, the task)."""


async def nobody_hears(conn: Connection, before: TaskView | None, after: TaskView) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskService:
    """The use-cases. `wait` is how long a run may wait for an executor before it ends for want of a resource."""

    database: Database
    payloads: Payloads
    wait: timedelta = timedelta(hours=1)
    on_ready: OnReady | None = None
    on_ended: OnEnded = nobody_follows
    told: Told = nobody_hears

    async def post(
        self,
        tenant_id: UUID,
        *,
        owner: str,
        dedup_id: str,
        wish: Wish,
        staged: Staged,
        name: str | None,
    ) -> Posted:
        """Make a task, or find the one that the user's dedup_id stands for.

        Raises InvalidInput for a time that is none, Conflict when the quota of payloads is used up.
        """
        async with self.database.tenant(tenant_id) as conn:
            known = await store.find_task(conn, tenant_id=tenant_id, owner=owner, dedup_id=dedup_id)
            if known is not None:
                return await _posted_before(conn, tenant_id, known, ignored=_differences(known, wish, staged.digest))
            cron, run_at = _time_of(wish, now=conn.now)
            delay = None if wish.delay is None else wish.delay.total_seconds()
            made = await store.insert_task(
                conn,
                tenant_id=tenant_id,
                task_id=clock.new_id(conn.now),
                owner=owner,
                dedup_id=dedup_id,
                cron=cron,
                run_at=run_at,
                delay_seconds=delay,
                priority=PRIORITY if wish.priority is None else wish.priority,
                digest=staged.digest,
                payload_name=name,
                now=conn.now,
            )
            if made is None:
                known = await store.find_task(conn, tenant_id=tenant_id, owner=owner, dedup_id=dedup_id)
                if known is None:  # it was deleted between the two statements
                    raise Unavailable("The task was deleted meanwhile; try again.", code="task_service.busy")
                return await _posted_before(conn, tenant_id, known, ignored=_differences(known, wish, staged.digest))
            await self._admit(conn, tenant_id, staged, owner=owner, name=name)
            view = await _view(conn, tenant_id, await self._scheduled(conn, tenant_id, made, _spec(cron, run_at)))
            await self.told(conn, None, view)
            return Posted(view=view, is_new=True, ignored=[])

    async def _scheduled(self, conn: Connection, tenant_id: UUID, made: ServiceTask, spec: Spec) -> ServiceTask:
        """Give a task that was just made its schedule."""
        await ensure_task(conn, tenant_id=tenant_id, draft=self._executor())
        draft = ScheduleDraft(name=made.schedule, task=EXECUTOR, spec=spec, input=_input(made), priority=made.priority)
        change = Change(by=made.owner, reason="posted")
        schedule = await schedules.make_schedule(conn, tenant_id=tenant_id, draft=draft, change=change)
        await store.set_schedule(conn, tenant_id=tenant_id, task_id=made.id, schedule_uid=schedule.uid)
        return replace(made, schedule_uid=schedule.uid)

    async def change(
        self,
        tenant_id: UUID,
        task_id: UUID,
        *,
        by: str,
        wish: Wish,
        staged: Staged | None = None,
        name: str | None = None,
    ) -> TaskView:
        """Change a task's time, payload or priority; what is not said stays. Raises NotFound, and as `post`."""
        async with self.database.tenant(tenant_id) as conn:
            task = await _locked(conn, tenant_id, task_id)
            before = await _view(conn, tenant_id, task, limit=0)
            changed = _changed(task, wish, now=conn.now)
            if staged is not None:
                await self._admit(conn, tenant_id, staged, owner=by, name=name)
                changed = replace(changed, digest=staged.digest, payload_name=name)
            is_time_new = (changed.cron, changed.run_at) != (task.cron, task.run_at)

            def changes(_: Spec) -> Mapping[str, Any]:
                new_time = {"spec": _spec(changed.cron, changed.run_at)} if is_time_new else {}
                return {"input": _input(changed), "priority": changed.priority, **new_time}

            change = Change(by=by, reason="changed")
            await schedules.change_schedule(
                conn, tenant_id=tenant_id, name=task.schedule, changes=changes, change=change
            )
            waited = await self._cancel_pending(conn, tenant_id, task, by=by, why="the task was changed")
            await _write(conn, tenant_id, changed)
            if waited and not is_time_new:
                await self._run_now(conn, tenant_id, changed)
            view = await _view(conn, tenant_id, changed)
            await self.told(conn, before, view)
            return view

    async def set_status(self, tenant_id: UUID, task_id: UUID, *, by: str, is_enabled: bool) -> TaskView:
        """Enable or disable a task; one that is so already stays so. Raises NotFound."""
        async with self.database.tenant(tenant_id) as conn:
            task = await _locked(conn, tenant_id, task_id)
            before = await _view(conn, tenant_id, task, limit=0)
            change = Change(by=by, reason="enabled" if is_enabled else "disabled")
            cursor = await schedules.lock_schedule(conn, tenant_id=tenant_id, name=task.schedule, change=change)
            is_paused = cursor.state == ScheduleState.PAUSED
            if is_enabled and is_paused:
                await schedules.resume_locked(conn, cursor, change=change)
            if not is_enabled:
                if not is_paused:
                    await schedules.pause_locked(conn, cursor, change=change)
                await self._cancel_pending(conn, tenant_id, task, by=by, why="the task was disabled")
            changed = replace(task, is_enabled=is_enabled, updated_at=conn.now)
            await _write(conn, tenant_id, changed)
            view = await _view(conn, tenant_id, changed)
            await self.told(conn, before, view)
            return view

    async def delete(self, tenant_id: UUID, task_id: UUID, *, by: str) -> None:
        """Delete a task; its history stays. Raises NotFound."""
        async with self.database.tenant(tenant_id) as conn:
            task = await _locked(conn, tenant_id, task_id)
            before = await _view(conn, tenant_id, task, limit=0)
            await schedules.end_schedule(
                conn,
                tenant_id=tenant_id,
                name=task.schedule,
                change=Change(by=by, reason="deleted"),
                on_ended=self.on_ended,
            )
            await self._cancel_pending(conn, tenant_id, task, by=by, why="the task was deleted")
            deleted = replace(task, is_enabled=False, deleted_at=conn.now, updated_at=conn.now)
            await _write(conn, tenant_id, deleted)
            await self.told(conn, before, await _view(conn, tenant_id, deleted, limit=0))

    async def get(self, tenant_id: UUID, task_id: UUID, *, before: UUID = LAST_ID, limit: int = HISTORY) -> TaskView:
        """Read a task, deleted or not, with up to `limit` of its runs with ids below `before`; raise NotFound."""
        async with self.database.tenant(tenant_id) as conn:
            task = await store.get_task(conn, tenant_id=tenant_id, task_id=task_id)
            if task is None:
                raise _unknown()
            return await _view(conn, tenant_id, task, before=before, limit=limit)

    async def find(self, tenant_id: UUID, *, owner: str, dedup_id: str) -> UUID:
        """Return the id of a user's task; raise NotFound."""
        async with self.database.tenant(tenant_id) as conn:
            task = await store.find_task(conn, tenant_id=tenant_id, owner=owner, dedup_id=dedup_id)
        if task is None:
            raise _unknown()
        return task.id

    async def list(self, tenant_id: UUID, *, owner: str | None, after: UUID, limit: int) -> "list[TaskView]":
        """Return up to `limit` tasks with ids above `after`, of one user or of all, each with its latest run."""
        async with self.database.tenant(tenant_id) as conn:
            found = await store.list_tasks(conn, tenant_id=tenant_id, owner=owner, after=after, limit=limit)
            return [await _view(conn, tenant_id, task, limit=0) for task in found]

    async def _admit(self, conn: Connection, tenant_id: UUID, staged: Staged, *, owner: str, name: str | None) -> None:
        described = Described(by=owner, name=name, media_type=None, lasting=False)
        await self.payloads.admit(conn, tenant_id, staged, described)

    def _executor(self) -> TaskDraft:
        return TaskDraft(
            name=EXECUTOR,
            queue=QUEUE,
            priority=PRIORITY,
            retry=RetryPolicy(max_attempts=LOST_TRIES),
            start_deadline_seconds=self.wait.total_seconds(),
        )

    async def _cancel_pending(self, conn: Connection, tenant_id: UUID, task: ServiceTask, *, by: str, why: str) -> int:
        assert task.schedule_uid is not None  # it is committed
        return await runs.cancel_pending(
            conn, tenant_id=tenant_id, schedule_uid=task.schedule_uid, by=by, reason=why, on_ended=self.on_ended
        )

    async def _run_now(self, conn: Connection, tenant_id: UUID, task: ServiceTask) -> None:
        """Put a run of the new definition where one of the old had waited."""
        await runs.make_run(
            conn,
            tenant_id=tenant_id,
            request=RunRequest(schedule=task.schedule),
            on_ready=self.on_ready,
            on_ended=self.on_ended,
        )


async def _posted_before(conn: Connection, tenant_id: UUID, known: ServiceTask, *, ignored: list[str]) -> Posted:
    return Posted(view=await _view(conn, tenant_id, known), is_new=False, ignored=ignored)


def _time_of(wish: Wish, *, now: datetime) -> tuple[str, datetime | None]:
    """Return the cron expression, or '' and the instant at which to run once; raise InvalidInput."""
    if wish.cron:
        if wish.names_an_instant:
            detail = "A task with a schedule runs by it; delay and timestamp are for one that runs once."
            raise InvalidInput.at("/schedule", detail, code="task_service.time")
        return wish.cron, None
    if wish.delay is not None and wish.timestamp is not None:
        raise InvalidInput.at("/timestamp", "Say either a delay or a timestamp.", code="task_service.time")
    at = wish.timestamp or now + (wish.delay or timedelta(0))
    pointer = "/delay" if wish.timestamp is None else "/timestamp"
    if at < now - MOST_BEHIND:
        detail = "The timestamp has passed; leave it out to run at once."
        raise InvalidInput.at(pointer, detail, code="task_service.past")
    if at > now + MOST_AHEAD:
        detail = f"A task runs at most {MOST_AHEAD.days} days ahead."
        raise InvalidInput.at(pointer, detail, code="task_service.too_far")
    return "", max(at, now + SOON)


def _changed(task: ServiceTask, wish: Wish, *, now: datetime) -> ServiceTask:
    """Return the task as it is to be, but for its payload; raise InvalidInput."""
    cron, run_at = task.cron, task.run_at
    if wish.names_an_instant or (wish.cron is not None and wish.cron != task.cron):
        cron, run_at = _time_of(wish, now=now)
    return replace(
        task,
        cron=cron,
        run_at=run_at,
        delay_seconds=wish.delay.total_seconds() if wish.delay is not None else task.delay_seconds,
        priority=task.priority if wish.priority is None else wish.priority,
        updated_at=now,
    )


def _differences(known: ServiceTask, wish: Wish, digest: str) -> list[str]:
    """Name what a post said otherwise than the task has it."""
    delay = None if wish.delay is None else wish.delay.total_seconds()
    said = {
        "schedule": (wish.cron or "") == known.cron,
        "delay": delay == known.delay_seconds or (delay is None and bool(known.cron)),
        "timestamp": wish.timestamp is None or _is_instant_of(known, wish.timestamp),
        "payload": digest == known.digest,
        "priority": wish.priority is None or wish.priority == known.priority,
    }
    return [field for field, is_equal in said.items() if not is_equal]


def _is_instant_of(known: ServiceTask, timestamp: datetime) -> bool:
    """Say whether a task runs at this instant; one that had passed when it was posted runs as soon as it could."""
    earliest = known.created_at + SOON
    return timestamp == known.run_at or (timestamp < earliest == known.run_at)


def _spec(cron: str, run_at: datetime | None) -> Spec:
    trigger = {"kind": "cron", "expr": cron} if run_at is None else {"kind": "at", "at": _text_of(run_at)}
    try:
        timing = Timing(parse_trigger(trigger), "UTC")
        if next_after(timing, datetime.min.replace(year=1970, tzinfo=UTC)) is None:
            raise InvalidInput.at("/schedule", "This schedule never fires.", code="task_service.time")
    except TriggerError as error:
        raise InvalidInput.at("/schedule", error.message, code=error.code) from error
    return Spec(timing=timing)


def _text_of(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()


def _input(task: ServiceTask) -> dict[str, Any]:
    """Return what an executor is given."""
    return {
        "program": reference_to(task.digest),
        "name": task.payload_name,
        "task_id": str(task.id),
        "dedup_id": task.dedup_id,
    }


async def _locked(conn: Connection, tenant_id: UUID, task_id: UUID) -> ServiceTask:
    task = await store.lock_task(conn, tenant_id=tenant_id, task_id=task_id)
    if task is None:
        raise _unknown()
    return task


async def _write(conn: Connection, tenant_id: UUID, task: ServiceTask) -> None:
    await store.update_task(
        conn,
        tenant_id=tenant_id,
        task_id=task.id,
        cron=task.cron,
        run_at=task.run_at,
        delay_seconds=task.delay_seconds,
        priority=task.priority,
        digest=task.digest,
        payload_name=task.payload_name,
        is_enabled=task.is_enabled,
        deleted_at=task.deleted_at,
        now=conn.now,
    )


async def _view(
    conn: Connection, tenant_id: UUID, task: ServiceTask, *, before: UUID = LAST_ID, limit: int = HISTORY
) -> TaskView:
    """Return the task with how it stands, by its latest runs, and `limit` of its history."""
    assert task.schedule_uid is not None  # it is committed
    mine: dict[str, Any] = {"tenant_id": tenant_id, "schedule_uid": task.schedule_uid}
    is_first = before == LAST_ID
    latest = await runs.list_of_schedule(conn, **mine, limit=max(limit, HISTORY) if is_first else HISTORY)
    page = latest if is_first else await runs.list_of_schedule(conn, **mine, before=before, limit=limit)
    return TaskView(
        task=task,
        status=status_of(outcome_of(view.state, is_held=view.row.is_held) for view in latest),
        next_at=_next_at(task, now=conn.now),
        history=[_run(view) for view in page[:limit]],
    )


def _next_at(task: ServiceTask, *, now: datetime) -> datetime | None:
    if not task.is_enabled:
        return None
    return next_after(_spec(task.cron, task.run_at).timing, now)


def _run(view: RunView) -> TaskRun:
    row = view.row
    return TaskRun(
        run_id=row.run_id,
        scheduled_at=row.nominal_at or row.due_at,
        outcome=outcome_of(view.state, is_held=row.is_held),
        reason=row.reason,
        claimed_at=row.claimed_at,
        finished_at=row.finished_at,
        attempts=row.attempts,
    )


def _unknown() -> NotFound:
    return NotFound("There is no task of this id.", code="task_service.unknown")
