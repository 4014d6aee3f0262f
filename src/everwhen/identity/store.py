"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.http.revocations import Revoked
from everwhen.identity.model import FoundMembership, FoundSession, FoundToken, Member, Revocation, ServiceToken
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.identity")

Conn = AsyncConnection[Any]


async def insert_service_token(
    conn: Conn,
    *,
    tenant_id: UUID,
    token_id: UUID,
    name: str,
    roles: list[str],
    queues: list[str] | None,
    tasks: list[str] | None,
    secret_hash: bytes,
    created_by: str,
    now: datetime,
    expires_at: datetime,
) -> ServiceToken | None:
    """Return None when the name is taken."""
    given = {"tenant_id": tenant_id, "token_id": token_id, "name": name, "roles": roles, "queues": queues}
    made = {"secret_hash": secret_hash, "created_by": created_by, "now": now, "expires_at": expires_at}
    return await fetch_optional(conn, _SQL["insert_service_token"], given | made | {"tasks": tasks}, ServiceToken)


async def count_live_tokens(conn: Conn, *, tenant_id: UUID, now: datetime) -> int:
    """How many hold."""
    return await fetch_one(conn, _SQL["count_live_tokens"], {"tenant_id": tenant_id, "now": now}, int)


async def sweep_service_tokens(conn: Conn, *, tenant_id: UUID, before: datetime) -> int:
    """Forget a few that have not held since then."""
    return await execute_count(conn, _SQL["sweep_service_tokens"], {"tenant_id": tenant_id, "before": before})


async def list_service_tokens(conn: Conn, *, tenant_id: UUID, before: UUID, limit: int) -> list[ServiceToken]:
    """Up to `limit` that are older than `before`, the newest first."""
    given = {"tenant_id": tenant_id, "before": before, "limit": limit}
    return await fetch_all(conn, _SQL["list_service_tokens"], given, ServiceToken)


async def get_service_token(conn: Conn, *, tenant_id: UUID, token_id: UUID) -> ServiceToken | None:
    """Look one up."""
    given = {"tenant_id": tenant_id, "token_id": token_id}
    return await fetch_optional(conn, _SQL["get_service_token"], given, ServiceToken)


async def renew_service_token(
    conn: Conn,
    *,
    tenant_id: UUID,
    token_id: UUID,
    secret_hash: bytes,
    previous_until: datetime,
    now: datetime,
    expires_at: datetime,
) -> ServiceToken | None:
    """Give it another secret; None when there is none that holds or could."""
    given = {"tenant_id": tenant_id, "token_id": token_id, "secret_hash": secret_hash, "now": now}
    until = {"previous_until": previous_until, "expires_at": expires_at}
    return await fetch_optional(conn, _SQL["renew_service_token"], given | until, ServiceToken)


async def revoke_service_token(conn: Conn, *, tenant_id: UUID, token_id: UUID, revoked_by: str, now: datetime) -> int:
    """Return how many were revoked by this: one, or none that was not before."""
    given = {"tenant_id": tenant_id, "token_id": token_id, "revoked_by": revoked_by, "now": now}
    return await execute_count(conn, _SQL["revoke_service_token"], given)


async def find_service_token(conn: Conn, *, secret_hash: bytes, now: datetime) -> FoundToken | None:
    """Look a live one up by its secret's hash."""
    given = {"secret_hash": secret_hash, "now": now}
    return await fetch_optional(conn, _SQL["find_service_token"], given, FoundToken)


async def find_dead_token(conn: Conn, *, secret_hash: bytes, now: datetime) -> FoundToken | None:
    """Look one that has expired or was revoked up by its secret's hash."""
    given = {"secret_hash": secret_hash, "now": now}
    return await fetch_optional(conn, _SQL["find_dead_token"], given, FoundToken)


async def put_member(  # what its statement takes
    conn: Conn,
    *,
    tenant_id: UUID,
    subject: str,
    roles: list[str],
    by: str,
    among: Sequence[int] | None,
    now: datetime,
) -> Member | None:
    """Add a member, or change one; None: it is none of these revisions."""
    given = {"tenant_id": tenant_id, "subject": subject, "roles": roles, "by": by, "among": _list(among), "now": now}
    return await fetch_optional(conn, _SQL["put_member"], given, Member)


