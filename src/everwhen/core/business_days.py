"""The trigger `business_day`: the n-th open day of each month by a calendar, at times of the day.

    {"kind": "business_day", "nth": -1, "times": ["18:00"], "calendar": "de"}

A month that has not as many open days is left out. The calendar is known by its name only until it is bound; an unbound
trigger answers nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple, cast

from everwhen.core.calendars import Calendar
from everwhen.core.errors import TriggerError, quoted

KIND: Final = "business_day"
MOST_TIMES: Final = 48
MOST_NTH: Final = 31
LONGEST_NAME: Final = 200

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?", re.ASCII)
_HOPELESS_MONTHS: Final = 480
"""Months in a row, decided by the weekly pattern alone, after which every kind of month has been seen."""


_NEVER: Final = 10_000 * 12


class BusinessDays(NamedTuple):
    """A pattern of wall-clock times (see `walk`); `seconds` are those of a day, ascending."""

    calendar: Calendar
    nth: int
    seconds: tuple[int, ...]

    def following(self, wall: datetime) -> datetime | None:
        """Return the first match strictly after a wall-clock time; None when there is none."""
        today = wall.date()
        for month in self._months(wall.year * 12 + wall.month - 1):
            day = self.calendar.nth_business_day(month // 12, month % 12 + 1, self.nth)
            if day is not None and day >= today and (match := self._on(day, wall)) is not None:
                return match
        return None

    def _months(self, month: int) -> Iterator[int]:
        """Yield the months that have to be looked at: not those that can only repeat what was seen."""
        years = self.calendar.unsettled_years()
        for first, last in ((month, month), (years.start * 12, years.stop * 12)):
            yield from range(max(month, first), min(last + _HOPELESS_MONTHS, _NEVER))
            month = max(month, last + _HOPELESS_MONTHS)

    def _on(self, day: date, wall: datetime) -> datetime | None:
        midnight = datetime(day.year, day.month, day.day, tzinfo=wall.tzinfo)
        passed = (wall - midnight) // timedelta(seconds=1)
        index = bisect_right(self.seconds, passed)
        return midnight + timedelta(seconds=self.seconds[index]) if index < len(self.seconds) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BusinessDay:
    """Times on the n-th open day of each month, counted from its end when negative.

    Raises:
        TriggerError: a value is wrong; the field names it.
    """

    nth: int
    times: tuple[str, ...]
    calendar: str
    bound: Calendar | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= abs(self.nth) <= MOST_NTH:
            raise _wrong("nth", f"nth is 1 to {MOST_NTH}, or -1 to -{MOST_NTH} from the end of the month", "nth")
        if not 1 <= len(self.times) <= MOST_TIMES or not all(map(_TIME.fullmatch, self.times)):
            raise _wrong("times", f"times lists 1 to {MOST_TIMES} texts such as '09:00' or '09:00:30'", "times")
        if not 0 < len(self.calendar) <= LONGEST_NAME:
            raise _wrong("calendar", "calendar is the name of one", "calendar")

    @property
    def pattern(self) -> BusinessDays | None:
        """Return the pattern; None while the calendar is not bound."""
        if self.bound is None:
            return None
        seconds = {sum(int(part) * unit for part, unit in zip(time.split(":"), (3600, 60, 1), strict=False))
                   for time in self.times}  # fmt: skip
        return BusinessDays(self.bound, self.nth, tuple(sorted(seconds)))

    def bind(self, calendar: Calendar | None) -> "BusinessDay":
        """Return the trigger with its calendar."""
        return replace(self, bound=calendar)


def parse_business_day(given: Mapping[str, Any]) -> BusinessDay:
    """Read the trigger from JSON data; its keys are known to be `KEYS`."""
    nth, times, calendar = given.get("nth"), given.get("times"), given.get("calendar")
    if isinstance(nth, bool) or not isinstance(nth, int):
        raise _wrong("nth", "nth is a whole number", "nth")
    if not isinstance(times, list) or not all(isinstance(time, str) for time in cast("list[object]", times)):
        raise _wrong("times", "times is a list of texts such as '09:00'", "times")
    if not isinstance(calendar, str):
        shown = "missing" if calendar is None else quoted(str(calendar))
        raise _wrong("calendar", f"calendar is the name of one, not {shown}", "calendar")
    return BusinessDay(nth=nth, times=tuple(cast("list[str]", times)), calendar=calendar)


KEYS: Final = frozenset({"kind", "nth", "times", "calendar"})


def business_day_to_json(trigger: BusinessDay) -> dict[str, Any]:
    """Return what `parse_business_day` reads."""
    return {"kind": KIND, "nth": trigger.nth, "times": list(trigger.times), "calendar": trigger.calendar}


def _wrong(kind: str, message: str, name: str) -> TriggerError:
    return TriggerError(f"trigger.business_day.{kind}", message, field=name)
