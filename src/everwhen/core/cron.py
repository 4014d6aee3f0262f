"""The cron engine: from a wall-clock time to the next matching one, by jumps and never by search.

An expression is compiled once into bit masks and look-up tables. The next match costs a handful of table look-ups:
the next minute of this hour, else the first of the next hour of this day, else the first time of the next day, which
is the lowest bit of a 31-bit mask for the month. Days that depend on their month, such as "the last Friday", are such
masks too, one for each kind of month. Wall-clock times are naive in meaning; they carry the UTC tzinfo only
so that `wall - offset` is an instant without a copy. What a gap or a fold does to them is decided elsewhere.
"""

from datetime import UTC, date, datetime
from functools import lru_cache

from everwhen.core.cron_days import LENGTHS, month_table
from everwhen.core.cron_dialects import Automatic
from everwhen.core.cron_syntax import CronFields, parse_cron

_LAST_YEAR = 9999
_EVERY_DAY = (1 << 32) - 2
_DAYS_OF_LENGTH = {length: (1 << length + 1) - 2 for length in (28, 29, 30, 31)}


class CompiledCron:
    """An immutable, shareable cron expression."""

    __slots__ = (
        "_day_sets",
        "_first",
        "_first_month",
        "_hours",
        "_minutes",
        "_month_sets",
        "_months",
        "_next_hour",
        "_next_minute",
        "_next_month",
        "_next_second",
        "_per_second",
        "fields",
        "sub_daily",
    )

    def __init__(self, fields: CronFields) -> None:
        self.fields = fields
        self.sub_daily = fields.sub_daily
        self._months, self._hours, self._minutes = fields.months, fields.hours, fields.minutes
        self._per_second = fields.seconds != 1
        self._next_second = _next_table(fields.seconds, 60)
        self._next_minute = _next_table(fields.minutes, 60)
        self._next_hour = _next_table(fields.hours, 24)
        self._next_month = _next_table(fields.months, 13)
        self._first_month = self._next_month[0]
        self._first = (self._next_hour[0], self._next_minute[0], self._next_second[0])
        self._day_sets = _day_sets(fields.days, fields.weekdays, both=fields.days_and_weekdays)
        self._month_sets = _month_sets(self._day_sets)

    @property
    def automatic(self) -> Automatic:
        """The policies in force when a schedule names none."""
        return self.fields.dialect.elapsed if self.sub_daily else self.fields.dialect.time_of_day

    def following(self, wall: datetime) -> datetime | None:
        """Return the first match strictly after a wall-clock time; None when the calendar of Python has none."""
        year, month, day, hour = wall.year, wall.month, wall.day, wall.hour
        if self._months >> month & 1 and self._day_sets[wall.weekday()] >> day & 1:
            _, first_minute, first_second = self._first
            if self._hours >> hour & 1:
                minute = wall.minute
                if self._per_second and self._minutes >> minute & 1:
                    second = self._next_second[wall.second + 1]
                    if second >= 0:
                        return datetime(year, month, day, hour, minute, second, 0, UTC)
                minute = self._next_minute[minute + 1]
                if minute >= 0:
                    return datetime(year, month, day, hour, minute, first_second, 0, UTC)
            hour = self._next_hour[hour + 1]
            if hour >= 0:
                return datetime(year, month, day, hour, first_minute, first_second, 0, UTC)
        return self._on_a_later_day(year, month, day + 1)

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many matches lie in `(after, until]`, wall-clock times both: by counting bits."""
        if until <= after:
            return 0
        first, last = after.date(), until.date()
        if first == last:
            return self._on(first) * (self._times_upto(until) - self._times_upto(after))
        daily = self._hours.bit_count() * self._minutes.bit_count() * self.fields.seconds.bit_count()
        ends = self._on(first) * (daily - self._times_upto(after)) + self._on(last) * self._times_upto(until)
        return ends + daily * self._days_between(first, last)

    def _times_upto(self, wall: datetime) -> int:
        """Return how many times of a day lie at or before this one."""
        hours, minutes, seconds = self._hours, self._minutes, self.fields.seconds
        found = (hours & (1 << wall.hour) - 1).bit_count() * minutes.bit_count() * seconds.bit_count()
        if hours >> wall.hour & 1:
            found += (minutes & (1 << wall.minute) - 1).bit_count() * seconds.bit_count()
            if minutes >> wall.minute & 1:
                found += (seconds & (2 << wall.second) - 1).bit_count()
        return found

    def _on(self, day: date) -> int:
        return self._matching_days(day.year, day.month) >> day.day & 1

    def _days_between(self, first: date, last: date) -> int:
        """Return how many days match strictly between two days."""
        found, year, month = 0, first.year, first.month
        while (year, month) <= (last.year, last.month):
            days = self._matching_days(year, month)
            if (year, month) == (first.year, first.month):
                days = days >> first.day + 1 << first.day + 1
            if (year, month) == (last.year, last.month):
                days &= (1 << last.day) - 1
            found += days.bit_count()
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return found

    def _matching_days(self, year: int, month: int) -> int:
        return self._days_of(year, month) if self._months >> month & 1 else 0

    def _on_a_later_day(self, year: int, month: int, day: int) -> datetime | None:
        if not self._months >> month & 1:
            month, day = self._next_month[month], 1
        while year <= _LAST_YEAR:
            while month >= 0:
                days = self._days_of(year, month) >> day << day
                if days:
                    hour, minute, second = self._first
                    return datetime(year, month, (days & -days).bit_length() - 1, hour, minute, second, 0, UTC)
                month, day = self._next_month[month + 1], 1
            year, month, day = self._next_year(year), self._first_month, 1
        return None

    def _next_year(self, year: int) -> int:
        return year + 1

    def _days_of(self, year: int, month: int) -> int:
        length = LENGTHS[month]
        if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
            length = 29
        return self._month_sets[date(year, month, 1).weekday()] & _DAYS_OF_LENGTH[length]


class _MonthlyCron(CompiledCron):
    """A cron expression whose days depend on their month, or which lists years: one more look-up a day."""

    __slots__ = ("_table", "_years")

    def __init__(self, fields: CronFields) -> None:
        super().__init__(fields)
        self._table = month_table(fields.day_columns)
        self._years = fields.years

    def following(self, wall: datetime) -> datetime | None:
        year, month, day = wall.year, wall.month, wall.day
        if self._years and year not in self._years:
            return self._on_a_later_day(self._next_year(year), self._first_month, 1)
        if self._months >> month & 1 and self._table.days_of(year, month) >> day & 1:
            time = self._later_on_the_day(wall)
            if time is not None:
                hour, minute, second = time
                return datetime(year, month, day, hour, minute, second, 0, UTC)
        return self._on_a_later_day(year, month, day + 1)

    def _later_on_the_day(self, wall: datetime) -> tuple[int, int, int] | None:
        hour, minute = wall.hour, wall.minute
        _, first_minute, first_second = self._first
        if self._hours >> hour & 1:
            second = self._next_second[wall.second + 1] if self._minutes >> minute & 1 else -1
            if second >= 0:
                return hour, minute, second
            minute = self._next_minute[minute + 1]
            if minute >= 0:
                return hour, minute, first_second
        hour = self._next_hour[hour + 1]
        return (hour, first_minute, first_second) if hour >= 0 else None

    def _next_year(self, year: int) -> int:
        if not self._years:
            return year + 1
        return next((listed for listed in self._years if listed > year), _LAST_YEAR + 1)

    def _days_of(self, year: int, month: int) -> int:
        return self._table.days_of(year, month)

    def _matching_days(self, year: int, month: int) -> int:
        return 0 if self._years and year not in self._years else super()._matching_days(year, month)


@lru_cache(maxsize=65_536)
def compile_cron(expr: str, *, seconds: bool = False, dialect: str = "vixie", hash_seed: str = "") -> CompiledCron:
    """Compile an expression; equal expressions share one value.

    Raises:
        TriggerError: see `parse_cron`.
    """
    fields = parse_cron(expr, seconds=seconds, dialect=dialect, hash_seed=hash_seed)
    by_month = fields.years or fields.day_picks or fields.weekday_picks
    return _MonthlyCron(fields) if by_month else CompiledCron(fields)


@lru_cache(maxsize=4096)
def _next_table(mask: int, size: int) -> tuple[int, ...]:
    """Return, for each number up to and including `size`, the first set bit at or after it, else -1."""
    following = -1
    table = [-1] * (size + 1)
    for value in range(size - 1, -1, -1):
        if mask >> value & 1:
            following = value
        table[value] = following
    return tuple(table)


@lru_cache(maxsize=4096)
def _day_sets(days: int, weekdays: int, *, both: bool) -> tuple[int, ...]:
    """Return, for each weekday from Monday = 0, the days of the month that match when they fall on it."""
    named, others = (days, 0) if both else (_EVERY_DAY, days)
    return tuple(named if weekdays >> (weekday + 1) % 7 & 1 else others for weekday in range(7))


@lru_cache(maxsize=4096)
def _month_sets(day_sets: tuple[int, ...]) -> tuple[int, ...]:
    """Return, for each weekday that the first of a month may be, the days of that month that match."""
    return tuple(sum(day_sets[(first + day - 1) % 7] & 1 << day for day in range(1, 32)) for first in range(7))
