"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.streaming.model import LastCut, StreamedEvent

_SQL = load("everwhen.streaming")

Conn = AsyncConnection[Any]


async def lock_cuts(conn: Conn) -> bool:
    """Wait for whoever takes a cut, and hold others up until the transaction ends."""
    return await fetch_one(conn, _SQL["lock_cuts"], {}, bool)


async def take_cut(conn: Conn) -> int:
    """Keep the database's snapshot; return its number."""
    return await fetch_one(conn, _SQL["take_cut"], {}, int)


async def find_last_cut(conn: Conn, *, known: int) -> LastCut | None:
    """Return the newest cut; None when none was taken yet."""
    return await fetch_optional(conn, _SQL["find_last_cut"], {"known": known}, LastCut)


async def is_cut(conn: Conn, *, cut: int) -> bool:
    """Say whether a stream can go on behind a cut."""
    return await fetch_one(conn, _SQL["is_cut"], {"cut": cut}, bool)


async def find_news(conn: Conn, *, cut: int, tenant_ids: Sequence[UUID]) -> list[UUID]:
    """Return those tenants of which anything was committed after a cut."""
    return await fetch_all(conn, _SQL["find_news"], {"cut": cut, "tenant_ids": tenant_ids}, UUID)


async def read_stretches(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID | None,
    after_cut: int,
    after_event: int,
    until: int,
    limit: int,
) -> list[StreamedEvent]:
    """Return up to `limit` events of a tenant, or of one of its runs, after a place and up to a cut."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "after_cut": after_cut,
        "after_event": after_event,
        "until": until,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["read_stretches"], params, StreamedEvent)


async def read_history(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, cut: int, after_event: int, limit: int
) -> list[StreamedEvent]:
    """Return up to `limit` events of a run that were committed at a cut."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "cut": cut, "after_event": after_event, "limit": limit}
    return await fetch_all(conn, _SQL["read_history"], params, StreamedEvent)


async def drop_cuts(conn: Conn, *, before: int, limit: int) -> int:
    """Delete up to `limit` cuts that are older than one; return how many."""
    return await execute_count(conn, _SQL["drop_cuts"], {"before": before, "limit": limit})
