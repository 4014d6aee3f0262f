"""What can be done with queues.

A queue is there as soon as a task names it, with everything as by default. Whoever defines it writes two rows in one
transaction, with the lane locked: what was said (`queues`, or `queue_shares` for what the platform says of a tenant's
place at a shared queue), and what a claim reads of it (`lanes`). So a change holds for the next claim, and of a limit
of the tenant's and one of the platform's the lower one does.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from everwhen.claim_limits.fencing import cap_line, fence
from everwhen.claim_limits.telling import limits_of_lines, rate_facts
from everwhen.core.draining import drain_seconds
from everwhen.core.fleets import LOST
from everwhen.core.quotas import Limit
from everwhen.errors import NotFound
from everwhen.limits import quotas
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import notify, topics_of_lane
from everwhen.queues import store
from everwhen.queues.model import QUEUES, Line, QueueDraft, QueueRow, ShareRow
from everwhen.revisions import ANY, NONE, Expected, refuse_stale, stale

MOST_COUNTED: Final = 1_000
"""How many waiting runs of a line are counted for a list, of each priority; more are told as `is_capped`."""

MOST_COUNTED_OF_ONE: Final = 100_000
"""As much for one queue that is looked at by itself."""

MOST_SAMPLED: Final = 1_000
SAMPLED: Final = timedelta(days=7)
"""How many of a tenant's latest attempts say how long its queues' attempts take, and how old they may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What the platform decides about a tenant's place at a queue."""

    weight: int
    max_in_flight: int | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, and what stands in it."""

    row: QueueRow
    line: Line | None = None


async def get_queue(db: Database, *, tenant_id: UUID, name: str, with_line: bool = True) -> Queue:
    """Read a queue, and what stands in it; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        row = await _read(conn, tenant_id, name)
        lines = await _lines(conn, tenant_id, [row], most=MOST_COUNTED_OF_ONE) if with_line else [None]
        return Queue(row=row, line=lines[0])


async def list_queues(db: Database, *, tenant_id: UUID, after: str = "", limit: int, where: str = "") -> Listed[Queue]:
    """Return up to `limit` queues after `after` that the filter `where` finds, by name; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        found = await walk(
            lambda after, limit: store.list_queues(conn, tenant_id=tenant_id, after=after, limit=limit),
            start=after,
            key=lambda row: row.name,
            limit=limit,
            asked=read_filter(where, QUEUES, now=conn.now),
            values=lambda row: {
                "tag": row.tags,
                "owner": row.owner,
                "delivery": row.delivery,
                "updated": row.updated_at,
            },
        )
        lines = await _lines(conn, tenant_id, found.rows, most=MOST_COUNTED)
    rows = [Queue(row=row, line=line) for row, line in zip(found.rows, lines, strict=True)]
    return Listed(rows=rows, following=found.following, asked=found.asked)


async def count_queues(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many are defined, in the caller's transaction."""
    return await store.count_queues(conn, tenant_id=tenant_id)


async def find_queues(conn: Connection, *, tenant_id: UUID, names: Sequence[str]) -> list[QueueRow]:
    """Return those of these queues that are defined, in the caller's transaction."""
    return await store.list_queues_named(conn, tenant_id=tenant_id, names=names)


async def page_queues(
    conn: Connection, *, tenant_id: UUID, owner: str | None, after: str, limit: int
) -> list[QueueRow]:
    """Return up to `limit` defined queues of an owner, or of everybody, after `after`, in the caller's transaction."""
    if owner is None:
        names = await store.page_names(conn, tenant_id=tenant_id, after=after, limit=limit)
    else:
        names = await store.page_names_of_owner(conn, tenant_id=tenant_id, owner=owner, after=after, limit=limit)
    return await store.list_queues_named(conn, tenant_id=tenant_id, names=names)


