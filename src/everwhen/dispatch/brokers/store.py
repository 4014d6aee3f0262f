"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.dispatch.brokers.model import BrokeredLine, LineKey, Looked, Telling
from everwhen.postgres.fetch import execute_count, fetch_all
from everwhen.postgres.sql import load

_SQL = load("everwhen.dispatch.brokers")

Conn = AsyncConnection[Any]


async def read_lines(
    conn: Conn,
    *,
    brokers: Sequence[str],
    after_tenant_id: UUID,
    after_queue: str,
    window: int,
    limit: int,
    now: datetime,
) -> list[BrokeredLine]:
    """Return the next lines that these brokers deliver, in the order of their key."""
    params = {
        "brokers": list(brokers),
        "after_tenant_id": after_tenant_id,
        "after_queue": after_queue,
        "window": window,
        "limit": limit,
        "now": now,
    }
    return await fetch_all(conn, _SQL["read_lines"], params, BrokeredLine)


async def tell_new(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    brokers: Sequence[str],
    rooms: Sequence[int],
    look_at: datetime,
    limit: int,
    now: datetime,
) -> list[Telling]:
    """Take up to `limit` due runs of these lines to announce, of each line as many as it has room for."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "brokers": list(brokers),
        "rooms": list(rooms),
        "look_at": look_at,
        "limit": limit,
        "now": now,
    }
    return await fetch_all(conn, _SQL["tell_new"], params, Telling)


async def tell_again(conn: Conn, *, broker: str, look_at: datetime, limit: int, now: datetime) -> list[Looked]:
    """Look at up to `limit` that are due for it; those that still wait are taken to be announced again."""
    params = {"broker": broker, "look_at": look_at, "limit": limit, "now": now}
    return await fetch_all(conn, _SQL["tell_again"], params, Looked)


async def mark_published(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    told_ats: Sequence[datetime],
    again_seconds: float,
    now: datetime,
) -> int:
    """Note that the broker has these."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "told_ats": list(told_ats),
        "again_seconds": again_seconds,
        "now": now,
    }
    return await execute_count(conn, _SQL["mark_published"], params)


async def mark_unpublished(
    conn: Conn, *, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID], told_ats: Sequence[datetime], look_at: datetime
) -> int:
    """Let these be told again from then on."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "told_ats": list(told_ats),
        "look_at": look_at,
    }
    return await execute_count(conn, _SQL["mark_unpublished"], params)


async def look_now(conn: Conn, *, tenant_id: UUID, queue: str, now: datetime) -> int:
    """Let everything that was told of a line be looked at."""
    return await execute_count(conn, _SQL["look_now"], {"tenant_id": tenant_id, "queue": queue, "now": now})


async def forget_taken(conn: Conn, *, tenant_id: UUID, queue: str, limit: int) -> int:
    """Forget up to `limit` that were told of a line and are no longer there to be taken."""
    return await execute_count(conn, _SQL["forget_taken"], {"tenant_id": tenant_id, "queue": queue, "limit": limit})


async def forget_undelivered(conn: Conn, *, broker: str, limit: int, now: datetime) -> int:
    """Forget up to `limit` that were told of queues which this broker delivers no longer."""
    return await execute_count(conn, _SQL["forget_undelivered"], {"broker": broker, "limit": limit, "now": now})


async def note_broker(conn: Conn, *, broker: str, is_away: bool, detail: str, now: datetime) -> int:
    """Write down how a broker is found."""
    params = {"broker": broker, "is_away": is_away, "detail": detail, "now": now}
    return await execute_count(conn, _SQL["note_broker"], params)


async def find_mailboxes(
    conn: Conn, *, tenant_id: UUID | None, queues: Sequence[str], brokers: Sequence[str], limit: int
) -> list[LineKey]:
    """Return up to `limit` lines at these queues that these brokers deliver; `tenant_id` None: of all tenants."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "brokers": list(brokers), "limit": limit}
    return await fetch_all(conn, _SQL["find_mailboxes"], params, LineKey)
