"""Where fires come from: small streams of events, and how they combine.

Every source answers three questions about what comes strictly after an instant: the next fire, the fires, and the
events, which are fires and skips. Its events stand at strictly increasing instants, one at each; whatever combines
sources keeps that, so an instant stays an identity:

* `Union`: events of several sources at one instant become one, a fire if any of them is one.
* `Except`: a fire at an instant at which the exclusion fires too becomes a skip that says so.
* `Between`: nothing before a first and after a last instant; both count.

Looking for the next fire past excluded ones is bounded: after `MOST_EXCLUDED` in a row, `FEW_EXCLUDED` that take
decades, or `MOST_LEAPS` for which the exclusion had to be searched anew, it gives up with an error.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, takewhile
from typing import Final, NamedTuple, Protocol

from everwhen.core import interval
from everwhen.core.errors import TriggerError
from everwhen.core.walk import MISSING_LIMIT, Event
from everwhen.core.zones import add

MOST_EXCLUDED: Final = 4_000
FEW_EXCLUDED: Final = 100
MOST_LEAPS: Final = 2_000
MOST_COUNTED: Final = 1_000
MOST_WALKED: Final = 1_600
"""The most events, fires or not, that counting to `max_runs` walks over."""

_LONG: Final = timedelta(days=20 * 365)
_TICK: Final = timedelta(microseconds=1)
_STEPS: Final = 4
"""How many fires of an exclusion are passed over one by one: a search from the start costs as much as several."""


class Source(Protocol):
    """Events at strictly increasing instants, all of them UTC."""

    def next_fire(self, after: datetime) -> datetime | None:
        """Return the first fire strictly after an instant."""
        ...

    def fires(self, after: datetime) -> Iterator[datetime]:
        """Yield the fires strictly after an instant."""
        ...

    def events(self, after: datetime) -> Iterator[Event]:
        """Yield the fires and skips strictly after an instant."""
        ...


class Elapsed(NamedTuple):
    """Fires a fixed time apart."""

    period: timedelta
    anchor: datetime

    def next_fire(self, after: datetime) -> datetime | None:
        """See `Source`."""
        return interval.following(self.period, anchor=self.anchor, after=after)

    def fires(self, after: datetime) -> Iterator[datetime]:
        """See `Source`."""
        while (instant := self.next_fire(after)) is not None:
            yield instant
            after = instant

    def events(self, after: datetime) -> Iterator[Event]:
        """See `Source`."""
        return (Event(instant, True, ()) for instant in self.fires(after))


class Listed(NamedTuple):
    """Some events, ascending."""

    items: tuple[Event, ...]

    def next_fire(self, after: datetime) -> datetime | None:
        """See `Source`."""
        return next(self.fires(after), None)

    def fires(self, after: datetime) -> Iterator[datetime]:
        """See `Source`."""
        return (event.at for event in self.events(after) if event.fires)

    def events(self, after: datetime) -> Iterator[Event]:
        """See `Source`."""
        return iter(self.items[bisect_right(self.items, after, key=_at) :])


class Union(NamedTuple):
    """All events of several sources."""

    members: tuple[Source, ...]

    def next_fire(self, after: datetime) -> datetime | None:
        """See `Source`."""
        return min((fire for member in self.members if (fire := member.next_fire(after)) is not None), default=None)

    def fires(self, after: datetime) -> Iterator[datetime]:
        """See `Source`."""
        return (instant for instant, _ in groupby(merge(*(member.fires(after) for member in self.members))))

    def events(self, after: datetime) -> Iterator[Event]:
        """See `Source`."""
        for _, together in groupby(merge(*(member.events(after) for member in self.members), key=_at), key=_at):
            yield _one(tuple(together))


class Except(NamedTuple):
    """A source without the instants at which another one fires."""

    base: Source
    excluded: Source

    def next_fire(self, after: datetime) -> datetime | None:
        """See `Source`; raises TriggerError when too many in a row are excluded."""
        barrier = _Barrier(self.excluded, after)
        for number, fire in enumerate(self.base.fires(after)):
            too_long = number >= FEW_EXCLUDED and fire - after > _LONG
            if too_long or number >= MOST_EXCLUDED or barrier.leaps >= MOST_LEAPS:
                raise _too_much_excluded()
            if not barrier.holds(fire):
                return fire
        return None

    def fires(self, after: datetime) -> Iterator[datetime]:
        """See `Source`; raises as `next_fire` does."""
        while (fire := self.next_fire(after)) is not None:
            yield fire
            after = fire

    def events(self, after: datetime) -> Iterator[Event]:
        """See `Source`."""
        barrier = _Barrier(self.excluded, after)
        for event in self.base.events(after):
            is_barred = event.fires and barrier.holds(event.at)
            yield Event(event.at, False, event.missing, excluded=True) if is_barred else event


class _Barrier:
    """An exclusion, followed alongside a base: step by step while it keeps pace, by leaps once it is far denser."""

    def __init__(self, excluded: Source, after: datetime) -> None:
        self._excluded = excluded
        self._fires: Iterator[datetime] | None = excluded.fires(after)
        self._at = next(self._fires, None)
        self.leaps = 0

    def holds(self, instant: datetime) -> bool:
        """Say whether the exclusion fires at an instant; each is later than the one before."""
        if self._fires is not None:
            for _ in range(_STEPS):
                if self._at is None or self._at >= instant:
                    return self._at == instant
                self._at = next(self._fires, None)
        if self._at is not None and self._at < instant:
            self.leaps += 1
            self._fires = None
            self._at = self._excluded.next_fire(instant - _TICK)
        return self._at == instant


class Between(NamedTuple):
    """A source from a first to a last instant, both included; None leaves a side open."""

    base: Source
    first: datetime | None
    last: datetime | None

    def next_fire(self, after: datetime) -> datetime | None:
        """See `Source`."""
        fire = self.base.next_fire(self._from(after))
        return None if fire is None or not self._holds(fire) else fire

    def fires(self, after: datetime) -> Iterator[datetime]:
        """See `Source`."""
        return takewhile(self._holds, self.base.fires(self._from(after)))

    def events(self, after: datetime) -> Iterator[Event]:
        """See `Source`."""
        return takewhile(lambda event: self._holds(event.at), self.base.events(self._from(after)))

    def _from(self, after: datetime) -> datetime:
        return after if self.first is None else max(after, add(self.first, -_TICK))

    def _holds(self, instant: datetime) -> bool:
        return self.last is None or instant <= self.last


def union(members: Iterable[Source]) -> Source:
    """Return the union of some sources; of one, that one."""
    found = tuple(members)
    return found[0] if len(found) == 1 else Union(found)


def nth_fire(source: Source, n: int, *, first: datetime) -> datetime | None:
    """Return the n-th fire, from 1, at or after an instant; None when there are fewer.

    Raises:
        TriggerError: n is more than `MOST_COUNTED` and the fires cannot be calculated.
    """
    before = add(first, -_TICK)
    if isinstance(source, Elapsed):
        try:
            return None if (start := source.next_fire(before)) is None else start + source.period * (n - 1)
        except OverflowError:
            return None
    if n > MOST_COUNTED:
        raise TriggerError(
            "trigger.any_of.max_runs",
            f"max_runs is at most {MOST_COUNTED}, except for one trigger of elapsed time; use end",
            field="max_runs",
        )
    found = idle = 0
    fired_at = first
    for number, event in enumerate(source.events(before)):
        # What is excluded in between is walked over as well.
        if number >= MOST_WALKED or (idle >= FEW_EXCLUDED and event.at - fired_at > _LONG):
            raise _too_much_excluded()
        if event.fires:
            found, idle, fired_at = found + 1, 0, event.at
        else:
            idle += 1
        if found == n:
            return event.at
    return None


def _too_much_excluded() -> TriggerError:
    return TriggerError(
        "trigger.except.work",
        f"{MOST_EXCLUDED} instants in a row are excluded, {FEW_EXCLUDED} over decades, or {MOST_LEAPS} by a far denser "
        "exception; restrict the trigger itself",
        field="except",
    )


def _one(together: tuple[Event, ...]) -> Event:
    if len(together) == 1:
        return together[0]
    fires = any(event.fires for event in together)
    missing = sorted({wall for event in together for wall in event.missing})[:MISSING_LIMIT]
    return Event(together[0].at, fires, tuple(missing), excluded=not fires and all(e.excluded for e in together))


def _at(event: Event) -> datetime:
    return event.at
