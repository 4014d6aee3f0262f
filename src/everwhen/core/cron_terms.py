"""Reads one column of a cron expression, term by term, by the syntax that its dialect has."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from everwhen.core.cron_days import DayPick, LastDay, LastWeekday, NearestWeekday, NthWeekday
from everwhen.core.cron_dialects import DAY, DIALECTS, WEEKDAY, YEAR, DayRule, Dialect, Syntax
from everwhen.core.errors import TriggerError, quoted

_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, start=1)}
_MOST_BACK = 30
_LAST_HASHED_DAY = 28

_TERM = re.compile(r"(?P<low>\*|[0-9]+|[A-Z]+)?(?:-(?P<high>[0-9]+|[A-Z]+))?(?:/(?P<step>[0-9]+))?")
_LAST = re.compile(r"L(?:-(?P<back>[0-9]{1,3}))?(?P<on_weekday>W)?")
_NEAREST = re.compile(r"(?P<day>[0-9]+)W")
_OF_KIND = re.compile(r"(?P<weekday>[0-9]+|[A-Z]{3})(?:#(?P<nth>[0-9]+)|L)")
_LAST_OF_KIND_AFTER = re.compile(r"L([0-9])")
_HASH = re.compile(r"H(?:\((?P<low>[0-9]{1,4})-(?P<high>[0-9]{1,4})\))?(?:/(?P<step>[0-9]{1,4}))?")
_EXTENSION = re.compile(
    r"\?|#|L(-[0-9]+)?W?|[0-9]+L|L[0-9]|[0-9]+W|(SUN|MON|TUE|WED|THU|FRI|SAT)L|H(\(.*\))?(/[0-9]+)?|R"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column: its name in messages, its numbers, its names, and where `a/n` and `*` end."""

    position: int
    name: str
    low: int
    high: int
    star_high: int
    names: dict[str, int]


@lru_cache(maxsize=64)
def fields_of(dialect_name: str) -> tuple[Field, ...]:
    dialect = DIALECTS[dialect_name]
    first = 1 if dialect.sunday == 1 else 0
    weekdays = {name: first + (i + dialect.sunday - first) % 7 for i, name in enumerate(_WEEKDAY_NAMES)}
    if dialect.name == "spring":
        weekdays["SUN"] = 7  # so that FRI-SUN is a range there; where 7 begins one, it is read as 0
    rows: tuple[tuple[str, int, int, int, dict[str, int]], ...] = (
        ("second", 0, 59, 59, {}),
        ("minute", 0, 59, 59, {}),
        ("hour", 0, 23, 23, {}),
        ("day-of-month", 1, 31, 31, {}),
        ("month", 1, 12, 12, _MONTHS),
        ("day-of-week", first, dialect.highest_weekday, first + 6, weekdays),
        ("year", *dialect.years, dialect.years[1], {}),
    )
    return tuple(
        Field(position=i, name=name, low=low, high=high, star_high=star_high, names=names)
        for i, (name, low, high, star_high, names) in enumerate(rows)
    )


@lru_cache(maxsize=8192)
def read_column(column: str, position: int, dialect_name: str, hash_seed: str) -> tuple[int, tuple[DayPick, ...]]:
    dialect, field = DIALECTS[dialect_name], fields_of(dialect_name)[position]
    terms = column.split(",")
    mask, picks = 0, list[DayPick]()
    for term in terms:
        pick = _pick(term, field, dialect)
        if pick is not None:
            picks.append(pick)
            continue
        for value in _values(term, field, dialect, hash_seed):
            mask |= 1 << value
    if picks and len(terms) > 1 and position == WEEKDAY and dialect.day_rule is DayRule.ONE:
        raise cron_error("list", f"{field.name}: {dialect.name} takes an 'L' or '#' only by itself, not in a list")
    if "?" in terms and len(terms) > 1:
        raise cron_error("syntax", f"{field.name}: '?' stands by itself, not in a list")
    return _from_sunday(mask, dialect) if position == WEEKDAY else mask, tuple(picks)


