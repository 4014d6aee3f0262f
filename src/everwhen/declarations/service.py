"""What can be done with declarations: say what they come to, and list what is there in their form.

A plan is found out by doing it and undoing it, so that it is refused for the same reasons as the real change, quotas
included. Everything that takes long is done off the event loop.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn
from uuid import UUID

from everwhen.core.filters import Vocabulary, Word
from everwhen.core.zones import add
from everwhen.declarations.comparing import compare_fires
from everwhen.declarations.deciding import KINDS, read
from everwhen.declarations.model import Declaration, Fate, Key, Kind, Planned, Present, Wish
from everwhen.declarations.trying import Scene, try_all
from everwhen.lists import Listed, read_filter
from everwhen.postgres.joined import joined
from everwhen.postgres.pool import Database

DECLARATIONS: Final = Vocabulary(fields={"kind": Word(choices=frozenset(Kind)), "owner": Word()})
"""What a filter of declarations says."""

_ORDER: Final = {kind: place for place, kind in enumerate(Kind)}


class _NothingKept(Exception):  # noqa: N818  # the way out of a transaction that must not commit
    def __init__(self, fates: list[Fate], now: datetime) -> None:
        super().__init__()
        self.fates = fates
        self.now = now


async def plan(db: Database, *, tenant_id: UUID, wish: Wish, by: str) -> Planned:
    """Say what a wish comes to; keep nothing."""
    drafts, refused = await asyncio.to_thread(read, wish, by=by)
    try:
        async with joined(db) as whole, whole.tenant(tenant_id) as conn:
            fates = await try_all(Scene(whole=whole, conn=conn, tenant_id=tenant_id), drafts, wish)
            _keep_nothing(fates, conn.now)
    except _NothingKept as nothing:
        fates, now = nothing.fates, nothing.now
    until = add(now, timedelta(days=wish.days))
    await asyncio.to_thread(compare_fires, fates, now=now, until=until)
    return Planned(fates=[*fates, *refused], now=now, until=until)


async def list_declared(
    db: Database, *, tenant_id: UUID, after: Key | None, limit: int, where: str = ""
) -> Listed[Declaration]:
    """Return up to `limit` things after this one that the filter `where` finds, by kind and name, as documents."""
    found: list[Present] = []
    async with db.tenant(tenant_id) as conn:
        asked = read_filter(where, DECLARATIONS, now=conn.now)
        kind_asked, owner = asked.text("kind"), asked.text("owner")
        for kind in Kind if kind_asked is None else [Kind(kind_asked)]:
            begun, name = after or (kind, "")
            if len(found) <= limit and _ORDER[kind] >= _ORDER[begun]:
                start = name if kind is begun else ""
                page: dict[str, Any] = {"owner": owner, "after": start, "limit": limit + 1 - len(found)}
                found += await KINDS[kind].page(conn, tenant_id, **page)
    following = f"{found[limit - 1].kind}/{found[limit - 1].name}" if len(found) > limit else None
    rows = await asyncio.to_thread(lambda: [KINDS[each.kind].declared(each) for each in found[:limit]])
    return Listed(rows=rows, following=following, asked=asked)


def _keep_nothing(fates: list[Fate], now: datetime) -> NoReturn:
    raise _NothingKept(fates, now)
