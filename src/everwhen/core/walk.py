"""Walks a wall-clock pattern along the line of instants, through gaps and folds.

The walk is a sequence of *fires and skips at strictly increasing instants*, at most one per instant:

* In a stretch of constant offset each match fires at its instant; of a repeated local time the fold policy keeps the
  first pass, the second or both.
* The matches inside one gap make one event at the transition, the instant at which the clock jumped over them: a fire
  under `gap_end`, a skip under `skip`. If a local time at the gap's end matches as well, the event is that fire.
* Under `shift` each match inside a gap fires later by the gap's length; where that meets a fire, the two are one.
  Two schedulers deviate from that in some gaps, and whoever moved from there may ask for it: a `GapHabit`.

An event names the local times that it stands for in `missing`, so that a run that moved, and an instant at which
nothing ran, can both say why. Since there is one event per instant, an instant is an identity.

Termination: each turn of the loop settles a stretch or jumps to the next match, and a pattern that meets nothing but
gaps is given up after 400 years, the period of the calendar, so no expression can make it run on.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, Protocol

from everwhen.core.calendars import Mark
from everwhen.core.cron_dialects import GapHabit
from everwhen.core.zones import FIRST_INSTANT, LAST_INSTANT, FoldPolicy, GapPolicy, Stretch, Transition, Zone, add

MISSING_LIMIT = 60

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_FIRST, _LAST = FIRST_INSTANT + _TICK, LAST_INSTANT - _TICK
_WHOLE_HOURS = range(1, 4)
_CALENDAR_PERIOD = timedelta(days=146_097)


class Event(NamedTuple):
    """A fire, or a skip, at an instant; `missing` are the non-existent wall times behind it (at most 60).

    One that does not fire is `excluded` if it would have, but for an exclusion. `mark` says which calendar excluded or
    rolled it.
    """

    at: datetime
    fires: bool
    missing: tuple[datetime, ...]
    excluded: bool = False
    mark: Mark | None = None


class Pattern(Protocol):
    """Wall-clock times. They are naive in meaning, but carry the UTC tzinfo."""

    def following(self, wall: datetime) -> datetime | None:
        """Return the first match strictly after a wall-clock time; None when there is none."""
        ...


class Walk(NamedTuple):
    """A pattern in a zone under its policies."""

    pattern: Pattern
    zone: Zone
    gap: GapPolicy
    fold: FoldPolicy
    habit: GapHabit | None = None

    def next_fire(self, after: datetime) -> datetime | None:
        """Return the first fire strictly after an instant (UTC)."""
        # A datetime is never false.
        return self._calm_fire(after) or self._careful_fire(after)

    def _calm_fire(self, after: datetime) -> datetime | None:
        """Return the next fire if no transition can have a say in it: the common case, and the fast one."""
        stretch = self.zone.recent
        if not stretch.start <= after < stretch.end:
            stretch = self.zone.at(after)
        if after < stretch.calm_from:
            return None
        try:
            match = self.pattern.following(after + stretch.offset)
            if match is not None and (instant := match - stretch.offset) < stretch.calm_until:
                return instant
        except OverflowError:
            pass  # the ends of the calendar take the careful way
        return None

    def _careful_fire(self, after: datetime) -> datetime | None:
        return next((event.at for event in self.events(after) if event.fires), None)

    def fires(self, after: datetime) -> Iterator[datetime]:
        """Yield the fires strictly after an instant (UTC); the fast way to many of them."""
        following = self.pattern.following
        instant: datetime | None = after
        while instant is not None:
            stretch = self.zone.at(instant)
            if instant >= stretch.calm_from:
                offset, until = stretch.offset, stretch.calm_until
                match = following(add(instant, offset))
                while match is not None and (fire := add(match, -offset)) < until:
                    yield fire
                    instant, match = fire, following(match)
            instant = self._careful_fire(instant)
            if instant is not None:
                yield instant

    def events(self, after: datetime) -> Iterator[Event]:
        """Yield the fires and skips strictly after an instant (UTC), until there are no more."""
        if not _FIRST <= after <= _LAST:
            after = clamp(after)
        fired_at = after
        while (event := self._next_event(after)) is not None:
            yield event
            after = event.at
            if event.fires:
                fired_at = after
            # Listed transitions come once; what follows them repeats with the calendar.
            elif after - max(fired_at, self.zone.listed_until) > _CALENDAR_PERIOD:
                return

    def _next_event(self, after: datetime) -> Event | None:
        calm = self._calm_fire(after)
        if calm is not None:
            return Event(calm, True, ())
        stretch = self.zone.at(after)
        while True:
            event = self._inside(stretch, after) or self._at_gap(stretch)
            if event is not None:
                return event
            if stretch.end is LAST_INSTANT:
                return None
            stretch = self._next_stretch(stretch)
            if stretch is None:
                return None

    def _inside(self, stretch: Stretch, after: datetime) -> Event | None:
        # A match exactly at the stretch's start counts, hence one tick earlier.
        floor = after if after >= stretch.start else stretch.start - _TICK
        natural, shifted = self._natural(stretch, floor), self._shifted(stretch, floor)
        if shifted is None:
            return natural
        if natural is None or shifted.at < natural.at:
            return shifted
        return natural if natural.at < shifted.at else shifted

    def _natural(self, stretch: Stretch, floor: datetime) -> Event | None:
        wall_floor = add(floor, stretch.offset)
        if self.fold is FoldPolicy.FIRST and stretch.before > stretch.offset:
            wall_floor = max(wall_floor, stretch.start + stretch.before - _TICK)
        match = self.pattern.following(wall_floor)
        if match is None:
            return None
        until = stretch.calm_until if self.fold is FoldPolicy.SECOND else stretch.end
        instant = add(match, -stretch.offset)
        return Event(instant, True, ()) if instant < until else None

    def _shifted(self, stretch: Stretch, floor: datetime) -> Event | None:
        if stretch.before >= stretch.offset:
            return None
        jump = Transition(stretch.start, stretch.before, stretch.offset)
        if self._policy_at(jump) is not GapPolicy.SHIFT:
            return None
        if self.habit is GapHabit.WHOLE_HOURS:
            return self._shifted_to_whole_hours(jump, floor)
        wall_floor = max(floor + jump.before, jump.at + jump.before - _TICK)
        match = self.pattern.following(wall_floor)
        if match is None or match >= jump.at + jump.after:
            return None
        return Event(match - jump.before, True, (match.replace(tzinfo=None),))

    def _shifted_to_whole_hours(self, jump: Transition, floor: datetime) -> Event | None:
        found: datetime | None = None
        missing: list[datetime] = []
        for match in self._matches(jump.at + jump.before, jump.at + jump.after):
            shifted = match.replace(tzinfo=UTC) + (jump.after - jump.before)
            if match.hour in _WHOLE_HOURS:
                shifted = max(shifted.replace(minute=0, second=0), jump.at + jump.after)
            instant = shifted - jump.after
            if found is not None and instant > found:
                break
            if instant > floor:
                found = instant
                missing.append(match)
        return Event(found, True, tuple(missing[:MISSING_LIMIT])) if found else None

    def _at_gap(self, stretch: Stretch) -> Event | None:
        if stretch.after <= stretch.offset:
            return None
        policy = self._policy_at(Transition(stretch.end, stretch.offset, stretch.after))
        if policy is GapPolicy.SHIFT:
            return None
        gap_end = stretch.end + stretch.after
        missing = tuple(islice(self._matches(stretch.end + stretch.offset, gap_end), MISSING_LIMIT))
        if not missing:
            return None
        fires = policy is GapPolicy.GAP_END or self.pattern.following(gap_end - _TICK) == gap_end
        return Event(stretch.end, fires, missing)

    def _policy_at(self, jump: Transition) -> GapPolicy:
        if self.habit is GapHabit.LOST_AT_MIDNIGHT:
            # A midnight lies in the gap when the tick before it and its last tick fall on two dates.
            begins, ends = jump.at + jump.before - _TICK, jump.at + jump.after - _TICK
            if begins.date() < ends.date():
                return GapPolicy.SKIP
        return self.gap

    def _matches(self, first: datetime, until: datetime) -> Iterator[datetime]:
        match = self.pattern.following(first - _TICK)
        while match is not None and match < until:
            yield match.replace(tzinfo=None)
            match = self.pattern.following(match)

    def _next_stretch(self, stretch: Stretch) -> Stretch | None:
        """Return the stretch in which to go on: the next one, or a later one when nothing matches before it."""
        end = stretch.end
        match = self.pattern.following(end + min(stretch.offset, stretch.after) - _TICK)
        if match is None:
            return None
        # Local times stay within a day of UTC, so no transition before that day can touch the match.
        return self.zone.at(max(end, add(match, -_DAY)))


def clamp(instant: datetime) -> datetime:
    """Keep an instant inside the calendar, one tick away from its ends."""
    return min(max(instant, _FIRST), _LAST)
