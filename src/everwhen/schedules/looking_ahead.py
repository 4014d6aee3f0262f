"""Use-cases that look ahead: the forecast, its smoothing, neighbours in a minute, and a change that is only tried out.

All of them are bounded: at most MOST_SCHEDULES schedules are read, in pages, and what the core counts has its budget.
The work is done off the event loop, so that nobody else waits for it. Nothing here writes, but for `apply_smoothing`.
"""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn
from uuid import UUID

from everwhen.core.ahead import Frequency, Touch, fires_a_year, touches
from everwhen.core.calendar_use import Book
from everwhen.core.compare import Comparison, compare
from everwhen.core.errors import TriggerError
from everwhen.core.explain import explain
from everwhen.core.flex import Flex, FlexMode, due_after
from everwhen.core.forecast import Forecast, Item, Smoothing, forecast, smooth
from everwhen.core.triggers import Occurrence, Timing, calendar_names, next_after, occurrences
from everwhen.core.zones import LAST_INSTANT, add
from everwhen.errors import Conflict, NotFound
from everwhen.postgres.pool import Database
from everwhen.schedules import service, store
from everwhen.schedules.arrears.preview import Preview
from everwhen.schedules.binding import books_of
from everwhen.schedules.model import ForecastRow, Spec, bind_spec, parse_spec
from everwhen.schedules.service import Change, Changed

MOST_SCHEDULES: Final = 20_000
PAGE: Final = 1_000
MOST_NEIGHBOURS: Final = 2_000
"""Among how many schedules a preview looks for neighbours."""

SKIPS_BETWEEN_FIRES: Final = 3
"""How many skipped instants a preview shows for each fire, on the average."""

MOST_SMOOTHED: Final = 200
"""How many schedules one request to smooth changes."""

MOST_COMPARED: Final = 10
"""For how many of its fires a preview looks for neighbours."""

TWO_YEARS: Final = timedelta(days=731)

_MINUTE: Final = timedelta(minutes=1)
_TICK: Final = timedelta(microseconds=1)
_NIL: Final = UUID(int=0)
_LAST: Final = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A forecast; `whole` unless there are more schedules than were read."""

    forecast: Forecast
    whole: bool
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothed:
    """What smoothing found. `changed` names the schedules whose offset differs; `more` are left over."""

    smoothing: Smoothing
    changed: Mapping[str, tuple[timedelta | None, timedelta]]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What a change would do; nothing of it was kept."""

    comparison: Comparison
    withdrawn: Sequence[datetime]
    paused: bool
    revision: int
    past: Preview | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """How many of the tenant's schedules fire in the same minute, by instant; `whole` unless there are too many."""

    at: Mapping[datetime, int]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """The next instants of a timing, when each becomes due (None: by a uid to come), and what lies farther ahead."""

    occurrences: Sequence[Occurrence]
    dues: Sequence[datetime | None]
    neighbours: Neighbours
    touches: Sequence[Touch]
    frequency: Frequency
    sentence: str | None


_Bound = tuple[ForecastRow, Book]


class _NothingKept(Exception):  # noqa: N818  # the way out of a transaction that must not commit
    def __init__(self, done: Changed, now: datetime) -> None:
        super().__init__()
        self.done = done
        self.now = now


async def preview(  # what a timing is and who asks
    db: Database, *, tenant_id: UUID, timing: Timing, count: int, flex: Flex | None = None, uid: UUID | None = None
) -> Previewed:
    """Return the next `count` fires from now on, and what a person wants to know about the timing."""
    async with db.tenant(tenant_id) as conn:
        now = conn.now
        timing = await service.bound(conn, tenant_id=tenant_id, timing=timing)
    # A trigger may search centuries for its next fire: off the loop, so that nobody else waits for it.
    found = await asyncio.to_thread(look_ahead, timing, after=now, count=count)
    fires = [each.nominal_at for each in found if each.skipped is None]
    neighbours = await find_neighbours(db, tenant_id=tenant_id, instants=fires[:MOST_COMPARED])
    ahead = await asyncio.to_thread(lambda: list(touches(timing, after=now, until=add(now, TWO_YEARS))))
    frequency = await asyncio.to_thread(fires_a_year, timing, after=now)
    return Previewed(
        occurrences=found,
        dues=_dues(found, timing, flex, uid),
        neighbours=neighbours,
        touches=ahead,
        frequency=frequency,
        sentence=explain(timing.trigger),
    )


def look_ahead(timing: Timing, *, after: datetime, count: int, until: datetime = LAST_INSTANT) -> list[Occurrence]:
    """Return the next `count` fires, with the instants in between that are skipped: what every preview shows."""
    found: list[Occurrence] = []
    for occurrence in occurrences(timing, after=after, until=until, limit=count * SKIPS_BETWEEN_FIRES):
        found.append(occurrence)
        count -= occurrence.skipped is None
        if count == 0:
            break
    return found


async def look(db: Database, *, tenant_id: UUID | None, start: datetime | None, minutes: int) -> Looked:
    """Forecast one tenant, or all of them, from the minute of `start` or of now."""
    now, rows, whole = await read_active(db, tenant_id, most=MOST_SCHEDULES)
    items, unreadable = await asyncio.to_thread(_items, rows)
    found = await asyncio.to_thread(forecast, items, start=_whole_minute(start or now), minutes=minutes)
    return Looked(forecast=found, whole=whole, unreadable=unreadable)


