"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.endpoints.model import EndpointRow, EndpointSeen, HealthRow, LockedEndpoint, SecretRow
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.endpoints")

Conn = AsyncConnection[Any]


async def insert_endpoint(
    conn: Conn,
    *,
    tenant_id: UUID,
    queue: str,
    url: str,
    headers: str,
    answer_seconds: float,
    accept_seconds: float,
    by: str,
    now: datetime,
) -> int:
    """Write an endpoint; 0: the queue has one."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "url": url,
        "headers": headers,
        "answer_seconds": answer_seconds,
        "accept_seconds": accept_seconds,
        "by": by,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_endpoint"], params)


async def insert_state(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Write the state of an endpoint that is well."""
    return await execute_count(conn, _SQL["insert_state"], {"tenant_id": tenant_id, "queue": queue})


async def lock_endpoint(conn: Conn, *, tenant_id: UUID, queue: str) -> LockedEndpoint | None:
    """Return the endpoint's revision, and keep it as it is; None: there is none."""
    params = {"tenant_id": tenant_id, "queue": queue}
    return await fetch_optional(conn, _SQL["lock_endpoint"], params, LockedEndpoint)


async def update_endpoint(
    conn: Conn,
    *,
    tenant_id: UUID,
    queue: str,
    url: str,
    headers: str,
    answer_seconds: float,
    accept_seconds: float,
    by: str,
    among: Sequence[int] | None,
    now: datetime,
) -> int:
    """Change an endpoint; 0: there is none of these revisions."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "url": url,
        "headers": headers,
        "answer_seconds": answer_seconds,
        "accept_seconds": accept_seconds,
        "by": by,
        "among": among,
        "now": now,
    }
    return await execute_count(conn, _SQL["update_endpoint"], params)


async def delete_endpoint(conn: Conn, *, tenant_id: UUID, queue: str, among: Sequence[int] | None) -> int:
    """Delete an endpoint, its secrets and its state; 0: there is none of these revisions."""
    params = {"tenant_id": tenant_id, "queue": queue, "among": among}
    return await execute_count(conn, _SQL["delete_endpoint"], params)


async def get_endpoint(conn: Conn, *, tenant_id: UUID, queue: str) -> EndpointRow | None:
    """Return a queue's endpoint, if it has one."""
    params = {"tenant_id": tenant_id, "queue": queue}
    return await fetch_optional(conn, _SQL["get_endpoint"], params, EndpointRow)


async def put_secret(conn: Conn, *, tenant_id: UUID, queue: str, name: str, sealed: bytes) -> int:
    """Write a secret, or replace it."""
    params = {"tenant_id": tenant_id, "queue": queue, "name": name, "sealed": sealed}
    return await execute_count(conn, _SQL["put_secret"], params)


async def delete_secret(conn: Conn, *, tenant_id: UUID, queue: str, name: str) -> int:
    """Remove a secret; 0: there was none."""
    return await execute_count(conn, _SQL["delete_secret"], {"tenant_id": tenant_id, "queue": queue, "name": name})


async def list_secrets(conn: Conn, *, tenant_id: UUID, queues: Sequence[str]) -> list[SecretRow]:
    """Return the sealed secrets of these queues' endpoints."""
    params = {"tenant_id": tenant_id, "queues": list(queues)}
    return await fetch_all(conn, _SQL["list_secrets"], params, SecretRow)


async def forget_health(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Let an endpoint begin anew."""
    return await execute_count(conn, _SQL["forget_health"], {"tenant_id": tenant_id, "queue": queue})


async def ask_for_test(conn: Conn, *, tenant_id: UUID, queue: str, before: datetime, now: datetime) -> int:
    """Ask for a test; 0: the last one is not older than `before`."""
    params = {"tenant_id": tenant_id, "queue": queue, "before": before, "now": now}
    return await execute_count(conn, _SQL["ask_for_test"], params)


async def look_at_endpoints(conn: Conn, *, after_tenant_id: UUID, after_queue: str, limit: int) -> list[EndpointSeen]:
    """Return the next endpoints after a key."""
    params = {"after_tenant_id": after_tenant_id, "after_queue": after_queue, "limit": limit}
    return await fetch_all(conn, _SQL["look_at_endpoints"], params, EndpointSeen)


async def lock_health(conn: Conn, *, tenant_id: UUID, queue: str) -> HealthRow | None:
    """Return how an endpoint does, and keep others from noting it meanwhile; None: it is gone."""
    params = {"tenant_id": tenant_id, "queue": queue}
    return await fetch_optional(conn, _SQL["lock_health"], params, HealthRow)


async def note_health(
    conn: Conn,
    *,
    tenant_id: UUID,
    queue: str,
    failures: int,
    rests_until: datetime | None,
    error: str | None,
    now: datetime,
) -> int:
    """Write how an endpoint does; `error` None: it answers."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "failures": failures,
        "rests_until": rests_until,
        "error": error,
        "now": now,
    }
    return await execute_count(conn, _SQL["note_health"], params)


async def take_probe(
    conn: Conn, *, tenant_id: UUID, queue: str, failures: int, rests_until: datetime | None, until: datetime
) -> int:
    """Take the right to probe an endpoint that was seen so; 0: somebody else has it."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "failures": failures,
        "rests_until": rests_until,
        "until": until,
    }
    return await execute_count(conn, _SQL["take_probe"], params)


async def take_test(conn: Conn, *, tenant_id: UUID, queue: str, now: datetime) -> int:
    """Take the test that is wanted; 0: somebody else has it."""
    return await execute_count(conn, _SQL["take_test"], {"tenant_id": tenant_id, "queue": queue, "now": now})


async def note_test(conn: Conn, *, tenant_id: UUID, queue: str, answer: str, tested_at: datetime) -> int:
    """Write what a test was answered; 0: another one was sent since."""
    params = {"tenant_id": tenant_id, "queue": queue, "answer": answer, "tested_at": tested_at}
    return await execute_count(conn, _SQL["note_test"], params)
