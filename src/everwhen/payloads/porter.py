"""The porter: removes from the depot what is no payload, or no payload any more.

    an upload that was aborted, or whose writer has not been heard of for HOLD     its pieces go
    a payload that was deleted                                                     its pieces go
    a payload that does not last, when nothing refers to it                        it goes, and its pieces

An object is visited twice: when it is doomed, and GRACE later, for a piece whose writer was stopped in the middle of
it. Its row goes with the second visit, so nothing in the depot is ever without a row. A copy takes its objects for
HOLD; if it dies, another one takes them then, and removes what is left. A depot that is away costs nothing but time.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from everwhen.errors import Unavailable
from everwhen.payloads import store
from everwhen.payloads.depot import Depot
from everwhen.payloads.model import Doomed
from everwhen.payloads.service import remove_if_loose
from everwhen.postgres.pool import Database
from everwhen.roles import Tick

HOLD: Final = timedelta(minutes=5)
GRACE: Final = timedelta(minutes=15)
"""Longer than a writer's last request to the depot can take."""

MOST_LOOSE: Final = 10
"""How many payloads one tick looks at that do not last: each look goes over the tenant's live runs."""

log = structlog.get_logger("everwhen.payloads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Porter:
    """The role. `batch` bounds the objects of one tick."""

    database: Database
    depot: Depot
    batch: int = 50
    name: str = "porter"
    interval: timedelta = timedelta(seconds=30)

    async def tick(self, now: datetime) -> Tick:
        """Remove one batch."""
        loose = await self._remove_loose(now)
        async with self.database.system() as conn:
            doomed = await store.take_doomed(conn, now=now, until=now + HOLD, limit=self.batch)
        for each in doomed:
            await self._sweep(each, now=now)
        async with self.database.system() as conn:
            next_at = await store.next_look(conn)
        full = len(doomed) == self.batch or loose == MOST_LOOSE
        return Tick(done=len(doomed) + loose, more=full, next_at=next_at)

    async def _sweep(self, doomed: Doomed, *, now: datetime) -> None:
        """Remove an object's pieces; when the depot is away it is left for the next time."""
        try:
            removed = await self.depot.remove(doomed.tenant_id, doomed.id)
        except Unavailable as error:
            log.warning("payload.store_away", error=str(error.__cause__))
            return
        again_at = doomed.doomed_at + GRACE
        async with self.database.system() as conn:
            if now < again_at:
                await store.look_at_object(conn, tenant_id=doomed.tenant_id, object_id=doomed.id, look_at=again_at)
            else:
                await store.forget_object(conn, tenant_id=doomed.tenant_id, object_id=doomed.id)
        log.info("payload.swept", tenant_id=str(doomed.tenant_id), object_id=str(doomed.id), pieces=removed)

    async def _remove_loose(self, now: datetime) -> int:
        """Look at payloads that do not last, each in a transaction of its own; return how many were looked at."""
        async with self.database.system() as conn:
            found = await store.find_loose(conn, now=now, limit=MOST_LOOSE)
        for each in found:
            async with self.database.system() as conn:
                await remove_if_loose(conn, each.tenant_id, each.digest, now=now)
        return len(found)
