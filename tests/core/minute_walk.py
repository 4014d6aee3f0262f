"""An oracle for cron in zones: it walks UTC minute by minute and reads the wall. Slow, obvious, sharing nothing.

It imports nothing of the engine; zones are the standard library's, fed from the tzdata package.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@lru_cache
def standard_zone(name):
    """Return the standard library's zone, read from the tzdata package whatever the process's search path is."""
    with (resources.files("tzdata") / "zoneinfo" / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


class Window:
    """Every minute around an instant, with what the wall showed and which wall times it jumped over."""

    def __init__(self, zone_name, centre, *, reach):
        zone = standard_zone(zone_name)
        self.start, self.end = centre - reach, centre + reach
        self.passes = defaultdict(list)
        self.jumps = []
        self.known = {}
        margin = timedelta(hours=26)  # a displaced or repeated time comes from no farther
        instant, before = self.start - margin, None
        while instant <= self.end + margin:
            local = instant.astimezone(zone)
            wall = local.replace(tzinfo=None, fold=0)
            self.passes[wall].append(instant)
            if before is not None and wall - before[0] > MINUTE:
                self.jumps.append((instant, before[1], _minutes(before[0] + MINUTE, wall)))
            before = (wall, local.utcoffset())
            instant += MINUTE

    def fires(self, expr, *, gap, fold):
        """Return the fires strictly inside the window, ascending."""
        rule = Rule(expr)
        found = set()
        for instants in self._matching(expr):
            found.update({"first": instants[:1], "second": instants[-1:], "both": instants}[fold])
        for instant, offset, missing in self.jumps:
            for wall in filter(rule.matches, missing):
                if gap == "gap_end":
                    found.add(instant)
                elif gap == "shift":
                    found.add(wall.replace(tzinfo=UTC) - offset)
        return sorted(instant for instant in found if self.start < instant < self.end)

    def _matching(self, expr):
        if expr not in self.known:
            rule = Rule(expr)
            self.known[expr] = [instants for wall, instants in self.passes.items() if rule.matches(wall)]
        return self.known[expr]

    def skips(self, expr):
        """Return the transitions that jump over a match, with the matches."""
        rule = Rule(expr)
        found = [(instant, list(filter(rule.matches, missing))) for instant, _, missing in self.jumps]
        return [(instant, walls) for instant, walls in found if walls and self.start < instant < self.end]


class Rule:
    """A five-field expression as five sets of numbers."""

    def __init__(self, expr):
        columns = expr.split()
        sets = [_numbers(column, *bounds) for column, bounds in zip(columns, RANGES, strict=True)]
        self.minutes, self.hours, self.days, self.months, weekdays = sets
        self.weekdays = {number % 7 for number in weekdays}
        self.both_days = columns[2][0] == "*" or columns[4][0] == "*"

    def matches(self, wall):
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.both_days else (day or weekday)


@lru_cache(maxsize=64)
def window(zone_name, centre):
    """Return the window of 30 hours on either side of an instant; windows are dear and shared."""
    return Window(zone_name, centre, reach=timedelta(hours=30))


def transitions(zone_name, *, first_year, last_year):
    """Yield the instants at which a zone's offset changes, found by bisection between days."""
    zone = standard_zone(zone_name)
    day = datetime(first_year, 1, 1, tzinfo=UTC)
    while day.year <= last_year:
        following = day + timedelta(days=1)
        if day.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            yield _change(zone, day, following)
        day = following


def _change(zone, left, right):
    offset = left.astimezone(zone).utcoffset()
    while right - left > timedelta(seconds=1):
        middle = left + timedelta(seconds=(right - left).total_seconds() // 2)
        left, right = (middle, right) if middle.astimezone(zone).utcoffset() == offset else (left, middle)
    return right


def _numbers(column, low, high):
    found = set()
    for term in column.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found.update(range(int(first), int(last or (high if step else first)) + 1, int(step or 1)))
    return found


def _minutes(first, until):
    return [first + MINUTE * i for i in range((until - first) // MINUTE)]
