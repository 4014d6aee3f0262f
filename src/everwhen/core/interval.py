"""`every`: elapsed time from an anchor. A day is 24 hours here, whatever the clocks on the wall do."""

import re
from datetime import UTC, datetime, timedelta

from everwhen.core.errors import TriggerError, quoted

SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=36_525)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<weeks>[0-9]{1,9})W)?(?:(?P<days>[0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,12})S)?)?"
)
_CALENDAR_UNITS = re.compile(r"P[0-9.,]*([0-9]+[YM])")


def parse_duration(text: str) -> timedelta:
    """Read an ISO 8601 duration of whole weeks, days, hours, minutes and seconds, between 1 second and 100 years.

    Raises:
        TriggerError: it is none; years and months are refused, since their length depends on where they begin.
    """
    if _CALENDAR_UNITS.match(text[:20]):
        raise _error(
            "calendar_unit",
            f"{quoted(text)} counts years or months, whose length varies; use days, or a cron or rrule trigger",
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


def following(period: timedelta, *, anchor: datetime, after: datetime) -> datetime | None:
    """Return the first `anchor + k * period`, k >= 0, strictly after an instant; None past the calendar's end."""
    if after < anchor:
        return anchor
    try:
        return anchor + period * ((after - anchor) // period + 1)
    except OverflowError:
        return None


def _error(kind: str, message: str) -> TriggerError:
    return TriggerError(f"trigger.every.{kind}", message, field="every")
