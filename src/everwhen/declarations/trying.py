"""Does all that documents come to, in one transaction that its caller undoes.

1. What is there is read, and compared with what is declared. What is the same is done with.
2. The schedules that differ are locked, in the order of the key, before anything else is: whoever changes a schedule
   locks it before its calendars, and two that lock in different orders wait for each other.
3. Each thing that differs is put, each that is absent is deleted, in the order of dependency and each behind a
   savepoint. What is refused is refused as the real change would be; the others are tried all the same.
4. The timings of all schedules concerned, read before, are read once more.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final
from uuid import UUID

from everwhen.calendars.service import users_of
from everwhen.core.errors import TriggerError
from everwhen.core.triggers import Timing
from everwhen.declarations.deciding import KINDS, Drafted, backwards, decide, in_order, leave, refuse
from everwhen.declarations.kinds.schedules import timings_of
from everwhen.declarations.model import Action, Fate, Key, Kind, Present, Timings, Wish
from everwhen.errors import EverwhenError
from everwhen.postgres.pool import Connection, Database
from everwhen.schedules.model import ScheduleState
from everwhen.schedules.replacing import find_schedules, lock_schedules

MOST_USERS: Final = 500
"""How many schedules that use changed calendars are looked at, beside those that change themselves."""

_PUT: Final = frozenset({Action.CREATE, Action.UPDATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where everything is tried: a transaction, as a database of use-cases and as a connection."""

    whole: Database
    conn: Connection
    tenant_id: UUID


async def try_all(scene: Scene, drafts: Sequence[Drafted], wish: Wish) -> list[Fate]:
    """Try everything; return what becomes of each, in the order in which it can be carried out."""
    there = await _present(scene, [*(each.fate.key for each in drafts), *wish.absent])
    for each in drafts:
        decide(each, there.get(each.fate.key), wish)
    absent = [leave(key, there.get(key), wish) for key in wish.absent]
    puts = in_order(each for each in drafts if each.fate.action in _PUT)
    last = max((each.fate.step for each in puts), default=-1)
    deletes = backwards((fate for fate in absent if fate.action is Action.DELETE), after=last)
    changing = [*(each.fate for each in puts), *deletes]
    others = [fate for fate in chain((each.fate for each in drafts), absent) if fate not in changing]
    await _change(scene, puts, deletes)
    return [*changing, *others]


async def _change(scene: Scene, puts: Sequence[Drafted], deletes: Sequence[Fate]) -> None:
    changing = [*(each.fate for each in puts), *deletes]
    schedules = [fate for fate in changing if fate.kind is Kind.SCHEDULE]
    uids = [fate.present.row.uid for fate in schedules if fate.present is not None]
    if uids:
        await lock_schedules(scene.conn, tenant_id=scene.tenant_id, uids=uids)
    users = await _users(scene, changing)
    names = [*(fate.name for fate in schedules), *chain.from_iterable(users.values())]
    before = await _timings(scene, names)
    for fate, draft in puts:
        await _try(scene, fate, KINDS[fate.kind].put(scene.whole, scene.tenant_id, draft, present=fate.present))
    for fate in deletes:
        assert fate.present is not None
        await _try(scene, fate, KINDS[fate.kind].delete(scene.whole, scene.tenant_id, fate.present))
    after = await _timings(scene, names)
    for fate in changing:
        own = [fate.name] if fate.kind is Kind.SCHEDULE else users.get(fate.name, ())
        fate.timings = [Timings(before=before.at.get(name), after=after.at.get(name)) for name in own]
        fate.is_paused = fate.kind is Kind.SCHEDULE and fate.name in (before.paused | after.paused)


async def _try(scene: Scene, fate: Fate, change: Awaitable[None]) -> None:
    try:
        async with scene.conn.transaction():
            await change
    except (EverwhenError, TriggerError) as error:
        refuse(fate, error)


async def _present(scene: Scene, keys: Iterable[Key]) -> dict[Key, Present]:
    names: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for kind, name in keys:
        names[kind].append(name)
    found: dict[Key, Present] = {}
    for kind, wanted in names.items():
        if wanted:
            there = await KINDS[kind].named(scene.conn, scene.tenant_id, sorted(set(wanted)))
            found |= {(kind, each.name): each for each in there}
    return found


async def _users(scene: Scene, changing: Sequence[Fate]) -> dict[str, list[str]]:
    """Return which schedules, beside those that change themselves, each changed calendar concerns; each one once."""
    known = {fate.name for fate in changing if fate.kind is Kind.SCHEDULE}
    found: dict[str, list[str]] = {}
    for fate in changing:
        if fate.kind is Kind.CALENDAR and fate.present is not None and len(known) < MOST_USERS:
            most = MOST_USERS + len(known)
            users = await users_of(scene.conn, tenant_id=scene.tenant_id, name=fate.name, limit=most)
            own = found[fate.name] = [name for name in users if name not in known][:MOST_USERS]
            fate.users = len(own)
            known.update(own)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """When schedules fire, by their names, and which of them are paused."""

    at: Mapping[str, Timing]
    paused: frozenset[str]


async def _timings(scene: Scene, names: Sequence[str]) -> _Timed:
    rows = await find_schedules(scene.conn, tenant_id=scene.tenant_id, names=sorted(set(names))) if names else []
    return _Timed(
        at=await timings_of(scene.conn, scene.tenant_id, rows),
        paused=frozenset(row.name for row in rows if row.state == ScheduleState.PAUSED),
    )
