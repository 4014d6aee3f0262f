"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.alerts.texts.model import TemplateItem, TemplateRow
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.alerts.texts")

Conn = AsyncConnection[Any]


async def put_template(  # what its statement takes
    conn: Conn,
    *,
    tenant_id: UUID,
    kind: str,
    part: str,
    source: str,
    updated_by: str,
    among: Sequence[int] | None,
    now: datetime,
) -> TemplateRow | None:
    """Write a template, or write it anew; None: it is none of these revisions."""
    params = {
        "tenant_id": tenant_id,
        "kind": kind,
        "part": part,
        "source": source,
        "updated_by": updated_by,
        "among": None if among is None else list(among),
        "now": now,
    }
    return await fetch_optional(conn, _SQL["put_template"], params, TemplateRow)


async def get_template(conn: Conn, *, tenant_id: UUID, kind: str, part: str) -> TemplateRow | None:
    """Read a template."""
    params = {"tenant_id": tenant_id, "kind": kind, "part": part}
    return await fetch_optional(conn, _SQL["get_template"], params, TemplateRow)


async def list_templates(conn: Conn, *, tenant_id: UUID) -> list[TemplateItem]:
    """Every template of the tenant, by kind and part."""
    return await fetch_all(conn, _SQL["list_templates"], {"tenant_id": tenant_id}, TemplateItem)


async def find_templates(conn: Conn, *, tenant_id: UUID, kinds: Sequence[str]) -> list[TemplateRow]:
    """Read the templates of these kinds."""
    params = {"tenant_id": tenant_id, "kinds": list(kinds)}
    return await fetch_all(conn, _SQL["find_templates"], params, TemplateRow)


async def delete_template(conn: Conn, *, tenant_id: UUID, kind: str, part: str, among: Sequence[int] | None) -> int:
    """Delete a template; zero rows without it, or at another revision."""
    params = {"tenant_id": tenant_id, "kind": kind, "part": part, "among": None if among is None else list(among)}
    return await execute_count(conn, _SQL["delete_template"], params)
