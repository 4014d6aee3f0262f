"""How much becomes due in each minute of a stretch of time, and how schedules that may flex are spread over it.

The cost is linear in what is counted: one step for each fire of each schedule within the horizon, at most `budget` of
them in all and MOST_FIRES for one schedule. What was not counted to its end is named, so a cut is never silent.

*Smoothing* gives each schedule that may flex an offset within its own window, before its next instant. Schedules are
taken one by one, those with the least freedom first; each tries at most MOST_OFFSETS offsets, and takes the one whose
busiest minute is the least busy, and of equal ones the one with the least load in all its minutes, and then the
earliest. That is greedy and not the optimum, but it depends on nothing but its input, and a schedule that has an offset
keeps it unless another is better.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final
from uuid import UUID

from everwhen.core.flex import Flex, FlexMode, due_after
from everwhen.core.triggers import Timing, fires, next_after
from everwhen.core.zones import LAST_INSTANT, add

MOST_HOURS: Final = 168
MOST_FIRES: Final = 20_000
BUDGET: Final = 500_000
MOST_OFFSETS: Final = 60

_MINUTE: Final = timedelta(minutes=1)
_SECOND: Final = timedelta(seconds=1)
_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One schedule to count."""

    uid: UUID
    name: str
    timing: Timing
    flex: Flex | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What becomes due: `counts[n]` runs in the n-th minute after `start`. `cut` names what is not counted in full."""

    start: datetime
    counts: Sequence[int]
    schedules: int
    cut: tuple[str, ...]

    @property
    def due(self) -> int:
        """How many runs become due in all."""
        return sum(self.counts)

    @property
    def peak(self) -> tuple[datetime, int]:
        """The busiest minute, the first of them, and its load."""
        load = max(self.counts, default=0)
        return self.start + (self.counts.index(load) if self.counts else 0) * _MINUTE, load

    def by_minute_of_hour(self) -> list[int]:
        """Return the load of :00, :01, … over all hours."""
        first = self.start.minute
        found = [0] * 60
        for index, count in enumerate(self.counts):
            found[(first + index) % 60] += count
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """The offset found for each schedule that may flex, and the forecast without and with them."""

    before: Forecast
    after: Forecast
    offsets: Mapping[UUID, timedelta]


def forecast(items: Iterable[Item], *, start: datetime, minutes: int, budget: int = BUDGET) -> Forecast:
    """Count what becomes due in each of the minutes after `start`, a whole minute, as far as the calendar goes."""
    minutes = min(minutes, max(1, (LAST_INSTANT - start) // _MINUTE))
    counts = array("Q", bytes(8 * minutes))
    schedules, cut = 0, list[str]()
    for item in items:
        schedules += 1
        dues, whole = _dues(item, start=start, minutes=minutes, most=min(MOST_FIRES, budget))
        budget -= len(dues)
        for minute in _minutes(dues, start, minutes):
            counts[minute] += 1
        if not whole:
            cut.append(item.name)
    return Forecast(start=start, counts=counts, schedules=schedules, cut=tuple(cut))


def smooth(items: Sequence[Item], *, start: datetime, minutes: int) -> Smoothing:
    """Find offsets for the schedules whose flex is `smooth`, so that the busiest minute is less busy."""
    before = forecast(items, start=start, minutes=minutes)
    minutes = len(before.counts)
    fixed = [item for item in items if not _is_smooth(item)]
    load = array("Q", forecast(fixed, start=start, minutes=minutes).counts)
    offsets: dict[UUID, timedelta] = {}
    for item in sorted(filter(_is_smooth, items), key=_freedom):
        offset, taken = _best(item, load, start=start, minutes=minutes)
        offsets[item.uid] = offset
        for minute in taken:
            load[minute] += 1
    placed = [_with_offset(item, offsets[item.uid]) if item.uid in offsets else item for item in items]
    return Smoothing(before=before, after=forecast(placed, start=start, minutes=minutes), offsets=offsets)


def _best(item: Item, load: Sequence[int], *, start: datetime, minutes: int) -> tuple[timedelta, list[int]]:
    best: tuple[tuple[int, int, bool, timedelta], list[int]] | None = None
    nominals, _ = _nominals(item, start=start, minutes=minutes, most=MOST_FIRES)
    for offset in _offsets(item, nominals):
        taken = list(_minutes(_due(_with_offset(item, offset), nominals), start, minutes))
        loads = [load[minute] for minute in taken]
        moved = item.flex is not None and item.flex.offset != offset
        rank = (max(loads, default=0), sum(loads), moved, offset)
        if best is None or rank < best[0]:
            best = rank, taken
    assert best is not None, "every window has at least one offset"
    return best[0][3], best[1]


def _offsets(item: Item, nominals: Sequence[datetime | None]) -> Iterator[timedelta]:
    """Yield at most MOST_OFFSETS whole minutes in the window, as far apart as they must be, and its present offset."""
    if item.flex is None:
        return
    gaps = [after - at for at, after in pairwise(nominals) if at is not None and after is not None]
    window = min(item.flex.window, *gaps) if gaps else item.flex.window
    step = max(_MINUTE, -(-window // (MOST_OFFSETS * _MINUTE)) * _MINUTE)
    if item.flex.offset is not None and item.flex.offset < window:
        yield item.flex.offset
    yield from (step * index for index in range(max(1, -(-window // step))))


def _dues(item: Item, *, start: datetime, minutes: int, most: int) -> tuple[list[datetime], bool]:
    """Return when runs become due from `start` on, and whether these are all."""
    nominals, whole = _nominals(item, start=start, minutes=minutes, most=most)
    return _due(item, nominals), whole


def _nominals(item: Item, *, start: datetime, minutes: int, most: int) -> tuple[list[datetime | None], bool]:
    """Return the nominal instants that can become due from `start` on, with the one that follows them (None: none)."""
    reach = timedelta(0) if item.flex is None else item.flex.window
    until = add(start, minutes * _MINUTE - _TICK)
    found = list(fires(item.timing, after=add(start, -reach - _TICK), until=until, count=most + 1))
    if len(found) > most:
        return list(found), False
    following = next_after(item.timing, found[-1]) if found and item.flex is not None else None
    return [*found, following], True


def _due(item: Item, nominals: Sequence[datetime | None]) -> list[datetime]:
    pairs = ((at, after) for at, after in pairwise(nominals) if at is not None)
    return [due_after(item.flex, item.uid, nominal_at=at, following=after) for at, after in pairs]


def _minutes(dues: Iterable[datetime], start: datetime, minutes: int) -> Iterator[int]:
    indexes = ((due - start) // _MINUTE for due in dues)
    return (index for index in indexes if 0 <= index < minutes)


def _is_smooth(item: Item) -> bool:
    return item.flex is not None and item.flex.mode is FlexMode.SMOOTH


def _freedom(item: Item) -> tuple[timedelta, UUID]:
    return (timedelta(0) if item.flex is None else item.flex.window), item.uid


def _with_offset(item: Item, offset: timedelta) -> Item:
    if item.flex is None:
        return item
    return replace(item, flex=replace(item.flex, offset=offset // _SECOND * _SECOND))
