"""Says in English what a trigger means.

The sentence is made from the sets of numbers that the engine itself fires by, never from the text somebody wrote, so it
cannot say less or more than what happens. Correct comes before pretty: what has no short name is listed.
"""

from datetime import datetime, timedelta

from everwhen.core.business_days import BusinessDay
from everwhen.core.cron_days import DayPick, LastDay, LastWeekday, NearestWeekday, NthWeekday
from everwhen.core.cron_syntax import CronFields
from everwhen.core.explain_rules import explain_months, explain_rule
from everwhen.core.interval import EPOCH
from everwhen.core.rules import CalendarRule
from everwhen.core.trigger_values import AnyOf, At, Cron, Every, Rrule, Trigger

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NTH = ("first", "second", "third", "fourth", "fifth")
_EVERY_DAY = (1 << 32) - 2
_EVERY_WEEKDAY = 0b1111111
_MOST_TIMES = 6
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def explain(trigger: Trigger) -> str:
    """Return one sentence, with its full stop, that says when a trigger fires."""
    match trigger:
        case Cron():
            text = explain_cron(trigger.compiled.fields)
        case Every():
            text = _every(trigger)
        case At(at=at):
            text = f"once, at {_moment(at)}"
        case CalendarRule():
            text = explain_rule(trigger)
        case Rrule(rrule=rrule, dtstart=dtstart):
            since = "" if dtstart is None else f", from {_moment(dtstart)} on"
            text = f"by the recurrence rule {'; '.join(rrule.split())}{since}"
        case BusinessDay():
            text = _business_day(trigger)
        case AnyOf(triggers=triggers, exceptions=exceptions):
            text = "; or ".join(_inside(member) for member in triggers)
            if exceptions:
                text += f"; except {'; or '.join(_inside(member) for member in exceptions)}"
        case _:
            text = "at times that have no sentence yet"
    return f"{text[0].upper()}{text[1:]}."


def _business_day(trigger: BusinessDay) -> str:
    back = abs(trigger.nth)
    which = ordinal(back) if trigger.nth > 0 else "last" if back == 1 else f"{ordinal(back)} last"
    return (
        f"at {listed(list(trigger.times))} on the {which} business day of every month, by calendar {trigger.calendar}"
    )


def _inside(trigger: Trigger) -> str:
    sentence = explain(trigger)
    return f"{sentence[0].lower()}{sentence[1:-1]}"


def explain_cron(fields: CronFields) -> str:
    """Return what a cron expression means, as words for the inside of a sentence."""
    time, days = _time(fields), _days(fields)
    if not days and time.startswith("at ") and "every" not in time:
        days = "every day"
    return " ".join(part for part in (time, _in_months(days, fields), _years(fields.years)) if part)


def _in_months(days: str, fields: CronFields) -> str:
    if fields.months == _all(1, 12):
        return days
    months = _months(fields.months)
    dates_decide = fields.days_and_weekdays and (fields.days & _EVERY_DAY != _EVERY_DAY)
    if dates_decide:
        return days.replace("the month", months, 1)
    return f"{days}, in {months}" if "the month" in days else f"{days} in {months}".lstrip()


def _every(trigger: Every) -> str:
    since = "the start of 1970 in UTC" if trigger.anchor == EPOCH else _moment(trigger.anchor)
    steps = trigger.steps
    every = explain_months(steps) if steps is not None and steps.months else f"every {_duration(trigger.period)}"
    return f"{every}{' on the wall clock' if steps is not None else ''}, counted from {since}"


def _moment(time: datetime) -> str:
    zone = "local time" if time.tzinfo is None else "UTC"
    return f"{time.replace(tzinfo=None).isoformat(sep=' ')} {zone}"


def listed(items: list[str], word: str = "and") -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {word} {items[-1]}"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `11th`, `23rd`."""
    suffix = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _time(fields: CronFields) -> str:
    seconds, minutes, hours = _numbers(fields.seconds), _numbers(fields.minutes), _numbers(fields.hours)
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES:
        shown = "{:02}:{:02}" if seconds == [0] else "{:02}:{:02}:{:02}"
        return "at " + listed([shown.format(h, m, s) for h in hours for m in minutes for s in seconds])
    if seconds != [0]:
        return _of(_at("second", seconds, 60), _unit("minute", minutes, 60), _unit("hour", hours, 24))
    return _whole_hours(hours) if minutes == [0] else _minutes(minutes, hours)


def _minutes(minutes: list[int], hours: list[int]) -> str:
    step = _step(minutes, 60)
    if step is None:
        return _of(_at("minute", minutes, 60), _unit("hour", hours, 24))
    every = "every minute" if step == 1 else f"every {step} minutes"
    if len(hours) == 24:
        return every
    if len(_runs(hours)) == 1:
        return f"{every} from {hours[0]:02}:00 to {hours[-1]:02}:59"
    return f"{every} of {_unit('hour', hours, 24)}"


