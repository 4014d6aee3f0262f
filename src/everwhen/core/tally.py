"""Counting fires without visiting them, and finding the last one of a stretch without walking there.

Seven days of a minutely schedule are ten thousand instants, and an outage of ten thousand such schedules a hundred
million. Where a trigger is regular, how many there are follows by arithmetic: elapsed time by one division, a cron
expression by counting bits, a day at a time, between two changes of the clock. What cannot be counted so is visited.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from everwhen.core.cron import CompiledCron
from everwhen.core.interval import WallSteps, count_steps
from everwhen.core.sources import Between, Elapsed, Source
from everwhen.core.triggers import Timing
from everwhen.core.walk import Walk
from everwhen.core.zones import add

_TICK: Final = timedelta(microseconds=1)
_WIDEN: Final = 4


class Tally(NamedTuple):
    """All that a source has up to an instant: this many fires, and no skip among them."""

    until: datetime
    fires: int


def tally(source: Source, *, after: datetime, until: datetime) -> Tally | None:
    """Count what lies in `(after, until]`, or in as much of its beginning as is regular; None: visit it.

    Both are UTC, here and everywhere in this module: whoever reads them elsewhere converts them.
    """
    match source:
        case Elapsed(period=period, anchor=anchor):
            return Tally(until, count_steps(period, anchor=anchor, after=after, until=until))
        case Walk(pattern=CompiledCron() | WallSteps() as pattern, zone=zone):
            stretch = zone.at(after)
            last = min(until, stretch.calm_until - _TICK)
            if after < stretch.calm_from or last <= after:
                return None
            fires = pattern.count(add(after, stretch.offset), add(last, stretch.offset))
            return None if fires is None else Tally(last, fires)
        case Between(base=base, first=first, last=last):
            if (first is None or after >= first) and (last is None or until <= last):
                return tally(base, after=after, until=until)
            return None
        case _:
            return None


def count_fires(timing: Timing, *, after: datetime, until: datetime, most: int) -> int:
    """Count the fires in `(after, until]`; when there are more than `most`, any number above it may be returned."""
    found = 0
    while after < until and found <= most:
        counted = tally(timing.source, after=after, until=until)
        if counted is not None:
            found, after = found + counted.fires, counted.until
            continue
        visited = list(islice(timing.source.events(after), 100))
        found += sum(event.fires for event in visited if event.at <= until)
        if len(visited) < 100 or visited[-1].at >= until:  # fewer than were asked for: the end
            break
        after = visited[-1].at
    return found


def last_fire(timing: Timing, *, after: datetime, until: datetime) -> datetime | None:
    """Return the last fire in `(after, until]`."""
    return _last(timing.source.next_fire, after=after, until=until)


def last_event(timing: Timing, *, after: datetime, until: datetime) -> datetime | None:
    """Return the last instant in `(after, until]` at which the timing fires or skips."""

    def following(instant: datetime) -> datetime | None:
        event = next(timing.source.events(instant), None)
        return None if event is None else event.at

    return _last(following, after=after, until=until)


def nth_last_fire(timing: Timing, n: int, *, after: datetime, until: datetime) -> datetime | None:
    """Return the n-th fire from the end of `(after, until]`, from 1; None when there are fewer."""
    width = timedelta(minutes=1)
    while True:
        begin = max(after, add(until, -width))
        enough = count_fires(timing, after=begin, until=until, most=n) >= n
        if enough or begin <= after:
            break
        width *= _WIDEN
    if not enough:
        return None
    found: deque[datetime] = deque(maxlen=n)
    for fire in timing.source.fires(begin):
        if fire > until:
            break
        found.append(fire)
    return found[0]


def window_back(timing: Timing, *, after: datetime, until: datetime, most: int) -> datetime:
    """Return an instant not before `after` from which on there are at most `most` events up to `until`, and one if any.

    It widens until there is something, and is halved until it is not too much.
    """
    width = timedelta(minutes=1)
    while (begin := add(until, -width)) > after and not _events(timing, begin, until, 1):
        width *= _WIDEN
    begin = max(begin, after)
    end = until
    while (held := _events(timing, begin, until, most + 1)) > most or (held == 0 and begin > after):
        # Too much from here on, and nothing from `end` on: what is right lies between.
        middle = begin + (end - begin) / 2
        if _events(timing, middle, until, 1):
            begin = middle
        else:
            end = middle
    return begin


def _events(timing: Timing, after: datetime, until: datetime, most: int) -> int:
    return sum(event.at <= until for event in islice(timing.source.events(after), most))


def _last(following: Callable[[datetime], datetime | None], *, after: datetime, until: datetime) -> datetime | None:
    """Halve the stretch until it holds nothing after the instant found: a few dozen steps, however long it is."""
    found = following(after)
    if found is None or found > until:
        return None
    while found < until:
        middle = found + (until - found) / 2
        later = following(middle)
        if later is None or later > until:
            until = middle
        else:
            found = later
    return found