async def put_new_queue(db: Database, *, tenant_id: UUID, name: str, draft: QueueDraft) -> QueueRow:
    """Define a queue that is not defined yet, whether or not a task names it already.

    Raises PreconditionFailed when it is defined, and Conflict when the tenant has as many as it may have.
    """
    async with db.tenant(tenant_id) as conn:
        await store.open_lane(conn, tenant_id=tenant_id, queue=name)
        present = await _locked(conn, tenant_id, name, draft)
        if present.is_defined:
            raise stale(NONE, present.revision)
        return await _define(conn, tenant_id, present, draft, expected=ANY)


async def replace_queue(
    db: Database, *, tenant_id: UUID, name: str, draft: QueueDraft, expected: Expected = ANY
) -> QueueRow:
    """Say all that a queue is; one that is so already stays as it is, and so does its revision.

    Whoever expects any revision may mean one that no task names yet. Raises NotFound, PreconditionFailed when it is not
    the revision that was expected, and Conflict when the tenant has as many as it may have.
    """
    async with db.tenant(tenant_id) as conn:
        if expected == ANY:
            await store.open_lane(conn, tenant_id=tenant_id, queue=name)
        present = await _locked(conn, tenant_id, name, draft)
        refuse_stale(expected, present.revision)
        if present.is_defined and says_the_same(present, draft):
            return present
        return await _define(conn, tenant_id, present, draft, expected=expected)


async def delete_queue(db: Database, *, tenant_id: UUID, name: str, expected: Expected = ANY) -> None:
    """Let everything about a queue be as by default; what waits in it goes on waiting.

    Raises NotFound when it is not defined, and PreconditionFailed.
    """
    async with db.tenant(tenant_id) as conn:
        present = await _locked(conn, tenant_id, name)
        if not present.is_defined:
            raise _unknown()
        refuse_stale(expected, present.revision)
        if await store.delete_queue(conn, tenant_id=tenant_id, queue=name, among=expected.among, now=conn.now) is None:
            raise stale(expected, present.revision)
        await _settle(conn, tenant_id, name)


async def get_share(db: Database, *, tenant_id: UUID, name: str) -> ShareRow:
    """Read a tenant's place at a queue; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await _share(conn, tenant_id, name)


async def set_share(db: Database, *, tenant_id: UUID, name: str, share: Share, expected: Expected = ANY) -> ShareRow:
    """Set a tenant's place at a queue, which need not be there yet; raise PreconditionFailed."""
    async with db.system() as conn:
        await store.open_lane(conn, tenant_id=tenant_id, queue=name)
        await fence(conn, tenant_id)
        await store.lock_lane(conn, tenant_id=tenant_id, queue=name)
        present = await _share(conn, tenant_id, name)
        refuse_stale(expected, present.revision)
        written = await store.put_share(
            conn,
            tenant_id=tenant_id,
            queue=name,
            weight=share.weight,
            max_in_flight=share.max_in_flight,
            among=expected.among,
            by=share.by,
            now=conn.now,
        )
        if written is None:
            raise stale(expected, present.revision)
        await _settle(conn, tenant_id, name)
        return await _share(conn, tenant_id, name)


def says_the_same(present: QueueRow, draft: QueueDraft) -> bool:
    """Tell whether a queue is what the draft would make of it."""
    return (
        present.max_in_flight == draft.max_in_flight
        and present.rate == draft.rate
        and present.delivery == draft.delivery
        and json.loads(present.delivery_settings) == draft.delivery_settings
        and present.ageing_seconds == draft.ageing_seconds
        and tuple(present.tags) == draft.tags
        and (not draft.has_owner or present.owner == draft.owner)
    )


async def seconds_until(conn: Connection, *, tenant_id: UUID, queue: str, ahead: int) -> float | None:
    """Return when so many runs of a queue are under way, as things go now; None: nothing goes, or nothing is known.

    In the caller's transaction.
    """
    counted = await store.count_lines(
        conn, tenant_id=tenant_id, queues=[queue], most=MOST_COUNTED, live=conn.now - LOST, now=conn.now
    )
    sampled = await store.sample_paces(conn, tenant_id=tenant_id, since=conn.now - SAMPLED, most=MOST_SAMPLED)
    mean = next((pace.mean_seconds for pace in sampled if pace.queue == queue), None)
    return drain_seconds(waiting=ahead, in_flight=counted[0].in_flight, mean_seconds=mean)


