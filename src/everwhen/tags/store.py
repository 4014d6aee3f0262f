"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count
from everwhen.postgres.sql import load

_SQL = load("everwhen.tags")

Conn = AsyncConnection[Any]


async def put_tags(
    conn: Conn, *, tenant_id: UUID, kind: str, name: str, before: Sequence[str], tags: Sequence[str]
) -> int:
    """Put a thing's tags in the place of those that it had; return how many are new."""
    params = {"tenant_id": tenant_id, "kind": kind, "name": name, "before": list(before), "tags": list(tags)}
    return await execute_count(conn, _SQL["put_tags"], params)
