"""Quiet hours: a stretch of local time in which messages are held back, in an IANA zone.

They begin at `begins` on each of their days and end at the next `ends`; where the two are equal they last until the
same time of the next day. A local time that a transition removes stands for the first instant after the gap; one that
it repeats begins with its first pass and ends with its second, so that a night is never interrupted by the change.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from everwhen.core.errors import TriggerError
from everwhen.core.zones import FoldPolicy, GapPolicy, Zone, find_zone, resolve

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY: Final = timedelta(days=1)
_MOST_STEPS: Final = 15
"""Stretches that follow one another are one; past two weeks they never end, and hold nothing back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """When nobody is to be disturbed. `days` are those on which they begin, 0 is Monday."""

    zone: str
    begins: time
    ends: time
    days: frozenset[int] = frozenset(range(7))

    def until(self, instant: datetime) -> datetime | None:
        """Return when the quiet hours that hold this instant end; None when it is not in them."""
        zone, end = find_zone(self.zone), instant.astimezone(UTC)
        for _ in range(_MOST_STEPS):
            further = self._end_of_stretch(end, zone)
            if further is None:
                return None if end == instant else end
            end = further
        return None

    def _end_of_stretch(self, instant: datetime, zone: Zone) -> datetime | None:
        stretch = zone.at(instant)
        today = (instant + stretch.offset).date()
        for day in (today - _DAY, today):
            if day.weekday() in self.days:
                begin, end = self._on(day, zone)
                if begin <= instant < end:
                    return end
        return None

    def _on(self, day: date, zone: Zone) -> tuple[datetime, datetime]:
        last = day if self.begins < self.ends else day + _DAY
        begin = resolve(datetime.combine(day, self.begins), zone, gap=GapPolicy.GAP_END, fold=FoldPolicy.FIRST)[0]
        end = resolve(datetime.combine(last, self.ends), zone, gap=GapPolicy.GAP_END, fold=FoldPolicy.SECOND)[0]
        return begin.astimezone(UTC), end.astimezone(UTC)


def parse_quiet(stored: Any) -> QuietHours:
    """Read quiet hours from their JSON form; raises TriggerError, which names the field."""
    zone = str(stored["zone"])
    try:
        find_zone(zone)
    except TriggerError as error:
        raise TriggerError("quiet.zone", error.message, field="zone") from error
    days = stored.get("days") or list(DAYS)
    unknown = [day for day in days if day not in DAYS]
    if unknown:
        raise TriggerError("quiet.days", f"a day is one of {', '.join(DAYS)}", field="days")
    return QuietHours(
        zone=zone,
        begins=_clock_time(stored, "begins"),
        ends=_clock_time(stored, "ends"),
        days=frozenset(DAYS.index(day) for day in days),
    )


def quiet_json(quiet: QuietHours) -> dict[str, Any]:
    """Return the JSON form of quiet hours."""
    return {
        "zone": quiet.zone,
        "begins": quiet.begins.isoformat("minutes"),
        "ends": quiet.ends.isoformat("minutes"),
        "days": [DAYS[day] for day in sorted(quiet.days)],
    }


def _clock_time(stored: Any, name: str) -> time:
    try:
        read = time.fromisoformat(str(stored[name]))
    except ValueError:
        read = None
    if read is None or read.tzinfo is not None or read.second or read.microsecond:
        raise TriggerError("quiet.time", f"{name} is a local time such as 22:00", field=name)
    return read
