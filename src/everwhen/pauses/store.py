"""One function for each statement of `queries.sql`; the names are the statements'."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.pauses.model import EndedPause, Pause, PauseChange
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.pauses")

Conn = AsyncConnection[Any]


async def has_lane(conn: Conn, *, tenant_id: UUID, queue: str) -> bool:
    """Say whether the tenant has this queue."""
    return await fetch_one(conn, _SQL["has_lane"], {"tenant_id": tenant_id, "queue": queue}, bool)


async def list_lanes(conn: Conn, *, tenant_id: UUID, limit: int) -> list[str]:
    """Return the tenant's queues."""
    return await fetch_all(conn, _SQL["list_lanes"], {"tenant_id": tenant_id, "limit": limit}, str)


async def insert_pause(
    conn: Conn, *, tenant_id: UUID, queue: str, reason: str, by: str, until: datetime | None, now: datetime
) -> Pause | None:
    """Pause a queue, or the tenant; None when it is paused already."""
    params = {"tenant_id": tenant_id, "queue": queue, "reason": reason, "by": by, "until": until, "now": now}
    return await fetch_optional(conn, _SQL["insert_pause"], params, Pause)


async def delete_pause(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """End a pause; 0 when there is none."""
    return await execute_count(conn, _SQL["delete_pause"], {"tenant_id": tenant_id, "queue": queue})


async def find_pause(conn: Conn, *, tenant_id: UUID, queue: str, now: datetime) -> Pause | None:
    """Return the pause of this queue, or of the whole tenant, in force at `now`."""
    params = {"tenant_id": tenant_id, "queue": queue, "now": now}
    return await fetch_optional(conn, _SQL["find_pause"], params, Pause)


async def list_pauses(conn: Conn, *, tenant_id: UUID, after: str, now: datetime, limit: int) -> list[Pause]:
    """Return pauses in force at `now` whose queues come after `after`, by queue."""
    params = {"tenant_id": tenant_id, "after": after, "now": now, "limit": limit}
    return await fetch_all(conn, _SQL["list_pauses"], params, Pause)


async def insert_change(  # the columns
    conn: Conn,
    *,
    tenant_id: UUID,
    queue: str,
    action: str,
    by: str,
    reason: str | None,
    until: datetime | None,
    now: datetime,
) -> int:
    """Record who paused or resumed what."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "action": action,
        "by": by,
        "reason": reason,
        "until": until,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_change"], params)


async def list_changes(conn: Conn, *, tenant_id: UUID, after: int, limit: int) -> list[PauseChange]:
    """Return changes numbered above `after`, the oldest first."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_changes"], params, PauseChange)


async def end_pauses(conn: Conn, *, now: datetime, by: str, reason: str, limit: int) -> list[EndedPause]:
    """End and record the pauses whose time has come by `now`."""
    params = {"now": now, "by": by, "reason": reason, "limit": limit}
    return await fetch_all(conn, _SQL["end_pauses"], params, EndedPause)


async def next_end(conn: Conn) -> datetime | None:
    """Return when the next pause ends by itself."""
    return await fetch_optional(conn, _SQL["next_end"], {}, datetime)
