"""One function for each statement of `queries.sql`; the names are the statements'."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.logs.model import Dropped, LogHead, LogPiece, LogRow
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.logs")

Conn = AsyncConnection[Any]


async def lock_log(conn: Conn, *, tenant_id: UUID, run_id: UUID, attempt: int) -> LogRow | None:
    """Lock and read an attempt's log; None before its first piece."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "attempt": attempt}
    return await fetch_optional(conn, _SQL["lock_log"], params, LogRow)


async def insert_log(conn: Conn, *, tenant_id: UUID, run_id: UUID, attempt: int, object_id: UUID, now: datetime) -> int:
    """Open an attempt's log; 0 when it is open already."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "attempt": attempt, "object_id": object_id, "now": now}
    return await execute_count(conn, _SQL["insert_log"], params)


async def take_slot(conn: Conn, *, tenant_id: UUID, run_id: UUID, attempt: int) -> int:
    """Give out the next place in the log's object."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "attempt": attempt}
    return await execute_count(conn, _SQL["take_slot"], params)


async def append_piece(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    attempt: int,
    piece: int,
    slot: int,
    size_bytes: int,
    is_capped: bool,
    reason: str | None,
    now: datetime,
) -> int:
    """Let the log grow by a piece; 0 when that is there already. A `reason` for which it ends is told."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "attempt": attempt,
        "piece": piece,
        "slot": slot,
        "size_bytes": size_bytes,
        "is_capped": is_capped,
        "reason": reason,
        "now": now,
    }
    return await execute_count(conn, _SQL["append_piece"], params)


async def read_bytes(conn: Conn, *, tenant_id: UUID) -> int:
    """Return how many bytes all logs of the tenant take."""
    return await fetch_one(conn, _SQL["read_bytes"], {"tenant_id": tenant_id}, int)


async def find_log(conn: Conn, *, tenant_id: UUID, run_id: UUID, attempt: int | None) -> LogHead | None:
    """Read how an attempt's log stands, the latest attempt's for None; None when there is no such attempt."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "attempt": attempt}
    return await fetch_optional(conn, _SQL["find_log"], params, LogHead)


async def list_pieces(conn: Conn, *, tenant_id: UUID, object_id: UUID, offset: int, limit: int) -> list[LogPiece]:
    """Return up to `limit` pieces from the byte `offset` on."""
    params = {"tenant_id": tenant_id, "object_id": object_id, "offset": offset, "limit": limit}
    return await fetch_all(conn, _SQL["list_pieces"], params, LogPiece)


async def drop_old(conn: Conn, *, before: datetime, most_pieces: int, limit: int) -> list[Dropped]:
    """Forget up to `limit` logs that were opened before then; return their objects."""
    params = {"before": before, "most_pieces": most_pieces, "limit": limit}
    return await fetch_all(conn, _SQL["drop_old"], params, Dropped)
