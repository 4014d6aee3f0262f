"""An oracle for cron in every dialect: it asks of one date, or one minute, whether each term of each column holds.

It imports nothing of the engine, knows no sets and no tables, and counts days on a calendar. H has no oracle here,
since its numbers are drawn; columns of seconds are read but must be 0.
"""

import calendar
import re
from functools import lru_cache

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
SECONDS_FIRST = {"quartz", "spring"}
FROM_ONE = {"quartz", "eventbridge"}
BOTH = {"spring", "temporal", "apscheduler", "quartz", "eventbridge"}
WHOLE_STAR = {"croniter", "airflow", "dagster", "prefect"}


class NaiveCron:
    """An expression, asked about one date or one minute of a day at a time."""

    def __init__(self, expr, dialect):
        columns = expr.upper().removeprefix("CRON(").removesuffix(")").split()
        if dialect in SECONDS_FIRST:
            assert columns.pop(0) == "0"
        self.minute, self.hour, self.day, self.month, self.weekday, *year = columns
        self.year = year[0] if year else "*"
        self.dialect = dialect

    def holds_at(self, hour, minute):
        return _holds(self.hour, hour, 0, 23) and _holds(self.minute, minute, 0, 59)

    def holds_on(self, date):
        if not _holds(self.year, date.year, 1970, 2199) or not _holds(
            _numbered(self.month, MONTHS, 1), date.month, 1, 12
        ):
            return False
        day = any(self._day(term, date) for term in self.day.split(","))
        weekday = any(self._weekday(term, date) for term in self.weekday.split(","))
        return (day and weekday) if self._needs_both() else (day or weekday)

    def _needs_both(self):
        columns = (self.day, self.weekday)
        if self.dialect in BOTH:
            return True
        if self.dialect in WHOLE_STAR:
            narrowed = "#" in self.weekday or self.weekday[0] == "L"
            return narrowed or "*" in columns or "?" in columns
        if self.dialect == "kubernetes":
            return any(term in {"*", "?", "*/1"} for column in columns for term in column.split(","))
        return any(column[0] in "*?" for column in columns)

    def _day(self, term, date):
        length = calendar.monthrange(date.year, date.month)[1]
        last = re.fullmatch(r"L(?:-(\d+))?(W?)", term)
        if last:
            wanted = length - int(last[1] or 0)
            return wanted > 0 and date.day == (_working_day(date, wanted, length) if last[2] else wanted)
        if term.endswith("W"):
            wanted = int(term[:-1])
            return wanted <= length and date.day == _working_day(date, wanted, length)
        return _holds(term, date.day, 1, 31)

    def _weekday(self, term, date):
        first = 1 if self.dialect in FROM_ONE else 0
        monday_first = self.dialect == "apscheduler"
        number = date.weekday() if monday_first else date.isoweekday() % 7 + first
        names = DAYS[1:] + DAYS[:1] if monday_first else DAYS
        if self.dialect == "spring":
            term = re.sub(r"^7-(?!7)", "0-", term.replace("SUN", "7"))
        term = _numbered(term, names, first)
        if term == "L":
            return number == 7
        if re.fullmatch(r"L\d", term):
            term = term[1] + "L"  # croniter writes it the other way round
        before, mark, after = re.fullmatch(r"([^#L]*)([#L]?)(.*)", term).groups()
        if mark == "L":
            length = calendar.monthrange(date.year, date.month)[1]
            return _same_day(int(before), number, first) and date.day > length - 7
        if mark == "#":
            return _same_day(int(before), number, first) and (date.day - 1) // 7 + 1 == int(after)
        if _holds(term, number, first, first + 6):
            return True
        return first == 0 and not monday_first and number == 0 and not term.startswith("*") and _holds_seven(term)


def _holds_seven(term):
    """Tell whether 7 is among the numbers of a term, written with 7 as Sunday; `a/n` ends at 6."""
    return "7" in term.partition("/")[0] and _holds(term, 7, 0, 7)


def _same_day(given, number, first):
    return given == number or (first == 0 and given % 7 == number)


def _working_day(date, wanted, length):
    near = [day for day in range(1, length + 1) if date.replace(day=day).weekday() < 5]
    return min(near, key=lambda day: abs(day - wanted))


def _numbered(text, names, first):
    for number, name in enumerate(names, start=first):
        text = text.replace(name, str(number))
    return text


@lru_cache(maxsize=100_000)
def _holds(column, value, low, high):
    return any(_term_holds(term, value, low, high) for term in column.split(","))


def _term_holds(term, value, low, high):
    span, _, step = term.partition("/")
    if span in {"*", "?", ""}:
        return low <= value <= high and (value - low) % int(step or 1) == 0
    first, dash, last = span.partition("-")
    start, end = int(first), int(last or (high if step else first))
    if not dash and step:
        end = max(end, start)
    # Step by step from the start, round the clock if need be, until the end has been passed.
    numbers = [*range(start, end + 1)] if end >= start else [*range(start, high + 1), *range(low, end + 1)]
    if start > high > end:
        numbers = [*range(low, end + 1)] if start == high + 1 else numbers  # 7 as Sunday begins the week again
    return value in numbers[:: int(step or 1)]
