"""Lanes: how many runs a claim takes from each line, as pure arithmetic.

A lane is one tenant's line at one queue. Its virtual time is the work taken from it so far divided by its weight; the
lane that is furthest behind is served first, so a backlog of a million moves only its own lane's virtual time. Limits
are exact because the caller holds the lane's row while it counts and takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

MOST_CREDIT: Final = 1_000.0
"""How far, in units of virtual time, a lane that was idle may lie behind: what it did not use is not saved for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One line, and what is already in flight from it. `max_in_flight` None means no limit; a pause shuts the line.

    `is_limited`: tasks of its runs have limits of their own, which are looked at run by run.
    """

    tenant_id: UUID
    queue: str
    weight: int = 1
    virtual_time: float = 0.0
    max_in_flight: int | None = None
    in_flight: int = 0
    is_limited: bool = False
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
    return [Share(lane=lane, quota=min(room, -(-limit * lane.weight // weights))) for lane, room in ordered]


def charge(lane: Lane, *, taken: int, furthest: float) -> float:
    """Return the lane's virtual time after `taken` runs; `furthest` is the largest among the lanes of this claim."""
    return max(lane.virtual_time, furthest - MOST_CREDIT) + taken / lane.weight


def _room(lane: Lane, limit: int) -> int:
    if lane.is_paused:
        return 0
    if lane.max_in_flight is None:
        return limit
    return min(limit, lane.max_in_flight - lane.in_flight)
