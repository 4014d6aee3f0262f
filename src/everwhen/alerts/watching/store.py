"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.alerts.watching.model import Suspect, Watched
from everwhen.postgres.fetch import execute_count, fetch_all
from everwhen.postgres.sql import load

_SQL = load("everwhen.alerts.watching")

Conn = AsyncConnection[Any]


async def signal_late(
    conn: Conn, *, claimed_after: datetime, objective: float, depth: int, limit: int, now: datetime
) -> int:
    """Signal runs that are late; return how many."""
    params = {"claimed_after": claimed_after, "objective": objective, "depth": depth, "limit": limit, "now": now}
    return await execute_count(conn, _SQL["signal_late"], params)


async def find_suspects(conn: Conn, *, depth: int, now: datetime) -> list[Suspect]:
    """Return attempts that have run for far longer than such runs take."""
    return await fetch_all(conn, _SQL["find_suspects"], {"depth": depth, "now": now}, Suspect)


async def see_suspects(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    attempts: Sequence[int],
    progresses: Sequence[str],
    sinces: Sequence[datetime],
    now: datetime,
) -> int:
    """Write since when each has reported the same."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "attempts": list(attempts),
        "progresses": list(progresses),
        "sinces": list(sinces),
        "now": now,
    }
    return await execute_count(conn, _SQL["see_suspects"], params)


async def signal_zombies(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    attempts: Sequence[int],
    patiences: Sequence[timedelta],
    now: datetime,
) -> int:
    """Signal those that have reported nothing new for too long; return how many."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "attempts": list(attempts),
        "patiences": list(patiences),
        "now": now,
    }
    return await execute_count(conn, _SQL["signal_zombies"], params)


async def find_with_deadline(conn: Conn, *, queue: str, depth: int, limit: int) -> list[Watched]:
    """Return workflows' runs that have a deadline and were not told of."""
    params = {"queue": queue, "depth": depth, "limit": limit}
    return await fetch_all(conn, _SQL["find_with_deadline"], params, Watched)


async def signal_overdue_runs(conn: Conn, *, depth: int, limit: int, now: datetime) -> int:
    """Signal runs of schedules that will miss their total deadline; return how many."""
    return await execute_count(conn, _SQL["signal_overdue_runs"], {"depth": depth, "limit": limit, "now": now})


async def signal_overdue(conn: Conn, *, tenant_id: UUID, run_id: UUID, now: datetime) -> int:
    """Signal a run that will miss its deadline; 0: it was told."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "now": now}
    return await execute_count(conn, _SQL["signal_overdue"], params)


async def forget(conn: Conn, *, before: datetime, limit: int) -> int:
    """Delete what was watched before then."""
    return await execute_count(conn, _SQL["forget"], {"before": before, "limit": limit})
