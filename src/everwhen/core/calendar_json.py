"""Calendar definitions as JSON, in and out. Input is read strictly; an error names the place that is to be changed.

    {"week": ["mon", "tue", "wed", "thu", "fri"],
     "days": [{"date": "2027-12-24", "hours": [["09:00", "13:00"]], "label": "Christmas Eve"},
              {"date": "2027-12-25", "until": "2027-12-26", "hours": "closed", "label": "Christmas"}]}

`hours` are `"open"`, `"closed"` or windows. `week` may map weekdays to hours instead; one that is left out is closed.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, cast

from everwhen.core.calendars import CLOSED, FIRST_YEAR, LAST_YEAR, MOST_DAYS, OPEN, DayRange, Definition, Hours
from everwhen.core.errors import TriggerError, quoted

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MOST_WINDOWS: Final = 12
LONGEST_LABEL: Final = 100

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME: Final = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00", re.ASCII)


def parse_definition(data: object) -> Definition:
    """Read a definition from decoded JSON.

    Raises:
        TriggerError: it is none; the error's field is the path of what is to be changed, such as `days/3/hours`.
    """
    given = _object(data, "", {"week", "days"})
    entries = given.get("days", [])
    if not isinstance(entries, list):
        raise _wrong("type", "days is a list", "days")
    days: list[DayRange] = []
    count = 0
    for index, entry in enumerate(cast("list[object]", entries)):
        days.append(_entry(entry, f"days/{index}"))
        count += len(days[-1])
        if count > MOST_DAYS:
            raise _wrong("size", f"at most {MOST_DAYS} days are listed, ranges counted day by day", f"days/{index}")
    return Definition(week=_week(given["week"]) if "week" in given else (OPEN,) * 7, days=tuple(days))


def definition_to_json(definition: Definition) -> dict[str, Any]:
    """Return what `parse_definition` reads back to an equal value."""
    named = dict(zip(WEEKDAYS, definition.week, strict=True))
    week: Any = {name: hours_to_json(hours) for name, hours in named.items() if hours}
    if all(hours == OPEN for hours in named.values() if hours):
        week = list(week)
    return {"week": week, "days": [_entry_to_json(entry) for entry in definition.days]}


def parse_date(value: object, where: str) -> date:
    """Read a date between 1900 and 2199."""
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise _wrong("date", "a date is like '2027-12-24'", where)
    try:
        found = date.fromisoformat(value)
    except ValueError:
        raise _wrong("date", f"{quoted(value)} does not exist", where) from None
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise _wrong("date", f"dates lie between {FIRST_YEAR} and {LAST_YEAR}", where)
    return found


def _week(value: object) -> tuple[Hours, ...]:
    if isinstance(value, list):
        names = cast("list[object]", value)
        for index, name in enumerate(names):
            if name not in WEEKDAYS:
                raise _wrong("weekday", f"a weekday is one of {', '.join(WEEKDAYS)}", f"week/{index}")
        return tuple(OPEN if name in names else CLOSED for name in WEEKDAYS)
    given = _object(value, "week", set(WEEKDAYS))
    return tuple(_hours(given[name], f"week/{name}") if name in given else CLOSED for name in WEEKDAYS)


def _entry(value: object, where: str) -> DayRange:
    given = _object(value, where, {"date", "until", "hours", "label"})
    for key in ("date", "hours"):
        if key not in given:
            raise _wrong("missing", f"{key} is required", f"{where}/{key}")
    first = parse_date(given["date"], f"{where}/date")
    last = parse_date(given["until"], f"{where}/until") if given.get("until") is not None else first
    if last < first:
        raise _wrong("range", "until is not before date", f"{where}/until")
    label = given.get("label", "")
    if not isinstance(label, str) or len(label) > LONGEST_LABEL or not label.isprintable():
        raise _wrong("label", f"label is a printable text of at most {LONGEST_LABEL} characters", f"{where}/label")
    return DayRange(first=first, last=last, hours=_hours(given["hours"], f"{where}/hours"), label=label)


def _hours(value: object, where: str) -> Hours:
    match value:
        case "open":
            return OPEN
        case "closed":
            return CLOSED
        case list():
            windows = cast("list[object]", value)
        case _:
            raise _wrong("hours", "hours are 'open', 'closed' or windows such as [['09:00', '13:00']]", where)
    if not 1 <= len(windows) <= MOST_WINDOWS:
        raise _wrong("hours", f"there are 1 to {MOST_WINDOWS} windows; without any the day is 'closed'", where)
    found: list[tuple[int, int]] = []
    for index, window in enumerate(windows):
        start, end = _window(window, f"{where}/{index}")
        if found and start <= found[-1][1]:
            raise _wrong("hours", "windows are ascending, and apart from one another", f"{where}/{index}")
        found.append((start, end))
    return tuple(found)


def _window(value: object, where: str) -> tuple[int, int]:
    if not isinstance(value, list) or len(times := cast("list[object]", value)) != 2:
        raise _wrong("hours", "a window is a pair such as ['09:00', '13:00']", where)
    start, end = (_minutes(time, where) for time in times)
    if start >= end:
        raise _wrong("hours", "a window ends after it starts", where)
    return start, end


def _minutes(value: object, where: str) -> int:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise _wrong("time", "a time is like '09:00'; '24:00' is the end of the day", where)
    return int(value[:2]) * 60 + int(value[3:])


def _entry_to_json(entry: DayRange) -> dict[str, Any]:
    until = {} if entry.last == entry.first else {"until": entry.last.isoformat()}
    label = {"label": entry.label} if entry.label else {}
    return {"date": entry.first.isoformat(), **until, "hours": hours_to_json(entry.hours), **label}


def hours_to_json(hours: Hours) -> str | list[list[str]]:
    """Return the hours of a day as JSON data."""
    if hours == OPEN:
        return "open"
    if hours == CLOSED:
        return "closed"
    return [[f"{at // 60:02}:{at % 60:02}" for at in window] for window in hours]


def _object(value: object, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong("type", f"{where or 'a calendar definition'} is an object", where)
    given = cast("Mapping[str, Any]", value)
    for key in given:
        if key not in known:
            names: Sequence[str] = sorted(known)
            raise _wrong("field", f"unknown key {quoted(key)}; known are {', '.join(names)}", where)
    return given


def _wrong(kind: str, message: str, where: str) -> TriggerError:
    return TriggerError(f"calendar.{kind}", message, field=where)
