"""One function for each statement of `queries.sql`; the names are the statements'."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import fetch_all, fetch_optional
from everwhen.postgres.sql import load
from everwhen.tenants.model import Tenant

_SQL = load("everwhen.tenants")

Conn = AsyncConnection[Any]


async def insert_tenant(conn: Conn, *, tenant_id: UUID, name: str, now: datetime) -> Tenant | None:
    """Return None when the name is taken."""
    return await fetch_optional(conn, _SQL["insert_tenant"], {"tenant_id": tenant_id, "name": name, "now": now}, Tenant)


async def find_tenant(conn: Conn, *, name: str) -> Tenant | None:
    """Look a tenant up by its name."""
    return await fetch_optional(conn, _SQL["find_tenant"], {"name": name}, Tenant)


async def get_tenant(conn: Conn, *, tenant_id: UUID) -> Tenant | None:
    """Look a tenant up by its id."""
    return await fetch_optional(conn, _SQL["get_tenant"], {"tenant_id": tenant_id}, Tenant)


async def list_tenants(conn: Conn, *, after: str, limit: int) -> list[Tenant]:
    """Up to `limit` tenants whose names come after `after`, by name."""
    return await fetch_all(conn, _SQL["list_tenants"], {"after": after, "limit": limit}, Tenant)
