"""What plain rules and steps of the wall clock mean in English, as words for the inside of a sentence."""

from everwhen.core.interval import WallSteps
from everwhen.core.rules import MONTHS, WEEKDAYS, CalendarRule

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_PERIODS = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}


def explain_rule(rule: CalendarRule) -> str:
    """Return what a plain rule means, such as `at 09:00 on the last Friday of every month`."""
    period = _PERIODS[rule.kind]
    every = f"every {period}" if rule.every == 1 else f"every {rule.every} {period}s"
    if rule.anchor is not None:
        every += f" from {rule.anchor.isoformat()} on"
    days = [_named(name) for name in rule.weekdays]
    days += [f"the {_from_end(day, 'day')}" for day in rule.days]
    days += [f"the {_from_end(nth, _named(name))}" for nth, name in rule.on]
    months = f" in {_listed([_MONTHS[MONTHS.index(name)] for name in rule.months])}" if rule.months else ""
    on = f" on {_listed(days)} of" if days else ""
    return f"at {_listed(list(rule.times))}{on} {every}{months}"


def explain_months(steps: WallSteps) -> str:
    """Return `every month`, `every 3 months`, `every year` or `every 2 years`."""
    years, months = divmod(steps.months, 12)
    count, unit = (years, "year") if not months else (steps.months, "month")
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def _named(name: str) -> str:
    return _WEEKDAYS[WEEKDAYS.index(name)]


def _from_end(number: int, what: str) -> str:
    count = abs(number)
    suffix = "th" if count // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    if number > 0:
        return f"{count}{suffix}" if what == "day" else f"{count}{suffix} {what}"
    return f"last {what}" if count == 1 else f"{count}{suffix} to last {what}"


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
