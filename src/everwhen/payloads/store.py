"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.payloads.model import Doomed, Loose, Payload, Usage
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.payloads")

Conn = AsyncConnection[Any]


async def ensure_usage(conn: Conn, *, tenant_id: UUID) -> int:
    """Make the tenant's count, if it is not there."""
    return await execute_count(conn, _SQL["ensure_usage"], {"tenant_id": tenant_id})


async def lock_usage(conn: Conn, *, tenant_id: UUID) -> Usage:
    """Lock and read the tenant's count."""
    return await fetch_one(conn, _SQL["lock_usage"], {"tenant_id": tenant_id}, Usage)


async def read_usage(conn: Conn, *, tenant_id: UUID) -> Usage | None:
    """Read the tenant's count; None before its first payload."""
    return await fetch_optional(conn, _SQL["read_usage"], {"tenant_id": tenant_id}, Usage)


async def count_arriving(conn: Conn, *, tenant_id: UUID) -> int:
    """Count the uploads under way."""
    return await fetch_one(conn, _SQL["count_arriving"], {"tenant_id": tenant_id}, int)


async def insert_object(
    conn: Conn, *, tenant_id: UUID, object_id: UUID, by: str, now: datetime, until: datetime
) -> int:
    """Open an object that its writer holds for a while."""
    params = {"tenant_id": tenant_id, "object_id": object_id, "by": by, "now": now, "until": until}
    return await execute_count(conn, _SQL["insert_object"], params)


async def hold_object(conn: Conn, *, tenant_id: UUID, object_id: UUID, until: datetime) -> int:
    """Hold it for longer; 0 when it is too late."""
    params = {"tenant_id": tenant_id, "object_id": object_id, "until": until}
    return await execute_count(conn, _SQL["hold_object"], params)


async def keep_object(conn: Conn, *, tenant_id: UUID, object_id: UUID) -> int:
    """Keep what has arrived; 0 when it is too late."""
    return await execute_count(conn, _SQL["keep_object"], {"tenant_id": tenant_id, "object_id": object_id})


async def abandon_object(conn: Conn, *, tenant_id: UUID, object_id: UUID, now: datetime) -> int:
    """Leave what has arrived to the porter; 0 when it was kept, or that was done already."""
    params = {"tenant_id": tenant_id, "object_id": object_id, "now": now}
    return await execute_count(conn, _SQL["abandon_object"], params)


async def doom_object(conn: Conn, *, tenant_id: UUID, object_id: UUID, now: datetime) -> int:
    """Leave what was kept to the porter."""
    params = {"tenant_id": tenant_id, "object_id": object_id, "now": now}
    return await execute_count(conn, _SQL["doom_object"], params)


async def doom_objects(conn: Conn, *, tenant_ids: Sequence[UUID], object_ids: Sequence[UUID], now: datetime) -> int:
    """Leave these to the porter."""
    params = {"tenant_ids": list(tenant_ids), "object_ids": list(object_ids), "now": now}
    return await execute_count(conn, _SQL["doom_objects"], params)


async def insert_payload(
    conn: Conn,
    *,
    tenant_id: UUID,
    digest: str,
    object_id: UUID,
    size_bytes: int,
    pieces: int,
    name: str | None,
    media_type: str | None,
    look_at: datetime | None,
    by: str,
    now: datetime,
) -> Payload | None:
    """Return None when the tenant has these bytes already."""
    params = {
        "tenant_id": tenant_id,
        "digest": digest,
        "object_id": object_id,
        "size_bytes": size_bytes,
        "pieces": pieces,
        "name": name,
        "media_type": media_type,
        "look_at": look_at,
        "by": by,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["insert_payload"], params, Payload)


async def add_usage(conn: Conn, *, tenant_id: UUID, size_bytes: int, quota: int) -> int:
    """Count a payload in; 0 when the quota forbids it."""
    params = {"tenant_id": tenant_id, "size_bytes": size_bytes, "quota": quota}
    return await execute_count(conn, _SQL["add_usage"], params)


