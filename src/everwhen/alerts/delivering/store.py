"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.alerts.delivering.model import Backlog, ChannelHealth, Claimed, SealedSecret
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.alerts.delivering")

Conn = AsyncConnection[Any]


async def claim_due(
    conn: Conn,
    *,
    busy_tenants: Sequence[UUID],
    busy_channels: Sequence[str],
    look: int,
    per_tenant: int,
    per_channel: int,
    limit: int,
    lease_seconds: float,
    notifier: str,
    now: datetime,
) -> list[Claimed]:
    """Take deliveries that are due, with a lease each."""
    params = {
        "busy_tenants": list(busy_tenants),
        "busy_channels": list(busy_channels),
        "look": look,
        "per_tenant": per_tenant,
        "per_channel": per_channel,
        "limit": limit,
        "lease_seconds": lease_seconds,
        "notifier": notifier,
        "now": now,
    }
    return await fetch_all(conn, _SQL["claim_due"], params, Claimed)


async def next_look(conn: Conn) -> datetime | None:
    """Return when the next delivery is due."""
    return await fetch_optional(conn, _SQL["next_look"], {}, datetime)


async def read_secrets(conn: Conn, *, tenant_ids: Sequence[UUID], channels: Sequence[str]) -> list[SealedSecret]:
    """Return the sealed secrets of channels."""
    params = {"tenant_ids": list(tenant_ids), "channels": list(channels)}
    return await fetch_all(conn, _SQL["read_secrets"], params, SealedSecret)


async def settle(
    conn: Conn,
    *,
    tenant_id: UUID,
    delivery_id: UUID,
    lease_token: int,
    state: str,
    look_at: datetime | None,
    outcome: str,
    response: str,
    seconds: float,
    now: datetime,
) -> int:
    """Write what came of a try; 0: somebody else has the delivery by now."""
    params = {
        "tenant_id": tenant_id,
        "delivery_id": delivery_id,
        "lease_token": lease_token,
        "state": state,
        "look_at": look_at,
        "outcome": outcome,
        "response": response,
        "seconds": seconds,
        "now": now,
    }
    return await execute_count(conn, _SQL["settle"], params)


async def channel_succeeded(conn: Conn, *, tenant_id: UUID, channel: str, now: datetime) -> int:
    """Note that a channel works."""
    params = {"tenant_id": tenant_id, "channel": channel, "now": now}
    return await execute_count(conn, _SQL["channel_succeeded"], params)


async def channel_failed(
    conn: Conn,
    *,
    tenant_id: UUID,
    channel: str,
    error: str,
    is_refusal: bool,
    most_refusals: int,
    now: datetime,
) -> ChannelHealth | None:
    """Note that a channel failed, and disable one that only refuses; None: it is gone."""
    params = {
        "tenant_id": tenant_id,
        "channel": channel,
        "error": error,
        "is_refusal": is_refusal,
        "most_refusals": most_refusals,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["channel_failed"], params, ChannelHealth)


async def verify_by_test(conn: Conn, *, tenant_id: UUID, channel: str, delivery_id: UUID, now: datetime) -> int:
    """Take the one receiver of a channel as verified by this test."""
    params = {"tenant_id": tenant_id, "channel": channel, "delivery_id": delivery_id, "now": now}
    return await execute_count(conn, _SQL["verify_by_test"], params)


async def insert_test(
    conn: Conn,
    *,
    tenant_id: UUID,
    delivery_id: UUID,
    channel: str,
    recipient: str,
    counts: str,
    shown: str,
    now: datetime,
) -> int:
    """Write a test message that is due at once."""
    params = {
        "tenant_id": tenant_id,
        "delivery_id": delivery_id,
        "channel": channel,
        "recipient": recipient,
        "counts": counts,
        "shown": shown,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_test"], params)


async def delete_old(conn: Conn, *, before: datetime, limit: int) -> int:
    """Delete deliveries that ended before then."""
    return await execute_count(conn, _SQL["delete_old"], {"before": before, "limit": limit})


async def read_backlog(conn: Conn, *, now: datetime) -> Backlog:
    """Return what waits to be sent."""
    return await fetch_one(conn, _SQL["read_backlog"], {"now": now}, Backlog)
