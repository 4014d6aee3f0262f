"""What can be done with workers: take what they say of themselves, look at them, and tell them to take nothing more.

A worker is known by what it says, and what it says decides nothing: a run is granted by its lease, whoever is known.
The one thing that is decided here is a wish. It is a row that the claim itself looks for (`dispatch/queries.sql`), so
from its commit on a drained or cordoned worker is given nothing, whether or not it has heard of it.

The rows are bounded: a tenant has MOST_WORKERS, and a new worker takes the place of a lost one. Who announces workers
that are none can keep others from being seen, never from working.
"""

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen import clock
from everwhen.core.filters import Moment, Vocabulary, Word, within
from everwhen.core.fleets import KEPT, LOST, MOST_WORKERS, PLATFORM, Wish, WorkerState, label_texts
from everwhen.errors import Conflict, NotFound
from everwhen.fleets import store
from everwhen.fleets.model import Announced, Beat, Fleet, HeldRun, Standing, Worker, WorkerRow
from everwhen.lists import FIRST_ID, Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import notify, worker_topic

MOST_HELD: Final = 100
"""How many of the runs that a worker holds are listed."""

MOST_LOOKED_AT: Final = 20_000
"""Among how many leases of a queue they are looked for."""

WORKERS: Final = Vocabulary(
    fields={
        "name": Word(),
        "state": Word(choices=frozenset(state.value for state in WorkerState)),
        "queue": Word(),
        "task": Word(),
        "label": Word(),
        "host": Word(),
        "version": Word(),
        "seen": Moment(),
    },
    short=within("seen"),
)
"""What a filter of the list says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who wants what of a worker, and why; `exits` ends its process once it is empty."""

    wish: Wish
    by: str
    why: str | None = None
    exits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker with the runs that it holds: the first of them."""

    worker: Worker
    held: Sequence[HeldRun]


# What workers say ----------------------------------------------------------------------------------------------------


async def announce(db: Database, *, tenant_id: UUID | None, said: Announced) -> Standing:
    """Note a worker, of the platform where there is no tenant; raise Conflict when there are too many."""
    owner = tenant_id or PLATFORM
    text = json.dumps({name: value for name, value in asdict(said).items() if name != "instance"})
    async with _scope(db, tenant_id) as conn:
        known = await store.announce_again(
            conn, tenant_id=owner, instance=said.instance, said=text, now=conn.now
        ) or await _insert(conn, owner, said, text)
        if known is None:
            raise Conflict(
                f"{MOST_WORKERS:,} workers are alive already; this one may work, and is not listed.",
                code="worker.too_many",
            )
        return known


async def beat(db: Database, *, tenant_id: UUID | None, said: Beat) -> Standing | None:
    """Note that a worker lives; None when it is not known, and has to announce itself."""
    owner = tenant_id or PLATFORM
    async with _scope(db, tenant_id) as conn:
        standing = await store.beat_worker(
            conn,
            tenant_id=owner,
            instance=said.instance,
            held=said.held,
            in_use=json.dumps(said.in_use),
            heard=said.heard.value,
            is_stopping=said.is_stopping,
            now=conn.now,
        )
        if said.is_stopping:
            await notify(conn, [worker_topic(owner, said.instance)])
        return standing


async def leave(db: Database, *, tenant_id: UUID | None, instance: UUID) -> None:
    """Forget a worker that has stopped."""
    async with _scope(db, tenant_id) as conn:
        await store.delete_worker(conn, tenant_id=tenant_id or PLATFORM, instance=instance)


async def sweep_workers(conn: Connection, *, now: datetime, limit: int) -> int:
    """Forget up to `limit` workers that were lost long ago; return how many."""
    return await store.forget_workers(conn, before=now - KEPT, limit=limit)


# What people see and want --------------------------------------------------------------------------------------------


async def list_workers(
    db: Database, *, tenant_id: UUID | None, after: UUID = FIRST_ID, limit: int, where: str = ""
) -> Listed[Worker]:
    """Return up to `limit` workers that the filter `where` finds, in the order in which they came."""
    owner = tenant_id or PLATFORM
    async with _scope(db, tenant_id) as conn:
        now = conn.now

        async def read(after: UUID, limit: int) -> list[Worker]:
            rows = await store.list_workers(conn, tenant_id=owner, after=after, limit=limit)
            return [_worker(row, now) for row in rows]

        return await walk(
            read,
            start=after,
            key=lambda worker: worker.row.worker_id,
            limit=limit,
            asked=read_filter(where, WORKERS, now=now),
            values=lambda worker: {
                "name": worker.row.name,
                "state": worker.state.value,
                "queue": worker.row.queues,
                "task": worker.row.tasks,
                "label": label_texts(worker.labels),
                "host": worker.row.host,
                "version": worker.row.version,
                "seen": worker.row.last_seen_at,
            },
        )


async def get_worker(db: Database, *, tenant_id: UUID | None, worker_id: UUID) -> WorkerView:
    """Return a worker, with runs that it holds; raise NotFound."""
    owner = tenant_id or PLATFORM
    async with _scope(db, tenant_id) as conn:
        row = await store.get_worker(conn, tenant_id=owner, worker_id=worker_id)
        if row is None:
            raise _unknown()
        if tenant_id is None:
            held = await store.list_held_of_any(conn, worker_id=worker_id, looked_at=MOST_LOOKED_AT, limit=MOST_HELD)
        else:
            held = await store.list_held(
                conn, tenant_id=owner, worker_id=worker_id, looked_at=MOST_LOOKED_AT, limit=MOST_HELD
            )
        return WorkerView(worker=_worker(row, conn.now), held=held)


async def order(db: Database, *, tenant_id: UUID | None, worker_id: UUID, order: Order) -> Worker:
    """Set what is wanted of a worker, and return it; raise NotFound. Whoever waits for work of its own goes home."""
    owner = tenant_id or PLATFORM
    async with _scope(db, tenant_id) as conn:
        instance = await store.set_wish(
            conn,
            tenant_id=owner,
            worker_id=worker_id,
            wish=order.wish.value,
            exits=order.exits,
            by=order.by,
            why=order.why,
            now=conn.now,
        )
        if instance is None:
            raise _unknown()
        await notify(conn, [worker_topic(owner, instance)])
        row = await store.get_worker(conn, tenant_id=owner, worker_id=worker_id)
        if row is None:
            raise _unknown()
        return _worker(row, conn.now)


async def list_fleets(conn: Connection, *, tenant_id: UUID, queues: Sequence[str]) -> dict[str, Fleet]:
    """Return who works at each of these queues of a tenant, the platform's workers included."""
    rows = await store.list_fleets(conn, tenant_id=tenant_id, queues=queues, lost=conn.now - LOST)
    return {row.queue: row for row in rows}


def _scope(db: Database, tenant_id: UUID | None) -> AbstractAsyncContextManager[Connection]:
    return db.system() if tenant_id is None else db.tenant(tenant_id)


async def _insert(conn: Connection, owner: UUID, said: Announced, text: str) -> Standing | None:
    await store.hold_workers(conn, tenant_id=owner)
    await store.make_room(conn, tenant_id=owner, lost=conn.now - LOST, most=MOST_WORKERS)
    made = await store.insert_worker(
        conn,
        tenant_id=owner,
        worker_id=clock.new_id(conn.now),
        instance=said.instance,
        said=text,
        most=MOST_WORKERS,
        now=conn.now,
    )
    # Nothing made: the limit, or the same worker at once, which has committed while this one waited for the lock.
    return made or await store.announce_again(conn, tenant_id=owner, instance=said.instance, said=text, now=conn.now)


def _worker(row: WorkerRow, now: datetime) -> Worker:
    return Worker(row=row, state=row.state(now))


def _unknown() -> NotFound:
    return NotFound("There is no worker of this id: it has stopped, or was lost long ago.", code="worker.unknown")
