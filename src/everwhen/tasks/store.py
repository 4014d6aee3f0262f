"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.tasks.model import TaskRow

_SQL = load("everwhen.tasks")

Conn = AsyncConnection[Any]


async def insert_task(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    queue: str,
    priority: int,
    retry: str,
    timeout_seconds: float | None,
    start_deadline_seconds: float | None,
    total_deadline_seconds: float | None,
    heartbeat_timeout_seconds: float | None,
    max_in_flight: int | None,
    rate: str | None,
    concurrency: str | None,
    requires: str | None,
    tags: Sequence[str],
    owner: str | None,
    now: datetime,
) -> TaskRow | None:
    """Return None when the name is taken. `retry`, `rate`, `concurrency` and `requires` are JSON texts."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "queue": queue,
        "priority": priority,
        "retry": retry,
        "timeout_seconds": timeout_seconds,
        "start_deadline_seconds": start_deadline_seconds,
        "total_deadline_seconds": total_deadline_seconds,
        "heartbeat_timeout_seconds": heartbeat_timeout_seconds,
        "max_in_flight": max_in_flight,
        "rate": rate,
        "concurrency": concurrency,
        "requires": requires,
        "tags": list(tags),
        "owner": owner,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["insert_task"], params, TaskRow)


async def count_tasks(conn: Conn, *, tenant_id: UUID) -> int:
    """How many there are, workflows left out."""
    return await fetch_one(conn, _SQL["count_tasks"], {"tenant_id": tenant_id}, int)


async def open_lane(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Make this tenant's line at the queue, if it is not there."""
    return await execute_count(conn, _SQL["open_lane"], {"tenant_id": tenant_id, "queue": queue})


async def update_task(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    queue: str,
    priority: int,
    retry: str,
    timeout_seconds: float | None,
    start_deadline_seconds: float | None,
    total_deadline_seconds: float | None,
    heartbeat_timeout_seconds: float | None,
    max_in_flight: int | None,
    rate: str | None,
    concurrency: str | None,
    requires: str | None,
    tags: Sequence[str],
    owner: str | None,
    among: Sequence[int] | None,
    now: datetime,
) -> TaskRow | None:
    """Return None when there is no such task, or its revision is not among these (None: any).

    `retry`, `rate`, `concurrency` and `requires` are JSON texts.
    """
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "queue": queue,
        "priority": priority,
        "retry": retry,
        "timeout_seconds": timeout_seconds,
        "start_deadline_seconds": start_deadline_seconds,
        "total_deadline_seconds": total_deadline_seconds,
        "heartbeat_timeout_seconds": heartbeat_timeout_seconds,
        "max_in_flight": max_in_flight,
        "rate": rate,
        "concurrency": concurrency,
        "requires": requires,
        "tags": list(tags),
        "owner": owner,
        "among": None if among is None else list(among),
        "now": now,
    }
    return await fetch_optional(conn, _SQL["update_task"], params, TaskRow)


async def get_task(conn: Conn, *, tenant_id: UUID, name: str) -> TaskRow | None:
    """Read one task."""
    return await fetch_optional(conn, _SQL["get_task"], {"tenant_id": tenant_id, "name": name}, TaskRow)


async def lock_task(conn: Conn, *, tenant_id: UUID, name: str) -> TaskRow | None:
    """Read one task and keep other changes away until the transaction ends."""
    return await fetch_optional(conn, _SQL["lock_task"], {"tenant_id": tenant_id, "name": name}, TaskRow)


async def delete_task(conn: Conn, *, tenant_id: UUID, name: str, among: Sequence[int] | None, now: datetime) -> int:
    """Give the name back; 0 when there is no such task, or its revision is not among these (None: any)."""
    params = {"tenant_id": tenant_id, "name": name, "among": None if among is None else list(among), "now": now}
    return await execute_count(conn, _SQL["delete_task"], params)


async def list_tasks(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[TaskRow]:
    """Up to `limit` tasks whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_tasks"], params, TaskRow)


async def list_tasks_tagged(conn: Conn, *, tenant_id: UUID, tag: str, after: str, limit: int) -> list[TaskRow]:
    """Up to `limit` tasks with a tag whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "tag": tag, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_tasks_tagged"], params, TaskRow)


async def list_tasks_named(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[TaskRow]:
    """Return the tasks of these names, by name."""
    params = {"tenant_id": tenant_id, "names": list(names)}
    return await fetch_all(conn, _SQL["list_tasks_named"], params, TaskRow)


async def list_tasks_of_owner(conn: Conn, *, tenant_id: UUID, owner: str, after: str, limit: int) -> list[TaskRow]:
    """Up to `limit` tasks of an owner whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "owner": owner, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_tasks_of_owner"], params, TaskRow)
