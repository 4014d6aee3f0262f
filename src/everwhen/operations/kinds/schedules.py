"""Schedules, as operations change them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from everwhen.core.bulk import Verb
from everwhen.core.filters import Filter
from everwhen.core.ids import instant_of
from everwhen.lists import Listed
from everwhen.operations.kinds.protocol import Found, Standing, Wish
from everwhen.pauses.service import refuse_until
from everwhen.postgres.pool import Connection
from everwhen.schedules import listing, replacing, service
from everwhen.schedules.model import CursorRow, ScheduleState
from everwhen.schedules.service import Change
from everwhen.schedules.wire import schedule_out

_LEAVES: Final = {Verb.PAUSE: ScheduleState.PAUSED, Verb.RESUME: ScheduleState.ACTIVE}
"""In which state a schedule is afterwards."""


class Schedules:
    """See `Things`. A schedule's uid tells when it was made."""

    vocabulary = listing.SCHEDULES
    folder = "schedules"
    told_as: Mapping[Verb, str] = {
        Verb.PAUSE: "pause_schedule",
        Verb.RESUME: "resume_schedule",
        Verb.TAG: "update_schedule",
        Verb.UNTAG: "update_schedule",
        Verb.DELETE: "delete_schedule",
    }

    async def find(self, conn: Connection, tenant_id: UUID, asked: Filter, *, after: str, limit: int) -> Listed[Found]:
        page = await listing.list_heads(conn, tenant_id=tenant_id, asked=asked, after=after, limit=limit)
        rows = [Found(name=head.name, uid=head.uid, created_at=instant_of(head.uid)) for head in page.rows]
        return Listed(rows=rows, following=page.following, asked=asked)

    async def lock(self, conn: Connection, tenant_id: UUID, items: Sequence[tuple[str, UUID | None]]) -> None:
        await replacing.lock_schedules(conn, tenant_id=tenant_id, uids=[uid for _, uid in items if uid is not None])

    async def stand(self, conn: Connection, tenant_id: UUID, name: str, uid: UUID | None) -> Standing | None:  # noqa: ARG002
        cursor = None if uid is None else await replacing.lock_schedule_of(conn, tenant_id=tenant_id, uid=uid)
        if cursor is None:
            return None
        return Standing(
            name=cursor.name,
            uid=cursor.uid,
            created_at=instant_of(cursor.uid),
            says=listing.said_of(cursor),
            tags=cursor.tags,
            row=cursor,
        )

    def already(self, verb: Verb, now: Standing) -> bool:
        return now.row.state == _LEAVES.get(verb)

    async def look(self, conn: Connection, tenant_id: UUID, now: Standing) -> BaseModel:
        return schedule_out(await service.read_schedule(conn, tenant_id=tenant_id, name=now.name))

    async def change(self, conn: Connection, tenant_id: UUID, now: Standing, wish: Wish) -> None:
        cursor: CursorRow = now.row
        change, key = Change(by=wish.by, reason=wish.reason), dict[str, Any](tenant_id=tenant_id, name=now.name)
        match wish.verb:
            case Verb.PAUSE:
                refuse_until(wish.until, now=conn.now)
                await service.pause_locked(conn, cursor, change=change, until=wish.until)
            case Verb.RESUME:
                await service.resume_locked(conn, cursor, change=change)
            case Verb.TAG | Verb.UNTAG:
                after = {"tags": tuple(wish.tags)}
                await service.change_schedule(conn, **key, changes=lambda _: after, change=change)
            case Verb.DELETE:
                await service.end_schedule(conn, **key, change=change, on_ended=wish.on_ended)
