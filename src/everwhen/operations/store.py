"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.operations.model import DoneItem, Item, ItemRow, OperationRow, Seen
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.operations")

Conn = AsyncConnection[Any]


async def insert_operation(
    conn: Conn,
    *,
    tenant_id: UUID,
    operation_id: UUID,
    kind: str,
    request: str,
    requested_by: str,
    reason: str,
    total: int,
    canary_passed: bool,
    listed_until: datetime | None,
    listed: bytes,
    listed_count: int,
    seen_seq: int,
    now: datetime,
) -> int:
    """Write an operation; return 0 when it is there already. `request` is JSON text."""
    return await execute_count(
        conn,
        _SQL["insert_operation"],
        {
            "tenant_id": tenant_id,
            "operation_id": operation_id,
            "kind": kind,
            "request": request,
            "requested_by": requested_by,
            "reason": reason,
            "total": total,
            "canary_passed": canary_passed,
            "listed_until": listed_until,
            "listed": listed,
            "listed_count": listed_count,
            "seen_seq": seen_seq,
            "now": now,
        },
    )


async def insert_items(
    conn: Conn,
    *,
    tenant_id: UUID,
    operation_id: UUID,
    seqs: Sequence[int],
    run_ids: Sequence[UUID | None],
    nominal_ats: Sequence[datetime | None],
    utc_offsets: Sequence[int | None],
) -> int:
    """Write what an operation is about; return how many items there are."""
    return await execute_count(
        conn,
        _SQL["insert_items"],
        {
            "tenant_id": tenant_id,
            "operation_id": operation_id,
            "seqs": list(seqs),
            "run_ids": list(run_ids),
            "nominal_ats": list(nominal_ats),
            "utc_offsets": list(utc_offsets),
        },
    )


async def insert_things(
    conn: Conn,
    *,
    tenant_id: UUID,
    operation_id: UUID,
    seqs: Sequence[int],
    names: Sequence[str],
    uids: Sequence[UUID | None],
) -> int:
    """Write which things an operation is about; return how many there are."""
    params = {
        "tenant_id": tenant_id,
        "operation_id": operation_id,
        "seqs": list(seqs),
        "names": list(names),
        "uids": list(uids),
    }
    return await execute_count(conn, _SQL["insert_things"], params)


