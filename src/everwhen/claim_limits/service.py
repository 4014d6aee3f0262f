"""Limits at the claim: how many runs of a task, or of a key of its inputs, are in flight, and how fast they begin.

A line in which no run of a limited task waits is claimed from in one statement, as ever. In another the claim takes
several, in one transaction: it locks due runs in their line, locks the limits of their tasks, counts, and has the core
decide about each run (core/claim_limits.py): take it, or park it behind the first limit that is full. Whoever ends an
attempt lets as many parked runs go as there is room for again.

                     ┌────────────── parked ──────────────┐
          no room,   │  a million of a full task cost no   │  room or a token came free,
          no token   │  claim anything: none looks at them │  the limit was raised, or lifted
                     │                                     v
    due ─────────> in the line ─────────────────────> in the line, offered
                     │            room and a token         │
                     └──────────────> leased <─────────────┘

A parked run stays in `waiting`, and waits for all the world; only its priority is one that no walk along a line looks
at, and `limit_group` says for what it was parked. It is cancelled, expires and is listed as before. An *offered* run
stands in its line like any other, in its own place, and the claim that meets it decides anew: an offer is a hint and
no promise, so that an urgent run that has become due meanwhile still goes first.

Nobody keeps a count. What is in flight are leases, each of which says what it counts for (`limit_key`); so nothing can
drift when a process dies, and a lease and its slot are one row.

Invariants

1. Leases of a limited task are only made while the row of its limits is locked, by a statement after the count. So
   there are never more than the limit at any commit, but for those that were there when it was lowered: nothing is
   stopped.
2. The leases of an attempt that ends are deleted first and its task's row is locked after. Whoever counts under the
   lock before that commits still counts them, and parks; then the one that ends gets the lock and sees what was
   parked. So no run is parked for good while there is room: either it was counted out, or it is found and offered.
3. Parked and offered together never leave room unused: with n places free, at least n runs are offered, as far as
   there are so many. What is offered and cancelled before it is claimed is the exception; the backstop finds it
   (releasing.py).
4. A run is parked or offered by a change of its one row. It cannot get lost on the way, nor be in two places.
5. A bucket of tokens is written by the claim that took from it, under the same lock.

The order of locks, which keeps any two from waiting for each other

    lanes by key → places in the line (SKIP LOCKED) → leases → gates … → limits by key → parked runs (SKIP LOCKED)

Rows of limits are the last that a transaction waits for. A claim waits for nothing after them; it locks those of
further tasks, which it meets later, only if they are free. Ends of attempts are gathered, and their tasks locked in
the order of the key right before the commit (`Connection.last`), whatever else the transaction did: ends come from
reports, from the reaper, from schedules' gates and from workflows, some within others.

A claim that began before a limit was set does not know of it: its leases say nothing of what they count for. For
ADOPTION after a change those of the task are looked for, and made to say so, before anything is counted; those that
somebody holds just then count as if they filled every key.

Crash points. Until the commit nothing has happened: runs are in the line, or parked, as they were. The end of an
attempt and what it lets go are one transaction. A wake-up that is lost costs a poll; an offer that nobody takes costs
nothing.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from everwhen.claim_limits import store
from everwhen.claim_limits.model import CandidateRow, TaskKey, TaskLimit
from everwhen.claim_limits.releasing import let_go
from everwhen.claim_limits.sitting import KeyOfTask, LaneKey, Line, Sitting, charge_lines, park_behind, quotas_of
from everwhen.core.capability import Capacity, Requirements, fits, most_at_once, requirements_from_json
from everwhen.core.claim_limits import Candidate, Decided, Resource, Room, decide
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import line_topic, notify

DEPTHS: Final = (1, 50, 200, 200)
"""How many due runs are looked at in each round of one claim, at least: those in front of it were parked."""

MOST_RELEASED: Final = 64
"""Of how many tasks one claim lets runs go that waited for a token."""

MOST_FITTING: Final = 64
"""Of how many tasks one claim looks for runs that were parked because they did not fit another worker."""

MOST_OFFERED_FITTING: Final = 500
"""How many such runs it looks at."""

NO_REQUIREMENTS: Final = Requirements()


async def choose(  # noqa: PLR0913  # who asks, for what, and how
    conn: Connection,
    lines: Sequence[Line],
    *,
    tasks: Sequence[str] | None,
    limit: int,
    now: datetime,
    capacity: Capacity,
    is_second: bool = False,
) -> Sitting:
    """Lock and decide: `taken` are the runs to lease, which the caller does next; what is in their way is parked.

    `is_second`: the transaction has chosen before, and holds limits already, so it waits for no others.
    """
    sitting = Sitting(now=now, is_second=is_second, capacity=capacity, free=dict(capacity.free))
    await _release_due(conn, sitting, lines)
    await _offer_fitting(conn, sitting, lines, tasks=tasks, limit=limit)
    order = {(line.tenant_id, line.queue): index for index, line in enumerate(lines)}
    quotas = await quotas_of(conn, sitting, lines)
    for depth in DEPTHS:
        open_lines = [key for key in order if quotas[key] > 0]
        need = limit - len(sitting.taken)
        if need <= 0 or not open_lines:
            break
        rows = await store.lock_candidates(
            conn,
            tenant_ids=[tenant for tenant, _ in open_lines],
            queues=[queue for _, queue in open_lines],
            depths=[max(min(need, quotas[key]), depth // len(open_lines)) for key in open_lines],
            tasks=tasks,
            passed=sitting.passed,
            now=now,
        )
        if not rows:
            break
        rows.sort(key=lambda row: (order[row.tenant_id, row.queue], row.rank))
        await _decide(conn, sitting, rows, quotas, need=need)
    else:
        sitting.is_cut = len(sitting.taken) < limit
    await _write(conn, sitting)
    sitting.open_lanes = [key for key in order if quotas[key] > 0]
    return sitting


async def settle(conn: Connection, sitting: Sitting) -> None:
    """Once the taken runs are leased: park what else is in the way, and offer what room there is to others."""
    if sitting.is_cut:  # not before, or it would park what was taken, whose place in the line is its own until then
        await park_behind(conn, sitting)
    again = {_task(row) for row, _ in sitting.parked if row.limit_group is not None}
    again |= {key for key, room in sitting.rooms.items() if sitting.limits[key].has_parked and room.least != 0}
    if limits := [sitting.limits[key] for key in sorted(again & sitting.limits.keys())]:
        await let_go(conn, limits, now=sitting.now)
    await notify(conn, (line_topic(tenant_id, queue) for tenant_id, queue in sitting.left))


async def choose_named(  # noqa: PLR0913  # as `choose`, and which
    conn: Connection,
    lines: Sequence[Line],
    *,
    run_ids: Sequence[UUID],
    tasks: Sequence[str] | None,
    limit: int,
    now: datetime,
    capacity: Capacity,
) -> Sitting:
    """Do as `choose` does, about these runs of one tenant and no others."""
    sitting = Sitting(now=now, capacity=capacity, free=dict(capacity.free))
    order = {(line.tenant_id, line.queue): index for index, line in enumerate(lines)}
    quotas = await quotas_of(conn, sitting, lines)
    if lines:
        queues = [line.queue for line in lines]
        tenant_id = lines[0].tenant_id
        rows = await store.lock_named(conn, tenant_id=tenant_id, run_ids=run_ids, queues=queues, tasks=tasks, now=now)
        rows.sort(key=lambda row: (order[row.tenant_id, row.queue], row.rank))
        await _decide(conn, sitting, rows, quotas, need=limit)
        await _write(conn, sitting)
    return sitting


async def mark_lane(conn: Connection, lane: LaneKey, *, is_new: bool = False) -> None:
    """Note that runs of limited tasks wait in this line; or, of a new one, whether its tenant has a limit."""
    tenant_id, queue = lane
    mark = store.mark_new_lane if is_new else store.mark_lane
    await mark(conn, tenant_id=tenant_id, queue=queue)


async def _release_due(conn: Connection, sitting: Sitting, lines: Sequence[Line]) -> None:
    due = await store.find_due_releases(
        conn,
        tenant_ids=[line.tenant_id for line in lines],
        queues=[line.queue for line in lines],
        now=sitting.now,
        limit=MOST_RELEASED,
    )
    if due:
        await _hold(conn, sitting, {(each.tenant_id, each.task) for each in due})
        await let_go(conn, list(sitting.limits.values()), now=sitting.now)


async def _offer_fitting(
    conn: Connection, sitting: Sitting, lines: Sequence[Line], *, tasks: Sequence[str] | None, limit: int
) -> None:
    """Put runs back into their lines that were parked for want of a worker like this one, as many as fit it."""
    fitting = await store.find_fitting(
        conn,
        tenant_ids=sorted({line.tenant_id for line in lines}),
        tasks=tasks,
        labels=json.dumps(dict(sitting.capacity.labels)),
        free=json.dumps(dict(sitting.capacity.free)),
        limit=MOST_FITTING,
    )
    if not fitting:
        return
    await _hold(conn, sitting, {(each.tenant_id, each.task) for each in fitting})
    held = [each for each in fitting if (each.tenant_id, each.task) in sitting.limits]
    required = [requirements_from_json(json.loads(each.requires)) for each in held]
    most = max(1, min(limit, MOST_OFFERED_FITTING // max(1, len(held))))
    await store.offer_fitting(
        conn,
        **store.columns([(each.tenant_id, each.task) for each in held]),
        rooms=[most_at_once(each, sitting.capacity.free, most=most) for each in required],
        queues=sorted({line.queue for line in lines}),
    )


async def _hold(conn: Connection, sitting: Sitting, wanted: Iterable[TaskKey]) -> None:
    """Lock the limits of these tasks; those that would have to be waited for out of order only if they are free."""
    new = sorted(set(wanted) - sitting.limits.keys())
    last = max(sitting.limits, default=None)
    ahead = [key for key in new if not sitting.is_second and (last is None or key > last)]
    behind = [key for key in new if key not in ahead]
    found = await store.lock_free_limits(conn, **store.columns(behind)) if behind else []
    found += await store.lock_limits(conn, **store.columns(ahead)) if ahead else []
    for limit in found:
        sitting.limits[limit.key] = limit
        if limit.adopts_until is not None:
            await _adopt(conn, sitting, limit)


async def _adopt(conn: Connection, sitting: Sitting, limit: TaskLimit) -> None:
    """Have leases that were claimed before the limit was set say what they count for."""
    mine: dict[str, Any] = {"tenant_id": limit.tenant_id, "task": limit.task}
    await store.adopt_leases(conn, **mine, prefix=limit.prefix)
    hidden = await store.count_unadopted(conn, **mine, prefix=limit.prefix)
    sitting.hidden[limit.key] = hidden
    if not hidden and limit.adopts_until is not None and sitting.now > limit.adopts_until:
        await store.end_adoption(conn, **mine)


async def _decide(
    conn: Connection, sitting: Sitting, rows: Sequence[CandidateRow], quotas: dict[LaneKey, int], *, need: int
) -> None:
    limited = [row for row in rows if row.limit_key is not None]
    await _hold(conn, sitting, {_task(row) for row in limited})
    await _count(conn, sitting, limited)
    sitting.passed += [row.run_id for row in rows]
    current = [row for row in rows if row.limit_key is None or _is_current(sitting, row)]
    sure = [row for row in current if fits(_required(row), sitting.capacity)]
    unfit = {row.run_id for row in current} - {row.run_id for row in sure}
    sitting.parked += [(row, Resource.FIT) for row in current if row.run_id in unfit]
    decided = decide(
        [
            Candidate(
                task=_task(row),
                lane=(row.tenant_id, row.queue),
                key=row.limit_key or None,
                needs=_required(row).resources,
            )
            for row in sure
        ],
        limit=need,
        lanes=quotas,
        tasks=sitting.rooms,
        keys=sitting.key_rooms,
        free=sitting.free,
    )
    _note(sitting, [row for row in rows if row.run_id not in unfit], sure, decided)


def _note(sitting: Sitting, rows: Sequence[CandidateRow], sure: Sequence[CandidateRow], decided: Decided) -> None:
    sitting.taken += [sure[index] for index in decided.taken]
    sitting.parked += [(sure[index], resource) for index, resource in decided.parked]
    settled = {sure[index].run_id for index in (*decided.taken, *(index for index, _ in decided.parked))}
    # Whoever came by meanwhile has passed them over.
    sitting.left |= {(row.tenant_id, row.queue) for row in rows if row.run_id not in settled}


def _is_current(sitting: Sitting, row: CandidateRow) -> bool:
    """Say whether the limits of a run's task are held, and make keys as they did when its key was read."""
    limit = sitting.limits.get(_task(row))
    return limit is not None and row.limit_key is not None and row.limit_key.startswith(limit.prefix)