async def try_smoothing(db: Database, *, tenant_id: UUID, start: datetime | None, minutes: int) -> Smoothed:
    """Find offsets for the tenant's schedules that may be smoothed; change nothing."""
    now, rows, _ = await read_active(db, tenant_id, most=MOST_SCHEDULES)
    items, _ = await asyncio.to_thread(_items, rows)
    found = await asyncio.to_thread(smooth, items, start=_whole_minute(start or now), minutes=minutes)
    present = {item.uid: item for item in items}
    changed = {
        present[uid].name: (_offset_of(present[uid].flex), offset)
        for uid, offset in found.offsets.items()
        if _offset_of(present[uid].flex) != offset
    }
    kept = dict(sorted(changed.items())[:MOST_SMOOTHED])
    return Smoothed(smoothing=found, changed=kept, more=len(changed) - len(kept))


async def apply_smoothing(db: Database, smoothed: Smoothed, *, tenant_id: UUID, by: str) -> None:
    """Give the schedules their offsets: a revision each, like any other change. One that went meanwhile is left out."""
    before, after = smoothed.smoothing.before.peak[1], smoothed.smoothing.after.peak[1]
    change = Change(by=by, reason=f"smoothed: the busiest minute goes from {before} to {after} runs")
    for name, (_, offset) in smoothed.changed.items():
        with contextlib.suppress(NotFound, Conflict):
            await service.update_schedule(
                db, tenant_id=tenant_id, name=name, changes=functools.partial(_placed, offset=offset), change=change
            )


async def find_neighbours(db: Database, *, tenant_id: UUID, instants: Sequence[datetime]) -> Neighbours:
    """Count, for each instant, the tenant's active schedules that fire within its minute."""
    _, rows, whole = await read_active(db, tenant_id, most=MOST_NEIGHBOURS)
    items, _ = await asyncio.to_thread(_items, rows)
    return Neighbours(at=await asyncio.to_thread(_count_neighbours, items, instants), whole=whole)


async def try_update(  # what a change is made of
    db: Database,
    *,
    tenant_id: UUID,
    name: str,
    changes: Callable[[Spec], Mapping[str, Any]],
    horizon: timedelta,
) -> Tried:
    """Make a change, look at what it did, and take it back.

    Because it is the change itself, it is refused for the same reasons and withdraws the same runs.
    """
    try:
        async with db.tenant(tenant_id) as conn:
            change = Change(by="dry run")
            done = await service.change_schedule(conn, tenant_id=tenant_id, name=name, changes=changes, change=change)
            _keep_nothing(done, conn.now)
    except _NothingKept as nothing:
        done, now = nothing.done, nothing.now
    before, after = done.before.timing, done.after.timing
    comparison = await asyncio.to_thread(compare, before, after, after=now, until=add(now, horizon))
    return Tried(
        comparison=comparison, withdrawn=done.withdrawn, paused=done.paused, revision=done.revision, past=done.past
    )


def _keep_nothing(done: Changed, now: datetime) -> NoReturn:
    raise _NothingKept(done, now)


async def read_active(
    db: Database, tenant_id: UUID | None, *, most: int
) -> tuple[datetime, list[tuple[ForecastRow, Book]], bool]:
    """Return now, up to `most` active schedules by uid with their calendars, and whether these are all."""
    found: list[_Bound] = []
    async with db.system() if tenant_id is None else db.tenant(tenant_id) as conn:
        position, last = (_NIL if tenant_id is None else tenant_id, _NIL), tenant_id or _LAST
        while len(found) < most:
            page = await store.page_active(
                conn, after_tenant_id=position[0], after_uid=position[1], last_tenant_id=last, limit=PAGE
            )
            books = await books_of(conn, ((row.tenant_id, row.spec) for row in page))
            found += [(row, books.get(row.tenant_id, {})) for row in page]
            if len(page) < PAGE:
                return conn.now, found, True
            position = page[-1].tenant_id, page[-1].uid
    return conn.now, found[:most], len(found) < most


def _dues(found: Sequence[Occurrence], timing: Timing, flex: Flex | None, uid: UUID | None) -> list[datetime | None]:
    if flex is None:
        return [each.due_at for each in found]
    if uid is None and (flex.mode is FlexMode.HASH or (flex.mode is FlexMode.SMOOTH and flex.offset is None)):
        return [each.due_at if each.skipped is not None else None for each in found]
    return [
        each.due_at
        if each.skipped is not None or each.mark is not None
        else due_after(flex, uid or _NIL, nominal_at=each.nominal_at, following=next_after(timing, each.nominal_at))
        for each in found
    ]


def _items(rows: Sequence[_Bound]) -> tuple[list[Item], tuple[str, ...]]:
    items: list[Item] = []
    unreadable: list[str] = []
    for row, book in rows:
        try:
            spec = bind_spec(parse_spec(row.spec), book)
        except (TriggerError, LookupError, TypeError, ValueError):
            unreadable.append(row.name)
            continue
        if not book.keys() >= set(calendar_names(spec.timing)):
            unreadable.append(row.name)
            continue
        items.append(Item(uid=row.uid, name=row.name, timing=spec.timing, flex=spec.flex))
    return items, tuple(unreadable)


def _count_neighbours(items: Sequence[Item], instants: Sequence[datetime]) -> dict[datetime, int]:
    found: dict[datetime, int] = {}
    for at in instants:
        minute = _whole_minute(at)
        found[at] = sum(_fires_within(item.timing, minute) for item in items)
    return found


def _fires_within(timing: Timing, minute: datetime) -> bool:
    at = next_after(timing, minute - _TICK)
    return at is not None and at < minute + _MINUTE


def _placed(spec: Spec, *, offset: timedelta) -> dict[str, Any]:
    if spec.flex is None:
        return {}
    return {"spec": dataclasses.replace(spec, flex=dataclasses.replace(spec.flex, offset=offset))}


def _offset_of(flex: Flex | None) -> timedelta | None:
    return None if flex is None else flex.offset


def _whole_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
