"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import fetch_all
from everwhen.postgres.sql import load
from everwhen.workflows.listing.model import Begun, RunHead

_SQL = load("everwhen.workflows.listing")

Conn = AsyncConnection[Any]


async def page_heads(
    conn: Conn, *, tenant_id: UUID, before: UUID, with_state: bool, now: datetime, limit: int
) -> list[RunHead]:
    """Up to `limit` heads of workflows' runs with ids below `before`, the newest first."""
    params = {"tenant_id": tenant_id, "before": before, "with_state": with_state, "now": now, "limit": limit}
    return await fetch_all(conn, _SQL["page_heads"], params, RunHead)


async def read_begun(conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[Begun]:
    """Return what those of these runs are by that have started."""
    return await fetch_all(conn, _SQL["read_begun"], {"tenant_id": tenant_id, "run_ids": list(run_ids)}, Begun)
