"""Triggers: pure rules for instants. What one means in a zone, under its policies, is its `Timing`.

Three questions are asked of a timing, and all of them answer in UTC: `next_after`, `fires`, and `occurrences`, which
also tells what was skipped, and why. Nothing here reads a clock. This module is the door: whoever stands outside the
core's time engine imports from here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import assert_never

from everwhen.core import interval
from everwhen.core.cron_dialects import TIME_OF_DAY, Automatic
from everwhen.core.errors import TriggerError
from everwhen.core.reasons import Reason
from everwhen.core.trigger_json import parse_fold, parse_gap, parse_instant, parse_trigger, trigger_to_json
from everwhen.core.trigger_values import At, Cron, Every, Trigger, as_utc
from everwhen.core.walk import Event, Walk, clamp
from everwhen.core.zones import FoldPolicy, GapPolicy, Zone, ZoneSource, find_zone, gap_around, resolve

__all__ = [
    "At",
    "Cron",
    "Every",
    "FoldPolicy",
    "GapPolicy",
    "Occurrence",
    "Timing",
    "Trigger",
    "TriggerError",
    "fires",
    "next_after",
    "occurrences",
    "parse_fold",
    "parse_gap",
    "parse_instant",
    "parse_trigger",
    "trigger_to_json",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """An instant that a timing intends; no two of one timing share an instant.

    Attributes:
        nominal_at: the instant, UTC. For a skip it is the transition: the first instant after the gap.
        local: the same instant as an aware local time, in its pass of a fold.
        skipped: why it does not fire; None when it does.
        missing: the local times (naive) inside a gap that this instant stands for, in order, at most 60: those that
            were skipped, or, when it fires, those that were moved to it.
        repeated: whether the local time occurs twice, at two offsets.
    """

    nominal_at: datetime
    local: datetime
    skipped: Reason | None
    missing: tuple[datetime, ...]
    repeated: bool


@dataclass(frozen=True, slots=True)
class Timing:
    """A trigger in a zone, with what becomes of local times that do not exist or occur twice.

    A policy of None is automatic. A cron whose hour field holds a wildcard or a step rides on elapsed time: both passes
    of a fold, nothing for a gap. Every other trigger stands for a time of day: the first pass, and the gap's end.

    Zones come from the installed tz database, or from `zones`, another release of it.

    Raises:
        TriggerError: there is no such zone.
    """

    trigger: Trigger
    timezone: str = "UTC"
    gap: GapPolicy | None = None
    fold: FoldPolicy | None = None
    zones: ZoneSource | None = field(default=None, repr=False)
    zone: Zone = field(init=False, repr=False, compare=False)
    walk: Walk | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        zone = find_zone(self.timezone) if self.zones is None else self.zones.find(self.timezone)
        walk = None
        if isinstance(self.trigger, Cron):
            walk = Walk(self.trigger.compiled, zone, self.effective_gap, self.effective_fold)
        object.__setattr__(self, "zone", zone)
        object.__setattr__(self, "walk", walk)

    @property
    def effective_gap(self) -> GapPolicy:
        """The gap policy in force once `None` is decided."""
        return self.gap or self._automatic.gap

    @property
    def effective_fold(self) -> FoldPolicy:
        """The fold policy in force once `None` is decided."""
        return self.fold or self._automatic.fold

    @property
    def _automatic(self) -> Automatic:
        return self.trigger.compiled.automatic if isinstance(self.trigger, Cron) else TIME_OF_DAY


def next_after(timing: Timing, instant: datetime) -> datetime | None:
    """Return the first fire strictly after an aware instant, UTC; None when there is never one again."""
    if instant.tzinfo is not UTC:
        instant = as_utc(instant, name="after")
    if timing.walk is not None:
        return timing.walk.next_fire(instant)
    return next((event.at for event in _events(timing, instant) if event.fires), None)


def fires(
    timing: Timing, *, after: datetime, count: int | None = None, until: datetime | None = None
) -> Iterator[datetime]:
    """Return the fires strictly after an instant, ascending: at most `count`, none later than `until`."""
    after = as_utc(after, name="after")
    if timing.walk is not None:
        found = timing.walk.fires(after)
    else:
        found = (event.at for event in _events(timing, after) if event.fires)
    if until is not None:
        found = takewhile(until.__ge__, found)
    return found if count is None else islice(found, max(0, count))


def occurrences(timing: Timing, *, after: datetime, until: datetime, limit: int) -> list[Occurrence]:
    """Return the intended instants in `(after, until]`, skipped ones included, ascending, at most `limit`."""
    found: list[Occurrence] = []
    for event in islice(_events(timing, as_utc(after, name="after")), max(0, limit)):
        if event.at > until:
            break
        found.append(_occurrence(timing, event))
    return found


def _events(timing: Timing, after: datetime) -> Iterator[Event]:
    match timing.trigger:
        case Cron():
            walk = timing.walk
            return walk.events(clamp(after)) if walk else iter(())
        case Every(anchor=anchor, period=period):
            return _interval_events(period, anchor=anchor, after=after)
        case At(at=at):
            return (event for event in _single_event(at, timing) if event.at > after)
        case _:
            assert_never(timing.trigger)


def _interval_events(period: timedelta, *, anchor: datetime, after: datetime) -> Iterator[Event]:
    while (instant := interval.following(period, anchor=anchor, after=after)) is not None:
        yield Event(instant, True, ())
        after = instant


def _single_event(at: datetime, timing: Timing) -> Iterator[Event]:
    if at.tzinfo is not None:
        yield Event(at, True, ())
        return
    jump = gap_around(at, timing.zone)
    missing = () if jump is None else (at,)
    for instant in resolve(at, timing.zone, gap=timing.effective_gap, fold=timing.effective_fold):
        yield Event(instant, True, missing)
    if jump is not None and timing.effective_gap is GapPolicy.SKIP:
        yield Event(jump.at, False, missing)


def _occurrence(timing: Timing, event: Event) -> Occurrence:
    local = timing.zone.local(event.at)
    return Occurrence(
        nominal_at=event.at,
        local=local,
        skipped=None if event.fires else Reason.CALENDAR_DST_GAP,
        missing=event.missing,
        repeated=timing.zone.is_repeated(local),
    )
