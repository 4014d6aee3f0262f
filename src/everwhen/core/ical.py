"""Reads the closed days of an iCalendar text (RFC 5545): its all-day events, once or by a recurrence rule.

A day of an event is closed, under the event's summary. What this cannot say is refused by name, never guessed: an event
at a time of day, a rule without an end or COUNT in a text without an explicit range of years, exceptions at times. Work
is bounded: by the size of the text, by the days that a calendar may list, and by the recurrence engine's own bounds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import Final

from everwhen.core.calendars import CLOSED, FIRST_YEAR, LAST_YEAR, MOST_DAYS, DayRange
from everwhen.core.errors import TriggerError, quoted
from everwhen.core.trigger_values import Rrule
from everwhen.core.triggers import Timing, fires

MOST_TEXT: Final = 1_000_000
MOST_EVENTS: Final = 5_000
LONGEST_LABEL: Final = 100

_DAY: Final = timedelta(days=1)
_LINE: Final = re.compile(r"(?P<name>[A-Za-z0-9-]{1,40})(?P<parameters>(?:;[^:]{0,400})?):(?P<value>.*)", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{8}", re.ASCII)
_DURATION: Final = re.compile(r"P(?:(?P<weeks>[0-9]{1,3})W|(?P<days>[0-9]{1,4})D)", re.ASCII)
_PASSED_OVER: Final = frozenset({"CANCELLED"})


@dataclass(slots=True)
class _Event:
    line: int
    start: date | None = None
    end: date | None = None
    days: int | None = None
    rule: str = ""
    excluded: set[date] = field(default_factory=set[date])
    further: set[date] = field(default_factory=set[date])
    summary: str = ""
    status: str = ""


def closed_days(text: str, *, years: range) -> list[DayRange]:
    """Return the days of all events that begin in these years, as closed ranges in their order.

    Raises:
        TriggerError: the text is no iCalendar, or says what this cannot read; the message names the line.
    """
    if len(text) > MOST_TEXT:
        raise _wrong("size", f"the text has more than {MOST_TEXT} characters", 0)
    found: list[DayRange] = []
    count = 0
    for event in _events(text):
        for day in _starts(event, years):
            last = day + _DAY * (_length(event) - 1)
            if last.year > LAST_YEAR:
                raise _wrong("date", f"dates lie between {FIRST_YEAR} and {LAST_YEAR}", event.line)
            found.append(DayRange(first=day, last=last, hours=CLOSED, label=event.summary))
            count += len(found[-1])
            if count > MOST_DAYS:
                raise _wrong("size", f"more than {MOST_DAYS} days: name fewer years", event.line)
    return sorted(found, key=lambda each: (each.first, each.last, each.label))


def _events(text: str) -> Iterator[_Event]:  # noqa: C901  # one case for each kind of line
    event: _Event | None = None
    depth, seen, count = 0, False, 0
    for number, line in _lines(text):
        name, parameters, value = _parts(line, number)
        match name, value.upper():
            case "BEGIN", "VCALENDAR":
                seen = True
            case "BEGIN", "VEVENT" if event is None:
                event, count = _Event(line=number), count + 1
                if count > MOST_EVENTS:
                    raise _wrong("size", f"more than {MOST_EVENTS} events", number)
            case "END", "VEVENT" if event is not None and depth == 0:
                if event.start is None:
                    raise _wrong("event", "an event has no DTSTART", event.line)
                if event.status not in _PASSED_OVER:
                    yield event
                event = None
            case "BEGIN", _ if event is not None:
                depth += 1
            case "END", _ if event is not None:
                depth -= 1
            case _ if event is not None and depth == 0:
                _take(event, name, parameters, value, number)
            case _:
                pass
    if not seen or event is not None:
        raise _wrong("syntax", "this is no whole iCalendar text: BEGIN:VCALENDAR … END:VCALENDAR", 0)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines with their number: one that begins with a blank goes on with the line before."""
    current, began = "", 0
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if line[:1] in {" ", "\t"} and current:
            current += line[1:]
            continue
        if current.strip():
            yield began, current
        current, began = line, number
    if current.strip():
        yield began, current


def _parts(line: str, number: int) -> tuple[str, str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise _wrong("syntax", f"{quoted(line)} is not like NAME:value", number)
    return found["name"].upper(), found["parameters"].upper(), found["value"]


def _take(event: _Event, name: str, parameters: str, value: str, number: int) -> None:  # noqa: C901, PLR0917  # the same
    match name:
        case "DTSTART":
            event.start = _date(value, number)
        case "DTEND":
            event.end = _date(value, number)
        case "DURATION":
            event.days = _duration(value, number)
        case "RRULE":
            if event.rule:
                raise _wrong("rule", "an event has several rules; write one event for each", number)
            event.rule = value
        case "EXDATE":
            event.excluded |= {_date(part, number) for part in value.split(",")}
        case "RDATE":
            if "PERIOD" in parameters:
                raise _wrong("rule", "periods are not read", number)
            event.further |= {_date(part, number) for part in value.split(",")}
        case "SUMMARY":
            event.summary = _label(value)
        case "STATUS":
            event.status = value.strip().upper()
        case _:
            pass


def _starts(event: _Event, years: range) -> Iterator[date]:
    assert event.start is not None  # such an event is refused before
    days = set(event.further) | ({event.start} if not event.rule else set(_recurring(event, event.start, years)))
    return (day for day in sorted(days - event.excluded) if day.year in years)


def _recurring(event: _Event, start: date, years: range) -> Iterator[date]:
    midnight = datetime(start.year, start.month, start.day)  # noqa: DTZ001  # a local time
    try:
        timing = Timing(Rrule(event.rule, midnight))
    except TriggerError as error:
        raise _wrong("rule", f"the rule cannot be read: {error.message}", event.line) from None
    first = max(midnight.replace(tzinfo=UTC), datetime(years.start, 1, 1, tzinfo=UTC))
    found = fires(timing, after=first - timedelta(microseconds=1), count=MOST_DAYS + 1)
    return (at.date() for at in takewhile(lambda at: at.year < years.stop, found))


def _length(event: _Event) -> int:
    if event.end is None or event.start is None:
        return event.days or 1
    days = (event.end - event.start).days
    if not 1 <= days <= MOST_DAYS:
        raise _wrong("event", "an all-day event ends on a later day: DTEND is the day after its last one", event.line)
    return days


def _date(value: str, number: int) -> date:
    text = value.strip()
    if not _DATE.fullmatch(text):
        raise _wrong("date", f"{quoted(text)} is no date like 20271224: only all-day events are read", number)
    try:
        found = date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        raise _wrong("date", f"{quoted(text)} does not exist", number) from None
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise _wrong("date", f"dates lie between {FIRST_YEAR} and {LAST_YEAR}", number)
    return found


def _duration(value: str, number: int) -> int:
    found = _DURATION.fullmatch(value.strip().upper())
    days = 0 if found is None else int(found["weeks"] or 0) * 7 + int(found["days"] or 0)
    if days < 1:
        raise _wrong("event", f"{quoted(value)} is no duration in days or weeks", number)
    return days


def _label(value: str) -> str:
    text = re.sub(r"\\([nN,;\\])", lambda found: " " if found[1] in "nN" else found[1], value)
    return "".join(character if character.isprintable() else " " for character in text).strip()[:LONGEST_LABEL]


def _wrong(kind: str, message: str, line: int) -> TriggerError:
    return TriggerError(f"ical.{kind}", f"line {line}: {message}" if line else message, field="ics")
