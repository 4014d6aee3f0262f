"""Reads a cron expression into sets of numbers: the dialect layer, which knows text and nothing of time.

Only the dialect `vixie` is known. What differs between dialects is here and nowhere else: the columns in order, the
macros, the names, and how the two day columns combine. Syntax that belongs to other dialects is recognised, so that the
refusal can name it, and never guessed at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from everwhen.core.errors import TriggerError, quoted

LONGEST_EXPRESSION = 256
DIALECTS = ("vixie",)

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, start=1)}
_WEEKDAYS = {name: i for i, name in enumerate(_WEEKDAY_NAMES)}
_LONGEST_MONTH = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_TERM = re.compile(r"(?P<low>\*|[0-9]+|[A-Z]+)(?:-(?P<high>[0-9]+|[A-Z]+))?(?:/(?P<step>[0-9]+))?")
_CHARACTERS = re.compile(r"[ \t!-~]*")
_EXTENSION = re.compile(r"\?|#|L(-[0-9]+)?|LW|[0-9]+L|[0-9]+W|(SUN|MON|TUE|WED|THU|FRI|SAT)L|H(\(.*\))?(/[0-9]+)?|R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column: its name in messages, its numbers, its names and where `a/n` and `*` end."""

    name: str
    low: int
    high: int
    star_high: int
    names: dict[str, int]


_SECOND = Field(name="second", low=0, high=59, star_high=59, names={})
_MINUTE = Field(name="minute", low=0, high=59, star_high=59, names={})
_HOUR = Field(name="hour", low=0, high=23, star_high=23, names={})
_DAY = Field(name="day-of-month", low=1, high=31, star_high=31, names={})
_MONTH = Field(name="month", low=1, high=12, star_high=12, names=_MONTHS)
_WEEKDAY = Field(name="day-of-week", low=0, high=7, star_high=6, names=_WEEKDAYS)
_FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """What an expression means: one bit per number that matches.

    `weekdays` counts from Sunday = 0. `days_and_weekdays` says that a day must satisfy both day fields; otherwise
    either suffices. `sub_daily` says that the hour field holds a wildcard or a step.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    days_and_weekdays: bool
    sub_daily: bool


def parse_cron(expr: str, *, seconds: bool = False, dialect: str = "vixie") -> CronFields:
    """Read an expression of five fields, or of six with leading seconds.

    Raises:
        TriggerError: the text is not such an expression, or can never match; the message names the column.
    """
    if dialect not in DIALECTS:
        raise TriggerError(
            "trigger.cron.dialect", f"dialect {quoted(dialect)} is not supported; use 'vixie'", field="dialect"
        )
    columns = _columns(_expand_macro(_checked_text(expr), seconds=seconds), seconds=seconds)
    masks = [_mask(column, position) for position, column in enumerate(columns)]
    sunday_twice = masks[5]
    fields = CronFields(
        seconds=masks[0],
        minutes=masks[1],
        hours=masks[2],
        days=masks[3],
        months=masks[4],
        weekdays=(sunday_twice | sunday_twice >> 7) & 0b1111111,
        days_and_weekdays=columns[3].startswith("*") or columns[5].startswith("*"),
        sub_daily="*" in columns[2] or "/" in columns[2],
    )
    _refuse_unreachable(fields, days=columns[3], months=columns[4])
    return fields


def _checked_text(expr: str) -> str:
    if len(expr) > LONGEST_EXPRESSION:
        raise _error("length", f"an expression has at most {LONGEST_EXPRESSION} characters, this one {len(expr)}")
    if not _CHARACTERS.fullmatch(expr):
        raise _error("character", f"{quoted(expr)} contains a character that no cron expression has")
    text = expr.strip(" \t").upper()
    if not text:
        raise _error("empty", "the expression is empty")
    if text.startswith(("CRON_TZ=", "TZ=")):
        raise _error("timezone_prefix", "a time zone is not part of the expression; set the schedule's timezone")
    return text


def _expand_macro(text: str, *, seconds: bool) -> str:
    if not text.startswith("@"):
        return text
    macro = text.lower()
    if macro == "@reboot":
        raise _error("reboot", "@reboot names no time; start such work from the service that boots")
    if macro not in _MACROS:
        raise _error("macro", f"unknown macro {quoted(macro)}; known are {', '.join(_MACROS)}")
    return f"0 {_MACROS[macro]}" if seconds else _MACROS[macro]


def _columns(text: str, *, seconds: bool) -> list[str]:
    columns = text.split()
    expected = 6 if seconds else 5
    if len(columns) != expected:
        hint = "; set seconds to use a leading seconds field" if len(columns) == 6 else ""
        raise _error("fields", f"expected {expected} fields, found {len(columns)}{hint}")
    return columns if seconds else ["0", *columns]


@lru_cache(maxsize=8192)
def _mask(column: str, position: int) -> int:
    field, mask = _FIELDS[position], 0
    for term in column.split(","):
        for value in _values(term, field):
            mask |= 1 << value
    return mask


def _values(term: str, field: Field) -> Iterator[int]:
    match = _TERM.fullmatch(term)
    if match is None or (match["low"] == "*" and match["high"]) or _is_extension(term, field):
        raise _bad_term(term, field)
    step = int(match["step"] or "1")
    if step == 0:
        raise _error("step", f"{field.name}: the step in {quoted(term)} is zero")
    if match["low"] == "*":
        return iter(range(field.low, field.star_high + 1, step))
    low = _number(match["low"], field)
    alone = max(low, field.star_high) if match["step"] else low
    high = _number(match["high"], field) if match["high"] else alone
    if high < low:
        raise _error(
            "extension.wrap_range",
            f"{field.name}: the range {quoted(term)} runs backwards; write it as two, such as '22-23,0-2'",
        )
    return iter(range(low, high + 1, step))


def _number(text: str, field: Field) -> int:
    if text in field.names:
        return field.names[text]
    if not text.isdigit():
        raise _bad_term(text, field)
    value = int(text)
    if not field.low <= value <= field.high:
        raise _error("value", f"{field.name}: {quoted(text)} is not between {field.low} and {field.high}")
    return value


def _is_extension(term: str, field: Field) -> bool:
    return term not in field.names and bool(_EXTENSION.fullmatch(term) or "#" in term or "~" in term)


def _bad_term(term: str, field: Field) -> TriggerError:
    if _is_extension(term, field):
        return _error("extension", f"{field.name}: {quoted(term)} is an extension that this dialect does not have")
    return _error("syntax", f"{field.name}: {quoted(term)} is neither a number, a name, a range nor a step")


def _refuse_unreachable(fields: CronFields, *, days: str, months: str) -> None:
    # Over 400 years every date that exists falls on every weekday, 29 February included: dates alone decide.
    if not fields.days_and_weekdays:
        return
    longest = max(_LONGEST_MONTH[month] for month in range(1, 13) if fields.months >> month & 1)
    earliest = (fields.days & -fields.days).bit_length() - 1
    if earliest > longest:
        raise _error(
            "unreachable", f"never fires: day-of-month {quoted(days)} does not occur in month {quoted(months)}"
        )


def _error(kind: str, message: str) -> TriggerError:
    return TriggerError(f"trigger.cron.{kind}", message, field="expr")
