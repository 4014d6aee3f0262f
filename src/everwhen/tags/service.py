"""What the features whose things have tags share: keeping who has which, and finding by one.

Called in the transaction that writes the thing's own row, with that row locked, so that the two always agree.
"""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from everwhen.core.filters import Filter
from everwhen.core.tags import Tagged
from everwhen.lists import Read, Row
from everwhen.postgres.pool import Connection
from everwhen.tags import store


async def set_tags(
    conn: Connection, *, tenant_id: UUID, kind: Tagged, name: str, before: Sequence[str] = (), tags: Sequence[str]
) -> None:
    """Note that a thing has these tags now, and no longer those that it had before."""
    if set(before) != set(tags):
        await store.put_tags(conn, tenant_id=tenant_id, kind=kind, name=name, before=before, tags=tags)


def along_tag(
    conn: Connection,
    *,
    tenant_id: UUID,
    kind: Tagged,
    asked: Filter,
    plain: Read[str, Row],
    named: Callable[[Sequence[str]], Awaitable[Sequence[Row]]],
) -> Read[str, Row]:
    """Return how to read things by name: along the key of the tag that a filter names, if it names one.

    For what is never deleted: a name that is gone meanwhile would make a page look like the last one.
    """
    tag = asked.text("tag")

    async def tagged(after: str, limit: int) -> Sequence[Row]:
        assert tag is not None
        return await named(
            await store.page_names(conn, tenant_id=tenant_id, kind=kind, tag=tag, after=after, limit=limit)
        )

    return plain if tag is None else tagged
