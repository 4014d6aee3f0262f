"""The tags of schedules."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from everwhen.core.tags import Tagged
from everwhen.postgres.pool import Connection
from everwhen.schedules import store
from everwhen.schedules.model import CursorRow
from everwhen.tags.service import set_tags


async def note(conn: Connection, *, tenant_id: UUID, name: str, tags: Sequence[str]) -> None:
    """Note the tags of a new schedule."""
    await set_tags(conn, tenant_id=tenant_id, kind=Tagged.SCHEDULE, name=name, tags=tags)


async def relabel(conn: Connection, cursor: CursorRow, after: Mapping[str, Any]) -> None:
    """Give a schedule, locked, the tags and the owner that are named, as its next revision."""
    tags, owner = after.get("tags", cursor.tags), after.get("owner", cursor.owner)
    key: dict[str, Any] = {"tenant_id": cursor.tenant_id, "uid": cursor.uid, "revision": cursor.revision}
    await store.set_labels(conn, **key, tags=tags, owner=owner, now=conn.now)
    await follow(conn, cursor, tags)


async def follow(conn: Connection, cursor: CursorRow, tags: Sequence[str]) -> None:
    """Note that a schedule, locked, has these tags now."""
    key: dict[str, Any] = {"tenant_id": cursor.tenant_id, "kind": Tagged.SCHEDULE, "name": cursor.name}
    await set_tags(conn, **key, before=cursor.tags, tags=tags)
