"""Days that depend on the month they are in: the last one, the working day nearest to the 15th, the second Friday.

What such a rule picks depends on the month's length and on its first weekday alone, 28 cases in all, so a month's days
are looked up as ever. Weekdays count from Sunday = 0; a month is the weekday of its first day and its length; a set of
days is a number whose bit n stands for day n.
"""

from datetime import date
from functools import lru_cache
from typing import NamedTuple, assert_never

LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_SATURDAY, _SUNDAY, _WEEK = 6, 0, 7


class LastDay(NamedTuple):
    """The day `back` days before the month's last; `on_weekday` moves it to the nearest Monday to Friday."""

    back: int
    on_weekday: bool


class NearestWeekday(NamedTuple):
    """The Monday to Friday nearest to a day, within its month."""

    day: int


class NthWeekday(NamedTuple):
    """The n-th of a weekday, from 1 to 5."""

    weekday: int
    nth: int


class LastWeekday(NamedTuple):
    """The last of a weekday."""

    weekday: int


DayPick = LastDay | NearestWeekday | NthWeekday | LastWeekday


class DayColumns(NamedTuple):
    """The two day columns: sets, picks, and whether a day must satisfy both of them or either."""

    days: int
    weekdays: int
    day_picks: tuple[DayPick, ...]
    weekday_picks: tuple[DayPick, ...]
    both: bool


def picked(pick: DayPick, *, first: int, length: int) -> int:
    """Return the day that a rule picks in a month, as a set of one; no bit when the month has none."""
    match pick:
        case LastDay(back=back, on_weekday=on_weekday):
            day = length - back
            day = _on_weekday(day, first=first, length=length) if on_weekday else day
        case NearestWeekday(day=wanted):
            day = _on_weekday(wanted, first=first, length=length)
        case NthWeekday(weekday=weekday, nth=nth):
            day = 1 + (weekday - first) % _WEEK + _WEEK * (nth - 1)
        case LastWeekday(weekday=weekday):
            day = 1 + (weekday - first) % _WEEK
            day += (length - day) // _WEEK * _WEEK
        case _:
            assert_never(pick)
    return 1 << day if 1 <= day <= length else 0


@lru_cache(maxsize=4096)
def on_weekdays(weekdays: int, *, first: int, length: int) -> int:
    """Return the days of a month that fall on any of some weekdays."""
    return sum(1 << day for day in range(1, length + 1) if weekdays >> (first + day - 1) % _WEEK & 1)


def _on_weekday(day: int, *, first: int, length: int) -> int:
    if not 1 <= day <= length:
        return 0
    weekday = (first + day - 1) % _WEEK
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


class MonthTable:
    """The matching days of every month there is, by its length and its first weekday."""

    __slots__ = ("_sets",)

    def __init__(self, rule: DayColumns) -> None:
        self._sets = {
            length: tuple(_days(rule, first=first, length=length) for first in range(_WEEK)) for length in range(28, 32)
        }

    def days_of(self, year: int, month: int) -> int:
        """Return the matching days of a month."""
        length = LENGTHS[month]
        if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
            length = 29
        return self._sets[length][date(year, month, 1).isoweekday() % _WEEK]

    def has_any(self, months: int, years: tuple[int, ...]) -> bool:
        """Tell whether any day matches in these months (a set) of these years."""
        listed = [month for month in range(1, 13) if months >> month & 1]
        return any(self.days_of(year, month) for year in years for month in listed)


@lru_cache(maxsize=4096)
def month_table(rule: DayColumns) -> MonthTable:
    """Return the table of a rule; equal rules share one."""
    return MonthTable(rule)


def _days(rule: DayColumns, *, first: int, length: int) -> int:
    days = rule.days & (1 << length + 1) - 2
    for pick in rule.day_picks:
        days |= picked(pick, first=first, length=length)
    weekdays = on_weekdays(rule.weekdays, first=first, length=length)
    for pick in rule.weekday_picks:
        weekdays |= picked(pick, first=first, length=length)
    return days & weekdays if rule.both else days | weekdays