async def drop_usage(conn: Conn, *, tenant_id: UUID, size_bytes: int) -> int:
    """Count a payload out."""
    return await execute_count(conn, _SQL["drop_usage"], {"tenant_id": tenant_id, "size_bytes": size_bytes})


async def get_payload(conn: Conn, *, tenant_id: UUID, digest: str) -> Payload | None:
    """Read one payload."""
    return await fetch_optional(conn, _SQL["get_payload"], {"tenant_id": tenant_id, "digest": digest}, Payload)


async def list_payloads(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[Payload]:
    """Up to `limit` payloads whose digests come after `after`."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_payloads"], params, Payload)


async def lock_payload(conn: Conn, *, tenant_id: UUID, digest: str) -> Payload | None:
    """Read one payload, and keep everybody from referring to it until the transaction ends."""
    return await fetch_optional(conn, _SQL["lock_payload"], {"tenant_id": tenant_id, "digest": digest}, Payload)


async def lasts_from_now_on(conn: Conn, *, tenant_id: UUID, digest: str) -> int:
    """Let it stay until somebody deletes it."""
    return await execute_count(conn, _SQL["lasts_from_now_on"], {"tenant_id": tenant_id, "digest": digest})


async def look_again(conn: Conn, *, tenant_id: UUID, digests: Sequence[str], look_at: datetime) -> int:
    """Have those that do not last looked at then."""
    params = {"tenant_id": tenant_id, "digests": list(digests), "look_at": look_at}
    return await execute_count(conn, _SQL["look_again"], params)


async def delete_payload(conn: Conn, *, tenant_id: UUID, digest: str) -> int:
    """Delete a payload; its object stays to be doomed."""
    return await execute_count(conn, _SQL["delete_payload"], {"tenant_id": tenant_id, "digest": digest})


async def share_payloads(conn: Conn, *, tenant_id: UUID, digests: Sequence[str]) -> list[str]:
    """Return those that there are; they stay until the transaction ends."""
    params = {"tenant_id": tenant_id, "digests": list(digests)}
    return await fetch_all(conn, _SQL["share_payloads"], params, str)


async def insert_users(conn: Conn, *, tenant_id: UUID, digests: Sequence[str], schedule_uid: UUID) -> int:
    """Note that a schedule refers to these."""
    params = {"tenant_id": tenant_id, "digests": list(digests), "schedule_uid": schedule_uid}
    return await execute_count(conn, _SQL["insert_users"], params)


async def delete_users(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, kept: Sequence[str]) -> list[str]:
    """Note that a schedule refers to no others than these; return those that it has let go."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "kept": list(kept)}
    return await fetch_all(conn, _SQL["delete_users"], params, str)


async def find_users(conn: Conn, *, tenant_id: UUID, digest: str, limit: int) -> list[str]:
    """Return the names of up to `limit` schedules that refer to it."""
    params = {"tenant_id": tenant_id, "digest": digest, "limit": limit}
    return await fetch_all(conn, _SQL["find_users"], params, str)


async def take_doomed(conn: Conn, *, now: datetime, until: datetime, limit: int) -> list[Doomed]:
    """Take objects to remove."""
    return await fetch_all(conn, _SQL["take_doomed"], {"now": now, "until": until, "limit": limit}, Doomed)


async def look_at_object(conn: Conn, *, tenant_id: UUID, object_id: UUID, look_at: datetime) -> int:
    """Have a doomed object looked at again."""
    params = {"tenant_id": tenant_id, "object_id": object_id, "look_at": look_at}
    return await execute_count(conn, _SQL["look_at_object"], params)


async def forget_object(conn: Conn, *, tenant_id: UUID, object_id: UUID) -> int:
    """Forget a doomed object of which nothing is left."""
    return await execute_count(conn, _SQL["forget_object"], {"tenant_id": tenant_id, "object_id": object_id})


async def find_loose(conn: Conn, *, now: datetime, limit: int) -> list[Loose]:
    """Return payloads that go unless something refers to them."""
    return await fetch_all(conn, _SQL["find_loose"], {"now": now, "limit": limit}, Loose)


async def next_look(conn: Conn) -> datetime | None:
    """Return when there is something to do next."""
    return await fetch_optional(conn, _SQL["next_look"], {}, datetime)
