"""Letting parked runs go: when an attempt ends, limits change, a token is there, or all else was lost.

What ends and what changes in a transaction is gathered in its `Ledger`, and settled right before the commit, so that
the rows of limits are the last that it waits for, in the order of their key (see service.py).

A look counts and offers; it remembers nothing. So it can be taken any number of times: what is offered already counts
as used. A look that finds room left over goes on to other keys of the task, a few at a time, beginning somewhere else
each time; so no key is forgotten for long.

The backstop looks at each task of which runs are parked, a few every second, whether or not anything happened: offers
that were cancelled or expired before anybody claimed them leave room that nobody else would find. It also lifts what
is over: the limits of a task that has none any more and of which nothing is parked, and buckets that are full.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.claim_limits import store
from everwhen.claim_limits.fencing import fence
from everwhen.claim_limits.model import Load, TaskKey, TaskLimit
from everwhen.core.claim_limits import Resource, Room, budget
from everwhen.postgres.pool import Connection, Database
from everwhen.postgres.wakeups import line_topic, notify

ADOPTION: Final = timedelta(minutes=2)
"""For how long leases may come to light of a claim that began before a change: no transaction is longer."""

MOST_GROUPS: Final = 20
"""How many keys of one task one look goes through that nothing has happened to."""

SOON: Final = timedelta(seconds=1)
"""When to look again at tokens that are offered and not taken."""

_LEDGER: Final = "limits"
_KEYS: Final = f"{Resource.KEY}:", f"{Resource.KEY_RATE}:"


Counted = tuple[TaskKey, str | None]
"""A key of a task, or all of it."""


@dataclass(slots=True)
class Ledger:
    """What a transaction has freed of limits, by task the keys; and the tasks whose limits it has changed."""

    freed: dict[TaskKey, set[str]] = field(default_factory=dict[TaskKey, set[str]])
    changed: set[TaskKey] = field(default_factory=set[TaskKey])

    async def do(self, conn: Connection) -> None:
        """Settle it; the commit follows."""
        if self.changed:
            await _save(conn, sorted(self.changed))
        keys = sorted(self.changed | self.freed.keys())
        limits = [limit for limit in await store.lock_limits(conn, **store.columns(keys)) if limit.has_parked]
        if limits:
            await let_go(conn, limits, freed=self.freed, now=conn.now)


def free(conn: Connection, key: TaskKey, limit_key: str) -> None:
    """Note that an attempt of this task has ended, in the caller's transaction."""
    _ledger(conn).freed.setdefault(key, set()).add(limit_key)


def change(conn: Connection, key: TaskKey) -> None:
    """Note that the limits of this task, or its queue, have changed in the caller's transaction."""
    _ledger(conn).changed.add(key)


def _ledger(conn: Connection) -> Ledger:
    found = conn.last.get(_LEDGER)
    if not isinstance(found, Ledger):
        found = conn.last[_LEDGER] = Ledger()
    return found


async def _save(conn: Connection, keys: Sequence[TaskKey]) -> None:
    each = store.columns(keys)
    tenant_ids = {tenant for tenant, _ in keys}
    for tenant_id in sorted(tenant_ids):
        await fence(conn, tenant_id)
    lanes = await store.lock_lanes(conn, **each)
    await store.save_limits(
        conn,
        tenant_ids=tenant_ids,
        tasks={task for _, task in keys},
        version=int(conn.now.timestamp()),
        adopts_until=conn.now + ADOPTION,
    )
    await store.forget_limits(conn, **each)
    await store.mark_lanes(conn, tenant_ids=tenant_ids, queues={lane.queue for lane in lanes})


@dataclass(slots=True)
class _Offer:
    """How many runs of a task to let go that were parked for one resource."""

    key: TaskKey
    resource: str
    room: int


