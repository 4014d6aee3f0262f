"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.targets")

Conn = AsyncConnection[Any]


async def share_targets(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[str]:
    """Hold those of these that there are, until the transaction ends; return their names."""
    return await fetch_all(conn, _SQL["share_targets"], {"tenant_id": tenant_id, "names": list(names)}, str)


async def lock_target(conn: Conn, *, tenant_id: UUID, name: str) -> str | None:
    """Keep away whoever would begin to use it; None when there is none."""
    return await fetch_optional(conn, _SQL["lock_target"], {"tenant_id": tenant_id, "name": name}, str)


async def list_schedules_of(conn: Conn, *, tenant_id: UUID, name: str, limit: int) -> list[str]:
    """Up to `limit` schedules of which it is the target, by name."""
    params = {"tenant_id": tenant_id, "name": name, "limit": limit}
    return await fetch_all(conn, _SQL["list_schedules_of"], params, str)


async def list_workflows_of(conn: Conn, *, tenant_id: UUID, node: str, limit: int) -> list[str]:
    """Up to `limit` workflows whose latest version has such a node, by name. `node` is JSON text."""
    params = {"tenant_id": tenant_id, "node": node, "limit": limit}
    return await fetch_all(conn, _SQL["list_workflows_of"], params, str)


async def list_running_workflows_of(conn: Conn, *, tenant_id: UUID, node: str, limit: int) -> list[str]:
    """Up to `limit` workflows with runs under way that have such a node, by name. `node` is JSON text."""
    params = {"tenant_id": tenant_id, "node": node, "limit": limit}
    return await fetch_all(conn, _SQL["list_running_workflows_of"], params, str)


async def count_runs_of(conn: Conn, *, tenant_id: UUID, name: str, limit: int) -> int:
    """How many of its runs wait or run, up to `limit`."""
    return await fetch_one(conn, _SQL["count_runs_of"], {"tenant_id": tenant_id, "name": name, "limit": limit}, int)
