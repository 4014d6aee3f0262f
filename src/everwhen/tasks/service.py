"""What can be done with tasks. A change holds for what is planned, and for attempts that fail, from then on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from everwhen.claim_limits import releasing
from everwhen.core.filters import Filter
from everwhen.core.quotas import Limit
from everwhen.core.tags import Tagged
from everwhen.errors import Conflict, InvalidInput, NotFound, QuotaUsedUp
from everwhen.limits import quotas
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import ANY, NONE, Expected, refuse_stale, stale
from everwhen.tags.service import set_tags
from everwhen.targets import service as targets
from everwhen.tasks import store
from everwhen.tasks.model import (
    TASKS,
    Task,
    TaskDraft,
    TaskRow,
    limits_to_json,
    retry_from_json,
    retry_to_json,
    task_from_row,
)

_RETRY = "retry"
_KEPT = (
    "queue",
    "priority",
    "timeout_seconds",
    "start_deadline_seconds",
    "total_deadline_seconds",
    "heartbeat_timeout_seconds",
    "tags",
    "owner",
)
_LIMITS = ("max_in_flight", "rate", "concurrency", "requires")


async def create_task(db: Database, *, tenant_id: UUID, draft: TaskDraft) -> Task:
    """Make a task and its line at the queue.

    Raises Conflict when the name is taken or the tenant has as many as it may have, and InvalidInput when it asks for
    more attempts than the tenant may have.
    """
    async with db.tenant(tenant_id) as conn:
        await store.open_lane(conn, tenant_id=tenant_id, queue=draft.queue)
        row = await _insert(conn, tenant_id, draft)
        if row is None:
            raise Conflict(f"A task named {draft.name} exists already.", code="task.exists")
        return task_from_row(row)


async def ensure_task(conn: Connection, *, tenant_id: UUID, draft: TaskDraft) -> None:
    """Make a task in the caller's transaction, unless there is one of this name: that one stays as it is."""
    await store.open_lane(conn, tenant_id=tenant_id, queue=draft.queue)
    await _insert(conn, tenant_id, draft)


async def _insert(conn: Connection, tenant_id: UUID, draft: TaskDraft) -> TaskRow | None:
    row = await store.insert_task(
        conn,
        tenant_id=tenant_id,
        name=draft.name,
        queue=draft.queue,
        priority=draft.priority,
        retry=json.dumps(retry_to_json(draft.retry)),
        timeout_seconds=draft.timeout_seconds,
        start_deadline_seconds=draft.start_deadline_seconds,
        total_deadline_seconds=draft.total_deadline_seconds,
        heartbeat_timeout_seconds=draft.heartbeat_timeout_seconds,
        **_texts(limits_to_json(draft)),
        tags=draft.tags,
        owner=draft.owner,
        now=conn.now,
    )
    if row is not None:
        limits = await quotas.refuse_over(conn, Limit.TASKS, store.count_tasks, tenant_id=tenant_id)
        quotas.refuse_attempts(limits, draft.retry.max_attempts)
        await set_tags(conn, tenant_id=tenant_id, kind=Tagged.TASK, name=draft.name, tags=draft.tags)
        # One that comes back under its name has the limits of its former life, until claims hear of its own.
        if row.revision > 1 or any(getattr(row, field) is not None for field in _LIMITS):
            releasing.change(conn, (tenant_id, draft.name))
    return row