def _whole_hours(hours: list[int]) -> str:
    step = _step(hours, 24)
    if step is not None:
        return "every hour" if step == 1 else f"every {step} hours from 00:00"
    if len(_runs(hours)) == 1:
        return f"every hour from {hours[0]:02}:00 to {hours[-1]:02}:00"
    return "at " + listed([f"{hour:02}:00" for hour in hours])


def _of(first: str, *others: str) -> str:
    """Join units from small to large; `every hour` after `every minute` goes without saying."""
    kept = [first]
    for unit in others:
        if not (unit == "every hour" and kept[-1].startswith("every")):
            kept.append(unit)
    return " of ".join(kept)


def _at(name: str, values: list[int], size: int) -> str:
    unit = _unit(name, values, size)
    return unit if unit.startswith("every") else f"at {unit}"


def _unit(name: str, values: list[int], size: int) -> str:
    step = _step(values, size)
    if step is not None:
        return f"every {name}" if step == 1 else f"every {ordinal(step)} {name} from 0"
    return f"{name} {values[0]}" if len(values) == 1 else f"{name}s {_ranges([str(value) for value in values], values)}"


def _step(values: list[int], size: int) -> int | None:
    """Return the step if these are all multiples of one that divides the size."""
    step = size // len(values)
    return step if step < size and values == list(range(0, size, step)) else None


def _days(fields: CronFields) -> str:
    every_date = fields.days & _EVERY_DAY == _EVERY_DAY
    every_weekday = fields.weekdays == _EVERY_WEEKDAY
    dates = _listed_days(fields.days, fields.day_picks)
    weekdays = _listed_weekdays(fields.weekdays, fields.weekday_picks)
    if fields.days_and_weekdays:
        if every_date:
            return "" if every_weekday else f"on {weekdays}"
        return f"on {dates}" if every_weekday else f"on {dates}, if that is {_or(weekdays)}"
    return "" if every_date or every_weekday else f"on {dates} and on {weekdays}"


def _or(weekdays: str) -> str:
    return weekdays.replace(" and ", " or ")


def _listed_days(days: int, picks: tuple[DayPick, ...]) -> str:
    numbers = _numbers(days & _EVERY_DAY)
    items = [f"the {text}" for text in _range_items([ordinal(number) for number in numbers], numbers, " to the ")]
    items += [_pick(pick) for pick in picks]
    return f"{listed(items)} of the month" if items else ""


def _listed_weekdays(weekdays: int, picks: tuple[DayPick, ...]) -> str:
    from_monday = [number for number in (1, 2, 3, 4, 5, 6, 0) if weekdays >> number & 1]
    order = [number or 7 for number in from_monday]
    items = _range_items([_WEEKDAYS[number] for number in from_monday], order, " to ")
    picked = f"{listed([_pick(pick) for pick in picks])} of the month" if picks else ""
    return listed([item for item in (listed(items) if items else "", picked) if item])


def _pick(pick: DayPick) -> str:
    match pick:
        case LastDay(back=0, on_weekday=on_weekday):
            return "the last day that is Monday to Friday" if on_weekday else "the last day"
        case LastDay(back=back, on_weekday=on_weekday):
            day = f"the {ordinal(back)} day before the last"
            return f"the Monday to Friday nearest to {day}" if on_weekday else day
        case NearestWeekday(day=day):
            return f"the Monday to Friday nearest to the {ordinal(day)}"
        case NthWeekday(weekday=weekday, nth=nth):
            return f"the {_NTH[nth - 1]} {_WEEKDAYS[weekday]}"
        case LastWeekday(weekday=weekday):
            return f"the last {_WEEKDAYS[weekday]}"


def _months(months: int) -> str:
    numbers = _numbers(months)
    return _ranges([_MONTHS[number - 1] for number in numbers], numbers)


def _years(years: tuple[int, ...]) -> str:
    return f"in {_ranges([str(year) for year in years], list(years))}" if years else ""


def _ranges(names: list[str], numbers: list[int]) -> str:
    return listed(_range_items(names, numbers, " to "))


def _range_items(names: list[str], numbers: list[int], to: str) -> list[str]:
    """Return the names, with each run of three or more consecutive numbers as a range."""
    items: list[str] = []
    start = 0
    for length in _runs(numbers):
        run = names[start : start + length]
        items += [f"{run[0]}{to}{run[-1]}"] if length > 2 else run
        start += length
    return items


def _runs(numbers: list[int]) -> list[int]:
    """Return the lengths of the runs of consecutive numbers."""
    lengths: list[int] = []
    for i, number in enumerate(numbers):
        if i and number == numbers[i - 1] + 1:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def _numbers(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def _all(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low)


def _duration(period: timedelta) -> str:
    left = period.days * 86_400 + period.seconds
    items: list[str] = []
    for name, size in _UNITS:
        amount, left = divmod(left, size)
        if amount:
            items.append(f"{amount} {name}s" if amount > 1 else f"1 {name}")
    return listed(items).removeprefix("1 ") if len(items) == 1 else listed(items)
