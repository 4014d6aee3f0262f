"""The observer: looks at every line in turn and writes down what blocks it, when that changes.

    look at the next lines ──> those that stand ──> look closer ──> diagnose ──> open what began, close what is over

A line that does not stand, or is empty, has nothing open. So a quiet system writes nothing but that it was watched, and
a backlog of a million runs costs what one of two costs: counts stop at MOST_COUNTED, and only what changes is written.

Invariants

1. One state is open for each line, task and reason: a unique index says so, whatever a second observer does.
2. A closed state is never touched again. A limit that was changed closes its state and opens another.
3. Each tick looks at no more than `batch` lines, in the order of their key, and goes on there; after the last it begins
   anew. A line is looked at once in (number of lines / batch) ticks.
4. What ended longer than `kept` ago is forgotten, so the history of the lines is bounded. That somebody watched is
   forgotten before what was seen: a stretch of watching is LONGEST at most, then the next one begins, and states are
   kept for as much longer. So an explanation never calls complete what has been forgotten.

Crash points: a tick is one transaction. Before its commit nothing is known of it, and the next tick of any observer
finds the same. While no observer runs, states stay open that may be over: `observations` says who watched and when, and
an explanation that touches a time when nobody did is not complete, and says so.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.core.blockages import LIVE, MEMORY, RELAYED, STANDING, Blockage, LineFacts, LiveFleet, changes, diagnose
from everwhen.core.claim_limits import rate_of
from everwhen.core.fleets import LOST
from everwhen.core.targets import WORKFLOW_QUEUE
from everwhen.explaining import store
from everwhen.explaining.model import LaneKey, LineState, StandingLine
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick

MOST_COUNTED: Final = 10_000
MOST_OPEN: Final = 50_000
MOST_FORGOTTEN: Final = 500
LONGEST: Final = timedelta(days=7)
"""How long one stretch of watching grows; the next one begins where it ends."""

FIRST: Final = (UUID(int=0), "")

UNBROKEN: Final = timedelta(seconds=30)
"""How far apart two looks of one observer may lie and still count as watching."""

_Line = tuple[UUID, str]


@dataclass(slots=True)
class _Place:
    """Where the next tick goes on, and since when this observer has watched without a break."""

    after: _Line = FIRST
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """The role. `batch` bounds how many lines one tick looks at; `kept` is how long their past is kept."""

    database: Database
    observer_id: UUID
    batch: int = 1_000
    name: str = "observer"
    interval: timedelta = timedelta(seconds=2)
    kept: timedelta = timedelta(days=400)
    place: _Place = field(default_factory=_Place)

    async def tick(self, now: datetime) -> Tick:
        """Look at the next lines."""
        async with self.database.system() as conn:
            tenant_id, queue = self.place.after
            lines = await store.look_at_lines(
                conn, after_tenant_id=tenant_id, after_queue=queue, standing=now - STANDING, limit=self.batch
            )
            done = await self._observe(conn, lines, now=now) if lines else 0
            since = await self._say_watched(conn, now=now)
            await store.forget_sightings(conn, before=now - MEMORY, limit=MOST_FORGOTTEN)
            await store.forget_observations(conn, before=now - self.kept, limit=MOST_FORGOTTEN)
            await store.forget_states(conn, before=now - self.kept - LONGEST, limit=MOST_FORGOTTEN)
        self.place.since = since
        self.place.after = (lines[-1].tenant_id, lines[-1].queue) if len(lines) == self.batch else FIRST
        return Tick(done=done)

    async def _observe(self, conn: Connection, lines: Sequence[LaneKey], *, now: datetime) -> int:
        found = {
            (line.tenant_id, line.queue): diagnose(_facts(line), now=now) for line in await _closer(conn, lines, now)
        }
        known = await self._known(conn, lines)
        begins: list[tuple[_Line, Blockage]] = []
        over: list[tuple[_Line, Blockage]] = []
        for line in found.keys() | known.keys():
            new, gone = changes(known.get(line, []), found.get(line, []))
            begins += [(line, each) for each in new]
            over += [(line, each) for each in gone]
        await _write(conn, sorted(begins, key=_order), sorted(over, key=_order), now=now)
        return len(begins) + len(over)

    async def _known(self, conn: Connection, lines: Sequence[LaneKey]) -> dict[_Line, list[Blockage]]:
        after_tenant_id, after_queue = self.place.after
        rows = await store.open_states(
            conn,
            after_tenant_id=after_tenant_id,
            after_queue=after_queue,
            last_tenant_id=lines[-1].tenant_id,
            last_queue=lines[-1].queue,
            limit=MOST_OPEN,
        )
        known: dict[_Line, list[Blockage]] = {}
        for row in rows:
            known.setdefault((row.tenant_id, row.queue), []).append(_blockage(row))
        return known

    async def _say_watched(self, conn: Connection, *, now: datetime) -> datetime:
        since = self.place.since
        if since is not None:
            unbroken = now - UNBROKEN
            extended = await store.extend_observation(
                conn, observer_id=self.observer_id, since=since, unbroken=unbroken, now=now
            )
            if extended and now - since < LONGEST:
                return since
        await store.begin_observation(conn, observer_id=self.observer_id, now=now)
        return now


async def _closer(conn: Connection, lines: Sequence[LaneKey], now: datetime) -> list[StandingLine]:
    standing = [(line, line.oldest_due_at) for line in lines if line.oldest_due_at is not None]
    if not standing:
        return []
    return await store.look_closer(
        conn,
        tenant_ids=[line.tenant_id for line, _ in standing],
        queues=[line.queue for line, _ in standing],
        oldest=[oldest for _, oldest in standing],
        now=now,
        live=now - LIVE,
        present=now - LOST,
        relayed=now - RELAYED,
        most=MOST_COUNTED,
    )


async def _write(
    conn: Connection, begins: Sequence[tuple[_Line, Blockage]], over: Sequence[tuple[_Line, Blockage]], *, now: datetime
) -> None:
    if over:  # first, so that a limit that was changed makes room for its successor
        await store.close_states(
            conn,
            tenant_ids=[line[0] for line, _ in over],
            queues=[line[1] for line, _ in over],
            tasks=[each.task for _, each in over],
            reasons=[each.reason for _, each in over],
            now=now,
        )
    if begins:
        await store.insert_states(
            conn,
            tenant_ids=[line[0] for line, _ in begins],
            queues=[line[1] for line, _ in begins],
            tasks=[each.task for _, each in begins],
            reasons=[each.reason for _, each in begins],
            sinces=[each.since for _, each in begins],
            facts=[json.dumps({"queue": line[1], **each.facts}) for line, each in begins],
            now=now,
        )


def _facts(line: StandingLine) -> LineFacts:
    return LineFacts(
        oldest_due_at=line.oldest_due_at,
        due=line.due,
        in_flight=line.in_flight,
        limit=line.max_in_flight,
        filled_at=line.filled_at,
        is_held=line.is_held,
        last_seen_at=line.last_seen_at,
        live=_live(line),
        unknown_tasks=line.unknown_tasks,
        rests_until=line.rests_until,
        rests_since=line.rests_since,
        endpoint_failures=line.endpoint_failures or 0,
        endpoint_error=line.endpoint_error,
        broker=line.broker,
        broker_away_since=line.broker_away_since,
        tenant_limit=line.tenant_limit,
        tenant_in_flight=line.tenant_in_flight or 0,
        rate=rate_of(line.rate_tokens, line.rate_seconds, line.rate_burst),
        rate_full_at=line.rate_full_at,
        is_of_workflows=line.queue == WORKFLOW_QUEUE,
    )


def _live(line: StandingLine) -> LiveFleet | None:
    if not line.live_workers:
        return None
    return LiveFleet(
        workers=line.live_workers,
        slots=line.live_slots,
        cordoned=line.cordoned,
        draining=line.draining,
        held_back_at=line.held_back_at,
    )


def _blockage(row: LineState) -> Blockage:
    return Blockage(task=row.task, reason=row.reason, since=row.since, facts=json.loads(row.facts))


def _order(pair: tuple[_Line, Blockage]) -> tuple[UUID, str, str, str]:
    line, each = pair
    return *line, each.task, each.reason