async def count_tasks(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many there are, workflows left out, in the caller's transaction."""
    return await store.count_tasks(conn, tenant_id=tenant_id)


async def get_task(db: Database, *, tenant_id: UUID, name: str) -> Task:
    """Read one task; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        row = await store.get_task(conn, tenant_id=tenant_id, name=name)
    if row is None:
        raise _unknown()
    return task_from_row(row)


async def list_tasks(db: Database, *, tenant_id: UUID, after: str = "", limit: int, where: str = "") -> Listed[Task]:
    """Return up to `limit` tasks after `after` that the filter `where` finds, by name; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        asked = read_filter(where, TASKS, now=conn.now)
        found = await walk_tasks(conn, tenant_id=tenant_id, asked=asked, after=after, limit=limit)
    return Listed(rows=[task_from_row(row) for row in found.rows], following=found.following, asked=asked)


async def walk_tasks(conn: Connection, *, tenant_id: UUID, asked: Filter, after: str, limit: int) -> Listed[TaskRow]:
    """Return up to `limit` tasks after `after` that a filter finds, by name, in the caller's transaction."""
    tag, key = asked.text("tag"), {"tenant_id": tenant_id}

    async def read(after: str, limit: int) -> Sequence[TaskRow]:
        if tag is None:
            return await store.list_tasks(conn, **key, after=after, limit=limit)
        return await store.list_tasks_tagged(conn, **key, tag=tag, after=after, limit=limit)

    return await walk(
        read,
        start=after,
        key=lambda row: row.name,
        limit=limit,
        asked=asked,
        values=lambda row: {"tag": row.tags, "queue": row.queue, "updated": row.updated_at},
    )


async def find_tasks(conn: Connection, *, tenant_id: UUID, names: Sequence[str]) -> list[Task]:
    """Return those of these tasks that there are, in the caller's transaction."""
    rows = await store.list_tasks_named(conn, tenant_id=tenant_id, names=names)
    return [task_from_row(row) for row in rows]


async def page_tasks(conn: Connection, *, tenant_id: UUID, owner: str | None, after: str, limit: int) -> list[Task]:
    """Return up to `limit` tasks of an owner, or of everybody, after `after`, in the caller's transaction."""
    page: dict[str, Any] = {"tenant_id": tenant_id, "after": after, "limit": limit}
    if owner is None:
        rows = await store.list_tasks(conn, **page)
    else:
        rows = await store.list_tasks_of_owner(conn, **page, owner=owner)
    return [task_from_row(row) for row in rows]


async def update_task(
    db: Database, *, tenant_id: UUID, name: str, changes: Mapping[str, Any], expected: Expected = ANY
) -> Task:
    """Change the fields of `TaskDraft` that `changes` names; those of `retry` are merged one by one.

    Runs that wait already stay in their queue. Raises NotFound, PreconditionFailed when it is not the revision that was
    expected, and InvalidInput when the merged retry policy does not fit together, or asks for too many attempts.
    """
    async with db.tenant(tenant_id) as conn:
        row = await _locked(conn, tenant_id, name, expected)
        return await _change(conn, row, changes, tenant_id=tenant_id, expected=expected)


async def replace_task(
    db: Database, *, tenant_id: UUID, draft: TaskDraft, has_owner: bool, expected: Expected = ANY
) -> Task:
    """Make a task all that the draft says, as `update_task` does; without `has_owner` its owner stays.

    One that is so already stays as it is, and so does its revision.
    """
    changes = {field: getattr(draft, field) for field in _KEPT if has_owner or field != "owner"}
    async with db.tenant(tenant_id) as conn:
        row = await _locked(conn, tenant_id, draft.name, expected)
        task = task_from_row(row)
        same_limits = limits_to_json(draft) == limits_to_json(task)
        if same_limits and draft.retry == task.retry and all(value == getattr(task, f) for f, value in changes.items()):
            return task
        changes |= {_RETRY: retry_to_json(draft.retry), **limits_to_json(draft)}
        return await _change(conn, row, changes, tenant_id=tenant_id, expected=expected)


async def put_new_task(db: Database, *, tenant_id: UUID, draft: TaskDraft) -> Task:
    """Make a task as `create_task` does; raise PreconditionFailed when the name is taken."""
    try:
        return await create_task(db, tenant_id=tenant_id, draft=draft)
    except QuotaUsedUp:
        raise
    except Conflict:
        raise stale(NONE, (await get_task(db, tenant_id=tenant_id, name=draft.name)).revision) from None


async def delete_task(db: Database, *, tenant_id: UUID, name: str, expected: Expected = ANY) -> None:
    """Give the name back; what has run keeps it, and dead runs can still be run anew.

    Raises NotFound, PreconditionFailed when it is not the revision that was expected, and Conflict while schedules or
    workflows use it, or runs of it wait or run.
    """
    async with db.tenant(tenant_id) as conn:
        row = await _locked(conn, tenant_id, name, expected)
        await targets.refuse_used(conn, tenant_id=tenant_id, name=name)
        key: dict[str, Any] = {"tenant_id": tenant_id, "name": name}
        if not await store.delete_task(conn, **key, among=expected.among, now=conn.now):
            raise stale(expected, row.revision)
        await set_tags(conn, **key, kind=Tagged.TASK, before=row.tags, tags=())
        if any(getattr(row, field) is not None for field in _LIMITS):
            releasing.change(conn, (tenant_id, name))


async def lock_task(conn: Connection, *, tenant_id: UUID, name: str) -> Task | None:
    """Keep other changes of a task away until the transaction ends."""
    row = await store.lock_task(conn, tenant_id=tenant_id, name=name)
    return None if row is None else task_from_row(row)


async def retag_task(conn: Connection, *, tenant_id: UUID, name: str, tags: Sequence[str]) -> Task:
    """Give a task other tags in the caller's transaction, as `update_task` does; raise NotFound."""
    row = await _locked(conn, tenant_id, name, ANY)
    return await _change(conn, row, {"tags": tuple(tags)}, tenant_id=tenant_id, expected=ANY)


async def _locked(conn: Connection, tenant_id: UUID, name: str, expected: Expected) -> TaskRow:
    row = await store.lock_task(conn, tenant_id=tenant_id, name=name)
    if row is None:
        raise _unknown()
    refuse_stale(expected, row.revision)
    return row


async def _change(
    conn: Connection, row: TaskRow, changes: Mapping[str, Any], *, tenant_id: UUID, expected: Expected
) -> Task:
    kept = {key: getattr(row, key) for key in (*_KEPT, *_LIMITS)}
    after = kept | _texts({key: value for key, value in changes.items() if key != _RETRY})
    before = json.loads(row.retry)
    retry = _merged_retry(before, changes.get(_RETRY) or {})
    if (attempts := json.loads(retry)["max_attempts"]) > before["max_attempts"]:
        quotas.refuse_attempts(await quotas.read(conn, tenant_id=tenant_id), attempts)
    await store.open_lane(conn, tenant_id=tenant_id, queue=after["queue"])
    key: dict[str, Any] = {"tenant_id": tenant_id, "name": row.name}
    changed = await store.update_task(conn, **key, among=expected.among, retry=retry, now=conn.now, **after)
    if changed is None:
        raise stale(expected, row.revision)
    await set_tags(conn, **key, kind=Tagged.TASK, before=row.tags, tags=changed.tags)
    if any(getattr(row, field) != getattr(changed, field) for field in _LIMITS) or (
        row.queue != changed.queue and any(getattr(row, field) is not None for field in _LIMITS)
    ):
        releasing.change(conn, (tenant_id, row.name))
    return task_from_row(changed)


def _texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as the statements take them: objects as JSON text."""
    return {key: json.dumps(value) if isinstance(value, dict) else value for key, value in values.items()}


def _merged_retry(stored: dict[str, Any], changes: Mapping[str, Any]) -> str:
    try:
        return json.dumps(retry_to_json(retry_from_json(stored | dict(changes))))
    except ValueError as error:
        raise InvalidInput.at("/retry", str(error), code="task.retry.invalid") from error


def _unknown() -> NotFound:
    return NotFound("There is no task of this name.", code="task.unknown")
