"""What one claim holds and knows while it decides on limits, and what it does about whole lines. See service.py."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.claim_limits import store
from everwhen.claim_limits.model import CandidateRow, LineRate, TaskKey, TaskLimit
from everwhen.core.capability import Capacity
from everwhen.core.claim_limits import Resource, Room
from everwhen.postgres.pool import Connection

MOST_BEHIND: Final = 2_000
"""How many runs behind those a claim parks at once, where it met none but such of full tasks."""

LaneKey = tuple[UUID, str]
KeyOfTask = tuple[TaskKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line to claim from, and how many runs at most."""

    tenant_id: UUID
    queue: str
    quota: int


@dataclass(slots=True)
class Sitting:
    """What one claim holds and knows. `rooms` and `key_rooms` shrink with what it takes.

    `hidden` are leases that do not say what they count for; `passed` are the runs that were looked at, and `left` the
    lines in which some of them stay as they were. `dry` are lines without a token, with the instant of the next one.
    `is_cut`: it met so many runs that it had to park that there may be others behind them, in `open_lanes`.
    """

    now: datetime
    is_second: bool = False
    limits: dict[TaskKey, TaskLimit] = field(default_factory=dict[TaskKey, TaskLimit])
    rooms: dict[TaskKey, Room] = field(default_factory=dict[TaskKey, Room])
    key_rooms: dict[KeyOfTask, Room] = field(default_factory=dict[KeyOfTask, Room])
    hidden: dict[TaskKey, int] = field(default_factory=dict[TaskKey, int])
    full_ats: dict[KeyOfTask, datetime] = field(default_factory=dict[KeyOfTask, datetime])
    taken: list[CandidateRow] = field(default_factory=list[CandidateRow])
    parked: list[tuple[CandidateRow, Resource]] = field(default_factory=list[tuple[CandidateRow, Resource]])
    passed: list[UUID] = field(default_factory=list[UUID])
    capacity: Capacity = field(default_factory=Capacity)
    free: dict[str, float] = field(default_factory=dict[str, float])
    left: set[LaneKey] = field(default_factory=set[LaneKey])
    line_rates: dict[LaneKey, LineRate] = field(default_factory=dict[LaneKey, LineRate])
    dry: dict[LaneKey, datetime] = field(default_factory=dict[LaneKey, datetime])
    is_cut: bool = False
    open_lanes: list[LaneKey] = field(default_factory=list[LaneKey])

    @property
    def look_at(self) -> datetime | None:
        """When another look is worth while, as far as it knows."""
        return self.now if self.is_cut else min(self.dry.values(), default=None)


async def quotas_of(conn: Connection, sitting: Sitting, lines: Sequence[Line]) -> dict[LaneKey, int]:
    """Return how many runs each line gives, by what the claim allots and by the tokens of its queue."""
    quotas = {(line.tenant_id, line.queue): line.quota for line in lines}
    tenant_ids, queues = [line.tenant_id for line in lines], [line.queue for line in lines]
    for rated in await store.read_line_rates(conn, tenant_ids=tenant_ids, queues=queues):
        key = rated.tenant_id, rated.queue
        sitting.line_rates[key] = rated
        left = rated.rate.left(rated.full_at, sitting.now)
        quotas[key] = min(quotas[key], left)
        if not left:
            sitting.dry[key] = rated.rate.next_at(rated.full_at, sitting.now)
    return quotas


async def charge_lines(conn: Connection, sitting: Sitting) -> None:
    """Take the tokens of the lines that were taken from; their buckets are no task's."""
    rates = sitting.line_rates
    taken = Counter((row.tenant_id, row.queue) for row in sitting.taken)
    charged = sorted(taken.keys() & rates.keys())
    if charged:
        await store.charge_key_rates(
            conn,
            tenant_ids=[tenant_id for tenant_id, _ in charged],
            tasks=["" for _ in charged],
            limit_keys=[queue for _, queue in charged],
            full_ats=[rates[key].rate.taken(rates[key].full_at, sitting.now, taken[key]) for key in charged],
        )


async def park_behind(conn: Connection, sitting: Sitting) -> None:
    """Park more runs of the tasks that are full: a claim that met nothing else would meet nothing else again."""
    full = {
        (row.tenant_id, row.task): each.value for row, each in sitting.parked if each in {Resource.TASK, Resource.RATE}
    }
    if full and (lanes := sitting.open_lanes):
        tasks = sorted(full)
        await store.park_behind(
            conn,
            **store.columns(tasks),
            resources=[full[key] for key in tasks],
            lane_tenant_ids=[tenant_id for tenant_id, _ in lanes],
            queues=[queue for _, queue in lanes],
            most=MOST_BEHIND,
            now=sitting.now,
        )
