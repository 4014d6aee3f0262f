"""Fifty workers at one limited task, while its limit is changed; and a witness of its own connection who looks on.

The witness reads what was committed, in two ways. In one snapshot: how many leases there are, and what the limit is.
And with the row of the limits locked, so that nobody is half-way: whether a run is parked while there is room for it.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg

from everwhen.postgres.pool import Database
from everwhen.queues import service as queues
from everwhen.queues.model import QueueDraft
from everwhen.tasks import service as tasks
from tests.dispatch.scene import Line, report_on
from tests.limits.scene import set_limits

T = TypeVar("T")

SNAPSHOT = """
    select t.max_in_flight,
           (select count(*) from everwhen.leases l where l.tenant_id = t.tenant_id and l.task = t.name),
           (select count(*) from everwhen.waiting w where w.tenant_id = t.tenant_id and w.task = t.name)
    from everwhen.tasks t where t.tenant_id = %s and t.name = 'report'
"""
LOCK = "select max_in_flight from everwhen.task_limits where tenant_id = %s and task = 'report' for update"
ROOM = """
    select (select count(*) from everwhen.leases l where l.tenant_id = %(t)s and l.task = 'report'),
           (select count(*) from everwhen.waiting w
            where w.tenant_id = %(t)s and w.task = 'report' and w.limit_group like 'offered %%'),
           (select count(*) from everwhen.waiting w
            where w.tenant_id = %(t)s and w.task = 'report' and w.limit_group like 'parked %%')
"""


class Dice:
    """Numbers that only depend on the seed."""

    def __init__(self, seed: str) -> None:
        self._seed, self._thrown = seed, 0

    def throw(self) -> float:
        self._thrown += 1
        digest = hashlib.blake2b(f"{self._seed}/{self._thrown}".encode(), digest_size=6).digest()
        return int.from_bytes(digest) / 2**48

    def choose(self, among: Sequence[T]) -> T:
        return among[int(self.throw() * len(among))]


@dataclass
class Seen:
    """What the witness has seen: how often it looked, and what must not be."""

    looks: int = 0
    below: int = 0
    most: int = 0
    done: int = 0
    over: list[str] = field(default_factory=list[str])
    idle: list[str] = field(default_factory=list[str])


async def worker(line: Line, seen: Seen, over: asyncio.Event, dice: Dice) -> None:
    """Claim a few, hold them for a moment, report; again, until it is over."""
    while not over.is_set():
        leases = await line.claim(limit=dice.choose((1, 1, 2, 5)))
        await asyncio.sleep(dice.throw() * (0.02 if leases else 0.2))
        if leases:
            await line.complete(
                *(report_on(lease, "failed" if dice.throw() < 0.1 else "succeeded") for lease in leases)
            )
            seen.done += len(leases)


async def changer(line: Line, over: asyncio.Event, dice: Dice, limits: tuple[int, ...]) -> None:
    """Set another limit now and then."""
    while not over.is_set():
        await asyncio.sleep(0.1 + dice.throw() * 0.2)
        changes = {"max_in_flight": dice.choose(limits)}
        await tasks.update_task(line.db, tenant_id=line.tenant.id, name="report", changes=changes)


async def witness(
    conn: psycopg.AsyncConnection[Any], line: Line, seen: Seen, *, over: asyncio.Event, until: Callable[[Seen], bool]
) -> None:
    """Look, all the time, with a connection that bypasses the product, until enough is seen."""
    limit_before, before = 0, 0
    while not until(seen):
        limit, in_flight, waiting = await (await conn.execute(SNAPSHOT, [line.tenant.id])).fetchone()  # type: ignore[misc]
        seen.looks += 1
        seen.below += in_flight < limit and waiting > 0
        seen.most = max(seen.most, in_flight)
        # Above the limit is what was there when it was lowered; nothing is added to that.
        if in_flight > limit and (limit == limit_before and in_flight > max(before, limit)):
            seen.over.append(f"{in_flight} in flight by a limit of {limit}, {before} before")
        limit_before, before = limit, in_flight
        await _look_for_room(conn, line, seen)
        await asyncio.sleep(0.002)
    over.set()


async def _look_for_room(conn: psycopg.AsyncConnection[Any], line: Line, seen: Seen) -> None:
    async with conn.transaction():
        (limit,) = await (await conn.execute(LOCK, [line.tenant.id])).fetchone()  # type: ignore[misc]
        cursor = await conn.execute(ROOM, {"t": line.tenant.id})
        in_flight, offered, parked = await cursor.fetchone()  # type: ignore[misc]
        if parked and in_flight + offered < limit:
            seen.idle.append(f"{parked} parked, with {in_flight} in flight and {offered} offered by a limit of {limit}")


async def crowd(
    line: Line,
    conn: psycopg.AsyncConnection[Any],
    *,
    workers: int,
    until: Callable[[Seen], bool],
    seed: int,
    limits: tuple[int, ...] = (10,),
) -> Seen:
    """Have so many workers at it until the witness has seen enough; return what it has seen."""
    seen, over = Seen(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(worker(line, seen, over, Dice(f"{seed}/{number}")))
        if len(limits) > 1:
            group.create_task(changer(line, over, Dice(str(seed)), limits))
        group.create_task(witness(conn, line, seen, over=over, until=until))
    return seen


QUEUES = ("line", "elsewhere")
OF_TENANT = """
    select t.in_flight,
           (select count(*) from everwhen.leases l where l.tenant_id = t.tenant_id),
           (select count(*) from everwhen.leases l where l.tenant_id = t.tenant_id and l.task = 'report'),
           (select max_in_flight from everwhen.tasks k where k.tenant_id = t.tenant_id and k.name = 'report'),
           (select count(*) from everwhen.waiting w where w.tenant_id = t.tenant_id)
    from everwhen.tenant_limits t where t.tenant_id = %s
