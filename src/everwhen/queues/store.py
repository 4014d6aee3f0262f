"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.queues.model import LineRow, PaceRow, QueueRow, ShareRow

_SQL = load("everwhen.queues")

Conn = AsyncConnection[Any]


async def open_lane(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Make this tenant's line at the queue, if it is not there."""
    return await execute_count(conn, _SQL["open_lane"], {"tenant_id": tenant_id, "queue": queue})


async def lock_lane(conn: Conn, *, tenant_id: UUID, queue: str) -> str | None:
    """Keep other changes away until the transaction ends; None when there is no such queue."""
    return await fetch_optional(conn, _SQL["lock_lane"], {"tenant_id": tenant_id, "queue": queue}, str)


async def get_queue(conn: Conn, *, tenant_id: UUID, queue: str) -> QueueRow | None:
    """Read one queue."""
    return await fetch_optional(conn, _SQL["get_queue"], {"tenant_id": tenant_id, "queue": queue}, QueueRow)


async def list_queues(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[QueueRow]:
    """Up to `limit` queues whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_queues"], params, QueueRow)


async def list_queues_named(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[QueueRow]:
    """Return those of these names that are defined, by name."""
    params = {"tenant_id": tenant_id, "names": list(names)}
    return await fetch_all(conn, _SQL["list_queues_named"], params, QueueRow)


async def page_names(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[str]:
    """Up to `limit` names of defined queues after `after`."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["page_names"], params, str)


async def page_names_of_owner(conn: Conn, *, tenant_id: UUID, owner: str, after: str, limit: int) -> list[str]:
    """Up to `limit` names of an owner's queues after `after`."""
    params = {"tenant_id": tenant_id, "owner": owner, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["page_names_of_owner"], params, str)


async def count_queues(conn: Conn, *, tenant_id: UUID) -> int:
    """How many are defined."""
    return await fetch_one(conn, _SQL["count_queues"], {"tenant_id": tenant_id}, int)


async def put_queue(
    conn: Conn,
    *,
    tenant_id: UUID,
    queue: str,
    max_in_flight: int | None,
    rate_tokens: int | None,
    rate_seconds: float | None,
    rate_burst: int | None,
    delivery: str,
    delivery_settings: str,
    ageing_seconds: float | None,
    tags: Sequence[str],
    owner: str | None,
    among: Sequence[int] | None,
    now: datetime,
) -> int | None:
    """Define a queue; return its revision, None when it is none of these. `delivery_settings` is JSON text."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "max_in_flight": max_in_flight,
        "rate_tokens": rate_tokens,
        "rate_seconds": rate_seconds,
        "rate_burst": rate_burst,
        "delivery": delivery,
        "delivery_settings": delivery_settings,
        "ageing_seconds": ageing_seconds,
        "tags": list(tags),
        "owner": owner,
        "among": None if among is None else list(among),
        "now": now,
    }
    return await fetch_optional(conn, _SQL["put_queue"], params, int)


async def delete_queue(
    conn: Conn, *, tenant_id: UUID, queue: str, among: Sequence[int] | None, now: datetime
) -> int | None:
    """Let everything be as by default; None when it is not defined, or its revision is none of these."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "among": None if among is None else list(among),
        "now": now,
    }
    return await fetch_optional(conn, _SQL["delete_queue"], params, int)


async def settle_lane(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Let the lane say what the queue and the share do."""
    return await execute_count(conn, _SQL["settle_lane"], {"tenant_id": tenant_id, "queue": queue})


async def get_share(conn: Conn, *, tenant_id: UUID, queue: str) -> ShareRow | None:
    """Read a tenant's place at a queue; None when it has none."""
    return await fetch_optional(conn, _SQL["get_share"], {"tenant_id": tenant_id, "queue": queue}, ShareRow)


async def put_share(
    conn: Conn,
    *,
    tenant_id: UUID,
    queue: str,
    weight: int,
    max_in_flight: int | None,
    among: Sequence[int] | None,
    by: str,
    now: datetime,
) -> int | None:
    """Set a tenant's place at a queue; return its revision, None when it is none of these."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "weight": weight,
        "max_in_flight": max_in_flight,
        "among": None if among is None else list(among),
        "by": by,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["put_share"], params, int)


async def count_lines(
    conn: Conn, *, tenant_id: UUID, queues: Sequence[str], most: int, live: datetime, now: datetime
) -> list[LineRow]:
    """Count what stands in these lines, in their order, up to `most` of each kind and priority.

    Workers that were seen after `live` count.
    """
    params = {"tenant_id": tenant_id, "queues": list(queues), "most": most, "live": live, "now": now}
    return await fetch_all(conn, _SQL["count_lines"], params, LineRow)


async def sample_paces(conn: Conn, *, tenant_id: UUID, since: datetime, most: int) -> list[PaceRow]:
    """Return how long attempts took, by queue, among the latest `most`."""
    params = {"tenant_id": tenant_id, "since": since, "most": most}
    return await fetch_all(conn, _SQL["sample_paces"], params, PaceRow)
