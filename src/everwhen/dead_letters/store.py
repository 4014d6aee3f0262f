"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.dead_letters.model import GroupRow, Letter, NodeOfRun
from everwhen.postgres.fetch import fetch_all, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.dead_letters")

Conn = AsyncConnection[Any]


async def mark_redriven(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_ids: Sequence[UUID],
    made_run_ids: Sequence[UUID],
    again: bool,
    dismissed: bool,
    changed_by: str,
    reason: str | None,
    now: datetime,
) -> list[UUID]:
    """Take dead letters for a redrive; return which were taken."""
    params = {
        "tenant_id": tenant_id,
        "run_ids": list(run_ids),
        "made_run_ids": list(made_run_ids),
        "again": again,
        "dismissed": dismissed,
        "changed_by": changed_by,
        "reason": reason,
        "now": now,
    }
    return await fetch_all(conn, _SQL["mark_redriven"], params, UUID)


async def find_nodes(conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[NodeOfRun]:
    """Return those of these runs that are nodes of workflows' runs."""
    return await fetch_all(conn, _SQL["find_nodes"], {"tenant_id": tenant_id, "run_ids": list(run_ids)}, NodeOfRun)


async def get_letter(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> Letter | None:
    """Return what was done about a dead run, None when nothing was."""
    return await fetch_optional(conn, _SQL["get_letter"], {"tenant_id": tenant_id, "run_id": run_id}, Letter)


async def set_letters(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_ids: Sequence[UUID],
    state: str,
    was: Sequence[str],
    changed_by: str,
    reason: str | None,
    now: datetime,
) -> list[UUID]:
    """Move letters from one of the states `was` to another; return which were moved."""
    params = {
        "tenant_id": tenant_id,
        "run_ids": list(run_ids),
        "state": state,
        "was": list(was),
        "changed_by": changed_by,
        "reason": reason,
        "now": now,
    }
    return await fetch_all(conn, _SQL["set_letters"], params, UUID)


async def list_groups(
    conn: Conn, *, tenant_id: UUID, after: str, first: bool, letter: str, most_counted: int, limit: int
) -> list[GroupRow]:
    """Return groups whose fingerprints come after `after` (with `first`, `after` too), with how many such letters."""
    params = {
        "tenant_id": tenant_id,
        "after": after,
        "first": first,
        "letter": letter,
        "most_counted": most_counted,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["list_groups"], params, GroupRow)
