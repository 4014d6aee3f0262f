"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.audit.model import (
    Backlog,
    ChainName,
    ChainRow,
    EventRow,
    Head,
    Placed,
    Server,
    Standing,
    StoredHead,
    Unanchored,
    Unsealed,
)
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.audit")

Conn = AsyncConnection[Any]


async def ensure_week(conn: Conn, *, instant: datetime) -> bool:
    """Make the partitions for the week around an instant; return whether they were missing."""
    return await fetch_one(conn, _SQL["ensure_week"], {"instant": instant}, bool)


async def hold_resource(conn: Conn, *, number: int) -> str:
    """Wait for whoever changes the resource of this number, and hold others up until the transaction ends."""
    return await fetch_one(conn, _SQL["hold_resource"], {"number": number}, str)


async def insert_event(
    conn: Conn,
    *,
    tenant_id: UUID,
    event_id: UUID,
    at: datetime,
    actor: str,
    operation: str,
    resource: str,
    outcome: str,
    request_id: str,
    record: str,
) -> int:
    """Write an event, and mark it for the sealer. `record` is canonical JSON."""
    params = {
        "tenant_id": tenant_id,
        "event_id": event_id,
        "at": at,
        "actor": actor,
        "operation": operation,
        "resource": resource,
        "outcome": outcome,
        "request_id": request_id,
        "record": record,
    }
    return await execute_count(conn, _SQL["insert_event"], params)


async def page_events(
    conn: Conn, *, tenant_id: UUID, before: UUID, since: UUID, limit: int, outcome: str | None
) -> list[EventRow]:
    """Return events with ids below `before`, from `since` on, the newest first."""
    params = {"tenant_id": tenant_id, "before": before, "since": since, "limit": limit, "outcome": outcome}
    return await fetch_all(conn, _SQL["page_events"], params, EventRow)


async def page_by_actor(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    actor: str,
    operation: str | None,
    outcome: str | None,
) -> list[EventRow]:
    """Return what somebody did."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "actor": actor,
        "operation": operation,
        "outcome": outcome,
    }
    return await fetch_all(conn, _SQL["page_by_actor"], params, EventRow)


async def page_by_operation(
    conn: Conn, *, tenant_id: UUID, before: UUID, since: UUID, limit: int, operation: str, outcome: str | None
) -> list[EventRow]:
    """Return what was done by an operation."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "operation": operation,
        "outcome": outcome,
    }
    return await fetch_all(conn, _SQL["page_by_operation"], params, EventRow)


async def page_by_resource(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    resource: str,
    actor: str | None,
    operation: str | None,
    outcome: str | None,
) -> list[EventRow]:
    """Return what was done to a resource."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "resource": resource,
        "actor": actor,
        "operation": operation,
        "outcome": outcome,
    }
    return await fetch_all(conn, _SQL["page_by_resource"], params, EventRow)


async def page_by_request(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    request_id: str,
    actor: str | None,
    resource: str | None,
    operation: str | None,
    outcome: str | None,
) -> list[EventRow]:
    """Return what was done by a request."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "request_id": request_id,
        "actor": actor,
        "resource": resource,
        "operation": operation,
        "outcome": outcome,
    }
    return await fetch_all(conn, _SQL["page_by_request"], params, EventRow)


async def get_event(conn: Conn, *, tenant_id: UUID, event_id: UUID) -> EventRow | None:
    """Return one event."""
    return await fetch_optional(conn, _SQL["get_event"], {"tenant_id": tenant_id, "event_id": event_id}, EventRow)


async def find_unsealed(conn: Conn, *, limit: int) -> list[UUID]:
    """Return up to `limit` tenants that have events without a link."""
    return await fetch_all(conn, _SQL["find_unsealed"], {"limit": limit}, UUID)


async def ensure_heads(conn: Conn, *, tenant_ids: Sequence[UUID], hashes: Sequence[bytes]) -> int:
    """Begin the chains of tenants that have none; return how many."""
    return await execute_count(conn, _SQL["ensure_heads"], {"tenant_ids": list(tenant_ids), "hashes": list(hashes)})


async def lock_heads(conn: Conn, *, tenant_ids: Sequence[UUID]) -> list[Head]:
    """Lock the heads of these chains, but for those that somebody else holds."""
    return await fetch_all(conn, _SQL["lock_heads"], {"tenant_ids": list(tenant_ids)}, Head)


async def take_unsealed(conn: Conn, *, tenant_ids: Sequence[UUID], limit: int) -> list[Unsealed]:
    """Return up to `limit` events of each tenant that have no link, in the order in which they were told."""
    return await fetch_all(conn, _SQL["take_unsealed"], {"tenant_ids": list(tenant_ids), "limit": limit}, Unsealed)


async def insert_links(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    event_ids: Sequence[UUID],
    seqs: Sequence[int],
    hashes: Sequence[bytes],
    epoch: UUID,
) -> int:
    """Write links; return how many."""
    params = {
        "tenant_ids": list(tenant_ids),
        "event_ids": list(event_ids),
        "seqs": list(seqs),
        "hashes": list(hashes),
        "epoch": epoch,
    }
    return await execute_count(conn, _SQL["insert_links"], params)


