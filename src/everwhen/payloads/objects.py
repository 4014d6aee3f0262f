"""Objects in the depot that are no payloads: whoever has one keeps its pieces there, and the porter removes it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from everwhen import clock
from everwhen.payloads import store
from everwhen.postgres.pool import Connection

_AT_ONCE: Final = timedelta(0)


async def open_object(conn: Connection, *, tenant_id: UUID, by: str) -> UUID:
    """Make an object that stays until somebody leaves it to the porter; its row is there before its first byte."""
    object_id = clock.new_id(conn.now)
    await store.insert_object(
        conn, tenant_id=tenant_id, object_id=object_id, by=by, now=conn.now, until=conn.now + _AT_ONCE
    )
    await store.keep_object(conn, tenant_id=tenant_id, object_id=object_id)
    return object_id


async def leave_to_porter(conn: Connection, *, tenant_ids: Sequence[UUID], object_ids: Sequence[UUID]) -> None:
    """Have the porter remove objects that nobody refers to any more."""
    if object_ids:
        await store.doom_objects(conn, tenant_ids=tenant_ids, object_ids=object_ids, now=conn.now)