async def _count(conn: Connection, sitting: Sitting, rows: Sequence[CandidateRow]) -> None:
    """Count what is in flight of the tasks and keys of these runs that were not counted yet."""
    tasks = [key for key in sitting.limits if key not in sitting.rooms]
    keyed = sorted({(_task(row), row.limit_key) for row in rows if row.limit_key and _is_current(sitting, row)})
    keys = [each for each in keyed if each not in sitting.key_rooms]
    counted = [key for key in tasks if sitting.limits[key].max_in_flight is not None]
    counted_keys = [each for each in keys if sitting.limits[each[0]].key_max_in_flight is not None]
    loads: dict[tuple[TaskKey, str | None], int] = {}
    if counted or counted_keys:
        found = await store.count_in_flight(
            conn,
            **store.columns([*counted, *(key for key, _ in counted_keys)]),
            limit_keys=[*(None for _ in counted), *(limit_key for _, limit_key in counted_keys)],
            with_offered=False,
        )
        loads = {((each.tenant_id, each.task), each.limit_key): each.in_flight for each in found}
    await _read_key_rates(conn, sitting, keys)
    for key in tasks:
        limit, hidden = sitting.limits[key], sitting.hidden.get(key, 0)
        places = limit.max_in_flight and limit.max_in_flight - loads[key, None] - hidden
        tokens = limit.rate and limit.rate.left(limit.rate_full_at, sitting.now)
        sitting.rooms[key] = Room(places=places, tokens=tokens)
    for each in keys:
        limit, hidden = sitting.limits[each[0]], sitting.hidden.get(each[0], 0)
        places = limit.key_max_in_flight and limit.key_max_in_flight - loads[each] - hidden
        tokens = limit.key_rate and limit.key_rate.left(sitting.full_ats.get(each), sitting.now)
        sitting.key_rooms[each] = Room(places=places, tokens=tokens)


