"""One function for each statement of `queries.sql`; the names are the statements'."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.audit.model import EventRow
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