"""


async def roamer(line: Line, seen: Seen, over: asyncio.Event, dice: Dice) -> None:
    """Claim a few at one queue or both, as the tenant's worker or the platform's; hold them, report; again."""
    while not over.is_set():
        at = dice.choose((QUEUES, QUEUES[:1], QUEUES[1:], QUEUES[::-1]))
        owner = None if dice.throw() < 0.3 else line.tenant.id
        leases = await line.claim(limit=dice.choose((1, 1, 2, 5)), queues=at, tenant_id=owner)
        await asyncio.sleep(dice.throw() * (0.02 if leases else 0.2))
        if leases:
            await line.complete(
                *(report_on(lease, "failed" if dice.throw() < 0.1 else "succeeded") for lease in leases)
            )
            seen.done += len(leases)


async def changer_of_all(line: Line, over: asyncio.Event, dice: Dice, limits: tuple[int, ...]) -> None:
    """Set another limit now and then: the tenant's, the task's, or the other queue's; that one comes and goes."""
    while not over.is_set():
        await asyncio.sleep(0.05 + dice.throw() * 0.15)
        kind, limit = dice.throw(), dice.choose(limits)
        if kind < 0.4:
            await set_limits(line.db, line.tenant, in_flight=limit)
        elif kind < 0.7:
            changes = {"max_in_flight": dice.choose((4, 6, 8))}
            await tasks.update_task(line.db, tenant_id=line.tenant.id, name="report", changes=changes)
        else:
            draft = QueueDraft(max_in_flight=dice.choose((None, 3, 7)))
            await queues.replace_queue(line.db, tenant_id=line.tenant.id, name="elsewhere", draft=draft)


class _Watched:
    """A number that may only fall while it is above its limit."""

    def __init__(self, name: str, seen: Seen) -> None:
        self._name, self._seen = name, seen
        self._limit, self._before = 0, 0

    def look(self, limit: int, in_flight: int) -> None:
        if in_flight > limit and limit == self._limit and in_flight > max(self._before, limit):
            self._seen.over.append(f"{self._name}: {in_flight} by a limit of {limit}, {self._before} before")
        self._limit, self._before = limit, in_flight


async def witness_of_tenant(
    conn: psycopg.AsyncConnection[Any], line: Line, seen: Seen, *, over: asyncio.Event, until: Callable[[Seen], bool]
) -> None:
    """Look, all the time, at what the tenant and its task have in flight, in one snapshot with their limits."""
    tenant, task = _Watched("tenant", seen), _Watched("task", seen)
    while not until(seen):
        cursor = await conn.execute(OF_TENANT, [line.tenant.id])
        limit, in_flight, of_task, task_limit, waiting = await cursor.fetchone()  # type: ignore[misc]
        seen.looks += 1
        seen.below += in_flight < limit and waiting > 0
        seen.most = max(seen.most, in_flight)
        tenant.look(limit, in_flight)
        task.look(task_limit, of_task)
        await asyncio.sleep(0.002)
    over.set()


async def crowd_of_tenant(
    line: Line,
    conn: psycopg.AsyncConnection[Any],
    *,
    workers: int,
    until: Callable[[Seen], bool],
    seed: int,
    limits: tuple[int, ...] = (10,),
) -> Seen:
    """Have workers at both queues of a tenant, with all kinds of limits, until the witness has seen enough."""
    seen, over = Seen(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(roamer(line, seen, over, Dice(f"{seed}/{number}")))
        if len(limits) > 1:
            group.create_task(changer_of_all(line, over, Dice(str(seed)), limits))
        group.create_task(witness_of_tenant(conn, line, seen, over=over, until=until))
    return seen


async def deadlocks(db: Database) -> int:
    """How many the server has counted in this database."""
    async with db.system() as conn:
        cursor = await conn.execute("select deadlocks from pg_stat_database where datname = current_database()")
        (count,) = await cursor.fetchone()  # type: ignore[misc]
    return count
