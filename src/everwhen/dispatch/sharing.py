"""Claims at queues that tenants share: which lanes a claim takes from, and what it costs them.

    walk to the lanes with work ──> lock those furthest behind ──> allot ──> take ──> again, if there is room ──> charge

The walk is along an index of what waits, a step for each tenant that has anything there. However many tenants there
are, one claim looks at MOST_SEEN lanes: the next one goes on where it ended (`Round`), so that each lane has its turn.
That place is kept in the process and is a hint: lost or old, it only changes who is looked at first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from everwhen.core import lanes as fairness
from everwhen.core.capability import Capacity, without
from everwhen.core.lanes import Lane, Share
from everwhen.dispatch import store
from everwhen.dispatch.model import LaneRow, Lease
from everwhen.postgres.pool import Connection

MOST_LANES: Final = 64
"""How many tenants' lanes one claim at a shared queue locks at most."""

MOST_SEEN: Final = 512
"""How many lanes with anything in them one claim looks at."""

MOST_ROUNDS: Final = 1_000
"""Of how many different sets of queues it is kept where the next claim goes on."""

_FIRST: Final = UUID(int=0)

LaneKey = tuple[UUID, str]


@dataclass(slots=True)
class Round:
    """Behind which tenant the next claim of these queues begins to look."""

    _after: dict[tuple[str, ...], UUID] = field(default_factory=dict[tuple[str, ...], UUID])

    def after(self, queues: tuple[str, ...]) -> UUID:
        """Return the tenant."""
        return self._after.get(queues, _FIRST)

    def go_on(self, queues: tuple[str, ...], after: UUID | None) -> None:
        """Note where the next claim begins; None: all were seen, so it does not matter."""
        self._after.pop(queues, None)
        if after is not None and len(self._after) < MOST_ROUNDS:
            self._after[queues] = after


async def lock_lanes(  # noqa: PLR0913  # who asks, for what, and from where on
    conn: Connection,
    queues: tuple[str, ...],
    tasks: Sequence[str] | None,
    *,
    instance: UUID | None,
    capacity: Capacity,
    turn: Round,
    now: datetime,
) -> list[LaneRow]:
    """Lock the lanes with work that are furthest behind, of those that it is the turn of."""
    rows = await store.lock_lanes_with_work(
        conn,
        queues=queues,
        tasks=tasks,
        instance=instance,
        labels=json.dumps(dict(capacity.labels)),
        free=json.dumps(dict(capacity.free)),
        after=turn.after(queues),
        most=MOST_SEEN,
        limit=MOST_LANES,
        now=now,
    )
    turn.go_on(queues, rows[0].following if rows else None)
    return [
        LaneRow(
            tenant_id=row.tenant_id,
            queue=row.queue,
            weight=row.weight,
            virtual_time=row.virtual_time,
            max_in_flight=row.max_in_flight,
            is_limited=bool(row.is_limited),
            has_tenant_limit=bool(row.has_tenant_limit),
            is_paused=False,
        )
        for row in rows
        if row.tenant_id is not None
        and row.queue is not None
        # The last two are never null where there is a lane; the statement's types do not say so.
        and row.weight is not None
        and row.virtual_time is not None
    ]


def second_helping(shares: Sequence[Share], leases: Sequence[Lease], *, limit: int) -> list[Share]:
    """Return what else may be taken of lanes that gave all they were asked for, where others had less than that."""
    left = limit - len(leases)
    if left <= 0 or not leases:
        return []
    taken = _taken(leases)
    return fairness.allot_rest([(share, taken.get(_key(share.lane), 0)) for share in shares], limit=left)


def left_free(free: Sequence[tuple[str, float]], leases: Sequence[Lease]) -> tuple[tuple[str, float], ...]:
    """Return what is free of a worker's resources once it has these runs."""
    left = dict(free)
    for lease in leases:
        if lease.resources is not None:
            left = without(left, msgspec.json.decode(lease.resources, type=dict[str, float]))
    return tuple(left.items())


async def charge(conn: Connection, shares: Sequence[Share], leases: Sequence[Lease], *, limit: int) -> None:
    """Move the virtual time of the lanes by what was taken of them."""
    furthest = max(share.lane.virtual_time for share in shares)
    taken = _taken(leases)
    charged = [
        (share.lane, time)
        for share in shares
        if (time := _time(share.lane, taken, furthest=furthest, limit=limit)) != share.lane.virtual_time
    ]
    await store.charge_lanes(
        conn,
        tenant_ids=[lane.tenant_id for lane, _ in charged],
        queues=[lane.queue for lane, _ in charged],
        virtual_times=[time for _, time in charged],
    )


def _time(lane: Lane, taken: dict[LaneKey, int], *, furthest: float, limit: int) -> float:
    return fairness.charge(lane, taken=taken.get(_key(lane), 0), furthest=furthest, limit=limit)


def _taken(leases: Sequence[Lease]) -> dict[LaneKey, int]:
    taken: dict[LaneKey, int] = {}
    for lease in leases:
        key = lease.tenant_id, lease.queue
        taken[key] = taken.get(key, 0) + 1
    return taken


def _key(lane: Lane) -> LaneKey:
    return lane.tenant_id, lane.queue
