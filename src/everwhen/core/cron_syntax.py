"""Reads a cron expression into sets of numbers: the layer that knows text and nothing of time.

What differs between dialects is data (`cron_dialects`); this module reads by it. Syntax that the dialect lacks is
recognised, so that the refusal can say which dialects have it, and never guessed at: the same `1-5` is Monday to Friday
in one and Sunday to Thursday in another.
"""

import re
from dataclasses import dataclass

from everwhen.core.cron_days import DayColumns, DayPick, month_table
from everwhen.core.cron_dialects import (
    DAY,
    DIALECTS,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    YEAR,
    DayRule,
    Dialect,
    SubDaily,
    Syntax,
)
from everwhen.core.cron_terms import cron_error, read_column, read_years
from everwhen.core.errors import TriggerError, quoted

LONGEST_EXPRESSION = 256

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST_MONTH = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ALL_HOURS = (1 << 24) - 1
# The 28 years from 2000 hold every pair of a year's length and its first weekday.
_KINDS_OF_YEAR = tuple(range(2000, 2028))

_CHARACTERS = re.compile(r"[ \t!-~]*")
_WRAPPED = re.compile(r"(CRON|RATE|AT)\((.*)\)")
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S*)")
# What is refused for these reasons is refused by every dialect, or for a reason that no other dialect mends.
_FINAL = {"length", "character", "empty", "timezone_prefix", "reboot", "unreachable", "every"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """What an expression means: one bit per number that matches, and the days that depend on their month.

    `weekdays` counts from Sunday = 0. `years` lists the years, ascending; empty: every year. `days_and_weekdays` says
    that a day must satisfy both day columns; otherwise either suffices. `sub_daily` says that the pattern is about
    elapsed time. `columns` are the texts from seconds to year.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    years: tuple[int, ...]
    day_picks: tuple[DayPick, ...]
    weekday_picks: tuple[DayPick, ...]
    days_and_weekdays: bool
    sub_daily: bool
    dialect: Dialect
    columns: tuple[str, ...]

    @property
    def day_columns(self) -> DayColumns:
        """The two day columns."""
        return DayColumns(self.days, self.weekdays, self.day_picks, self.weekday_picks, self.days_and_weekdays)


def parse_cron(expr: str, *, seconds: bool = False, dialect: str = "vixie", hash_seed: str = "") -> CronFields:
    """Read an expression; `seconds` adds a leading column to dialects that can do without it.

    `hash_seed` is what `H` is computed from: the same seed gives the same numbers for ever.

    Raises:
        TriggerError: the text is not such an expression, or can never match; the message names the column, and other
            dialects that would accept the expression.
    """
    known = find_dialect(dialect)
    try:
        return _parse(expr, known, seconds=seconds, hash_seed=hash_seed)
    except TriggerError as error:
        if error.code.removeprefix("trigger.cron.") in _FINAL:
            raise
        hint = _hint(expr, known)
        raise TriggerError(error.code, f"{error.message}{hint}", field=error.field) from None


def find_dialect(name: str) -> Dialect:
    """Return a dialect by its name; raise TriggerError when there is none."""
    if name not in DIALECTS:
        raise TriggerError(
            "trigger.cron.dialect",
            f"dialect {quoted(name)} is unknown; use one of {', '.join(DIALECTS)}",
            field="dialect",
        )
    return DIALECTS[name]


def _hint(expr: str, refusing: Dialect) -> str:
    accepting = [other.name for other in DIALECTS.values() if other.by_hand and _accepts(expr, other, refusing)]
    if not accepting:
        return ""
    names = " and ".join(filter(None, (", ".join(map(repr, accepting[:-1])), repr(accepting[-1]))))
    verb = "accepts" if len(accepting) == 1 else "accept"
    return f"; dialect {names} {verb} it, and may number weekdays differently"


def _accepts(expr: str, dialect: Dialect, refusing: Dialect) -> bool:
    if dialect is refusing:
        return False
    try:
        _parse(expr, dialect, seconds=len(expr.split()) == 6 and bool(dialect.with_seconds), hash_seed="")
    except TriggerError:
        return False
    return True


def _parse(expr: str, dialect: Dialect, *, seconds: bool, hash_seed: str) -> CronFields:
    text = _expand_macro(_unwrapped(_checked_text(expr), dialect), dialect, seconds=seconds)
    columns = _columns(text, dialect, seconds=seconds)
    masks: list[int] = []
    picks: list[tuple[DayPick, ...]] = []
    for position, column in enumerate(columns[:YEAR]):
        seed = hash_seed if "H" in column and Syntax.HASH in dialect.syntax else ""
        mask, picked = read_column(column, position, dialect.name, seed)
        masks.append(mask)
        picks.append(picked)
    fields = CronFields(
        seconds=masks[SECOND],
        minutes=masks[MINUTE],
        hours=masks[HOUR],
        days=masks[DAY],
        months=masks[MONTH],
        weekdays=masks[WEEKDAY],
        years=read_years(columns[YEAR], dialect),
        day_picks=picks[DAY],
        weekday_picks=picks[WEEKDAY],
        days_and_weekdays=_needs_both(columns[DAY], columns[WEEKDAY], dialect),
        sub_daily=_is_sub_daily(columns, masks[HOUR], dialect),
        dialect=dialect,
        columns=columns,
    )
    _refuse_unreachable(fields)
    return fields


def _checked_text(expr: str) -> str:
    if len(expr) > LONGEST_EXPRESSION:
        raise cron_error("length", f"an expression has at most {LONGEST_EXPRESSION} characters, this one {len(expr)}")
    if not _CHARACTERS.fullmatch(expr):
        raise cron_error("character", f"{quoted(expr)} contains a character that no cron expression has")
    text = expr.strip(" \t")
    if not text:
        raise cron_error("empty", "the expression is empty")
    zone = _ZONE.match(text.upper())
    if zone is not None:
        name = text[zone.start(1) : zone.end(1)] or "a name such as 'Europe/Berlin'"
        raise cron_error(
            "timezone_prefix",
            f"a time zone is not part of the expression; set the schedule's timezone to {quoted(name)}",
        )
    return text.upper()


def _unwrapped(text: str, dialect: Dialect) -> str:
    wrapped = _WRAPPED.fullmatch(text) if dialect.name == "eventbridge" else None
    if wrapped is None:
        return text
    if wrapped[1] == "CRON":
        return wrapped[2].strip(" \t")
    kind = "every" if wrapped[1] == "RATE" else "at"
    raise cron_error("every", f"{quoted(text.lower())} is no cron expression; use a trigger of kind '{kind}'")


def _expand_macro(text: str, dialect: Dialect, *, seconds: bool) -> str:
    if not text.startswith("@"):
        return text
    macro = text.lower()
    if macro == "@reboot":
        raise cron_error("reboot", "@reboot names no time; start such work from the service that boots")
    if macro.startswith("@every"):
        raise cron_error(
            "every", "@every is elapsed time; use a trigger of kind 'every' with a duration such as 'PT90M'"
        )
    if macro not in _MACROS or not dialect.macros:
        known = ", ".join(_MACROS) if dialect.macros else "none"
        raise cron_error("macro", f"unknown macro {quoted(macro)}; known are {known}")
    return f"0 {_MACROS[macro]}" if seconds or 5 not in dialect.layouts else _MACROS[macro]


def _columns(text: str, dialect: Dialect, *, seconds: bool) -> tuple[str, ...]:
    found = text.split()
    layouts = dialect.with_seconds if seconds else dialect.layouts
    layout = layouts.get(len(found))
    if layout is None:
        expected = " or ".join(map(str, layouts)) or "no leading seconds but 5 or 6"
        hint = "; set seconds to use a leading seconds field" if len(found) in dialect.with_seconds else ""
        raise cron_error("fields", f"expected {expected} fields, found {len(found)}{hint}")
    columns = ["0", "*", "*", "*", "*", "*", "*"]
    for position, column in zip(layout, found, strict=True):
        columns[position] = column
    return tuple(columns)


def _needs_both(days: str, weekdays: str, dialect: Dialect) -> bool:
    match dialect.day_rule:
        case DayRule.BOTH:
            return True
        case DayRule.ONE:
            if (days == "?") == (weekdays == "?"):
                raise cron_error(
                    "day_columns", f"{dialect.name} needs '?' in exactly one of day-of-month and day-of-week"
                )
            return True
        case DayRule.STAR_FIRST:
            return days[0] in "*?" or weekdays[0] in "*?"
        case DayRule.STAR_TERM:
            return any(term in {"*", "?", "*/1"} for column in (days, weekdays) for term in column.split(","))
        case DayRule.STAR_ALONE:
            # croniter, whose rule this is, narrows the days of the month by `5#2` and `L5` instead of adding to them.
            return days in {"*", "?"} or weekdays in {"*", "?"} or "#" in weekdays or weekdays.startswith("L")


def _is_sub_daily(columns: tuple[str, ...], hours: int, dialect: Dialect) -> bool:
    match dialect.sub_daily:
        case SubDaily.WILDCARD:
            return "*" in columns[HOUR] or "/" in columns[HOUR]
        case SubDaily.STAR_FIRST:
            return columns[MINUTE].startswith("*") or columns[HOUR].startswith("*")
        case SubDaily.EVERY_HOUR:
            return hours == _ALL_HOURS
        case SubDaily.NEVER:
            return False


def _refuse_unreachable(fields: CronFields) -> None:
    if not fields.years and not fields.day_picks and not fields.weekday_picks:
        # Over 400 years every date that exists falls on every weekday, 29 February included: dates alone decide.
        if not fields.days_and_weekdays:
            return
        longest = max(_LONGEST_MONTH[month] for month in range(1, 13) if fields.months >> month & 1)
        if (fields.days & -fields.days).bit_length() - 1 <= longest:
            return
    elif month_table(fields.day_columns).has_any(fields.months, fields.years or _KINDS_OF_YEAR):
        return
    days, months = quoted(fields.columns[DAY]), quoted(fields.columns[MONTH])
    raise cron_error("unreachable", f"never fires: day-of-month {days} does not occur in month {months}")
