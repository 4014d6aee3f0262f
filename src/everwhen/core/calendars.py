"""Calendars: which days are open, in which hours, by which version; and arithmetic on open days.

A calendar has no time zone. Its days and hours are those that the clocks of a schedule's zone show.

Each version holds from a date on (`effective_from`), or for all dates. For a day the latest version that holds by then
decides, so a version may be recorded long before it takes effect. Within a version an entry for a date beats the weekly
pattern, and of two entries for one date the one that was written last.

Days are searched year by year in bit masks, bit 0 being 1 January. Entries lie between 1900 and 2199; outside of that
a year is decided by the weekly pattern alone. So every search ends: a year after the last entry that has no open day
has no open day after it either.
"""

from bisect import bisect_right
from calendar import isleap, monthrange
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

MOST_DAYS: Final = 10_000
FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2199
MOST_BUSINESS_DAYS: Final = 1_000_000

_MINUTES: Final = 24 * 60
_EVERY_WEEK: Final = sum(1 << day for day in range(0, 371, 7))
_DAY: Final = timedelta(days=1)

Hours = tuple[tuple[int, int], ...]
"""Windows of a day, in minutes after midnight: ascending, apart from one another, the end exclusive."""

OPEN: Final[Hours] = ((0, _MINUTES),)
CLOSED: Final[Hours] = ()


