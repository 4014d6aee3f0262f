"""The sealer: gives each event of the audit its link in its tenant's chain, a moment after it was told.

A chain could grow in the transaction that tells, but then all changes of a tenant would stand in line behind its head.
So events are told in any order, and chained in the order in which they are found: that is the chain's, the only one.

* **One sealer for a chain at a time**: the head's row is the lock, SKIP LOCKED sends a second copy to other tenants.
  The events are read after the lock, so what is found has no link. Each tenant gives a tick so many, so a flood of one
  holds up no other.
* **A crash before the commit** leaves nothing of the batch; the next tick chains the same events again. After it all
  of them have their links.
* **The epoch** is looked up in the transaction that uses it, by which server that is and which timeline it writes. A
  standby that was promoted, or a backup that was restored, begins another epoch with an id that nobody can repeat; so
  what two servers chain from one place on is told apart by its hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final
from uuid import UUID

from everwhen import clock, failpoints
from everwhen.audit import store
from everwhen.audit.model import Head, Unsealed
from everwhen.core.audit_chain import genesis, link
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick

MOST_TENANTS: Final = 50
MOST_OF_ONE: Final = 200


@dataclass(frozen=True, slots=True)
class _Links:
    """What a tick writes, in columns."""

    tenant_ids: list[UUID]
    event_ids: list[UUID]
    seqs: list[int]
    hashes: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSealer:
    """The role. `tenants` bounds how many chains one tick lengthens, `batch` by how much each."""

    database: Database
    tenants: int = MOST_TENANTS
    batch: int = MOST_OF_ONE
    name: str = "sealer"
    interval: timedelta = timedelta(milliseconds=500)

    async def tick(self, now: datetime) -> Tick:  # noqa: ARG002  # as every role's
        """Chain a batch of what was told."""
        async with self.database.system() as conn:
            found = await store.find_unsealed(conn, limit=self.tenants)
            if not found:
                return Tick()
            await store.ensure_heads(conn, tenant_ids=found, hashes=[genesis(tenant_id) for tenant_id in found])
            heads = await store.lock_heads(conn, tenant_ids=found)
            events = await store.take_unsealed(conn, tenant_ids=[head.tenant_id for head in heads], limit=self.batch)
            if events:
                await _write(conn, heads, events)
            failpoints.hit("sealer.before_commit")
        failpoints.hit("sealer.after_commit")
        full = len(events) >= self.batch or len(found) == self.tenants
        return Tick(done=len(events), more=bool(events) and full)


async def current_epoch(conn: Connection) -> UUID:
    """Return the epoch of the server that this transaction is on; begin it, if nobody has."""
    here = await store.find_server(conn)
    found = await store.find_epoch(conn, server=here.server, timeline=here.timeline)
    if found is not None:
        return found
    made = clock.new_id(conn.now)
    if await store.begin_epoch(conn, epoch=made, server=here.server, timeline=here.timeline, now=conn.now):
        return made
    begun = await store.find_epoch(conn, server=here.server, timeline=here.timeline)
    assert begun is not None  # somebody else was first
    return begun


async def _write(conn: Connection, heads: Sequence[Head], events: Sequence[Unsealed]) -> None:
    epoch = await current_epoch(conn)
    links = _chained({head.tenant_id: head for head in heads}, events, epoch=epoch)
    mine = {"tenant_ids": links.tenant_ids, "event_ids": links.event_ids}
    await store.insert_links(conn, **mine, seqs=links.seqs, hashes=links.hashes, epoch=epoch)
    await store.drop_unsealed(conn, **mine)
    last = {tenant_id: index for index, tenant_id in enumerate(links.tenant_ids)}
    await store.move_heads(
        conn,
        tenant_ids=list(last),
        seqs=[links.seqs[index] for index in last.values()],
        hashes=[links.hashes[index] for index in last.values()],
        epoch=epoch,
    )


def _chained(heads: dict[UUID, Head], events: Sequence[Unsealed], *, epoch: UUID) -> _Links:
    links = _Links([], [], [], [])
    for tenant_id, mine in groupby(events, key=lambda event: event.tenant_id):
        seq, previous = heads[tenant_id].seq, heads[tenant_id].hash
        for event in mine:
            seq += 1
            previous = link(previous, seq=seq, epoch=epoch, record=event.record)
            links.tenant_ids.append(tenant_id)
            links.event_ids.append(event.event_id)
            links.seqs.append(seq)
            links.hashes.append(previous)
    return links
