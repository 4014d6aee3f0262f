"""One function for each statement of `queries.sql`; the names are the statements'."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_one
from everwhen.postgres.sql import load
from everwhen.replies.model import TakenKey

_SQL = load("everwhen.replies")

Conn = AsyncConnection[Any]


async def take_key(conn: Conn, *, tenant_id: UUID, principal: str, operation: str, key: str, now: datetime) -> TakenKey:
    """Hold the key until the transaction ends, if nobody else does, and return what is kept under it."""
    params = {"tenant_id": tenant_id, "principal": principal, "operation": operation, "key": key, "now": now}
    return await fetch_one(conn, _SQL["take_key"], params, TakenKey)


async def keep_reply(
    conn: Conn,
    *,
    tenant_id: UUID,
    principal: str,
    operation: str,
    key: str,
    fingerprint: bytes,
    status: int,
    headers: str,
    body: bytes,
    now: datetime,
    expires_at: datetime,
) -> int:
    """Keep an answer; return 0 when one is kept already. `headers` is JSON text."""
    params = {
        "tenant_id": tenant_id,
        "principal": principal,
        "operation": operation,
        "key": key,
        "fingerprint": fingerprint,
        "status": status,
        "headers": headers,
        "body": body,
        "now": now,
        "expires_at": expires_at,
    }
    return await execute_count(conn, _SQL["keep_reply"], params)


async def drop_expired(conn: Conn, *, now: datetime, limit: int) -> int:
    """Delete up to `limit` answers whose time is over; return how many."""
    return await execute_count(conn, _SQL["drop_expired"], {"now": now, "limit": limit})
