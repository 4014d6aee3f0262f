"""The recurrence engine: RFC 5545 rules on wall-clock times, answered from any point and never by counting up to it.

A rule is compiled, once, into one of three patterns:

* `_DayPattern`, from YEARLY to DAILY: the days of a mask, each with the same times.
* `_PlacePattern`, the same with BYSETPOS over a year, month or week: the instances of one period are laid out, some are
  chosen, and then it is the turn of the next period that has any.
* `_UnitPattern`, HOURLY to SECONDLY: hours, minutes or seconds by arithmetic, leaping over days and times of day that
  are left out.

BYSETPOS within a day, hour or minute is settled when the rule is compiled, since every one of them looks the same.

COUNT becomes the last instance, once: by arithmetic where each period has equally many, by counting the days of years
where days vary, and by walking, at most `MOST_WALKED` instances, where neither is possible. After that no question
depends on how long ago the rule began.

Work is bounded in steps. Days are found in at most 8,000 looks, one a year. The other two loops give up after
`MOST_STEPS` or `MOST_PERIODS` with an error that says so; a rule without any instance is refused when it is compiled.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from math import gcd
from typing import Final, Protocol

from everwhen.core.days import LAST_DAY, Days, bits
from everwhen.core.errors import TriggerError
from everwhen.core.rrule_syntax import Freq, Rule

MOST_STEPS: Final = 2_000
MOST_PERIODS: Final = 2_000
MOST_PHASES: Final = 31
MOST_WALKED: Final = 2_000

_DAY_SECONDS: Final = 86_400
_UNIT_SECONDS: Final = {Freq.HOURLY: 3600, Freq.MINUTELY: 60, Freq.SECONDLY: 1}
_ALL_60: Final = tuple(range(60))
_ALL_24: Final = tuple(range(24))
_NOTHING: Final = (0,)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a day, ascending: every hour with every minute with every second, or those chosen by position."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    chosen: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return self._size if self.chosen is None else len(self.chosen)

    def at(self, index: int) -> int:
        """Return the index-th, from 0."""
        position = index if self.chosen is None else self.chosen[index]
        rest, second = divmod(position, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def rank(self, second: int) -> int:
        """Return how many are before or at a second of the day, which is the index of the first one after it."""
        rest, second_part = divmod(second, 60)
        hour, minute = divmod(rest, 60)
        position = bisect_left(self.hours, hour) * len(self.minutes) * len(self.seconds)
        if hour in self.hours:
            position += bisect_left(self.minutes, minute) * len(self.seconds)
            if minute in self.minutes:
                position += bisect_right(self.seconds, second_part)
        return position if self.chosen is None else bisect_left(self.chosen, position)

    def after(self, second: int) -> int | None:
        """Return the first one after a second of the day."""
        index = self.rank(second)
        return self.at(index) if index < len(self) else None

    def choose(self, positions: tuple[int, ...]) -> "Times":
        """Return those at some positions, from 1, or from the end with -1."""
        size = self._size
        found = {position - 1 if position > 0 else size + position for position in positions}
        return Times(
            self.hours, self.minutes, self.seconds, tuple(sorted(place for place in found if 0 <= place < size))
        )

    @property
    def _size(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)


class _Pattern(Protocol):
    """Instances as if there were neither DTSTART nor an end."""

    def search(self, wall: datetime) -> datetime | None: ...
    def nth(self, first: datetime, n: int) -> datetime | None: ...


class CompiledRule:
    """One rule from its start on; an immutable, shareable pattern of wall-clock times.

    Wall-clock times are naive in meaning; they carry the UTC tzinfo only so that `wall - offset` is an instant.

    Attributes:
        until: the last instant, if the rule names one in UTC; instants are for those to judge who know the zone.
    """

    __slots__ = ("_excluded", "_first", "_last", "_pattern", "until")

    def __init__(self, pattern: _Pattern, rule: Rule, start: datetime, excluded: frozenset[datetime]) -> None:
        first = pattern.search(start - timedelta(seconds=1))
        if first is None:
            raise _unreachable()
        self._pattern = pattern
        self._first = first
        self._excluded = excluded
        self._last = pattern.nth(first, rule.count - 1) if rule.count else None
        self.until = rule.until
        if rule.until is not None and rule.until.tzinfo is None:
            self._last = rule.until.replace(tzinfo=UTC)
            self.until = None

    def following(self, wall: datetime) -> datetime | None:
        """Return the first instance strictly after a wall-clock time; None when there is none.

        Raises:
            TriggerError: there is none within the limit of work.
        """
        match = self._next(wall)
        while match is not None and match in self._excluded:
            match = self._next(match)
        return match

    def _next(self, wall: datetime) -> datetime | None:
        match = self._first if wall < self._first else self._pattern.search(wall)
        return None if match is None or (self._last is not None and match > self._last) else match


def compile_rule(rule: Rule, start: datetime, *, excluded: frozenset[datetime] = frozenset()) -> CompiledRule:
    """Compile a rule that starts at a wall-clock time (with the UTC tzinfo), leaving some instances out.

    Raises:
        TriggerError: it has no instance, or finding one or counting them costs too much.
    """
    return CompiledRule(_pattern_of(_whole_days(rule, start), start), rule, start, excluded)


@lru_cache(maxsize=4096)
def compile_shared(rule: Rule, start: datetime, excluded: frozenset[datetime]) -> CompiledRule:
    """Compile a rule as `compile_rule` does; equal rules share one value."""
    return compile_rule(rule, start, excluded=excluded)


def days_with_times(rule: Rule, start: datetime, times: Times) -> CompiledRule:
    """Compile a rule of days, YEARLY to DAILY, with times of its own; see `compile_rule`."""
    return CompiledRule(_DayPattern(Days(rule, start.date()), times), rule, start, frozenset())


def _pattern_of(rule: Rule, start: datetime) -> _Pattern:
    days = Days(_with_defaults(rule, start), start.date())
    if rule.freq > Freq.DAILY:
        return _UnitPattern(rule, days, start)
    times = Times(rule.hours or (start.hour,), rule.minutes or (start.minute,), rule.seconds or (start.second,))
    if rule.positions and rule.freq is Freq.DAILY:
        times = times.choose(rule.positions)
    elif rule.positions:
        return _PlacePattern(rule, days, times)
    return _DayPattern(days, times)


def _with_defaults(rule: Rule, start: datetime) -> Rule:
    """Return the rule with the days that it leaves to its start filled in."""
    if rule.weeks or rule.year_days or rule.month_days or rule.weekdays or rule.freq >= Freq.DAILY:
        return rule
    months, month_days, weekdays = rule.months, (start.day,), ()
    if rule.freq is Freq.YEARLY:
        months = months or (start.month,)
    elif rule.freq is Freq.WEEKLY:
        month_days, weekdays = (), ((0, start.weekday()),)
    return Rule(
        freq=rule.freq,
        interval=rule.interval,
        week_start=rule.week_start,
        months=months,
        month_days=month_days,
        weekdays=weekdays,
    )


def _whole_days(rule: Rule, start: datetime) -> Rule:
    """Return a rule that counts hours, minutes or seconds, but whole days of them, as the daily one that it is."""
    if rule.freq <= Freq.DAILY or rule.interval % (_DAY_SECONDS // _UNIT_SECONDS[rule.freq]):
        return rule
    fixed = {"hours": start.hour, "minutes": start.minute, "seconds": start.second}
    kept: dict[str, tuple[int, ...]] = {}
    for name in list(fixed)[: rule.freq - Freq.DAILY]:
        allowed: tuple[int, ...] = getattr(rule, name)
        if allowed and fixed[name] not in allowed:
            raise _unreachable()
        kept[name] = (fixed[name],)
    return Rule(
        freq=Freq.DAILY,
        interval=rule.interval * _UNIT_SECONDS[rule.freq] // _DAY_SECONDS,
        months=rule.months,
        year_days=rule.year_days,
        month_days=rule.month_days,
        weekdays=rule.weekdays,
        hours=kept["hours"],
        minutes=kept.get("minutes", rule.minutes),
        seconds=kept.get("seconds", rule.seconds),
        positions=rule.positions,
    )


class _DayPattern:
    __slots__ = ("_days", "_times")

    def __init__(self, days: Days, times: Times) -> None:
        if not len(times):
            raise _unreachable()
        self._days, self._times = days, times

    def search(self, wall: datetime) -> datetime | None:
        day = wall.toordinal()
        if self._days.has(day):
            second = self._times.after(_second_of(wall))
            if second is not None:
                return _wall(day, second)
        following = self._days.following(day + 1)
        return None if following is None else _wall(following, self._times.at(0))

    def nth(self, first: datetime, n: int) -> datetime | None:
        days, index = divmod(self._times.rank(_second_of(first)) - 1 + n, len(self._times))
        day = self._days.nth(first.toordinal(), days)
        return None if day is None else _wall(day, self._times.at(index))


class _PlacePattern:
    __slots__ = ("_days", "_rule", "_times")

    def __init__(self, rule: Rule, days: Days, times: Times) -> None:
        self._rule, self._days, self._times = rule, days, times

    def search(self, wall: datetime) -> datetime | None:
        after = wall.toordinal(), _second_of(wall)
        day: int | None = self._period(after[0])[0]
        for _ in range(MOST_PERIODS):
            day = self._days.following(day)
            if day is None:
                return None
            first, length = self._period(day)
            later = [place for place in self._chosen(first, length) if place > after]
            if later:
                return _wall(*min(later))
            day = first + length
        raise _too_much_work()

    def nth(self, first: datetime, n: int) -> datetime | None:
        return _walk(self, first, n)

    def _chosen(self, first: int, length: int) -> list[tuple[int, int]]:
        days, times = bits(self._days.between(first, length)), self._times
        size = len(days) * len(times)
        found: list[tuple[int, int]] = []
        for position in self._rule.positions:
            index = position - 1 if position > 0 else size + position
            if 0 <= index < size:
                day, time = divmod(index, len(times))
                found.append((first + days[day], times.at(time)))
        return found

    def _period(self, day: int) -> tuple[int, int]:
        """Return the first day and the length of the period that holds a day."""
        found = date.fromordinal(day)
        match self._rule.freq:
            case Freq.YEARLY:
                first = date(found.year, 1, 1).toordinal()
                return first, date(found.year, 12, 31).toordinal() - first + 1
            case Freq.MONTHLY:
                first = day - found.day + 1
                rest = date.fromordinal(first + 31).day if first + 31 <= LAST_DAY else 1
                return first, 32 - rest
            case _:
                first = day - (found.weekday() - self._rule.week_start) % 7
                return max(first, 1), first + 7 - max(first, 1)


class _UnitPattern:
    __slots__ = (
        "_allowed",
        "_days",
        "_interval",
        "_offsets",
        "_origin",
        "_per_day",
        "_phases",
        "_seconds",
        "_unrestricted",
    )

    def __init__(self, rule: Rule, days: Days, start: datetime) -> None:
        self._seconds = _UNIT_SECONDS[rule.freq]
        self._per_day = _DAY_SECONDS // self._seconds
        self._days, self._interval = days, rule.interval
        self._origin = start.toordinal() * self._per_day + _second_of(start) // self._seconds
        finer = Times(
            _NOTHING,
            _NOTHING if rule.freq > Freq.HOURLY else rule.minutes or (start.minute,),
            _NOTHING if rule.freq > Freq.MINUTELY else rule.seconds or (start.second,),
        )
        self._offsets = finer.choose(rule.positions) if rule.positions else finer
        self._allowed = Times(
            rule.hours or _ALL_24,
            _NOTHING if rule.freq is Freq.HOURLY else rule.minutes or _ALL_60,
            _NOTHING if rule.freq < Freq.SECONDLY else rule.seconds or _ALL_60,
        )
        self._unrestricted = days.unrestricted and len(self._allowed) == self._per_day
        if not len(self._offsets) or not self._meets():
            raise _unreachable()
        # After so many days the interval meets the same times of day again; a long wait is likely, for each instance.
        self._phases = rule.interval // gcd(self._per_day, rule.interval)
        if not self._unrestricted and self._phases > MOST_PHASES:
            raise _too_much_work()

    def search(self, wall: datetime) -> datetime | None:
        current, offset = divmod(wall.toordinal() * _DAY_SECONDS + _second_of(wall), self._seconds)
        later = self._offsets.after(offset)
        unit = self._unit(current if later is not None else current + 1)
        if unit is None:
            return None
        if unit > current or later is None:
            later = self._offsets.at(0)
        return _wall(*divmod(unit * self._seconds + later, _DAY_SECONDS))

    def nth(self, first: datetime, n: int) -> datetime | None:
        if not self._unrestricted:
            return _walk(self, first, n, most=MOST_WALKED // self._phases)
        unit, offset = divmod(first.toordinal() * _DAY_SECONDS + _second_of(first), self._seconds)
        units, index = divmod(self._offsets.rank(offset) - 1 + n, len(self._offsets))
        day, second = divmod((unit + units * self._interval) * self._seconds + self._offsets.at(index), _DAY_SECONDS)
        return _wall(day, second) if day <= LAST_DAY else None

    def _unit(self, unit: int) -> int | None:
        """Return the first unit at or after one whose turn it is and that nothing leaves out."""
        for _ in range(MOST_STEPS):
            unit += (self._origin - unit) % self._interval
            day, in_day = divmod(unit, self._per_day)
            if day > LAST_DAY:
                return None
            if not self._days.has(day):
                following = self._days.following(day + 1)
                if following is None:
                    return None
                unit = following * self._per_day
                continue
            second = self._allowed.after(in_day * self._seconds - 1) if in_day else self._allowed.at(0)
            if second is None:
                unit = (day + 1) * self._per_day
            elif second == in_day * self._seconds:
                return unit
            else:
                unit = day * self._per_day + second // self._seconds
        raise _too_much_work()

    def _meets(self) -> bool:
        """Tell whether the interval ever meets a unit of the day that is allowed."""
        common = gcd(self._per_day, self._interval)
        allowed, origin = self._allowed, self._origin % common
        return common == 1 or any(
            allowed.at(index) // self._seconds % common == origin for index in range(len(allowed))
        )


def _walk(pattern: _Pattern, first: datetime, n: int, *, most: int = MOST_WALKED) -> datetime | None:
    if n >= most:
        raise TriggerError(
            "trigger.rrule.count",
            f"COUNT is at most {most} for a rule whose periods differ as these do; use UNTIL",
            field="rrule",
        )
    found: datetime | None = first
    for _ in range(n):
        if found is None:
            return None
        found = pattern.search(found)
    return found


def _second_of(wall: datetime) -> int:
    return wall.hour * 3600 + wall.minute * 60 + wall.second


def _wall(day: int, second: int) -> datetime:
    found = date.fromordinal(day)
    rest, seconds = divmod(second, 60)
    hour, minute = divmod(rest, 60)
    return datetime(found.year, found.month, found.day, hour, minute, seconds, 0, UTC)


def _unreachable() -> TriggerError:
    return TriggerError(
        "trigger.rrule.unreachable", "the rule has no instance: no date or time meets it", field="rrule"
    )


def _too_much_work() -> TriggerError:
    return TriggerError(
        "trigger.rrule.work",
        "no instance is found within the limit of work; use a coarser FREQ or a smaller INTERVAL",
        field="rrule",
    )
