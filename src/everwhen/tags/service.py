"""What the features whose things have tags share: keeping who has which, and finding by one.

Called in the transaction that writes the thing's own row, with that row locked, so that the two always agree.
"""

from collections.abc import Sequence
from uuid import UUID

from everwhen.core.filters import FilterError, parse
from everwhen.core.tags import TAGGED, Tagged
from everwhen.errors import InvalidInput
from everwhen.postgres.pool import Connection
from everwhen.tags import store


async def set_tags(
    conn: Connection, *, tenant_id: UUID, kind: Tagged, name: str, before: Sequence[str] = (), tags: Sequence[str]
) -> None:
    """Note that a thing has these tags now, and no longer those that it had before."""
    if set(before) != set(tags):
        await store.put_tags(conn, tenant_id=tenant_id, kind=kind, name=name, before=before, tags=tags)


async def find_names(
    conn: Connection, *, tenant_id: UUID, kind: Tagged, where: str | None, after: str, limit: int
) -> list[str] | None:
    """Return up to `limit` names after `after` of what a filter finds, in order; None when it asks for no tag.

    Raises InvalidInput, which points at the query's filter.
    """
    try:
        tag = parse(where or "", TAGGED, now=conn.now).text("tag")
    except FilterError as error:
        detail = f"{error.message} (at character {error.position + 1})"
        raise InvalidInput.at("query:filter", detail, code=error.code) from error
    if tag is None:
        return None
    return await store.page_names(conn, tenant_id=tenant_id, kind=kind, tag=tag, after=after, limit=limit)
