"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection

from everwhen.limits.model import DrawnRow
from everwhen.postgres.fetch import execute_count, fetch_all
from everwhen.postgres.sql import load

_SQL = load("everwhen.limits")

Conn = AsyncConnection[Any]


async def draw_allowances(
    conn: Conn,
    *,
    keys: Sequence[bytes],
    quotas: Sequence[int],
    seconds: Sequence[float],
    owed: Sequence[int],
    wanted: Sequence[int],
    now: datetime,
) -> list[DrawnRow]:
    """Draw from buckets; the keys are in order, each once."""
    params = {
        "keys": list(keys),
        "quotas": list(quotas),
        "seconds": list(seconds),
        "owed": list(owed),
        "wanted": list(wanted),
        "now": now,
    }
    return await fetch_all(conn, _SQL["draw_allowances"], params, DrawnRow)


async def drop_full(conn: Conn, *, now: datetime, limit: int) -> int:
    """Forget up to `limit` buckets that are full; return how many."""
    return await execute_count(conn, _SQL["drop_full"], {"now": now, "limit": limit})
