"""Recurrence rules as text: RFC 5545, read strictly.

A text holds one property a line: `RRULE`, `RDATE`, `EXDATE`, `DTSTART`; a line without a name is an RRULE. Every time
is a local time of the schedule's zone, or UTC with a trailing Z; a zone of its own is refused, as is whatever the
standard forbids for a frequency, since programs disagree about what it means.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from everwhen.core.errors import TriggerError, quoted

LONGEST: Final = 4096
MOST_RULES: Final = 8

_NAMES: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_PRINTABLE = re.compile(r"[ -~\r\n]*")
_PART = re.compile(r"([A-Z]+)=([^=]+)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SIGNED = re.compile(r"[+-]?[0-9]{1,3}")
_WEEKDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_TIME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})(Z?)")


class Freq(IntEnum):
    """How long a period of a rule is, from the longest."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5
    SECONDLY = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. Parts that it does not name are empty.

    Attributes:
        until: the last instant if aware, the last local time if naive; inclusive.
        week_start: the first day of a week, Monday = 0.
        weekdays: pairs of an ordinal, 0 for every one, and a weekday, Monday = 0.
    """

    freq: Freq
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    week_start: int = 0
    months: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What a text says: its rules, further times, excluded times, and its start if it names one."""

    rules: tuple[Rule, ...]
    further: tuple[datetime, ...]
    excluded: tuple[datetime, ...]
    start: datetime | None


@dataclass(slots=True)
class _Reading:
    rules: list[Rule] = field(default_factory=list[Rule])
    further: list[datetime] = field(default_factory=list[datetime])
    excluded: list[datetime] = field(default_factory=list[datetime])
    starts: list[datetime] = field(default_factory=list[datetime])


def parse_recurrence(text: str) -> Recurrence:
    """Read a text of one or more properties.

    Raises:
        TriggerError: what is wrong, with the offending part; the field is `rrule`.
    """
    if len(text) > LONGEST:
        raise _error("length", f"a recurrence has at most {LONGEST} characters, this one has {len(text)}")
    if not _PRINTABLE.fullmatch(text):
        raise _error("character", "a recurrence consists of printable ASCII characters")
    reading = _Reading()
    for line in text.upper().splitlines():
        if line.strip():
            _read_line(line.strip(), reading)
    if not reading.rules and not reading.further:
        raise _error("syntax", "there is no rule; write one such as 'FREQ=DAILY;INTERVAL=2'")
    if len(reading.rules) > MOST_RULES or len(reading.starts) > 1:
        raise _error("rules", f"at most {MOST_RULES} rules and one DTSTART")
    start = reading.starts[0] if reading.starts else None
    further, excluded = tuple(dict.fromkeys(reading.further)), tuple(dict.fromkeys(reading.excluded))
    return Recurrence(tuple(reading.rules), further, excluded, start)


def _read_line(line: str, reading: _Reading) -> None:
    head, colon, value = line.partition(":")
    name, _, parameters = head.partition(";") if colon else ("RRULE", "", "")
    value = value if colon else line
    if parameters and parameters != "VALUE=DATE-TIME":
        _refuse_parameters(name, parameters)
    match name:
        case "RRULE":
            reading.rules.append(_parse_rule(value))
        case "RDATE":
            reading.further += _times(value)
        case "EXDATE":
            reading.excluded += _times(value)
        case "DTSTART":
            reading.starts += _times(value)
        case "EXRULE":
            raise _error("exrule", "EXRULE is obsolete; use EXDATE, or an any_of trigger with 'except'")
        case _:
            raise _error("property", f"{quoted(name)} is unknown; known are RRULE, RDATE, EXDATE and DTSTART")


def _refuse_parameters(name: str, parameters: str) -> None:
    if "TZID" in parameters:
        raise _error("timezone", f"{name} names a zone; the schedule's timezone holds, so leave TZID out")
    raise _error("property", f"{name} has the parameter {quoted(parameters)}; only times are understood, without any")


def _parse_rule(text: str) -> Rule:
    given: dict[str, str] = {}
    for part in text.split(";"):
        found = _PART.fullmatch(part)
        if found is None:
            raise _error("syntax", f"{quoted(part)} is not like 'NAME=VALUE'")
        name, value = found.groups()
        if name in given:
            raise _error("part", f"{name} occurs twice")
        given[name] = value
    if "FREQ" not in given:
        raise _error("freq", "a rule needs a FREQ, such as 'FREQ=DAILY'")
    freq = given.pop("FREQ")
    if freq not in Freq.__members__:
        raise _error("freq", f"FREQ is one of {', '.join(Freq.__members__)}, not {quoted(freq)}")
    values: dict[str, object] = {}
    for name, value in given.items():
        if name not in _READERS:
            raise _error("part", f"{quoted(name)} is unknown; known are FREQ, {', '.join(_READERS)}")
        attribute, read = _READERS[name]
        values[attribute] = read(name, value)
    rule = Rule(freq=Freq[freq], **values)  # pyright: ignore[reportArgumentType]  # each reader fits its attribute
    _check(rule)
    return rule


