"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import fetch_all, fetch_optional
from everwhen.postgres.sql import load
from everwhen.sealing.model import WrappedCount, WrappedKey

_SQL = load("everwhen.sealing")

Conn = AsyncConnection[Any]


async def find_tenant_key(conn: Conn, *, tenant_id: UUID) -> WrappedKey | None:
    """Return the tenant's key, if it has one yet."""
    return await fetch_optional(conn, _SQL["find_tenant_key"], {"tenant_id": tenant_id}, WrappedKey)


async def insert_tenant_key(
    conn: Conn, *, tenant_id: UUID, wrapped: bytes, wrapped_by: str, now: datetime
) -> WrappedKey | None:
    """Return None when the tenant has one already."""
    params = {"tenant_id": tenant_id, "wrapped": wrapped, "wrapped_by": wrapped_by, "now": now}
    return await fetch_optional(conn, _SQL["insert_tenant_key"], params, WrappedKey)


async def take_keys_of_others(conn: Conn, *, first: str, after: UUID, batch: int) -> list[WrappedKey]:
    """Lock up to `batch` keys that another sealing key than `first` wraps, by tenant, after a tenant."""
    params = {"first": first, "after": after, "batch": batch}
    return await fetch_all(conn, _SQL["take_keys_of_others"], params, WrappedKey)


async def rewrap_keys(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    wrapped: Sequence[bytes],
    wrapped_by: Sequence[str],
    first: str,
    now: datetime,
) -> list[UUID]:
    """Replace keys that are still wrapped by what they were; return whose."""
    params = {
        "tenant_ids": list(tenant_ids),
        "wrapped": list(wrapped),
        "wrapped_by": list(wrapped_by),
        "first": first,
        "now": now,
    }
    return await fetch_all(conn, _SQL["rewrap_keys"], params, UUID)


async def count_by_sealing_key(conn: Conn) -> list[WrappedCount]:
    """How many tenants' keys each sealing key wraps."""
    return await fetch_all(conn, _SQL["count_by_sealing_key"], {}, WrappedCount)
