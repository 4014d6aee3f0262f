"""What can be done with declarations: say what they come to, and list what is there in their form.

A plan is found out by doing it and undoing it, so that it is refused for the same reasons as the real change, quotas
included. Everything that takes long is done off the event loop.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn
from uuid import UUID

from everwhen.core.zones import add
from everwhen.declarations.comparing import compare_fires
from everwhen.declarations.deciding import KINDS, read
from everwhen.declarations.model import Declaration, Fate, Key, Kind, Planned, Present, Wish
from everwhen.declarations.trying import Scene, try_all
from everwhen.postgres.joined import joined
from everwhen.postgres.pool import Database

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
    db: Database, *, tenant_id: UUID, kinds: Sequence[Kind], owner: str | None, after: Key | None, limit: int
) -> list[Declaration]:
    """Return up to `limit` things that come after this one, by kind and name, in the form of documents."""
    found: list[Present] = []
    async with db.tenant(tenant_id) as conn:
        for kind in kinds:
            begun, name = after or (kind, "")
            if len(found) < limit and _ORDER[kind] >= _ORDER[begun]:
                start = name if kind is begun else ""
                page: dict[str, Any] = {"owner": owner, "after": start, "limit": limit - len(found)}
                found += await KINDS[kind].page(conn, tenant_id, **page)
    return await asyncio.to_thread(lambda: [KINDS[each.kind].declared(each) for each in found])


def _keep_nothing(fates: list[Fate], now: datetime) -> NoReturn:
    raise _NothingKept(fates, now)
