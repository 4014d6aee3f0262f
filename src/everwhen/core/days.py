"""The days that match the date parts of a rule: for each year one bit mask, bit 0 being 1 January.

A year's mask depends on its kind only: whether it and its neighbours are leap years, and its first weekday. Masks of a
kind are made once, from masks of each part; INTERVAL then keeps the years, months, weeks or days whose turn it is. The
search for a day is a walk over at most 8,000 years, a shift and a test for each, so no combination can make it long.
"""

from calendar import isleap
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import Final

from everwhen.core.rrule_syntax import Freq, Rule

LAST_YEAR: Final = 9999
LAST_DAY: Final = date.max.toordinal()

_MOST_YEARS = 64
_ALL: Final = (1 << 366) - 1
_WEEK: Final = 0b1111111
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_Kind = tuple[int, bool, bool, bool]
_KINDS: Final[tuple[_Kind, ...]] = tuple(
    (date(year, 1, 1).weekday(), isleap(year - 1), isleap(year), isleap(year + 1)) for year in range(2000, 2400)
)


class Days:
    """Days by their ordinal, as `date.toordinal` counts them. Safe to share: its caches only ever gain equal values."""

    __slots__ = ("_first", "_interval", "_kinds", "_rule", "_years", "unrestricted")

    def __init__(self, rule: Rule, first: date) -> None:
        self._rule = rule
        self._first = first
        # Below a day the interval counts hours, minutes or seconds, which is not for days to judge.
        self._interval = rule.interval if rule.freq <= Freq.DAILY else 1
        self._kinds: dict[_Kind, int] = {}
        self._years: dict[int, int] = {}
        parts = (rule.months, rule.weeks, rule.year_days, rule.month_days, rule.weekdays)
        self.unrestricted = not any(parts)

    def has(self, day: int) -> bool:
        """Tell whether a day matches."""
        if not 1 <= day <= LAST_DAY:
            return False
        year, index = _place(day)
        return bool(self._year(year) >> index & 1)

    def following(self, day: int) -> int | None:
        """Return the first matching day at or after a day."""
        if day > LAST_DAY:
            return None
        year, index = _place(max(day, 1))
        mask = self._year(year) >> index << index
        while not mask:
            year = self._next_year(year)
            if year > LAST_YEAR:
                return None
            mask = self._make(year)
        return date(year, 1, 1).toordinal() + (mask & -mask).bit_length() - 1

    def nth(self, day: int, n: int) -> int | None:
        """Return the n-th matching day, from 0, at or after a day; by counting years, not days."""
        if day > LAST_DAY:
            return None
        year, index = _place(day)
        mask = self._year(year) >> index << index
        while (size := mask.bit_count()) <= n:
            n, year = n - size, self._next_year(year)
            if year > LAST_YEAR:
                return None
            mask = self._make(year)
        return date(year, 1, 1).toordinal() + bits(mask)[n]

    def between(self, first: int, length: int) -> int:
        """Return the matching days among at most 366 from a first one, as a mask with bit 0 for the first."""
        year, index = _place(first)
        mask = self._year(year) >> index
        rest = 365 + isleap(year) - index
        if rest < length and year < LAST_YEAR:
            mask |= self._year(year + 1) << rest
        return mask & ((1 << length) - 1)

    def _year(self, year: int) -> int:
        mask = self._years.get(year)
        if mask is None:
            if len(self._years) >= _MOST_YEARS:
                self._years.clear()
            mask = self._years[year] = self._make(year)
        return mask

    def _make(self, year: int) -> int:
        kind = _KINDS[year % 400]
        mask = self._kinds.get(kind)
        if mask is None:
            mask = self._kinds[kind] = _mask(self._rule, kind)
        return mask & self._turn(year) if mask and self._interval > 1 else mask

    def _next_year(self, year: int) -> int:
        """Return the next year in which there is a turn at all; a far one only if the interval is long."""
        interval, first = self._interval, self._first
        if interval == 1:
            return year + 1
        match self._rule.freq:
            case Freq.YEARLY:
                return year + 1 + (first.year - year - 1) % interval
            case Freq.MONTHLY:
                january = (year + 1) * 12
                return (january + (first.year * 12 + first.month - 1 - january) % interval) // 12
            case _:
                return self._next_year_of_days(year)

    def _next_year_of_days(self, year: int) -> int:
        last, first, step, width = date(year, 12, 31).toordinal(), self._first.toordinal(), self._interval, 1
        if self._rule.freq is Freq.WEEKLY:
            first -= (self._first.weekday() - self._rule.week_start) % 7
            step, width = 7 * step, 7
        passed = (last - first) % step
        day = last + (1 if passed < width - 1 else step - passed)
        return date.fromordinal(day).year if day <= LAST_DAY else LAST_YEAR + 1

    def _turn(self, year: int) -> int:
        """Return the days of a year that lie in a period whose turn it is."""
        interval, first = self._interval, self._first
        match self._rule.freq:
            case Freq.YEARLY:
                return 0 if (year - first.year) % interval else _ALL
            case Freq.MONTHLY:
                passed = (year - first.year) * 12 - first.month + 1
                months = _months(leap=isleap(year))
                return sum(months[month] for month in range(-passed % interval, 12, interval))
            case Freq.WEEKLY:
                week = first.toordinal() - (first.weekday() - self._rule.week_start) % 7
                return _repeated(7 * interval, (date(year, 1, 1).toordinal() - week) % (7 * interval), 7)
            case _:
                return _repeated(interval, (date(year, 1, 1).toordinal() - first.toordinal()) % interval, 1)


