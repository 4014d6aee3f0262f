"""What the features whose things have tags share: keeping who has which.

Called in the transaction that writes the thing's own row, with that row locked, so that the two always agree.
"""

from collections.abc import Sequence
from uuid import UUID

from everwhen.core.tags import Tagged
from everwhen.postgres.pool import Connection
from everwhen.tags import store


async def set_tags(
    conn: Connection, *, tenant_id: UUID, kind: Tagged, name: str, before: Sequence[str] = (), tags: Sequence[str]
) -> None:
    """Note that a thing has these tags now, and no longer those that it had before."""
    if set(before) != set(tags):
        await store.put_tags(conn, tenant_id=tenant_id, kind=kind, name=name, before=before, tags=tags)
