"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.limits.model import DayRow, DrawnRow, LimitsRow, Room
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.limits")

Conn = AsyncConnection[Any]


async def draw_allowances(
    conn: Conn,
    *,
    keys: Sequence[bytes],
    tenant_ids: Sequence[UUID | None],
    quotas: Sequence[int],
    seconds: Sequence[float],
    owed: Sequence[int],
    wanted: Sequence[int],
    now: datetime,
) -> list[DrawnRow]:
    """Draw from buckets, each once; `tenant_ids` says whose limits stand for the quotas."""
    params = {
        "keys": list(keys),
        "tenant_ids": list(tenant_ids),
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


async def hold_limits(conn: Conn, *, tenant_id: UUID) -> LimitsRow:
    """Return a tenant's limits, and let nobody else have them in this way until the transaction ends."""
    return await fetch_one(conn, _SQL["hold_limits"], {"tenant_id": tenant_id}, LimitsRow)


async def read_limits(conn: Conn, *, tenant_id: UUID) -> LimitsRow:
    """Return a tenant's limits."""
    return await fetch_one(conn, _SQL["read_limits"], {"tenant_id": tenant_id}, LimitsRow)


async def set_limits(
    conn: Conn,
    *,
    tenant_id: UUID,
    attempts: int | None,
    calendars: int | None,
    channels: int | None,
    in_flight: int | None,
    log_bytes: int | None,
    members: int | None,
    minimum_interval_seconds: int | None,
    payload_bytes: int | None,
    queues: int | None,
    requests_per_minute: int | None,
    runs_per_day: int | None,
    schedules: int | None,
    subscriptions: int | None,
    tasks: int | None,
    tokens: int | None,
    workflows: int | None,
    revision: int,
    by: str,
    now: datetime,
) -> int | None:
    """Put all limits in the place of this revision; return the next one, None when there is another by now."""
    params = {
        "tenant_id": tenant_id,
        "attempts": attempts,
        "calendars": calendars,
        "channels": channels,
        "in_flight": in_flight,
        "log_bytes": log_bytes,
        "members": members,
        "minimum_interval_seconds": minimum_interval_seconds,
        "payload_bytes": payload_bytes,
        "queues": queues,
        "requests_per_minute": requests_per_minute,
        "runs_per_day": runs_per_day,
        "schedules": schedules,
        "subscriptions": subscriptions,
        "tasks": tasks,
        "tokens": tokens,
        "workflows": workflows,
        "revision": revision,
        "by": by,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["set_limits"], params, int)


async def use_runs(
    conn: Conn, *, tenant_ids: Sequence[UUID], days: Sequence[date], wanted: Sequence[int], usual: int
) -> list[Room]:
    """Count runs against their tenants' limits; return for how many of each there is room, in the given order."""
    params = {"tenant_ids": list(tenant_ids), "days": list(days), "wanted": list(wanted), "usual": usual}
    return await fetch_all(conn, _SQL["use_runs"], params, Room)


async def give_back_runs(conn: Conn, *, tenant_ids: Sequence[UUID], days: Sequence[date], runs: Sequence[int]) -> int:
    """Count so many runs less; return for how many pairs of a tenant and a day."""
    params = {"tenant_ids": list(tenant_ids), "days": list(days), "runs": list(runs)}
    return await execute_count(conn, _SQL["give_back_runs"], params)


async def fold_days(conn: Conn, *, before: date, limit: int) -> int:
    """Join up to `limit` rows of days before this one; return how many."""
    return await fetch_one(conn, _SQL["fold_days"], {"before": before, "limit": limit}, int)


async def list_days(conn: Conn, *, tenant_id: UUID, today: date, days: int) -> list[DayRow]:
    """Return what was counted on the last `days`, today first."""
    params = {"tenant_id": tenant_id, "today": today, "days": days}
    return await fetch_all(conn, _SQL["list_days"], params, DayRow)


async def add_requests(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    requests: Sequence[int],
    refused: Sequence[int],
    worker_requests: Sequence[int],
    day: date,
) -> int:
    """Count requests of tenants on a day."""
    params = {
        "tenant_ids": list(tenant_ids),
        "requests": list(requests),
        "refused": list(refused),
        "worker_requests": list(worker_requests),
        "day": day,
    }
    return await execute_count(conn, _SQL["add_requests"], params)