async def _read_key_rates(conn: Connection, sitting: Sitting, keys: Sequence[KeyOfTask]) -> None:
    if rated := [each for each in keys if sitting.limits[each[0]].key_rate is not None]:
        buckets = await store.read_key_rates(
            conn, **store.columns([key for key, _ in rated]), limit_keys=[limit_key for _, limit_key in rated]
        )
        for each in buckets:
            sitting.full_ats[(each.tenant_id, each.task), each.limit_key] = each.full_at


async def _write(conn: Connection, sitting: Sitting) -> None:
    """Park what is in the way, and take the tokens of what goes."""
    await charge_lines(conn, sitting)
    rated = await _charge(conn, sitting)
    if sitting.parked:
        await store.park_runs(
            conn,
            places=[row.place for row, _ in sitting.parked],
            resources=[_group(row, resource) for row, resource in sitting.parked],
            now=sitting.now,
        )
    if unfit := sorted({_task(row) for row, resource in sitting.parked if resource is Resource.FIT}):
        await store.mark_unfit(conn, **store.columns(unfit), has_unfit=[True for _ in unfit])
    still = {key for key in rated if sitting.limits[key].release_at is not None}
    parked = sorted({_task(row) for row, _ in sitting.parked} | still)
    if not parked:
        return
    release_ats = _release_ats(sitting, still)
    await store.mark_parked(
        conn,
        **store.columns(parked),
        has_parked=[True for _ in parked],
        release_ats=[release_ats.get(key) for key in parked],
    )
    for key in parked:
        sitting.limits[key] = replace(sitting.limits[key], has_parked=True, release_at=release_ats.get(key))