async def let_go(
    conn: Connection,
    limits: Sequence[TaskLimit],
    *,
    freed: Mapping[TaskKey, set[str]] | None = None,
    now: datetime,
    is_thorough: bool = False,
) -> int:
    """Offer parked runs of these tasks, which the caller holds, as many as there is room for; return how many.

    `freed` are keys of which something has ended. `is_thorough`: note as well what is not parked any more.
    """
    keys = {(limit.key, each) for limit in limits for each in (freed or {}).get(limit.key, ()) if each}
    loads = await _loads(conn, [(limit.key, None) for limit in limits] + sorted(keys))
    tokens = await _key_tokens(conn, limits, sorted(keys), now=now)
    budgets: dict[TaskKey, int] = {}
    offers: list[_Offer] = []
    for limit in limits:
        load = loads[limit.key, None]
        left = budgets[limit.key] = budget(_room(limit, load, now=now), offered=load.offered)
        offers += [_Offer(limit.key, each.value, left) for each in (Resource.TASK, Resource.RATE)]
        if limit.requires is None:  # nor does it require anything of a worker any more
            offers.append(_Offer(limit.key, Resource.FIT.value, left))
        for key, limit_key in keys:
            if key == limit.key:
                offers += _of_key(
                    limit, limit_key, loads[key, limit_key], tokens=tokens.get((key, limit_key)), most=left
                )
    offered = await _offer(conn, offers, now=now)
    for limit in limits:
        left = budgets[limit.key] - offered.get(limit.key, 0)
        if left > 0:
            offered[limit.key] = offered.get(limit.key, 0) + await _offer_others(conn, limit, left, now=now)
    await _mark(conn, limits, now=now, is_thorough=is_thorough)
    return sum(offered.values())


def _room(limit: TaskLimit, load: Load, *, now: datetime) -> Room:
    return Room(
        places=None if limit.max_in_flight is None else limit.max_in_flight - load.in_flight,
        tokens=None if limit.rate is None else limit.rate.left(limit.rate_full_at, now),
    )


def _of_key(limit: TaskLimit, limit_key: str, load: Load, *, tokens: int | None, most: int) -> list[_Offer]:
    """Offer what is parked for a key; for one that the task does not make any more, all that its task has room for."""
    room = Room()
    if limit.has_keys and limit_key.startswith(limit.prefix):
        places = None if limit.key_max_in_flight is None else limit.key_max_in_flight - load.in_flight
        room = Room(places=places, tokens=tokens)
    most = min(most, budget(room, offered=load.offered))
    return [_Offer(limit.key, f"{kind}{limit_key}", most) for kind in _KEYS]


async def _loads(
    conn: Connection, keys: Sequence[tuple[TaskKey, str | None]]
) -> dict[tuple[TaskKey, str | None], Load]:
    found = await store.count_in_flight(
        conn,
        **store.columns([key for key, _ in keys]),
        limit_keys=[limit_key for _, limit_key in keys],
        with_offered=True,
    )
    return {((load.tenant_id, load.task), load.limit_key): load for load in found}


async def _key_tokens(
    conn: Connection, limits: Sequence[TaskLimit], keys: Sequence[tuple[TaskKey, str]], *, now: datetime
) -> dict[tuple[TaskKey, str], int]:
    """Return how many tokens these keys have, of the tasks that limit by them."""
    rates = {limit.key: limit.key_rate for limit in limits}
    asked = [each for each in keys if rates[each[0]] is not None]
    if not asked:
        return {}
    buckets = await store.read_key_rates(
        conn, **store.columns([key for key, _ in asked]), limit_keys=[limit_key for _, limit_key in asked]
    )
    full_ats = {((each.tenant_id, each.task), each.limit_key): each.full_at for each in buckets}
    return {each: rate.left(full_ats.get(each), now) for each in asked if (rate := rates[each[0]]) is not None}


async def _offer(conn: Connection, offers: Sequence[_Offer], *, now: datetime) -> dict[TaskKey, int]:
    worth = [offer for offer in offers if offer.room > 0]
    if not worth:
        return {}
    found = await store.offer_runs(
        conn,
        **store.columns([offer.key for offer in worth]),
        resources=[offer.resource for offer in worth],
        rooms=[offer.room for offer in worth],
        now=now,
    )
    await notify(conn, (line_topic(run.tenant_id, run.queue) for run in found))
    offered: dict[TaskKey, int] = {}
    for run in found:
        offered[run.tenant_id, run.task] = offered.get((run.tenant_id, run.task), 0) + 1
    return offered


