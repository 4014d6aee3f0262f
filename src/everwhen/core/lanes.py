"""Lanes: how many runs a claim takes from each line, as pure arithmetic.

A lane is one tenant's line at one queue. Its virtual time is the work taken from it so far divided by its weight; the
lane that is furthest behind is served first, so a backlog of a million moves only its own lane's virtual time.

Invariants, for whatever arrives and however claims come

1. Lanes that always have work get runs in proportion to their weights: their virtual times stay within a few claims of
   each other, however long it goes on.
2. What a lane did not use is not saved: one that had nothing to do, or is new, is at once no further behind than
   CREDIT_CLAIMS claims of this size. It gets its share from then on, and no more than that credit at the others' cost.
3. Nothing is left over: where a lane has less than its share, the others get it, in the same claim.

Limits are exact because the caller holds the lane's row while it counts and takes; and, of a tenant that has a limit
over all of its lines, a lock of the tenant's.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

CREDIT_CLAIMS: Final = 2.0
"""How far, in whole claims, a lane that was idle may lie behind the one that is furthest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One line, and what is already in flight from it. `max_in_flight` None means no limit; a pause shuts the line.

    `is_limited`: tasks of its runs have limits of their own, which are looked at run by run. `tenant_room` is what the
    limit of its tenant leaves to all of its lines together; None: it has none.
    """

    tenant_id: UUID
    queue: str
    weight: int = 1
    virtual_time: float = 0.0
    max_in_flight: int | None = None
    in_flight: int = 0
    tenant_room: int | None = None
    is_limited: bool = False
    has_tenant_limit: bool = False
    is_paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """At most `quota` runs may be taken from this lane now."""

    lane: Lane
    quota: int


def allot(lanes: Sequence[Lane], *, limit: int) -> list[Share]:
    """Split a claim of `limit` runs by weight, the lane furthest behind first; lanes without room are left out.

    Quotas are rounded up, so their sum may exceed `limit`: the caller stops at `limit`, and virtual time evens it out.
    """
    open_lanes = [(lane, room) for lane in lanes if (room := _room(lane, limit)) > 0]
    weights = sum(lane.weight for lane, _ in open_lanes)
    ordered = sorted(open_lanes, key=lambda pair: (pair[0].virtual_time, pair[0].tenant_id, pair[0].queue))
    return within_rooms(Share(lane=lane, quota=min(room, -(-limit * lane.weight // weights))) for lane, room in ordered)


def within_rooms(shares: Iterable[Share]) -> list[Share]:
    """Cut the quotas of each tenant's lines to what its limit leaves them together; the first lines go first."""
    rooms: dict[UUID, int] = {}
    cut: list[Share] = []
    for share in shares:
        lane, quota = share.lane, share.quota
        if lane.tenant_room is not None:
            quota = min(quota, rooms.get(lane.tenant_id, lane.tenant_room))
            rooms[lane.tenant_id] = rooms.get(lane.tenant_id, lane.tenant_room) - quota
        if quota > 0:
            cut.append(Share(lane=lane, quota=quota))
    return cut


def allot_rest(taken: Sequence[tuple[Share, int]], *, limit: int) -> list[Share]:
    """Split what is left of a claim among the lanes that gave their whole quota: they may have more."""
    begun: Counter[UUID] = Counter()
    for share, count in taken:
        begun[share.lane.tenant_id] += count
    more = [
        replace(lane, in_flight=lane.in_flight + count, tenant_room=_less(lane.tenant_room, begun[lane.tenant_id]))
        for share, count in taken
        if count == share.quota and (lane := share.lane)
    ]
    return allot(more, limit=limit)


def _less(room: int | None, taken: int) -> int | None:
    return None if room is None else room - taken


def charge(lane: Lane, *, taken: int, furthest: float, limit: int) -> float:
    """Return the lane's virtual time after `taken` runs of a claim of `limit`.

    `furthest` is the largest virtual time among the lanes of this claim.
    """
    return max(lane.virtual_time, furthest - CREDIT_CLAIMS * limit) + taken / lane.weight


def _room(lane: Lane, limit: int) -> int:
    if lane.is_paused:
        return 0
    room = limit if lane.max_in_flight is None else min(limit, lane.max_in_flight - lane.in_flight)
    return room if lane.tenant_room is None else min(room, lane.tenant_room)
