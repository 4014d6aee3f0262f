"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.alerts.reading.model import DeliveryRow, Found, TryRow
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.alerts.reading")

Conn = AsyncConnection[Any]


async def list_deliveries(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
) -> list[DeliveryRow]:
    """Return deliveries, the newest first."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["list_deliveries"], params, DeliveryRow)


async def list_deliveries_in_state(
    conn: Conn,
    *,
    tenant_id: UUID,
    state: str,
    before: UUID,
    since: UUID,
    limit: int,
) -> list[DeliveryRow]:
    """Return deliveries in a state, the newest first."""
    params = {
        "tenant_id": tenant_id,
        "state": state,
        "before": before,
        "since": since,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["list_deliveries_in_state"], params, DeliveryRow)


async def get_delivery(conn: Conn, *, tenant_id: UUID, delivery_id: UUID) -> DeliveryRow | None:
    """Return a delivery with the occasions that it shows."""
    params = {"tenant_id": tenant_id, "delivery_id": delivery_id}
    return await fetch_optional(conn, _SQL["get_delivery"], params, DeliveryRow)


async def list_tries(conn: Conn, *, tenant_id: UUID, delivery_id: UUID) -> list[TryRow]:
    """Return the tries of a delivery."""
    return await fetch_all(conn, _SQL["list_tries"], {"tenant_id": tenant_id, "delivery_id": delivery_id}, TryRow)


async def revive(conn: Conn, *, tenant_id: UUID, delivery_id: UUID, now: datetime) -> int:
    """Try a dead delivery again; 0: it is not dead."""
    params = {"tenant_id": tenant_id, "delivery_id": delivery_id, "now": now}
    return await execute_count(conn, _SQL["revive"], params)


async def copy_delivered(conn: Conn, *, tenant_id: UUID, delivery_id: UUID, new_id: UUID, now: datetime) -> int:
    """Send a delivered message once more as another one; 0: it was not delivered, or is a test."""
    params = {"tenant_id": tenant_id, "delivery_id": delivery_id, "new_id": new_id, "now": now}
    return await execute_count(conn, _SQL["copy_delivered"], params)


async def find_signals(
    conn: Conn, *, tenant_id: UUID, words: Sequence[str], since: datetime, limit: int
) -> list[Found]:
    """Return what happened since then, the latest first."""
    params = {"tenant_id": tenant_id, "words": list(words), "since": since, "limit": limit}
    return await fetch_all(conn, _SQL["find_signals"], params, Found)


async def find_watched(
    conn: Conn,
    *,
    tenant_id: UUID,
    words: Sequence[str],
    deadlines: Sequence[str],
    objective: float,
    since: datetime,
    walk: int,
    limit: int,
    now: datetime,
) -> list[Found]:
    """Return what the watch would have told since then, the latest first."""
    params = {
        "tenant_id": tenant_id,
        "words": list(words),
        "deadlines": list(deadlines),
        "objective": objective,
        "since": since,
        "walk": walk,
        "limit": limit,
        "now": now,
    }
    return await fetch_all(conn, _SQL["find_watched"], params, Found)
