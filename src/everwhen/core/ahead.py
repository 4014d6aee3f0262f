"""What lies ahead of a timing: the clock changes that will touch it, and how often it fires. Bounded work, pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from everwhen.core.triggers import Occurrence, Timing, fires, occurrences
from everwhen.core.zones import Transition, add

YEAR: Final = timedelta(days=365)
MOST_COUNTED: Final = 20_000
"""How many fires are counted one by one; beyond them a year is extrapolated."""

MOST_AROUND: Final = 500
"""How many instants around one clock change are looked at."""

_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A clock change, and what it does to a timing.

    Attributes:
        at: the instant of the change, UTC.
        before, after: the offsets from UTC on either side.
        skipped: local times that do not exist and do not run.
        moved: local times that do not exist and run at another time.
        doubled: local times that occur twice and run twice.
        once: local times that occur twice and run in one pass only.
    """

    at: datetime
    before: timedelta
    after: timedelta
    skipped: int
    moved: int
    doubled: int
    once: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequency:
    """How many fires a year has; `exact` when they were counted, else extrapolated from MOST_COUNTED of them."""

    fires: int
    exact: bool


def touches(timing: Timing, *, after: datetime, until: datetime) -> Iterator[Touch]:
    """Yield the clock changes of the timing's zone in `(after, until]` that touch it, ascending."""
    for change in timing.zone.transitions(after, until):
        touch = _touch(timing, change)
        if touch is not None:
            yield touch


def fires_a_year(timing: Timing, *, after: datetime) -> Frequency:
    """Count the fires of the year after an instant."""
    until = add(after, YEAR)
    count, last = 0, after
    for at in fires(timing, after=after, until=until, count=MOST_COUNTED + 1):
        count, last = count + 1, at
    if count <= MOST_COUNTED:
        return Frequency(fires=count, exact=True)
    return Frequency(fires=round(count * (YEAR / (last - after))), exact=False)


def _touch(timing: Timing, change: Transition) -> Touch | None:
    # Nothing further from the change than its own length is removed, displaced or repeated by it.
    length = abs(change.after - change.before)
    found = occurrences(timing, after=add(change.at, -length - _TICK), until=add(change.at, length), limit=MOST_AROUND)
    passes = Counter(_wall(each) for each in found if each.repeated and each.skipped is None)
    skipped = sum(len(each.missing) for each in found if each.skipped is not None)
    moved = sum(len(each.missing) for each in found if each.skipped is None)
    doubled = sum(count > 1 for count in passes.values())
    once = len(passes) - doubled
    if not skipped + moved + doubled + once:
        return None
    return Touch(
        at=change.at,
        before=change.before,
        after=change.after,
        skipped=skipped,
        moved=moved,
        doubled=doubled,
        once=once,
    )


def _wall(occurrence: Occurrence) -> datetime:
    return occurrence.local.replace(tzinfo=None, fold=0)