async def list_items(conn: Conn, *, tenant_id: UUID, operation_id: UUID, after: int, limit: int) -> list[ItemRow]:
    """Up to `limit` items after one of them, in their order."""
    params = {"tenant_id": tenant_id, "operation_id": operation_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_items"], params, ItemRow)


async def list_items_in_state(
    conn: Conn, *, tenant_id: UUID, operation_id: UUID, state: str, after: int, limit: int
) -> list[ItemRow]:
    """Up to `limit` items in a state after one of them, in their order."""
    params = {"tenant_id": tenant_id, "operation_id": operation_id, "state": state, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_items_in_state"], params, ItemRow)


async def get_operation(conn: Conn, *, tenant_id: UUID, operation_id: UUID) -> OperationRow | None:
    """Read one operation."""
    return await fetch_optional(
        conn, _SQL["get_operation"], {"tenant_id": tenant_id, "operation_id": operation_id}, OperationRow
    )


async def list_operations(conn: Conn, *, tenant_id: UUID, before: UUID, limit: int) -> list[OperationRow]:
    """Return operations with ids below `before`, the newest first."""
    return await fetch_all(
        conn, _SQL["list_operations"], {"tenant_id": tenant_id, "before": before, "limit": limit}, OperationRow
    )


async def change_state(
    conn: Conn,
    *,
    tenant_id: UUID,
    operation_id: UUID,
    state: str,
    was: Sequence[str],
    changed_by: str,
    changed_reason: str | None,
    state_reason: str | None,
    seen_seq: int,
    next_at: datetime | None,
    finished_at: datetime | None,
    now: datetime,
) -> int:
    """Move an operation that is in one of the states `was`; return 0 when it is in none."""
    return await execute_count(
        conn,
        _SQL["change_state"],
        {
            "tenant_id": tenant_id,
            "operation_id": operation_id,
            "state": state,
            "was": list(was),
            "changed_by": changed_by,
            "changed_reason": changed_reason,
            "state_reason": state_reason,
            "seen_seq": seen_seq,
            "next_at": next_at,
            "finished_at": finished_at,
            "now": now,
        },
    )


async def lock_next(conn: Conn, *, now: datetime) -> OperationRow | None:
    """Lock the operation whose next step has waited longest, None when none is due."""
    return await fetch_optional(conn, _SQL["lock_next"], {"now": now}, OperationRow)


async def next_due(conn: Conn) -> datetime | None:
    """Return when the next step of any operation is due."""
    return await fetch_optional(conn, _SQL["next_due"], {}, datetime)


async def save_operation(
    conn: Conn,
    *,
    tenant_id: UUID,
    operation_id: UUID,
    state: str,
    state_reason: str | None,
    done: int,
    skipped: int,
    succeeded: int,
    dead: int,
    ended: int,
    total: int,
    canary_passed: bool,
    listed_until: datetime | None,
    listed: bytes,
    listed_count: int,
    rate_at: datetime,
    seen_seq: int,
    next_at: datetime | None,
    moved_at: datetime,
    finished_at: datetime | None,
) -> int:
    """Write what a step came to; return 1."""
    return await execute_count(
        conn,
        _SQL["save_operation"],
        {
            "tenant_id": tenant_id,
            "operation_id": operation_id,
            "state": state,
            "state_reason": state_reason,
            "done": done,
            "skipped": skipped,
            "succeeded": succeeded,
            "dead": dead,
            "ended": ended,
            "total": total,
            "canary_passed": canary_passed,
            "listed_until": listed_until,
            "listed": listed,
            "listed_count": listed_count,
            "rate_at": rate_at,
            "seen_seq": seen_seq,
            "next_at": next_at,
            "moved_at": moved_at,
            "finished_at": finished_at,
        },
    )


async def take_items(conn: Conn, *, tenant_id: UUID, operation_id: UUID, limit: int) -> list[Item]:
    """Return the next items that are left."""
    return await fetch_all(
        conn, _SQL["take_items"], {"tenant_id": tenant_id, "operation_id": operation_id, "limit": limit}, Item
    )


async def settle_items(
    conn: Conn,
    *,
    tenant_id: UUID,
    operation_id: UUID,
    seqs: Sequence[int],
    states: Sequence[str],
    reasons: Sequence[str | None],
    details: Sequence[str | None],
    made_run_ids: Sequence[UUID | None],
) -> int:
    """Write what became of items; return how many."""
    return await execute_count(
        conn,
        _SQL["settle_items"],
        {
            "tenant_id": tenant_id,
            "operation_id": operation_id,
            "seqs": list(seqs),
            "states": list(states),
            "reasons": list(reasons),
            "details": list(details),
            "made_run_ids": list(made_run_ids),
        },
    )


async def list_done(conn: Conn, *, tenant_id: UUID, operation_id: UUID, after: int, limit: int) -> list[DoneItem]:
    """Return items after one whose runs may still go on."""
    return await fetch_all(
        conn,
        _SQL["list_done"],
        {"tenant_id": tenant_id, "operation_id": operation_id, "after": after, "limit": limit},
        DoneItem,
    )


async def see_ends(conn: Conn, *, tenant_id: UUID, operation_id: UUID, after: int, limit: int) -> Seen:
    """Take over how runs of the operation have ended; return what was seen."""
    return await fetch_one(
        conn,
        _SQL["see_ends"],
        {"tenant_id": tenant_id, "operation_id": operation_id, "after": after, "limit": limit},
        Seen,
    )
