"""Tells instants so that nobody has to guess: in the schedule's zone with offset and abbreviation, and in UTC.

A local time that occurs twice says which of the two it is, beside its offset.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from everwhen.core.errors import TriggerError
from everwhen.core.zones import Zone, find_zone

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


_CLOCK: Final = re.compile(r"\d\d:\d\d(:\d\d)?(?= )", re.ASCII)


class Told(NamedTuple):
    """One instant in words; `local` is the same as `utc` where no zone is known."""

    local: str
    utc: str
    short: str
    """Day, month, time and zone: for a subject, where room is short."""
    iso: str


NEVER: Final = Told("", "", "", "")


def told(at: datetime | None, zone: str | None) -> Told:
    """Tell an instant; empty texts for none."""
    if at is None:
        return NEVER
    as_utc = at.astimezone(UTC)
    utc = f"{as_utc:%Y-%m-%d} {_clock(as_utc)} UTC"
    iso = as_utc.isoformat().replace("+00:00", "Z")
    found = _zone(zone)
    if found is None:
        return Told(local=utc, utc=utc, short=f"{_day(as_utc)} {_clock(as_utc)} UTC", iso=iso)
    local = found.local(as_utc)
    name = _abbreviation(local)
    offset = f"UTC{_offset(local)}"
    mark = f"{name} ({offset})" if name else offset
    which = _pass(local, found)
    day = f"{DAYS[local.weekday()]} {_day(local)} {local.year}"
    return Told(
        local=f"{day}, {_clock(local)} {mark}{which}",
        utc=utc,
        short=f"{_day(local)} {_clock(local)} {name or offset}",
        iso=iso,
    )


def told_span(first: datetime | None, last: datetime | None, zone: str | None) -> tuple[str, str]:
    """Tell a span in a zone and in UTC; what both ends share is said once."""
    return _span(told(first, zone).local, told(last, zone).local), _span(told(first, None).utc, told(last, None).utc)


def _span(first: str, last: str) -> str:
    if first == last:
        return first
    one, other = _CLOCK.search(first), _CLOCK.search(last)
    if one and other and _CLOCK.sub("", first, count=1) == _CLOCK.sub("", last, count=1):
        return f"{first[: one.end()]} to {last[other.start() :]}"
    return f"{first} to {last}"


def _zone(name: str | None) -> Zone | None:
    try:
        return find_zone(name) if name else None
    except TriggerError:
        return None


def _day(at: datetime) -> str:
    return f"{at.day} {MONTHS[at.month - 1]}"


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def _abbreviation(local: datetime) -> str:
    """Return the zone's abbreviation; empty where it is only the offset once more, as in +03."""
    name = local.tzname() or ""
    return name if name.isalpha() else ""


def _offset(local: datetime) -> str:
    """Return the offset like +01:00; with seconds where a zone of old had them."""
    offset = local.utcoffset() or timedelta()
    sign = "-" if offset < timedelta() else "+"
    minutes, seconds = divmod(int(abs(offset).total_seconds()), 60)
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def _pass(local: datetime, zone: Zone) -> str:
    if not zone.is_repeated(local):
        return ""
    return ", the second of two" if local.fold else ", the first of two"