async def count_members(conn: Conn, *, tenant_id: UUID) -> int:
    """How many there are."""
    return await fetch_one(conn, _SQL["count_members"], {"tenant_id": tenant_id}, int)


async def list_members(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[Member]:
    """Up to `limit` whose subjects come after `after`."""
    given = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_members"], given, Member)


async def get_member(conn: Conn, *, tenant_id: UUID, subject: str) -> Member | None:
    """Look one up."""
    return await fetch_optional(conn, _SQL["get_member"], {"tenant_id": tenant_id, "subject": subject}, Member)


async def delete_member(conn: Conn, *, tenant_id: UUID, subject: str, among: Sequence[int] | None) -> int:
    """Return how many were removed; 0: there is none, or at another revision."""
    given = {"tenant_id": tenant_id, "subject": subject, "among": _list(among)}
    return await execute_count(conn, _SQL["delete_member"], given)


def _list(among: Sequence[int] | None) -> list[int] | None:
    return None if among is None else list(among)


async def find_memberships(conn: Conn, *, subject: str, limit: int) -> list[FoundMembership]:
    """Where somebody is a member."""
    return await fetch_all(conn, _SQL["find_memberships"], {"subject": subject, "limit": limit}, FoundMembership)


async def put_revocation(
    conn: Conn,
    *,
    tenant_id: UUID,
    kind: str,
    value: str,
    issued_until: datetime,
    reason: str,
    by: str,
    now: datetime,
    expires_at: datetime,
) -> Revocation:
    """Write it down, or let one that is there reach further."""
    given = {"tenant_id": tenant_id, "kind": kind, "value": value, "issued_until": issued_until, "reason": reason}
    return await fetch_one(
        conn, _SQL["put_revocation"], given | {"by": by, "now": now, "expires_at": expires_at}, Revocation
    )


async def count_revocations(conn: Conn, *, tenant_id: UUID, now: datetime) -> int:
    """How many are in force."""
    return await fetch_one(conn, _SQL["count_revocations"], {"tenant_id": tenant_id, "now": now}, int)


async def sweep_revocations(conn: Conn, *, tenant_id: UUID, now: datetime) -> int:
    """Forget a few whose tokens have expired by themselves."""
    return await execute_count(conn, _SQL["sweep_revocations"], {"tenant_id": tenant_id, "now": now})


async def list_revocations(
    conn: Conn, *, tenant_id: UUID, after_kind: str, after_value: str, now: datetime, limit: int
) -> list[Revocation]:
    """Up to `limit` that come after one, by kind and value."""
    given: dict[str, Any] = {"tenant_id": tenant_id, "now": now, "limit": limit}
    given |= {"after_kind": after_kind, "after_value": after_value}
    return await fetch_all(conn, _SQL["list_revocations"], given, Revocation)


async def read_revocations(conn: Conn, *, since: datetime, now: datetime) -> list[Revoked]:
    """What was revoked since then, in all tenants."""
    return await fetch_all(conn, _SQL["read_revocations"], {"since": since, "now": now}, Revoked)


async def insert_session(
    conn: Conn,
    *,
    session_id: UUID,
    secret_hash: bytes,
    subject: str,
    principal: str,
    now: datetime,
    expires_at: datetime,
) -> int:
    """Begin one."""
    given = {"session_id": session_id, "secret_hash": secret_hash, "subject": subject, "principal": principal}
    return await execute_count(conn, _SQL["insert_session"], given | {"now": now, "expires_at": expires_at})


async def sweep_sessions(conn: Conn, *, now: datetime) -> int:
    """Forget a few that are over."""
    return await execute_count(conn, _SQL["sweep_sessions"], {"now": now})


async def find_session(conn: Conn, *, secret_hash: bytes, now: datetime, idle_since: datetime) -> FoundSession | None:
    """Look a live one up by its secret's hash."""
    given = {"secret_hash": secret_hash, "now": now, "idle_since": idle_since}
    return await fetch_optional(conn, _SQL["find_session"], given, FoundSession)


async def delete_session(conn: Conn, *, session_id: UUID) -> int:
    """End one."""
    return await execute_count(conn, _SQL["delete_session"], {"session_id": session_id})
