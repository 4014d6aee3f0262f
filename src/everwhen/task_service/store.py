"""One function for each statement of `queries.sql`; the names are the statements'."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_optional
from everwhen.postgres.sql import load
from everwhen.task_service.model import ServiceTask

_SQL = load("everwhen.task_service")

Conn = AsyncConnection[Any]


async def insert_task(
    conn: Conn,
    *,
    tenant_id: UUID,
    task_id: UUID,
    owner: str,
    dedup_id: str,
    cron: str,
    run_at: datetime | None,
    delay_seconds: float | None,
    priority: int,
    digest: str,
    payload_name: str | None,
    now: datetime,
) -> ServiceTask | None:
    """Return None when the user has a task of this dedup_id."""
    params = {
        "tenant_id": tenant_id,
        "task_id": task_id,
        "owner": owner,
        "dedup_id": dedup_id,
        "cron": cron,
        "run_at": run_at,
        "delay_seconds": delay_seconds,
        "priority": priority,
        "digest": digest,
        "payload_name": payload_name,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["insert_task"], params, ServiceTask)


async def set_schedule(conn: Conn, *, tenant_id: UUID, task_id: UUID, schedule_uid: UUID) -> int:
    """Note which schedule is the task's."""
    params = {"tenant_id": tenant_id, "task_id": task_id, "schedule_uid": schedule_uid}
    return await execute_count(conn, _SQL["set_schedule"], params)


async def find_task(conn: Conn, *, tenant_id: UUID, owner: str, dedup_id: str) -> ServiceTask | None:
    """Find a user's task by its dedup_id."""
    params = {"tenant_id": tenant_id, "owner": owner, "dedup_id": dedup_id}
    return await fetch_optional(conn, _SQL["find_task"], params, ServiceTask)


async def get_task(conn: Conn, *, tenant_id: UUID, task_id: UUID) -> ServiceTask | None:
    """Read a task, deleted or not."""
    return await fetch_optional(conn, _SQL["get_task"], {"tenant_id": tenant_id, "task_id": task_id}, ServiceTask)


async def lock_task(conn: Conn, *, tenant_id: UUID, task_id: UUID) -> ServiceTask | None:
    """Lock a task that is not deleted."""
    return await fetch_optional(conn, _SQL["lock_task"], {"tenant_id": tenant_id, "task_id": task_id}, ServiceTask)


async def list_tasks(conn: Conn, *, tenant_id: UUID, owner: str | None, after: UUID, limit: int) -> list[ServiceTask]:
    """Up to `limit` tasks with ids above `after`, of one user or of all."""
    params = {"tenant_id": tenant_id, "owner": owner, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_tasks"], params, ServiceTask)


async def update_task(
    conn: Conn,
    *,
    tenant_id: UUID,
    task_id: UUID,
    cron: str,
    run_at: datetime | None,
    delay_seconds: float | None,
    priority: int,
    digest: str,
    payload_name: str | None,
    is_enabled: bool,
    deleted_at: datetime | None,
    now: datetime,
) -> int:
    """Write what may change of a task that the caller has locked."""
    params = {
        "tenant_id": tenant_id,
        "task_id": task_id,
        "cron": cron,
        "run_at": run_at,
        "delay_seconds": delay_seconds,
        "priority": priority,
        "digest": digest,
        "payload_name": payload_name,
        "is_enabled": is_enabled,
        "deleted_at": deleted_at,
        "now": now,
    }
    return await execute_count(conn, _SQL["update_task"], params)