def _group(row: CandidateRow, resource: Resource) -> str:
    return f"{resource}:{row.limit_key}" if resource in {Resource.KEY, Resource.KEY_RATE} else resource.value


def _release_ats(sitting: Sitting, still: Iterable[TaskKey]) -> dict[TaskKey, datetime]:
    """When the next token is there for the runs that wait for one, as far as that is known; of `still` some waited."""
    found: dict[TaskKey, datetime] = {}
    for key in still:
        if (rate := sitting.limits[key].rate) is not None:
            found[key] = rate.next_at(sitting.limits[key].rate_full_at, sitting.now)
    for row, resource in sitting.parked:
        key = _task(row)
        limit = sitting.limits[key]
        at = None if key in found else limit.release_at
        if resource is Resource.RATE and limit.rate is not None:
            at = limit.rate.next_at(limit.rate_full_at, sitting.now)
        elif resource is Resource.KEY_RATE and limit.key_rate is not None:
            at = limit.key_rate.next_at(sitting.full_ats.get((key, row.limit_key or "")), sitting.now)
        if at is not None:
            found[key] = min(at, found.get(key, at))
    return found


async def _charge(conn: Connection, sitting: Sitting) -> set[TaskKey]:
    """Take the tokens; return the tasks whose own buckets they were taken from."""
    taken: dict[TaskKey, int] = Counter(_task(row) for row in sitting.taken)
    rated: dict[TaskKey, datetime] = {}
    for key, count in taken.items():
        limit = sitting.limits.get(key)
        if limit is not None and limit.rate is not None:
            rated[key] = limit.rate.taken(limit.rate_full_at, sitting.now, count)
            sitting.limits[key] = replace(limit, rate_full_at=rated[key])
    if rated:
        keys = sorted(rated)
        await store.charge_rates(conn, **store.columns(keys), full_ats=[rated[key] for key in keys])
    by_key = Counter((_task(row), row.limit_key) for row in sitting.taken if row.limit_key)
    charged: dict[KeyOfTask, datetime] = {}
    for (key, limit_key), count in by_key.items():
        rate = sitting.limits[key].key_rate
        if rate is not None:
            charged[key, limit_key] = rate.taken(sitting.full_ats.get((key, limit_key)), sitting.now, count)
    if charged:
        sitting.full_ats |= charged
        each = sorted(charged)
        await store.charge_key_rates(
            conn,
            **store.columns([key for key, _ in each]),
            limit_keys=[limit_key for _, limit_key in each],
            full_ats=[charged[one] for one in each],
        )
    return set(rated)


def _required(row: CandidateRow) -> Requirements:
    return _read_requirements(row.requires) if row.requires is not None else NO_REQUIREMENTS


@functools.lru_cache(maxsize=4096)
def _read_requirements(text: str) -> Requirements:
    return requirements_from_json(json.loads(text))


def _task(row: CandidateRow) -> TaskKey:
    return row.tenant_id, row.task
