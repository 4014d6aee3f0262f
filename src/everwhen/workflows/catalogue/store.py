"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.workflows.model import LatestVersion, TaskRetry, VersionItem, WorkflowItem, WorkflowRow

_SQL = load("everwhen.workflows.catalogue")

Conn = AsyncConnection[Any]


async def insert_workflow(
    conn: Conn, *, tenant_id: UUID, name: str, tags: Sequence[str], owner: str | None, now: datetime
) -> int | None:
    """Return the first version's number; None when the name is taken."""
    params = {"tenant_id": tenant_id, "name": name, "tags": list(tags), "owner": owner, "now": now}
    return await fetch_optional(conn, _SQL["insert_workflow"], params, int)


async def delete_workflow(conn: Conn, *, tenant_id: UUID, name: str, among: Sequence[int] | None, now: datetime) -> int:
    """Give the name back; 0 when there is no such workflow, or its version is not among these (None: any)."""
    params = {"tenant_id": tenant_id, "name": name, "among": None if among is None else list(among), "now": now}
    return await execute_count(conn, _SQL["delete_workflow"], params)


async def withdraw_task(conn: Conn, *, tenant_id: UUID, task: str, now: datetime) -> int:
    """Delete what stands for a workflow among the tasks."""
    return await execute_count(conn, _SQL["withdraw_task"], {"tenant_id": tenant_id, "task": task, "now": now})


async def count_workflows(conn: Conn, *, tenant_id: UUID) -> int:
    """How many there are."""
    return await fetch_one(conn, _SQL["count_workflows"], {"tenant_id": tenant_id}, int)


async def next_version(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    tags: Sequence[str],
    has_owner: bool,
    owner: str | None,
    among: Sequence[int] | None,
    now: datetime,
) -> int | None:
    """Return the next version's number; None without such a workflow at one of these versions (None: any)."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "tags": list(tags),
        "has_owner": has_owner,
        "owner": owner,
        "among": None if among is None else list(among),
        "now": now,
    }
    return await fetch_optional(conn, _SQL["next_version"], params, int)


async def insert_version(
    conn: Conn,
    *,
    tenant_id: UUID,
    workflow: str,
    version: int,
    definition: str,
    changed_by: str,
    reason: str | None,
    now: datetime,
) -> int:
    """Write a version. `definition` is JSON text."""
    params = {
        "tenant_id": tenant_id,
        "workflow": workflow,
        "version": version,
        "definition": definition,
        "changed_by": changed_by,
        "reason": reason,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_version"], params)


async def register_task(conn: Conn, *, tenant_id: UUID, task: str, queue: str, retry: str, now: datetime) -> int:
    """Let a workflow stand among the tasks. `retry` is JSON text."""
    params = {"tenant_id": tenant_id, "task": task, "queue": queue, "retry": retry, "now": now}
    return await execute_count(conn, _SQL["register_task"], params)


async def open_line(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Make this tenant's line at the queue, if it is not there."""
    return await execute_count(conn, _SQL["open_line"], {"tenant_id": tenant_id, "queue": queue})


async def open_lines(conn: Conn, *, tenant_id: UUID, queues: Sequence[str]) -> int:
    """Make this tenant's lines at these queues, where they are not there."""
    return await execute_count(conn, _SQL["open_lines"], {"tenant_id": tenant_id, "queues": list(queues)})


async def read_tasks(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[TaskRetry]:
    """Return those of these tasks that there are."""
    return await fetch_all(conn, _SQL["read_tasks"], {"tenant_id": tenant_id, "names": list(names)}, TaskRetry)


async def lock_workflow(conn: Conn, *, tenant_id: UUID, name: str) -> WorkflowRow | None:
    """Read a workflow and keep other changes of it away until the transaction ends."""
    return await fetch_optional(conn, _SQL["lock_workflow"], {"tenant_id": tenant_id, "name": name}, WorkflowRow)


async def get_workflow(conn: Conn, *, tenant_id: UUID, name: str) -> WorkflowRow | None:
    """Read a workflow with its latest version."""
    return await fetch_optional(conn, _SQL["get_workflow"], {"tenant_id": tenant_id, "name": name}, WorkflowRow)


async def list_workflows(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[WorkflowItem]:
    """Up to `limit` workflows whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_workflows"], params, WorkflowItem)


async def list_workflows_tagged(conn: Conn, *, tenant_id: UUID, tag: str, after: str, limit: int) -> list[WorkflowItem]:
    """Up to `limit` workflows with a tag whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "tag": tag, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_workflows_tagged"], params, WorkflowItem)


async def list_declared(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[WorkflowRow]:
    """Up to `limit` workflows, with their definitions, whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_declared"], params, WorkflowRow)


async def list_declared_of_owner(
    conn: Conn, *, tenant_id: UUID, owner: str, after: str, limit: int
) -> list[WorkflowRow]:
    """Those of an owner, as `list_declared` returns them."""
    params = {"tenant_id": tenant_id, "owner": owner, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_declared_of_owner"], params, WorkflowRow)


async def list_declared_named(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[WorkflowRow]:
    """Those of these names, as `list_declared` returns them."""
    params = {"tenant_id": tenant_id, "names": list(names)}
    return await fetch_all(conn, _SQL["list_declared_named"], params, WorkflowRow)


async def list_versions(conn: Conn, *, tenant_id: UUID, workflow: str, after: int, limit: int) -> list[VersionItem]:
    """Up to `limit` versions after this one, oldest first."""
    params = {"tenant_id": tenant_id, "workflow": workflow, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_versions"], params, VersionItem)


async def get_definition(conn: Conn, *, tenant_id: UUID, workflow: str, version: int) -> str | None:
    """Return what a version says, as JSON text."""
    params = {"tenant_id": tenant_id, "workflow": workflow, "version": version}
    return await fetch_optional(conn, _SQL["get_definition"], params, str)


async def latest_versions(conn: Conn, *, tenant_ids: Sequence[UUID], workflows: Sequence[str]) -> list[LatestVersion]:
    """Return the latest versions of these workflows."""
    params = {"tenant_ids": list(tenant_ids), "workflows": list(workflows)}
    return await fetch_all(conn, _SQL["latest_versions"], params, LatestVersion)
