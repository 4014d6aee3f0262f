"""What can be done with pauses of queues and tenants.

A pause is a row. A claim looks for it in the statement that reads the lanes, so what commits before a claim begins
stops it; a claim that is under way ends as it began. Planning goes on: runs become due, wait, and are handed out when
the pause ends, by priority and due instant as ever; their start deadlines go on, too.

A pause with an end stops counting at that instant by the passing of time alone. That its row goes, is recorded, and
wakes the workers, is the attendant's work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.core.filters import Moment, Vocabulary, Word, within
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.lists import Listed, read_filter, walk
from everwhen.pauses import store
from everwhen.pauses.model import WHOLE_TENANT, Pause, PauseChange
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import line_topic, notify, role_topic

ATTENDANT_TOPIC: Final = role_topic("attendant")

PAUSES: Final = Vocabulary(fields={"queue": Word(), "by": Word(), "paused": Moment()}, short=within("paused"))
CHANGES: Final = Vocabulary(
    fields={
        "queue": Word(),
        "action": Word(choices=frozenset({"paused", "resumed"})),
        "by": Word(),
        "changed": Moment(),
    },
    short=within("changed"),
)
"""What a filter of each list says."""

MOST_PAUSE: Final = timedelta(days=3_653)

MOST_WOKEN: Final = 1_000
"""How many queues are woken when a tenant goes on; the workers of the others find out by looking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Who wants a pause or its end, why, and until when."""

    by: str
    reason: str | None = None
    until: datetime | None = None


async def pause(db: Database, *, tenant_id: UUID, queue: str, wish: Wish) -> Pause:
    """Stop handing out from a queue, or from all (WHOLE_TENANT).

    Raises NotFound for a queue that the tenant has not, Conflict when it is paused already, and InvalidInput when the
    pause could not end then.
    """
    async with db.tenant(tenant_id) as conn:
        refuse_until(wish.until, now=conn.now)
        await _refuse_unknown(conn, tenant_id, queue)
        made = await store.insert_pause(
            conn,
            tenant_id=tenant_id,
            queue=queue,
            reason=wish.reason or "",
            by=wish.by,
            until=wish.until,
            now=conn.now,
        )
        if made is None:
            raise _paused(queue)
        await _record(conn, tenant_id, queue, action="paused", wish=wish)
        await notify(conn, [ATTENDANT_TOPIC])
        return made


async def resume(db: Database, *, tenant_id: UUID, queue: str, wish: Wish) -> None:
    """Hand out again; raise NotFound, and Conflict when it is not paused."""
    async with db.tenant(tenant_id) as conn:
        await _refuse_unknown(conn, tenant_id, queue)
        if not await store.delete_pause(conn, tenant_id=tenant_id, queue=queue):
            raise _not_paused(queue)
        await _record(conn, tenant_id, queue, action="resumed", wish=wish)
        await wake(conn, tenant_id, queue)


async def list_pauses(
    db: Database, *, tenant_id: UUID, after: str | None, limit: int, where: str = ""
) -> Listed[Pause]:
    """Return up to `limit` pauses in force that the filter `where` finds: the whole tenant's, then those of queues.

    Those of queues are by name, after `after`.
    """
    async with db.tenant(tenant_id) as conn:
        # Nothing sorts before the empty name, so the tenant's own pause needs a name to come after.
        first = [] if after is not None else await _whole(conn, tenant_id)

        async def read(after: str, limit: int) -> Sequence[Pause]:
            found, first[:] = [*first], []
            return [*found, *await store.list_pauses(conn, tenant_id=tenant_id, after=after, now=conn.now, limit=limit)]

        return await walk(
            read,
            start=after or "",
            key=lambda row: row.queue,
            limit=limit,
            asked=read_filter(where, PAUSES, now=conn.now),
            values=lambda row: {"queue": row.queue or None, "by": row.paused_by, "paused": row.paused_at},
        )


async def list_changes(
    db: Database, *, tenant_id: UUID, after: int = 0, limit: int, where: str = ""
) -> Listed[PauseChange]:
    """Return up to `limit` changes numbered above `after` that the filter `where` finds, the oldest first."""
    async with db.tenant(tenant_id) as conn:
        return await walk(
            lambda after, limit: store.list_changes(conn, tenant_id=tenant_id, after=after, limit=limit),
            start=after,
            key=lambda row: row.change_id,
            limit=limit,
            asked=read_filter(where, CHANGES, now=conn.now),
            values=lambda row: {
                "queue": row.queue or None,
                "action": row.action,
                "by": row.changed_by,
                "changed": row.changed_at,
            },
        )


async def wake(conn: Connection, tenant_id: UUID, queue: str) -> None:
    """Wake whoever waits for work of this queue, or of all."""
    queues = [queue]
    if queue == WHOLE_TENANT:
        queues = await store.list_lanes(conn, tenant_id=tenant_id, limit=MOST_WOKEN)
    await notify(conn, [line_topic(tenant_id, each) for each in queues])


def refuse_until(until: datetime | None, *, now: datetime) -> None:
    """Raise InvalidInput when a pause cannot end at this instant."""
    if until is not None and until <= now:
        raise InvalidInput.at("/until", "until lies in the past.", code="pause.until_past")
    if until is not None and until > now + MOST_PAUSE:
        raise InvalidInput.at(
            "/until", f"until lies more than {MOST_PAUSE.days} days ahead.", code="pause.until_too_far"
        )


async def _whole(conn: Connection, tenant_id: UUID) -> list[Pause]:
    found = await store.find_pause(conn, tenant_id=tenant_id, queue=WHOLE_TENANT, now=conn.now)
    return [] if found is None else [found]


async def _refuse_unknown(conn: Connection, tenant_id: UUID, queue: str) -> None:
    if queue != WHOLE_TENANT and not await store.has_lane(conn, tenant_id=tenant_id, queue=queue):
        raise NotFound("There is no queue of this name.", code="queue.unknown")


async def _record(conn: Connection, tenant_id: UUID, queue: str, *, action: str, wish: Wish) -> None:
    await store.insert_change(
        conn,
        tenant_id=tenant_id,
        queue=queue,
        action=action,
        by=wish.by,
        reason=wish.reason,
        until=wish.until,
        now=conn.now,
    )


def _paused(queue: str) -> Conflict:
    if queue == WHOLE_TENANT:
        return Conflict("The tenant is paused already.", code="tenant.paused")
    return Conflict("The queue is paused already.", code="queue.paused")


def _not_paused(queue: str) -> Conflict:
    if queue == WHOLE_TENANT:
        return Conflict("The tenant is not paused.", code="tenant.not_paused")
    return Conflict("The queue is not paused.", code="queue.not_paused")