def _from_sunday(numbers: int, dialect: Dialect) -> int:
    """Return the weekdays counted from Sunday = 0, given as the dialect counts them; 7 is 0 again, as a week is."""
    week, sunday = numbers & 0b1111111 | numbers >> 7, dialect.sunday
    return (week >> sunday | week << 7 - sunday) & 0b1111111


def _pick(term: str, field: Field, dialect: Dialect) -> DayPick | None:
    """Return what a term picks from each month; None when it is a set of numbers."""
    if term == "*" or term.isdecimal():
        return None
    if field.position == DAY:
        return _day_pick(term, field, dialect)
    if field.position == WEEKDAY:
        return _weekday_pick(term, field, dialect)
    return None


def _day_pick(term: str, field: Field, dialect: Dialect) -> DayPick | None:
    nearest = _NEAREST.fullmatch(term)
    if nearest is not None:
        _need(Syntax.NEAREST, term, field, dialect)
        return NearestWeekday(_number(nearest["day"], field))
    last = _LAST.fullmatch(term)
    if last is None:
        return None
    back, on_weekday = last["back"], bool(last["on_weekday"])
    if back is None:
        _need(Syntax.LAST_WEEKDAY if on_weekday else Syntax.LAST, term, field, dialect)
        return LastDay(0, on_weekday)
    _need(Syntax.LAST_MINUS_WEEKDAY if on_weekday else Syntax.LAST_MINUS, term, field, dialect)
    if int(back) > _MOST_BACK:
        raise cron_error("value", f"{field.name}: {quoted(term)} goes back by more than {_MOST_BACK} days")
    return LastDay(int(back), on_weekday)


def _weekday_pick(term: str, field: Field, dialect: Dialect) -> DayPick | None:
    after = _LAST_OF_KIND_AFTER.fullmatch(term)
    if after is not None:
        _need(Syntax.LAST_OF_KIND_AFTER, term, field, dialect)
        return LastWeekday((_number(after[1], field) - dialect.sunday) % 7)
    found = _OF_KIND.fullmatch(term)
    if found is None or term in field.names:
        return None
    nth = found["nth"]
    _need(Syntax.LAST_OF_KIND if nth is None else Syntax.NTH, term, field, dialect)
    weekday = (_number(found["weekday"], field) - dialect.sunday) % 7
    if nth is None:
        return LastWeekday(weekday)
    if not 1 <= int(nth) <= 5:
        raise cron_error("value", f"{field.name}: {quoted(term)} does not count from 1 to 5")
    return NthWeekday(weekday, int(nth))


def _values(term: str, field: Field, dialect: Dialect, hash_seed: str) -> Iterator[int]:
    if term == "*":
        return iter(range(field.low, field.star_high + 1))
    if term.isdecimal():
        return iter((_number(term, field),))
    if term == "?" and field.position in {DAY, WEEKDAY}:
        _need(Syntax.ANY, term, field, dialect)
        return iter(range(field.low, field.star_high + 1))
    if term == "L" and field.position == WEEKDAY:
        _need(Syntax.SATURDAY, term, field, dialect)
        return iter((field.star_high,))
    hashed = _HASH.fullmatch(term)
    if hashed is not None:
        _need(Syntax.HASH, term, field, dialect)
        return _hashed(hashed, field, hash_seed)
    return _plain(term, field, dialect)


