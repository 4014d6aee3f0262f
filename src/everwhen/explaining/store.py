"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.explaining.model import LaneKey, LineState, StandingLine
from everwhen.postgres.fetch import execute_count, fetch_all
from everwhen.postgres.sql import load

_SQL = load("everwhen.explaining")

Conn = AsyncConnection[Any]


async def record_sightings(
    conn: Conn,
    *,
    server_id: UUID,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    tasks: Sequence[str | None],
    now: datetime,
) -> int:
    """Note who has asked for runs; `tasks` are JSON arrays of names, None where somebody takes anything."""
    params = {
        "server_id": server_id,
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "tasks": list(tasks),
        "now": now,
    }
    return await execute_count(conn, _SQL["record_sightings"], params)


async def forget_sightings(conn: Conn, *, before: datetime, limit: int) -> int:
    """Delete up to `limit` sightings that are older; return how many went."""
    return await execute_count(conn, _SQL["forget_sightings"], {"before": before, "limit": limit})


async def look_at_lines(
    conn: Conn, *, after_tenant_id: UUID, after_queue: str, standing: datetime, limit: int
) -> list[LaneKey]:
    """Return the next `limit` lines after this key."""
    params = {
        "after_tenant_id": after_tenant_id,
        "after_queue": after_queue,
        "standing": standing,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["look_at_lines"], params, LaneKey)


async def look_closer(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    oldest: Sequence[datetime],
    now: datetime,
    live: datetime,
    most: int,
) -> list[StandingLine]:
    """Return what is seen of these lines; counts stop at `most`. Fleets seen since `live` count."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "oldest": list(oldest),
        "now": now,
        "live": live,
        "most": most,
    }
    return await fetch_all(conn, _SQL["look_closer"], params, StandingLine)


async def open_states(
    conn: Conn, *, after_tenant_id: UUID, after_queue: str, last_tenant_id: UUID, last_queue: str, limit: int
) -> list[LineState]:
    """Return what blocks the lines of this range of keys as far as it is known."""
    params = {
        "after_tenant_id": after_tenant_id,
        "after_queue": after_queue,
        "last_tenant_id": last_tenant_id,
        "last_queue": last_queue,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["open_states"], params, LineState)


async def close_states(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    tasks: Sequence[str],
    reasons: Sequence[str],
    now: datetime,
) -> int:
    """End what is over."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "tasks": list(tasks),
        "reasons": list(reasons),
        "now": now,
    }
    return await execute_count(conn, _SQL["close_states"], params)


async def insert_states(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    tasks: Sequence[str],
    reasons: Sequence[str],
    sinces: Sequence[datetime],
    facts: Sequence[str],
    now: datetime,
) -> int:
    """Note what has begun; `facts` are JSON texts."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "tasks": list(tasks),
        "reasons": list(reasons),
        "sinces": list(sinces),
        "facts": list(facts),
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_states"], params)


async def extend_observation(
    conn: Conn, *, observer_id: UUID, since: datetime, unbroken: datetime, now: datetime
) -> int:
    """Say that the observer has watched from `since` until now; 0 when its last look was before `unbroken`."""
    params = {"observer_id": observer_id, "since": since, "unbroken": unbroken, "now": now}
    return await execute_count(conn, _SQL["extend_observation"], params)


async def begin_observation(conn: Conn, *, observer_id: UUID, now: datetime) -> int:
    """Begin a stretch of watching."""
    return await execute_count(conn, _SQL["begin_observation"], {"observer_id": observer_id, "now": now})