async def drop_unsealed(conn: Conn, *, tenant_ids: Sequence[UUID], event_ids: Sequence[UUID]) -> int:
    """Take events out of the hot set; return how many."""
    params = {"tenant_ids": list(tenant_ids), "event_ids": list(event_ids)}
    return await execute_count(conn, _SQL["drop_unsealed"], params)


async def move_heads(
    conn: Conn, *, tenant_ids: Sequence[UUID], seqs: Sequence[int], hashes: Sequence[bytes], epoch: UUID
) -> int:
    """Move heads forward; return how many."""
    params = {"tenant_ids": list(tenant_ids), "seqs": list(seqs), "hashes": list(hashes), "epoch": epoch}
    return await execute_count(conn, _SQL["move_heads"], params)


async def find_server(conn: Conn) -> Server:
    """Return which server this is, and which timeline of it."""
    return await fetch_one(conn, _SQL["find_server"], {}, Server)


async def find_epoch(conn: Conn, *, server: str, timeline: str) -> UUID | None:
    """Return the epoch of a server's timeline, if it has begun."""
    return await fetch_optional(conn, _SQL["find_epoch"], {"server": server, "timeline": timeline}, UUID)


async def begin_epoch(conn: Conn, *, epoch: UUID, server: str, timeline: str, now: datetime) -> int:
    """Begin an epoch; return 0 when it has begun already."""
    params = {"epoch": epoch, "server": server, "timeline": timeline, "now": now}
    return await execute_count(conn, _SQL["begin_epoch"], params)


async def read_backlog(conn: Conn) -> Backlog:
    """Return how many events have no link, and since when the oldest of them."""
    return await fetch_one(conn, _SQL["read_backlog"], {}, Backlog)


async def list_chains(conn: Conn) -> list[ChainName]:
    """Return whose chains there are."""
    return await fetch_all(conn, _SQL["list_chains"], {}, ChainName)


async def find_head(conn: Conn, *, tenant_id: UUID) -> StoredHead | None:
    """Return where a chain ends, as it is stored."""
    return await fetch_optional(conn, _SQL["find_head"], {"tenant_id": tenant_id}, StoredHead)


async def read_chain(
    conn: Conn, *, tenant_id: UUID, seq: int, epoch: UUID, event_id: UUID, last: int, limit: int
) -> list[ChainRow]:
    """Return up to `limit` links behind a link and up to the place `last`, in order, with their events."""
    params = {
        "tenant_id": tenant_id,
        "seq": seq,
        "epoch": epoch,
        "event_id": event_id,
        "last": last,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["read_chain"], params, ChainRow)


async def find_place(conn: Conn, *, tenant_id: UUID, seq: int) -> int | None:
    """Return the next place that has a link, from `seq` on."""
    return await fetch_optional(conn, _SQL["find_place"], {"tenant_id": tenant_id, "seq": seq}, int)


async def page_placed(conn: Conn, *, tenant_id: UUID, after: UUID, limit: int) -> list[Placed]:
    """Return up to `limit` events behind one, and whether each has a link or waits for one."""
    return await fetch_all(conn, _SQL["page_placed"], {"tenant_id": tenant_id, "after": after, "limit": limit}, Placed)


async def find_lost(conn: Conn, *, tenant_id: UUID, limit: int) -> list[UUID]:
    """Return events that wait for a link and are not there."""
    return await fetch_all(conn, _SQL["find_lost"], {"tenant_id": tenant_id, "limit": limit}, UUID)


async def claim_unanchored(
    conn: Conn, *, noted_before: datetime, repeat_before: datetime, now: datetime, held_until: datetime, limit: int
) -> list[Unanchored]:
    """Take chains that are to be noted outside, until an instant."""
    params = {
        "noted_before": noted_before,
        "repeat_before": repeat_before,
        "now": now,
        "held_until": held_until,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["claim_unanchored"], params, Unanchored)


async def mark_anchored(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    seqs: Sequence[int],
    hashes: Sequence[bytes],
    whole: Sequence[bool],
    now: datetime,
) -> int:
    """Take down how far chains are noted outside; return how many."""
    params = {
        "tenant_ids": list(tenant_ids),
        "seqs": list(seqs),
        "hashes": list(hashes),
        "whole": list(whole),
        "now": now,
    }
    return await execute_count(conn, _SQL["mark_anchored"], params)


async def hold_chains(conn: Conn, *, tenant_ids: Sequence[UUID], held_until: datetime) -> int:
    """Leave chains alone until an instant; return how many."""
    params = {"tenant_ids": list(tenant_ids), "held_until": held_until}
    return await execute_count(conn, _SQL["hold_chains"], params)


async def mark_broken(conn: Conn, *, tenant_ids: Sequence[UUID], faults: Sequence[str]) -> int:
    """Take down why chains cannot be noted; return how many."""
    params = {"tenant_ids": list(tenant_ids), "faults": list(faults)}
    return await execute_count(conn, _SQL["mark_broken"], params)


async def read_standing(conn: Conn) -> Standing:
    """Return how chains stand."""
    return await fetch_one(conn, _SQL["read_standing"], {}, Standing)
