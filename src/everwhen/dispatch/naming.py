"""What a claim answers about the runs that it named, and what follows for those that were announced.

A run that was granted, or that is not there to be had, is not told of any more: its row of the outbox goes, and a place
in the line that comes back, when a pause ends or its instant comes, is announced like any other. One that waits behind
its queue's limit stays where it is in the line, and is told again a little later; one that another claim has in hand is
that claim's business.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen import metrics
from everwhen.core.named import Asked, Named, Place, why_not
from everwhen.dispatch import store
from everwhen.dispatch.model import Lease, NamedRow
from everwhen.postgres.pool import Connection

AGAIN: Final = timedelta(seconds=5)
"""When a run is told of again that its queue's limit keeps waiting."""

_KEPT: Final = frozenset({Named.BUSY, Named.UNFIT, Named.LIMITED})


async def tell(
    conn: Connection,
    *,
    tenant_id: UUID,
    run_ids: Sequence[UUID],
    leases: Sequence[Lease],
    asked: Asked,
    now: datetime,
) -> dict[UUID, Named]:
    """Say what became of each of these, and settle what was announced of them, in the claim's transaction."""
    granted = {lease.run_id for lease in leases}
    others = sorted(set(run_ids) - granted)
    at: dict[str, Any] = {"tenant_id": tenant_id, "queues": asked.queues}
    rows = await store.look_at_named(conn, **at, run_ids=others, now=now) if others else []
    found = {row.run_id: row for row in rows}
    told = {run_id: Named.GRANTED if run_id in granted else _answer(found[run_id], asked, now) for run_id in run_ids}
    parked = {run_id for run_id, row in found.items() if row.is_parked}
    done = sorted(run_id for run_id, named in told.items() if named not in _KEPT or run_id in parked)
    later = sorted(run_id for run_id, named in told.items() if named is Named.LIMITED and run_id not in parked)
    if done:
        await store.forget_told(conn, **at, run_ids=done)
    if later:
        await store.tell_later(conn, **at, run_ids=later, look_at=now + AGAIN)
    return told


def count(named: Mapping[UUID, Named]) -> None:
    """Count what was committed, for whoever collects metrics."""
    for outcome, runs in Counter(named.values()).items():
        metrics.NAMED.labels(outcome.value).inc(runs)


def _answer(row: NamedRow, asked: Asked, now: datetime) -> Named:
    place = None
    if row.queue is not None and row.task is not None and row.available_at is not None:
        place = Place(
            queue=row.queue,
            task=row.task,
            available_at=row.available_at,
            expires_at=row.expires_at,
            is_parked=row.is_parked,
            is_paused=row.is_paused,
        )
    return why_not(place, asked, is_held=row.is_held, now=now)