class Roll(StrEnum):
    """Where an occurrence goes that falls on a closed day."""

    NONE = "none"  # nowhere: it is excluded
    FOLLOWING = "following"
    MODIFIED_FOLLOWING = "modified_following"  # following, unless that is another month: then preceding
    PRECEDING = "preceding"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRange:
    """Days from a first to a last one, both included, with hours of their own."""

    first: date
    last: date
    hours: Hours
    label: str = ""

    def __len__(self) -> int:
        return (self.last - self.first).days + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The hours of each weekday, Monday first, and the days that differ from them."""

    week: tuple[Hours, ...] = (OPEN,) * 7
    days: tuple[DayRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarVersion:
    """A definition with its number and the first date that it is meant for; None: all dates."""

    number: int
    definition: Definition
    effective_from: date | None = None


class DayState(NamedTuple):
    """What a calendar says about one day."""

    hours: Hours
    label: str
    version: int


class Mark(NamedTuple):
    """Which calendar objected to an occurrence, by which version and entry; and when it is due instead, if it rolls."""

    calendar: str
    version: int
    label: str
    due_at: datetime | None


class _Stage(NamedTuple):
    start: date
    version: CalendarVersion


class Calendar:
    """A calendar's versions, compiled. Safe to share between threads: its caches only ever gain equal values."""

    __slots__ = ("_first", "_last", "_masks", "_special", "_stages", "name", "size")

    def __init__(self, name: str, versions: Iterable[CalendarVersion]) -> None:
        self.name = name
        self._stages = _stages(versions)
        self._special: dict[int, dict[int, DayState]] = {}
        self._masks: dict[int, int] = {}
        self.size = 0
        for index, stage in enumerate(self._stages):
            end = self._stages[index + 1].start if index + 1 < len(self._stages) else None
            self._enter(stage, end)
        years = [*self._special, *(stage.start.year for stage in self._stages if stage.start != date.min)]
        self._first, self._last = min(years, default=FIRST_YEAR), max(years, default=FIRST_YEAR)

    def state(self, day: date) -> DayState:
        """Return what holds on a day."""
        special = self._special.get(day.year)
        if special is not None and (found := special.get(day.toordinal())) is not None:
            return found
        version = self._stage(day).version
        return DayState(version.definition.week[day.weekday()], "", version.number)

    def version_on(self, day: date) -> int:
        """Return the number of the version that decides about a day."""
        return self._stage(day).version.number

    def is_open(self, day: date) -> bool:
        """Tell whether a day is open, be it for some hours only."""
        return bool(self.state(day).hours)

    def is_open_at(self, wall: datetime) -> bool:
        """Tell whether the calendar is open at a local time; its tzinfo does not count."""
        minute = wall.hour * 60 + wall.minute
        return any(start <= minute < end for start, end in self.state(wall.date()).hours)

    def next_open(self, day: date) -> date | None:
        """Return the first open day at or after a day; None when there is none."""
        index = _index(day)
        mask = self._mask(day.year) >> index << index
        for year in self._years(day.year, 1):
            if year != day.year:
                mask = self._mask(year)
            if mask:
                return _day(year, (mask & -mask).bit_length() - 1)
        return None

    def previous_open(self, day: date) -> date | None:
        """Return the last open day at or before a day; None when there is none."""
        mask = self._mask(day.year) & ((2 << _index(day)) - 1)
        for year in self._years(day.year, -1):
            if year != day.year:
                mask = self._mask(year)
            if mask:
                return _day(year, mask.bit_length() - 1)
        return None

    def add_business_days(self, day: date, count: int) -> date | None:
        """Return the `count`-th open day strictly after a day, or before it when negative; for 0 the day itself.

        None when there are not as many; raises ValueError for more than a million.
        """
        if abs(count) > MOST_BUSINESS_DAYS:
            raise ValueError(f"at most {MOST_BUSINESS_DAYS} business days, not {count}")
        if count == 0:
            return day
        index, full = _index(day), self._mask(day.year)
        mask = full >> (index + 1) << (index + 1) if count > 0 else full & ((1 << index) - 1)
        left = abs(count)
        for year in self._years(day.year, 1 if count > 0 else -1):
            if year != day.year:
                mask = self._mask(year)
            if (size := mask.bit_count()) >= left:
                return _day(year, _nth_bit(mask, left if count > 0 else size - left + 1))
            left -= size
        return None

    def nth_business_day(self, year: int, month: int, n: int) -> date | None:
        """Return the n-th open day of a month, the last one for -1; None when there are not as many."""
        first = _index(date(year, month, 1))
        mask = (self._mask(year) >> first) & ((1 << monthrange(year, month)[1]) - 1)
        position = n if n > 0 else mask.bit_count() + 1 + n
        if n == 0 or not 1 <= position <= mask.bit_count():
            return None
        return date(year, month, _nth_bit(mask, position) + 1)

    def roll(self, day: date, convention: Roll) -> date | None:
        """Return the day itself if it is open, else the open day that the convention names; None without one."""
        if self.is_open(day):
            return day
        match convention:
            case Roll.NONE:
                return None
            case Roll.FOLLOWING:
                return self.next_open(day)
            case Roll.PRECEDING:
                return self.previous_open(day)
            case Roll.MODIFIED_FOLLOWING:
                found = self.next_open(day)
                same_month = found is not None and (found.year, found.month) == (day.year, day.month)
                return found if same_month else self.previous_open(day)

    def next_change(self, wall: datetime) -> datetime | None:
        """Return the next local time, after the given one and with its tzinfo, at which open turns to closed or back.

        None when there is none within the years of this calendar and four more.
        """
        was_open, day = self.is_open_at(wall), wall.date()
        minute = wall.hour * 60 + wall.minute
        while day.year <= max(self._last, wall.year) + 4 and day < date.max:
            for start, end in _parts(self.state(day).hours):
                is_open, begins = start[1], start[0]
                if end > minute and is_open != was_open:
                    at = max(begins, minute)
                    return datetime(day.year, day.month, day.day, at // 60, at % 60, tzinfo=wall.tzinfo)
            day, minute = self._next_differing(day, was_open=was_open), 0
        return None

    def unsettled_years(self) -> range:
        """Return the years outside of which nothing but the weekly pattern decides."""
        return range(self._first, self._last + 1)

    def _next_differing(self, day: date, *, was_open: bool) -> date:
        """Return the next day that may differ: when closed, closed days are leapt over."""
        following = day + _DAY
        if was_open:
            return following
        return self.next_open(following) or date.max

    def _stage(self, day: date) -> _Stage:
        if len(self._stages) == 1:
            return self._stages[0]
        return self._stages[bisect_right(self._stages, day, key=_start) - 1]

    def _years(self, first: int, step: int) -> Iterator[int]:
        """Yield the years in which a search may still find something that the one before does not have."""
        year = first
        while 1 <= year <= 9999:
            yield year
            beyond = year > self._last if step > 0 else year < self._first
            if beyond and not self._mask(year):
                return
            year += step

    def _mask(self, year: int) -> int:
        mask = self._masks.get(year)
        if mask is None:
            if len(self._masks) > LAST_YEAR - FIRST_YEAR:
                self._masks.clear()
            mask = self._masks[year] = self._make(year)
        return mask

    def _make(self, year: int) -> int:
        new_year, length = date(year, 1, 1), 365 + isleap(year)
        mask = 0
        for index, stage in enumerate(self._stages):
            begin = max(0, (stage.start - new_year).days)
            end = length
            if index + 1 < len(self._stages):
                end = min(length, (self._stages[index + 1].start - new_year).days)
            if begin < end:
                mask |= _weekly(stage.version.definition.week, new_year) & (((1 << (end - begin)) - 1) << begin)
        for ordinal, state in self._special.get(year, {}).items():
            bit = 1 << (ordinal - new_year.toordinal())
            mask = mask | bit if state.hours else mask & ~bit
        return mask

    def _enter(self, stage: _Stage, end: date | None) -> None:
        version = stage.version
        for entry in version.definition.days:
            state = DayState(entry.hours, entry.label, version.number)
            day, last = max(entry.first, stage.start), entry.last if end is None else min(entry.last, end - _DAY)
            while day <= last:
                self._special.setdefault(day.year, {})[day.toordinal()] = state
                self.size += 1
                day += _DAY


def in_force(versions: Iterable[CalendarVersion]) -> list[CalendarVersion]:
    """Return the versions that decide about any day, by their dates: from its date on a later number beats."""
    kept: list[CalendarVersion] = []
    for version in sorted(versions, key=_number, reverse=True):
        if not kept or _from(version) < _from(kept[-1]):
            kept.append(version)
    return kept[::-1]


def _stages(versions: Iterable[CalendarVersion]) -> tuple[_Stage, ...]:
    """Before the first version's date the calendar is open: nothing is known that would close it."""
    stages = [_Stage(_from(version), version) for version in in_force(versions)]
    if not stages or stages[0].start > date.min:
        stages.insert(0, _Stage(date.min, CalendarVersion(number=0, definition=Definition())))
    return tuple(stages)


def _from(version: CalendarVersion) -> date:
    return version.effective_from or date.min


def _number(version: CalendarVersion) -> int:
    return version.number


def _start(stage: _Stage) -> date:
    return stage.start


def _weekly(week: tuple[Hours, ...], new_year: date) -> int:
    first, mask = new_year.weekday(), 0
    for weekday, hours in enumerate(week):
        if hours:
            mask |= _EVERY_WEEK << ((weekday - first) % 7)
    return mask & ((1 << (365 + isleap(new_year.year))) - 1)


def _parts(hours: Hours) -> Iterator[tuple[tuple[int, bool], int]]:
    """Yield the open and closed parts of a day as ((start, is open), end)."""
    at = 0
    for start, end in hours:
        if start > at:
            yield (at, False), start
        yield (start, True), end
        at = end
    if at < _MINUTES:
        yield (at, False), _MINUTES


def _nth_bit(mask: int, n: int) -> int:
    """Return the index of the n-th bit that is set, from 1; there are as many."""
    for _ in range(n - 1):
        mask &= mask - 1
    return (mask & -mask).bit_length() - 1


def _index(day: date) -> int:
    return day.toordinal() - date(day.year, 1, 1).toordinal()


def _day(year: int, index: int) -> date:
    return date.fromordinal(date(year, 1, 1).toordinal() + index)
