"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.fleets.model import Fleet, HeldRun, LiveRow, Standing, Want, WorkerRow
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.fleets")

Conn = AsyncConnection[Any]


async def announce_again(conn: Conn, *, tenant_id: UUID, instance: UUID, said: str, now: datetime) -> Standing | None:
    """Note what a known worker is now, as JSON text; None when it is not known."""
    params = {"tenant_id": tenant_id, "instance": instance, "said": said, "now": now}
    return await fetch_optional(conn, _SQL["announce_again"], params, Standing)


async def hold_workers(conn: Conn, *, tenant_id: UUID) -> str:
    """Count the tenant's workers after whoever does so now."""
    return await fetch_one(conn, _SQL["hold_workers"], {"tenant_id": tenant_id}, str)


async def make_room(conn: Conn, *, tenant_id: UUID, lost: datetime, most: int) -> int:
    """Take lost workers away, so that one more is not too many; return how many went."""
    return await execute_count(conn, _SQL["make_room"], {"tenant_id": tenant_id, "lost": lost, "most": most})


async def insert_worker(
    conn: Conn, *, tenant_id: UUID, worker_id: UUID, instance: UUID, said: str, most: int, now: datetime
) -> Standing | None:
    """Note a new worker, as JSON text; None when there are too many, or it is there already."""
    params = {
        "tenant_id": tenant_id,
        "worker_id": worker_id,
        "instance": instance,
        "said": said,
        "most": most,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["insert_worker"], params, Standing)


async def beat_worker(
    conn: Conn, *, tenant_id: UUID, instance: UUID, held: int, in_use: str, heard: str, is_stopping: bool, now: datetime
) -> Standing | None:
    """Note that a worker lives, with what it holds; None when it is not known."""
    params = {
        "tenant_id": tenant_id,
        "instance": instance,
        "held": held,
        "in_use": in_use,
        "heard": heard,
        "is_stopping": is_stopping,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["beat_worker"], params, Standing)


async def delete_worker(conn: Conn, *, tenant_id: UUID, instance: UUID) -> int:
    """Forget a worker that has stopped."""
    return await execute_count(conn, _SQL["delete_worker"], {"tenant_id": tenant_id, "instance": instance})


async def list_workers(conn: Conn, *, tenant_id: UUID, after: UUID, limit: int) -> list[WorkerRow]:
    """Return workers after `after`, in the order in which they came."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_workers"], params, WorkerRow)


async def get_worker(conn: Conn, *, tenant_id: UUID, worker_id: UUID) -> WorkerRow | None:
    """Return a worker."""
    params = {"tenant_id": tenant_id, "worker_id": worker_id}
    return await fetch_optional(conn, _SQL["get_worker"], params, WorkerRow)


async def set_wish(
    conn: Conn, *, tenant_id: UUID, worker_id: UUID, wish: str, exits: bool, by: str, why: str | None, now: datetime
) -> UUID | None:
    """Note what is wanted of a worker; return its instance, None when there is no such worker."""
    params = {
        "tenant_id": tenant_id,
        "worker_id": worker_id,
        "wish": wish,
        "exits": exits,
        "by": by,
        "why": why,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["set_wish"], params, UUID)


async def list_held(conn: Conn, *, tenant_id: UUID, worker_id: UUID, looked_at: int, limit: int) -> list[HeldRun]:
    """Return runs that a tenant's worker holds, by its name."""
    params = {"tenant_id": tenant_id, "worker_id": worker_id, "looked_at": looked_at, "limit": limit}
    return await fetch_all(conn, _SQL["list_held"], params, HeldRun)


async def list_held_of_any(conn: Conn, *, worker_id: UUID, looked_at: int, limit: int) -> list[HeldRun]:
    """Return runs of any tenant that a worker of the platform holds, by its name."""
    params = {"worker_id": worker_id, "looked_at": looked_at, "limit": limit}
    return await fetch_all(conn, _SQL["list_held_of_any"], params, HeldRun)


async def list_fleets(conn: Conn, *, tenant_id: UUID, queues: Sequence[str], lost: datetime) -> list[Fleet]:
    """Return who works at each of these queues, by queue; whoever was not seen since `lost` is not alive."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "lost": lost}
    return await fetch_all(conn, _SQL["list_fleets"], params, Fleet)


async def forget_workers(conn: Conn, *, before: datetime, limit: int) -> int:
    """Forget up to `limit` workers that were not seen since."""
    return await execute_count(conn, _SQL["forget_workers"], {"before": before, "limit": limit})


async def list_live(conn: Conn, *, tenant_id: UUID, queue: str, lost: datetime) -> list[LiveRow]:
    """Return the live workers of a queue, the platform's among them; whoever was not seen since `lost` is none."""
    return await fetch_all(conn, _SQL["list_live"], {"tenant_id": tenant_id, "queue": queue, "lost": lost}, LiveRow)


async def find_wants(
    conn: Conn, *, tenant_ids: Sequence[UUID], queues: Sequence[str], tasks: Sequence[str], now: datetime
) -> list[Want]:
    """Return for want of what runs of these tasks wait in these lines."""
    params = {"tenant_ids": list(tenant_ids), "queues": list(queues), "tasks": list(tasks), "now": now}
    return await fetch_all(conn, _SQL["find_wants"], params, Want)