@lru_cache(maxsize=4096)
def bits(mask: int) -> tuple[int, ...]:
    """Return the numbers of the bits that are set, ascending."""
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


def _place(day: int) -> tuple[int, int]:
    found = date.fromordinal(day)
    return found.year, day - date(found.year, 1, 1).toordinal()


@lru_cache(maxsize=1024)
def _train(step: int, width: int) -> int:
    return sum((1 << width) - 1 << start for start in range(0, 367, step))


def _repeated(step: int, offset: int, width: int) -> int:
    """Return the days whose distance to a day `offset` before the year, modulo `step`, is less than `width`."""
    begun = ((1 << width) - 1) >> offset if offset < width else 0
    ahead = -offset % step
    return (begun | (_train(step, width) << ahead if ahead <= 366 else 0)) & _ALL


def _mask(rule: Rule, kind: _Kind) -> int:
    new_year, _, leap, _ = kind
    mask = (1 << 365 + leap) - 1
    months = _months(leap=leap)
    if rule.months:
        mask &= sum(months[month - 1] for month in rule.months)
    if rule.month_days:
        mask &= _numbered(rule.month_days, months)
    if rule.year_days:
        mask &= _numbered(rule.year_days, (mask_of(0, 365 + leap),))
    if rule.weeks:
        mask &= _weeks(rule, kind)
    if rule.weekdays:
        mask &= _weekdays(rule, new_year, leap=leap)
    return mask


def _weekdays(rule: Rule, new_year: int, *, leap: bool) -> int:
    spans = _months(leap=leap) if rule.freq is Freq.MONTHLY or rule.months else (mask_of(0, 365 + leap),)
    found = 0
    for nth, weekday in rule.weekdays:
        every = _repeated(7, (new_year - weekday) % 7, 1)
        if nth == 0:
            found |= every
        else:
            found |= sum(_picked(every & span, nth) for span in spans)
    return found


def _numbered(numbers: tuple[int, ...], spans: tuple[int, ...]) -> int:
    found = 0
    for span in spans:
        for number in numbers:
            found |= _picked(span, number)
    return found


def _picked(mask: int, nth: int) -> int:
    """Return the n-th day of a mask as a mask; from its end when negative, nothing when there are not as many."""
    days = bits(mask)
    index = nth - 1 if nth > 0 else len(days) + nth
    return 1 << days[index] if 0 <= index < len(days) else 0


def _weeks(rule: Rule, kind: _Kind) -> int:
    """Return the days in weeks with these numbers: a week belongs to the year that holds most of it."""
    _, _, leap, _ = kind
    found = 0
    for start, number, weeks in _week_years(kind, rule.week_start):
        if number in rule.weeks or number - weeks - 1 in rule.weeks:
            found |= _WEEK << start if start >= 0 else _WEEK >> -start
    return found & mask_of(0, 365 + leap)


def _week_years(kind: _Kind, week_start: int) -> Iterator[tuple[int, int, int]]:
    """Yield, for each week that touches a year, its first day, its number and how many weeks its own year has."""
    new_year, leap_before, leap, leap_after = kind
    lengths = (365 + leap_before, 365 + leap, 365 + leap_after)
    begins = (-lengths[0], 0, lengths[1], lengths[1] + lengths[2])
    firsts = [begin + 3 - (new_year + begin + 3 - week_start) % 7 for begin in begins]
    for first, following in pairwise(firsts):
        weeks = (following - first) // 7
        for number in range(1, weeks + 1):
            start = first + 7 * (number - 1)
            if -7 < start < lengths[1]:
                yield start, number, weeks


def mask_of(first: int, length: int) -> int:
    """Return the mask of a run of days."""
    return ((1 << length) - 1) << first


@lru_cache(maxsize=2)
def _months(*, leap: bool) -> tuple[int, ...]:
    found: list[int] = []
    first = 0
    for month, length in enumerate(_LENGTHS):
        days = length + (leap and month == 1)
        found.append(mask_of(first, days))
        first += days
    return tuple(found)
