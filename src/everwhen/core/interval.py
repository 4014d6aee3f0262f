"""`every`: elapsed time from an anchor, where a day is 24 hours; or, in `wall` mode, steps of the clock on the wall."""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from everwhen.core.errors import TriggerError, quoted

SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=36_525)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WALL_EPOCH = EPOCH.replace(tzinfo=None)
MOST_MONTHS = 1200

_DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<weeks>[0-9]{1,9})W)?(?:(?P<days>[0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,12})S)?)?"
)
_MONTHS = re.compile(r"P(?=[0-9])(?:(?P<years>[0-9]{1,4})Y)?(?:(?P<months>[0-9]{1,4})M)?")
_CALENDAR_UNITS = re.compile(r"P[0-9.,]*([0-9]+[YM])")


def parse_duration(text: str) -> timedelta:
    """Read an ISO 8601 duration of whole weeks, days, hours, minutes and seconds, between 1 second and 100 years.

    Raises:
        TriggerError: it is none; years and months are refused, since their length depends on where they begin.
    """
    if _CALENDAR_UNITS.match(text[:20]):
        raise _error(
            "calendar_unit",
            f"{quoted(text)} counts years or months, whose length varies; use days, or mode 'wall'",
        )
    match = _DURATION.fullmatch(text)
    if match is None:
        raise _error("syntax", f"{quoted(text)} is not a duration of whole units such as 'PT15M', 'P1D' or 'P2W'")
    try:
        period = timedelta(**{unit: int(amount or 0) for unit, amount in match.groupdict().items()})
    except OverflowError:
        raise _error("bounds", f"{quoted(text)} is longer than 100 years") from None
    if not SHORTEST <= period <= LONGEST:
        raise _error("bounds", f"{quoted(text)} is not between 1 second and 100 years")
    return period


@dataclass(frozen=True, slots=True)
class WallSteps:
    """An anchor (with the UTC tzinfo) and the wall-clock times some months, or else some time, apart from there on.

    Months are counted from the anchor: of the 31st they keep the last day of a shorter month, and come back.
    """

    anchor: datetime
    months: int
    period: timedelta

    @property
    def sub_daily(self) -> bool:
        """Whether it steps by less than a day, or not by whole days."""
        return not self.months and bool(self.period % timedelta(days=1))

    def following(self, wall: datetime) -> datetime | None:
        """Return the first step strictly after a wall-clock time; None past the calendar's end."""
        if wall < self.anchor:
            return self.anchor
        if not self.months:
            return following(self.period, anchor=self.anchor, after=wall)
        passed = (wall.year - self.anchor.year) * 12 + wall.month - self.anchor.month
        steps = passed // self.months
        step = self._step(steps)
        return self._step(steps + 1) if step is not None and step <= wall else step

    def count(self, after: datetime, until: datetime) -> int | None:
        """Return how many steps lie in `(after, until]`; None when they are months, which have no one length."""
        return None if self.months else count_steps(self.period, anchor=self.anchor, after=after, until=until)

    def _step(self, count: int) -> datetime | None:
        years, month = divmod(self.anchor.month - 1 + count * self.months, 12)
        year = self.anchor.year + years
        if year > 9999:
            return None
        day = min(self.anchor.day, monthrange(year, month + 1)[1])
        return self.anchor.replace(year=year, month=month + 1, day=day)


def parse_wall_steps(text: str, anchor: datetime) -> WallSteps:
    """Read an ISO 8601 duration of years and months, or of weeks, days and less, as steps from a naive anchor.

    Raises:
        TriggerError: it is none, it mixes the two, or it is not between 1 second and 100 years.
    """
    start = anchor.replace(tzinfo=UTC)
    match = _MONTHS.fullmatch(text)
    if match is None:
        if _CALENDAR_UNITS.match(text[:20]):
            raise _error("mixed", f"{quoted(text)} mixes months with days or less; use one of them")
        return WallSteps(start, 0, parse_duration(text))
    months = int(match["years"] or 0) * 12 + int(match["months"] or 0)
    if not 1 <= months <= MOST_MONTHS:
        raise _error("bounds", f"{quoted(text)} is not between 1 month and 100 years")
    return WallSteps(start, months, timedelta(0))


def following(period: timedelta, *, anchor: datetime, after: datetime) -> datetime | None:
    """Return the first `anchor + k * period`, k >= 0, strictly after an instant; None past the calendar's end."""
    if after < anchor:
        return anchor
    try:
        return anchor + period * ((after - anchor) // period + 1)
    except OverflowError:
        return None


def count_steps(period: timedelta, *, anchor: datetime, after: datetime, until: datetime) -> int:
    """Return how many `anchor + k * period`, k >= 0, lie in `(after, until]`."""

    def upto(instant: datetime) -> int:
        return 0 if instant < anchor else (instant - anchor) // period + 1

    return max(0, upto(until) - upto(after))


def _error(kind: str, message: str) -> TriggerError:
    return TriggerError(f"trigger.every.{kind}", message, field="every")
