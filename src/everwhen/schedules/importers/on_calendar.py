"""OnCalendar of systemd, its normal forms: `Mon..Fri *-*-* 10:00:00`, lists, ranges, `/n`, and `~` from a month's end.

What is known of its rules is read in its source and its tests: weekdays and dates both have to match; a search goes
strictly forward on the clock on the wall, so a time inside a gap is skipped, and one that occurs twice is met once. In
which pass, the C library decides there; it is taken to be the first.

An expression is read to sets of values. From these come two triggers: the recurrence that says exactly this, which is
the source, and where five columns of cron can say it, that cron, which people read.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from everwhen.core.triggers import AnyOf, Cron, Rrule, Trigger
from everwhen.schedules.importers.entry import refuse

LONGEST: Final = 256
MOST_TERMS: Final = 240  # systemd's own

_SHORT: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_RRULE_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_TERM: Final = re.compile(r"(?P<start>[0-9]{1,4})(\.\.(?P<stop>[0-9]{1,4}))?(/(?P<step>[0-9]{1,4}))?", re.ASCII)
_DATE: Final = re.compile(r"((?P<year>[^-~:]+)-)?(?P<month>[^-~:]+)(?P<end>[-~])(?P<day>[^-~:]+)")
_LAST_YEAR: Final = 2199


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCalendar:
    """An expression as sets; None is all values. Days below zero count from a month's end, -1 being the last.

    `rides_on` tells whether it is about elapsed time: its hours are open, or a step.
    """

    weekdays: tuple[int, ...] | None
    years: tuple[int, ...] | None
    months: tuple[int, ...] | None
    days: tuple[int, ...] | None
    hours: tuple[int, ...] | None
    minutes: tuple[int, ...] | None
    seconds: tuple[int, ...] | None
    rides_on: bool
    timezone: str | None


def parse_on_calendar(text: str) -> OnCalendar:
    """Read an expression; raise TriggerError."""
    if len(text) > LONGEST:
        refuse("systemd.length", f"an expression has at most {LONGEST} characters", key="OnCalendar")
    words, zone = _without_zone(text.split())
    if len(words) == 1:
        words = _SHORT.get(words[0].lower(), words[0]).split()
    if not words:
        refuse("systemd.expression", "an expression names a date, a time or a weekday", key="OnCalendar")
    weekdays = _weekdays(words.pop(0)) if words[0][0].isalpha() else None
    date = words.pop(0) if words and ":" not in words[0] else "*-*-*"
    time = words.pop(0) if words else "00:00:00"
    if words:
        refuse("systemd.expression", "an expression is weekdays, a date, a time and a zone", key="OnCalendar")
    years, months, days = _date(date)
    columns = time.split(":")
    if len(columns) not in {2, 3}:
        refuse("systemd.time", "a time is hours, minutes and perhaps seconds", key="OnCalendar")
    hours, minutes, seconds = [*columns, "00"][:3]
    return OnCalendar(
        weekdays=weekdays,
        years=years,
        months=months,
        days=days,
        hours=_values(hours, 0, 23, "hours"),
        minutes=_values(minutes, 0, 59, "minutes"),
        seconds=_values(seconds, 0, 59, "seconds"),
        rides_on=bool(set("*/").intersection(hours)),
        timezone=zone,
    )


def recurrence_of(calendar: OnCalendar) -> Trigger:
    """Return the recurrence that says what an expression says, within its years."""
    parts = ["FREQ=DAILY"]
    for key, values in (("BYMONTH", calendar.months), ("BYMONTHDAY", calendar.days)):
        if values is not None:
            parts.append(f"{key}={_joined(values)}")
    if calendar.weekdays is not None:
        parts.append(f"BYDAY={','.join(_RRULE_DAYS[day] for day in calendar.weekdays)}")
    for key, values, size in (
        ("BYHOUR", calendar.hours, 24),
        ("BYMINUTE", calendar.minutes, 60),
        ("BYSECOND", calendar.seconds, 60),
    ):
        parts.append(f"{key}={_joined(range(size) if values is None else values)}")
    rule = Rrule(";".join(parts), datetime(1970, 1, 1))  # noqa: DTZ001  # local: the zone is the schedule's
    return rule if calendar.years is None else _within(rule, calendar.years)


def stored_of(calendar: OnCalendar) -> Trigger:
    """Return cron where its five columns can say it, otherwise the recurrence."""
    by_weekday, by_day = calendar.weekdays is not None, calendar.days is not None
    from_the_end = calendar.days is not None and calendar.days[0] < 0
    if calendar.years is not None or calendar.seconds != (0,) or from_the_end or (by_weekday and by_day):
        return recurrence_of(calendar)
    weekdays = None if calendar.weekdays is None else tuple(sorted((day + 1) % 7 for day in calendar.weekdays))
    columns = (
        _column(calendar.minutes, 0, 59),
        _column(calendar.hours, 0, 23),
        _column(calendar.days, 1, 31),
        _column(calendar.months, 1, 12),
        _column(weekdays, 0, 6),
    )
    expr = " ".join(columns)
    return Cron(expr) if len(expr) <= LONGEST else recurrence_of(calendar)


def _within(rule: Rrule, years: tuple[int, ...]) -> AnyOf:
    first, last = years[0], years[-1]
    if len(years) != last - first + 1:
        refuse("systemd.years", "years other than one, or from one to another, are not imported", key="OnCalendar")
    start, end = datetime(first, 1, 1), datetime(last, 12, 31, 23, 59, 59)  # noqa: DTZ001  # local
    return AnyOf(triggers=(rule,), start=start, end=end)


def _without_zone(words: list[str]) -> tuple[list[str], str | None]:
    """Take a zone off the end: UTC, or a name with a slash; an abbreviation is refused where it stands."""
    if len(words) > 1 and (words[-1].upper() == "UTC" or (words[-1][0].isalpha() and "/" in words[-1])):
        return words[:-1], "UTC" if words[-1].upper() == "UTC" else words[-1]
    if len(words) > 1 and words[-1][0].isalpha():
        refuse(
            "systemd.zone", "a zone is UTC or an IANA name; an abbreviation depends on the machine", key="OnCalendar"
        )
    return words, None


def _weekdays(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for term in text.removesuffix(",").split(","):
        first, dots, last = term.partition(".." if ".." in term else "-")
        low = _weekday(first)
        high = _weekday(last) if dots else low
        if high < low:
            refuse("systemd.weekday", "a range of weekdays runs from Monday towards Sunday", key="OnCalendar")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def _weekday(text: str) -> int:
    name = text.lower()
    found = [number for number, day in enumerate(_WEEKDAYS) if name in {day, day[:3]}]
    if not found:
        refuse("systemd.weekday", "a weekday is Mon to Sun, or its whole name", key="OnCalendar")
    return found[0]


def _date(text: str) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None]:
    if text.startswith("@"):
        refuse("systemd.unix", "@seconds is one instant; use a schedule of kind at", key="OnCalendar")
    match = _DATE.fullmatch(text)
    if match is None:
        refuse("systemd.date", "a date is like *-*-01, 12-24, 2027-01-01 or *-*~01", key="OnCalendar")
    years = None if match["year"] in {None, "*"} else _years(match["year"])
    months = _values(match["month"], 1, 12, "months")
    if match["end"] == "~":
        return years, months, _days_from_end(match["day"])
    return years, months, _values(match["day"], 1, 31, "days")


def _years(text: str) -> tuple[int, ...]:
    def whole(year: int) -> int:
        return year + 2000 if year < 70 else year + 1900 if year < 100 else year  # systemd's own

    found: set[int] = set()
    for start, stop, step in _terms(text, "years"):
        last = _LAST_YEAR if stop is None and step else whole(start if stop is None else stop)
        found.update(range(whole(start), last + 1, step or 1))
    if not found or min(found) < 1970 or max(found) > _LAST_YEAR:  # systemd's own
        refuse("systemd.value", f"years are from 1970 to {_LAST_YEAR}, and a range runs upwards", key="OnCalendar")
    return tuple(sorted(found))


def _days_from_end(text: str) -> tuple[int, ...] | None:
    """Return days before zero: `01` is the last one, and a step goes from the earliest towards the end."""
    if text == "*":
        return None
    found: set[int] = set()
    for start, stop, step in _terms(text, "days"):
        first, last = (start, 1 if step else start) if stop is None else (stop, start)
        if not 1 <= last <= first <= 31:  # days of a month
            refuse("systemd.value", "days from the end are from 1 to 31, and a range runs upwards", key="OnCalendar")
        if first > 28 and (step or 1) > 1:  # the shortest month
            refuse("systemd.days", "a step from before a month's 28th last day is not imported", key="OnCalendar")
        found.update(range(-first, -last + 1, step or 1))
    return tuple(sorted(found))


def _values(text: str, low: int, high: int, what: str) -> tuple[int, ...] | None:
    if text == "*":
        return None
    found: set[int] = set()
    for start, stop, step in _terms(text, what):
        last = (high if step else start) if stop is None else stop
        if not low <= start <= last <= high:
            refuse("systemd.value", f"{what} are from {low} to {high}, and a range runs upwards", key="OnCalendar")
        found.update(range(start, last + 1, step or 1))
    return tuple(sorted(found)) if len(found) <= high - low else None


def _terms(text: str, what: str) -> Iterable[tuple[int, int | None, int | None]]:
    terms = text.split(",")
    if len(terms) > MOST_TERMS:
        refuse("systemd.length", f"{what} list at most {MOST_TERMS} terms", key="OnCalendar")
    for term in terms:
        match = _TERM.fullmatch(term)
        if match is None and re.fullmatch(r"[0-9]*\.[0-9.]*(/[0-9.]+)?|[0-9.]+/[0-9]*\.[0-9]+", term, re.ASCII):
            refuse("systemd.fraction", "fractions of a second are not imported", key="OnCalendar")
        if match is None or (match["step"] or "1").strip("0") == "":
            refuse("systemd.value", f"{what} are numbers, lists, ranges a..b and steps a/n", key="OnCalendar")
        stop, step = match["stop"], match["step"]
        yield int(match["start"]), None if stop is None else int(stop), None if step is None else int(step)


def _joined(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def _column(values: tuple[int, ...] | None, low: int, high: int) -> str:
    """Return values as people write them: a star, a step over the whole column, ranges and numbers."""
    if values is None:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(values) > 2 and len(steps) == 1:  # two are a list
        step = min(steps)
        if step == 1:
            return f"{values[0]}-{values[-1]}"
        if values[-1] + step > high:
            # A star in a day column would open it; the range says the same in each column.
            return f"*/{step}" if values[0] == low and low == 0 else f"{values[0]}-{high}/{step}"
    return _joined(values)