async def _offer_others(conn: Connection, limit: TaskLimit, left: int, *, now: datetime) -> int:
    """Offer runs that wait for a key of which nothing was heard, where their task has room."""
    groups = await _some_groups(conn, limit, now=now)
    keys = sorted({(limit.key, group.partition(":")[2]) for group in groups})
    if not keys:
        return 0
    loads = await _loads(conn, keys)
    tokens = await _key_tokens(conn, [limit], keys, now=now)
    offers = [
        offer
        for key, limit_key in keys
        for offer in _of_key(limit, limit_key, loads[key, limit_key], tokens=tokens.get((key, limit_key)), most=left)
        if offer.resource in groups
    ]
    return sum((await _offer(conn, offers, now=now)).values())


async def _some_groups(conn: Connection, limit: TaskLimit, *, now: datetime) -> list[str]:
    """Return a few of the keys that runs are parked for, beginning at some place or other."""
    start = hashlib.blake2s(now.isoformat().encode(), digest_size=4).hexdigest()
    found: list[str] = []
    for kind in _KEYS:
        for after in (f"{kind}{limit.prefix}{start}", kind):
            listed = await store.list_groups(
                conn, tenant_id=limit.tenant_id, task=limit.task, after=after, limit=MOST_GROUPS
            )
            found += [each for each in listed if each.startswith(kind) and each not in found]
            if len(found) >= MOST_GROUPS:
                return found
    return found


async def _mark(conn: Connection, limits: Sequence[TaskLimit], *, now: datetime, is_thorough: bool) -> None:
    """Note when the next token is there, and what is not parked any more."""
    looked = [
        each
        for each in limits
        if is_thorough
        or (each.release_at is not None and each.release_at <= now)
        # What was parked for a place finds one, and no token: nobody else would look when there is one.
        or (each.release_at is None and each.rate is not None and each.rate.left(each.rate_full_at, now) == 0)
    ]
    if not looked:
        return
    parked = {each.key: await _parked_kinds(conn, each) for each in looked}
    await store.mark_unfit(
        conn,
        **store.columns([each.key for each in looked]),
        has_unfit=[Resource.FIT in parked[each.key] for each in looked],
    )
    await store.mark_parked(
        conn,
        **store.columns([each.key for each in looked]),
        has_parked=[bool(parked[each.key]) for each in looked],
        release_ats=[_release_at(each, parked[each.key], now=now) for each in looked],
    )


async def _parked_kinds(conn: Connection, limit: TaskLimit) -> set[Resource]:
    """Return for what runs of a task are parked."""
    found: set[Resource] = set()
    for kind in Resource:
        listed = await store.list_groups(conn, tenant_id=limit.tenant_id, task=limit.task, after=_before(kind), limit=1)
        if any(each == kind or each.startswith(f"{kind}:") for each in listed):
            found.add(kind)
    return found


def _before(kind: Resource) -> str:
    """Return what comes right before the groups of this kind."""
    return f"{kind}:" if kind in {Resource.KEY, Resource.KEY_RATE} else kind.value[:-1]


def _release_at(limit: TaskLimit, parked: set[Resource], *, now: datetime) -> datetime | None:
    if parked & {Resource.RATE, Resource.TASK} and limit.rate is not None:
        at = limit.rate.next_at(limit.rate_full_at, now)
        return at if at > now else now + SOON
    if Resource.KEY_RATE in parked and limit.key_rate is not None:
        return now + min(SOON, timedelta(seconds=limit.key_rate.interval))
    return None


@dataclass(slots=True)
class Backstop:
    """Looks at the tasks of which runs are parked, some of them each time, whatever was lost."""

    database: Database
    batch: int = 100
    after: TaskKey = (UUID(int=0), "")

    async def look(self, now: datetime) -> int:
        """Offer what there is room for; return how many runs."""
        async with self.database.system() as conn:
            after_tenant_id, after_task = self.after
            limits = await store.lock_parked_limits(
                conn, after_tenant_id=after_tenant_id, after_task=after_task, limit=self.batch
            )
            self.after = limits[-1].key if len(limits) == self.batch else (UUID(int=0), "")
            offered = await let_go(conn, limits, now=now, is_thorough=True) if limits else 0
            over = [limit for limit in limits if limit.is_over]
            if over:
                await store.forget_limits(conn, **store.columns([limit.key for limit in over]))
            await store.sweep_key_rates(conn, before=now, limit=self.batch)
        for limit in over:  # in transactions of their own: lines are locked before limits, and one at a time
            async with self.database.system() as conn:
                await store.mark_lanes(conn, tenant_ids={limit.tenant_id}, queues={limit.queue})
        return offered