async def _define(
    conn: Connection, tenant_id: UUID, present: QueueRow, draft: QueueDraft, *, expected: Expected
) -> QueueRow:
    rate = draft.rate
    revision = await store.put_queue(
        conn,
        tenant_id=tenant_id,
        queue=present.name,
        max_in_flight=draft.max_in_flight,
        rate_tokens=rate and rate.tokens,
        rate_seconds=rate and rate.seconds,
        rate_burst=rate and rate.burst,
        delivery=draft.delivery,
        delivery_settings=json.dumps(dict(draft.delivery_settings)),
        ageing_seconds=draft.ageing_seconds,
        tags=draft.tags,
        owner=draft.owner if draft.has_owner else present.owner,
        among=expected.among,
        now=conn.now,
    )
    if revision is None:
        raise stale(expected, present.revision)
    if not present.is_defined:
        await quotas.refuse_over(conn, Limit.QUEUES, store.count_queues, tenant_id=tenant_id)
    await _settle(conn, tenant_id, present.name)
    return await _read(conn, tenant_id, present.name)


async def _settle(conn: Connection, tenant_id: UUID, name: str) -> None:
    """Let the next claim go by what is written, and whoever waits look at once: there may be room now."""
    await store.settle_lane(conn, tenant_id=tenant_id, queue=name)
    await cap_line(conn, tenant_id, name)
    await notify(conn, topics_of_lane(tenant_id, name))


async def _lines(conn: Connection, tenant_id: UUID, rows: Sequence[QueueRow], *, most: int) -> list[Line]:
    if not rows:
        return []
    names = [row.name for row in rows]
    counted = await store.count_lines(
        conn, tenant_id=tenant_id, queues=names, most=most + 1, live=conn.now - LOST, now=conn.now
    )
    sampled = await store.sample_paces(conn, tenant_id=tenant_id, since=conn.now - SAMPLED, most=MOST_SAMPLED)
    paces = {pace.queue: pace.mean_seconds for pace in sampled}
    limits = await limits_of_lines(conn, tenant_id, names)
    return [
        Line(
            waiting=min(line.waiting, most),
            is_capped=line.waiting > most,
            oldest_due_at=line.oldest_due_at,
            in_flight=line.in_flight,
            limit=row.limit,
            tenant_limit=limited.tenant_limit,
            tenant_in_flight=limited.tenant_in_flight,
            rate=limited.rate and rate_facts(limited.rate, limited.full_at, now=conn.now),
            is_paused=line.is_paused,
            last_asked_at=line.last_asked_at,
            workers=line.workers,
            slots=line.slots,
            free_slots=line.free_slots,
            held_back=line.held_back,
            blockages=json.loads(line.blockages),
            mean_seconds=(mean := paces.get(row.name)),
            drain_seconds=drain_seconds(waiting=min(line.waiting, most), in_flight=line.in_flight, mean_seconds=mean),
        )
        for row, line, limited in zip(rows, counted, (limits[name] for name in names), strict=True)
    ]


async def _locked(conn: Connection, tenant_id: UUID, name: str, draft: QueueDraft | None = None) -> QueueRow:
    if draft is not None and (draft.max_in_flight is not None or draft.rate is not None):
        await fence(conn, tenant_id)  # so that a first limit holds for claims that are under way, too
    await store.lock_lane(conn, tenant_id=tenant_id, queue=name)
    return await _read(conn, tenant_id, name)


async def _read(conn: Connection, tenant_id: UUID, name: str) -> QueueRow:
    row = await store.get_queue(conn, tenant_id=tenant_id, queue=name)
    if row is None:
        raise _unknown()
    return row


async def _share(conn: Connection, tenant_id: UUID, name: str) -> ShareRow:
    share = await store.get_share(conn, tenant_id=tenant_id, queue=name)
    if share is None:
        raise _unknown()
    return share


def _unknown() -> NotFound:
    return NotFound("There is no queue of this name.", code="queue.unknown")
