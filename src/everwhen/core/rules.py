"""Plain calendar rules for people: `daily`, `weekly`, `monthly` and `yearly`, at times of the day.

A rule says on which days, every how many days, weeks, months or years, and at which times. Every n-th needs an anchor,
a date in the first period, because "every other week" does not say which; nothing fires before an anchor. A day that
a month does not have, such as the 31st or a fifth Friday, is left out, never moved. Weeks begin on Monday.

A rule is compiled to the recurrence that says the same, so that there is one engine for both.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, Final, TypeVar, cast

from everwhen.core.errors import TriggerError, quoted
from everwhen.core.rrule import CompiledRule, Times, days_with_times
from everwhen.core.rrule_syntax import Freq, Rule

KINDS: Final = ("daily", "weekly", "monthly", "yearly")
WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MOST_TIMES: Final = 48
MOST_EVERY: Final = 1000

_FREQS: Final = {"daily": Freq.DAILY, "weekly": Freq.WEEKLY, "monthly": Freq.MONTHLY, "yearly": Freq.YEARLY}
_EPOCH: Final = date(1970, 1, 1)
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_T = TypeVar("_T")
_DAYS_OF: Final = {"daily": (), "weekly": ("weekdays",), "monthly": ("days", "on"), "yearly": ("days", "on")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarRule:
    """Times of day on some days.

    Attributes:
        kind: `daily`, `weekly`, `monthly` or `yearly`.
        times: such as `09:00`, or `09:00:30`.
        every: each so many days, weeks, months or years.
        anchor: a date in the first period; needed when `every` is more than 1.
        weekdays: for `weekly`, such as `MON`.
        days: days of the month, -1 being the last; for `monthly` and `yearly`, unless `on` is given.
        on: pairs of a position, 1 to 5 or -1 to -5, and a weekday, for `monthly` and `yearly`.
        months: for `yearly`, and for `monthly` if some only, such as `JAN`.

    Raises:
        TriggerError: a value is wrong; the field names it.
    """

    kind: str
    times: tuple[str, ...]
    every: int = 1
    anchor: date | None = None
    weekdays: tuple[str, ...] = ()
    days: tuple[int, ...] = ()
    on: tuple[tuple[int, str], ...] = ()
    months: tuple[str, ...] = ()
    compiled: CompiledRule = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self)
        start = datetime.combine(self.anchor or _EPOCH, time(0), UTC)
        try:
            compiled = days_with_times(_rule(self), start, _times(self.times))
        except TriggerError as error:
            # The engine speaks of recurrences; this person wrote none.
            raise _error("unreachable", "no date meets the rule", "days" if self.days else "on") from error
        object.__setattr__(self, "compiled", compiled)


def _rule(rule: CalendarRule) -> Rule:
    weekdays = [(0, WEEKDAYS.index(name)) for name in rule.weekdays]
    return Rule(
        freq=_FREQS[rule.kind],
        interval=rule.every,
        months=tuple(sorted(MONTHS.index(name) + 1 for name in rule.months)),
        month_days=rule.days,
        weekdays=tuple(weekdays + [(nth, WEEKDAYS.index(name)) for nth, name in rule.on]),
    )


def _times(texts: tuple[str, ...]) -> Times:
    clock = [time.fromisoformat(text) for text in texts]
    hours, minutes, seconds = (
        tuple(sorted({getattr(each, part) for each in clock})) for part in ("hour", "minute", "second")
    )
    every = Times(hours, minutes, seconds)
    positions = {every.rank(each.hour * 3600 + each.minute * 60 + each.second) for each in clock}
    return every.choose(tuple(positions))


def _check(rule: CalendarRule) -> None:
    if not 1 <= len(rule.times) <= MOST_TIMES or not all(_TIME.fullmatch(text) for text in rule.times):
        raise _error("times", f"times lists 1 to {MOST_TIMES} times of day such as '09:00' or '17:30:15'", "times")
    if not 1 <= rule.every <= MOST_EVERY:
        raise _error("every", f"every is a whole number from 1 to {MOST_EVERY}", "every")
    if rule.every > 1 and rule.anchor is None:
        raise _error("anchor", f"every {rule.every} needs an anchor, a date in the first period", "anchor")
    _check_names(rule.weekdays, WEEKDAYS, "weekdays")
    _check_names(rule.months, MONTHS, "months")
    if any(not 1 <= abs(day) <= 31 for day in rule.days):
        raise _error("days", "days lists days of the month, 1 to 31, or -1 to -31 from its end", "days")
    if any(not 1 <= abs(nth) <= 5 or name not in WEEKDAYS for nth, name in rule.on):
        raise _error("on", 'on lists weekdays such as {"weekday": "FRI", "nth": -1}, nth being ±1 to ±5', "on")
    _check_shape(rule)


def _check_shape(rule: CalendarRule) -> None:
    wanted = _DAYS_OF[rule.kind]
    given = [name for name in ("weekdays", "days", "on") if getattr(rule, name)]
    if wanted and (len(given) != 1 or given[0] not in wanted):
        raise _error("days", f"{rule.kind} needs {' or '.join(wanted)}, and only one", wanted[0])
    if rule.kind == "yearly" and not rule.months:
        raise _error("months", "yearly needs months, such as ['JAN', 'JUL']", "months")
    if rule.kind in {"daily", "weekly"} and (rule.months or (given and not wanted)):
        raise _error("shape", f"{rule.kind} takes no {given[0] if given and not wanted else 'months'}", "kind")


def _check_names(given: tuple[str, ...], known: tuple[str, ...], name: str) -> None:
    for item in given:
        if item not in known:
            raise _error(name, f"{name} lists {', '.join(known)}, not {quoted(item)}", name)


def parse_rule(given: Mapping[str, Any]) -> CalendarRule:
    """Read a rule from decoded JSON whose kind and keys are known to be right; raise TriggerError."""
    anchor = given.get("anchor")
    if anchor is not None and not (isinstance(anchor, str) and _DATE.fullmatch(anchor)):
        raise _error("anchor", "anchor is a date such as '2027-01-04'", "anchor")
    every = given.get("every", 1)
    if isinstance(every, bool) or not isinstance(every, int):
        raise _error("every", f"every is a whole number from 1 to {MOST_EVERY}", "every")
    return CalendarRule(
        kind=given["kind"],
        times=_unique(_list(given, "times", _text)),
        every=every,
        anchor=None if anchor is None else _date(anchor),
        weekdays=_unique(_list(given, "weekdays", _text)),
        days=_unique(_list(given, "days", _number)),
        on=_unique(_list(given, "on", _position)),
        months=_unique(_list(given, "months", _text)),
    )


def rule_to_json(rule: CalendarRule) -> dict[str, Any]:
    """Return the rule as JSON data, without what it leaves out."""
    data: dict[str, Any] = {"kind": rule.kind, "times": list(rule.times), "every": rule.every}
    if rule.anchor is not None:
        data["anchor"] = rule.anchor.isoformat()
    for name in ("weekdays", "days", "months"):
        if getattr(rule, name):
            data[name] = list(getattr(rule, name))
    if rule.on:
        data["on"] = [{"weekday": name, "nth": nth} for nth, name in rule.on]
    return data


def keys_of(kind: str) -> set[str]:
    """Return the keys that a rule of this kind may have."""
    months = {"months"} if kind in {"monthly", "yearly"} else set[str]()
    return {"kind", "times", "every", "anchor", *_DAYS_OF[kind], *months}


def _list(given: Mapping[str, Any], key: str, read: Callable[[object, str], _T]) -> list[_T]:
    value = given.get(key, [])
    if not isinstance(value, list) or len(cast("list[Any]", value)) > 100:
        raise TriggerError("trigger.field.type", f"{key} is a list of at most 100 items", field=key)
    return [read(item, key) for item in cast("list[Any]", value)]


def _unique(items: list[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))


def _text(item: object, key: str) -> str:
    if not isinstance(item, str):
        raise TriggerError("trigger.field.type", f"{key} is a list of texts", field=key)
    return item


def _number(item: object, key: str) -> int:
    if isinstance(item, bool) or not isinstance(item, int):
        raise TriggerError("trigger.field.type", f"{key} is a list of whole numbers", field=key)
    return item


def _position(item: object, key: str) -> tuple[int, str]:
    pair: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
    if set(pair) != {"weekday", "nth"}:
        raise TriggerError(
            "trigger.field.type", f'{key} is a list such as [{{"weekday": "FRI", "nth": -1}}]', field=key
        )
    return _number(pair["nth"], key), _text(pair["weekday"], key)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise _error("anchor", f"{quoted(text)} does not exist: {error}", "anchor") from None


def _error(kind: str, message: str, name: str) -> TriggerError:
    return TriggerError(f"trigger.rule.{kind}", message, field=name)