def _plain(term: str, field: Field, dialect: Dialect) -> Iterator[int]:
    match = _TERM.fullmatch(term)
    if match is None or (match["low"] == "*" and match["high"]) or _is_extension(term, field):
        raise _bad_term(term, field)
    start = match["low"]
    if start is None:
        if match["high"] or not match["step"] or Syntax.BARE_STEP not in dialect.syntax:
            raise _bad_term(term, field)
        start = "*"
    step = _step(match["step"], term, field, dialect)
    if start == "*":
        return iter(range(field.low, field.star_high + 1, step))
    low = _number(start, field)
    alone = max(low, field.star_high) if match["step"] else low
    high = _number(match["high"], field) if match["high"] else alone
    if low == 7 > high and dialect.name == "spring" and field.position == WEEKDAY:
        low = 0
    if high >= low:
        return iter(range(low, high + 1, step))
    return _wrapped_range(low, high, step, term=term, field=field, dialect=dialect)


def _wrapped_range(low: int, high: int, step: int, *, term: str, field: Field, dialect: Dialect) -> Iterator[int]:
    if Syntax.WRAP not in dialect.syntax or field.position == YEAR:
        raise cron_error(
            "extension.wrap_range",
            f"{field.name}: the range {quoted(term)} runs backwards; write it as two, such as '22-23,0-2'",
        )
    cycle = field.star_high - field.low + 1
    return ((value - field.low) % cycle + field.low for value in range(low, high + cycle + 1, step))


def _hashed(match: re.Match[str], field: Field, hash_seed: str) -> Iterator[int]:
    low, high = field.low, _LAST_HASHED_DAY if field.position == DAY else field.star_high
    if match["low"]:
        low, high = _number(match["low"], field), _number(match["high"], field)
    if high < low:
        raise cron_error("value", f"{field.name}: the range {quoted(match[0])} runs backwards")
    drawn = int.from_bytes(sha256(f"{hash_seed}\n{field.name}".encode()).digest()[:8])
    if not match["step"]:
        return iter((low + drawn % (high - low + 1),))
    step = int(match["step"])
    if step == 0:
        raise cron_error("step", f"{field.name}: the step in {quoted(match[0])} is zero")
    return iter(range(low + drawn % min(step, high - low + 1), high + 1, step))


def _step(text: str | None, term: str, field: Field, dialect: Dialect) -> int:
    if text is None:
        return 1
    step = int(text)
    if step == 0:
        raise cron_error("step", f"{field.name}: the step in {quoted(term)} is zero")
    if field.position == WEEKDAY and Syntax.WEEKDAY_STEP not in dialect.syntax:
        raise cron_error("extension", f"{field.name}: {dialect.name} has no steps here; list the days")
    if dialect.name == "quartz" and step > max(7, field.star_high):
        raise cron_error("step", f"{field.name}: the step in {quoted(term)} is longer than the field")
    return step


def read_years(column: str, dialect: Dialect) -> tuple[int, ...]:
    if column == "*":
        return ()
    field = fields_of(dialect.name)[YEAR]
    return tuple(sorted({value for term in column.split(",") for value in _plain(term, field, dialect)}))


def _number(text: str, field: Field) -> int:
    if text in field.names:
        return field.names[text]
    if not text.isdigit():
        raise _bad_term(text, field)
    value = int(text)
    if not field.low <= value <= field.high:
        raise cron_error("value", f"{field.name}: {quoted(text)} is not between {field.low} and {field.high}")
    return value


def _need(syntax: Syntax, term: str, field: Field, dialect: Dialect) -> None:
    if syntax not in dialect.syntax:
        raise _bad_term(term, field)


def _is_extension(term: str, field: Field) -> bool:
    return term not in field.names and bool(_EXTENSION.fullmatch(term) or "#" in term or "~" in term)


def _bad_term(term: str, field: Field) -> TriggerError:
    if _is_extension(term, field):
        return cron_error("extension", f"{field.name}: {quoted(term)} is an extension that this dialect does not have")
    return cron_error("syntax", f"{field.name}: {quoted(term)} is neither a number, a name, a range nor a step")


def cron_error(kind: str, message: str) -> TriggerError:
    """Return the error of a kind, `trigger.cron.<kind>`, about the expression."""
    return TriggerError(f"trigger.cron.{kind}", message, field="expr")