def _check(rule: Rule) -> None:
    """Refuse what RFC 5545 forbids."""
    freq = rule.freq
    ordinals = any(nth for nth, _ in rule.weekdays)
    named = (
        rule.months,
        rule.weeks,
        rule.year_days,
        rule.month_days,
        rule.weekdays,
        rule.hours,
        rule.minutes,
        rule.seconds,
    )
    forbidden = (
        (rule.count is not None and rule.until is not None, "COUNT and UNTIL exclude each other"),
        (bool(rule.weeks) and freq is not Freq.YEARLY, "BYWEEKNO needs FREQ=YEARLY"),
        (
            bool(rule.year_days) and freq in {Freq.MONTHLY, Freq.WEEKLY, Freq.DAILY},
            f"BYYEARDAY is not possible with FREQ={freq.name}",
        ),
        (bool(rule.month_days) and freq is Freq.WEEKLY, "BYMONTHDAY is not possible with FREQ=WEEKLY"),
        (ordinals and freq > Freq.MONTHLY, "an ordinal in BYDAY, such as 1MO, needs FREQ=MONTHLY or YEARLY"),
        (ordinals and bool(rule.weeks), "an ordinal in BYDAY is not possible with BYWEEKNO"),
        (bool(rule.positions) and not any(named), "BYSETPOS needs another BY part to choose from"),
    )
    for is_wrong, why in forbidden:
        if is_wrong:
            raise _error("combination", why)


def _positive(name: str, value: str) -> int:
    if not _NUMBER.fullmatch(value) or int(value) == 0:
        raise _error("value", f"{name} is a whole number from 1 to 999999999, not {quoted(value)}")
    return int(value)


def _until(_name: str, value: str) -> datetime:
    if re.fullmatch(r"[0-9]{8}", value):
        raise _error("until", f"UNTIL needs a time as well, such as {value}T235959")
    return _time("UNTIL", value)


def _week_start(name: str, value: str) -> int:
    if value not in _NAMES:
        raise _error("value", f"{name} is one of {', '.join(_NAMES)}, not {quoted(value)}")
    return _NAMES.index(value)


def _weekdays(name: str, value: str) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for item in value.split(","):
        match = _WEEKDAY.fullmatch(item)
        nth = int(match[1] or 0) if match else 0
        if match is None or (match[1] is not None and not 1 <= abs(nth) <= 53):
            raise _error("value", f"{name} lists weekdays such as MO, 2TU or -1FR, not {quoted(item)}")
        found.append((nth, _NAMES.index(match[2])))
    return tuple(sorted(set(found)))


def _numbers(low: int, high: int, *, signed: bool = False) -> Callable[[str, str], tuple[int, ...]]:
    def read(name: str, value: str) -> tuple[int, ...]:
        found: set[int] = set()
        for item in value.split(","):
            number = int(item) if _SIGNED.fullmatch(item) else -1000
            if not low <= (abs(number) if signed else number) <= high or (item[0] in "+-" and not signed):
                sign = " or, from the end, their negatives" if signed else ""
                raise _error("value", f"{name} lists numbers from {low} to {high}{sign}, not {quoted(item)}")
            found.add(number)
        return tuple(sorted(found))

    return read


def _seconds(name: str, value: str) -> tuple[int, ...]:
    # There are no leap seconds here; the standard lets the 61st second stand for the 60th.
    return tuple(sorted({min(number, 59) for number in _numbers(0, 60)(name, value)}))


_READERS: Final[dict[str, tuple[str, Callable[[str, str], object]]]] = {
    "INTERVAL": ("interval", _positive),
    "COUNT": ("count", _positive),
    "UNTIL": ("until", _until),
    "WKST": ("week_start", _week_start),
    "BYMONTH": ("months", _numbers(1, 12)),
    "BYWEEKNO": ("weeks", _numbers(1, 53, signed=True)),
    "BYYEARDAY": ("year_days", _numbers(1, 366, signed=True)),
    "BYMONTHDAY": ("month_days", _numbers(1, 31, signed=True)),
    "BYDAY": ("weekdays", _weekdays),
    "BYHOUR": ("hours", _numbers(0, 23)),
    "BYMINUTE": ("minutes", _numbers(0, 59)),
    "BYSECOND": ("seconds", _seconds),
    "BYSETPOS": ("positions", _numbers(1, 366, signed=True)),
}


def _times(value: str) -> list[datetime]:
    return [_time("a time", item) for item in value.split(",")]


def _time(name: str, value: str) -> datetime:
    found = _TIME.fullmatch(value)
    if found is None:
        raise _error("time", f"{name} is like 20270328T023000, or with a trailing Z for UTC, not {quoted(value)}")
    try:
        return datetime(*map(int, found.groups()[:6]), tzinfo=UTC if found[7] else None)  # local time
    except ValueError as error:
        raise _error("time", f"{quoted(value)} does not exist: {error}") from None


def _error(kind: str, message: str) -> TriggerError:
    return TriggerError(f"trigger.rrule.{kind}", message, field="rrule")
