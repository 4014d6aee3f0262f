"""Triggers: pure rules for instants. What one means in a zone, under its policies, is its `Timing`.

Three questions are asked of a timing, and all of them answer in UTC: `next_after`, `fires`, and `occurrences`, which
also tells what was skipped, and why. Nothing here reads a clock. This module is the door: whoever stands outside the
core's time engine imports from here.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice, takewhile

from everwhen.core.binding import bind_trigger, needed_names
from everwhen.core.business_days import BusinessDay
from everwhen.core.calendar_use import SKIPPED_TOGETHER, Book, CalendarUse, OnCalendars, Unbound, refuse_dense
from everwhen.core.calendars import Mark
from everwhen.core.compiling import automatic_of, bound_at, source_of
from everwhen.core.errors import TriggerError
from everwhen.core.reasons import Reason
from everwhen.core.rules import CalendarRule
from everwhen.core.seeding import draws, find_seed, seed_trigger
from everwhen.core.sources import Source
from everwhen.core.trigger_json import parse_fold, parse_gap, parse_instant, parse_trigger, trigger_to_json
from everwhen.core.trigger_values import AnyOf, At, Cron, Every, Rrule, Trigger, as_utc
from everwhen.core.walk import Event
from everwhen.core.zones import FoldPolicy, GapPolicy, Zone, ZoneSource, add, find_zone

__all__ = [
    "AnyOf",
    "At",
    "BusinessDay",
    "CalendarRule",
    "Cron",
    "Every",
    "FoldPolicy",
    "GapPolicy",
    "Occurrence",
    "Rrule",
    "Timing",
    "Trigger",
    "TriggerError",
    "bind",
    "calendar_names",
    "draws",
    "find_seed",
    "fires",
    "look",
    "next_after",
    "next_look",
    "occurrences",
    "parse_fold",
    "parse_gap",
    "parse_instant",
    "parse_trigger",
    "reach",
    "refuse_dense_rolls",
    "seed_trigger",
    "start_of",
    "trigger_to_json",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """An instant that a timing intends; no two of one timing share an instant.

    Attributes:
        nominal_at: the instant, UTC. For a skip over a gap it is the transition: the first instant after the gap.
        local: the same instant as an aware local time, in its pass of a fold.
        skipped: why it does not fire; None when it does.
        missing: the local times (naive) inside a gap that this instant stands for, in order, at most 60: those that
            were skipped, or, when it fires, those that were moved to it.
        repeated: whether the local time occurs twice, at two offsets.
        mark: which calendar excluded or rolled it.
    """

    nominal_at: datetime
    local: datetime
    skipped: Reason | None
    missing: tuple[datetime, ...]
    repeated: bool
    mark: Mark | None = None

    @property
    def due_at(self) -> datetime:
        """When it runs: at its own instant, unless a calendar has rolled it."""
        rolled = self.skipped is None and self.mark is not None and self.mark.due_at is not None
        return self.mark.due_at if rolled else self.nominal_at  # pyright: ignore[reportOptionalMemberAccess, reportReturnType]


@dataclass(frozen=True, slots=True)
class Timing:
    """A trigger in a zone, with what becomes of local times that do not exist or occur twice.

    A policy of None is automatic. A cron whose hour field holds a wildcard or a step rides on elapsed time: both passes
    of a fold, nothing for a gap; so do recurrences and wall-clock steps below a day. Every other trigger stands for a
    time of day: the first pass, and the gap's end. The members of an `AnyOf` decide each for itself.

    Zones come from the installed tz database, or from `zones`, another release of it. Calendars, named by the trigger
    or by `calendars`, come from the book that the timing is bound to; before that it answers no question (see `bind`).

    Raises:
        TriggerError: there is no such zone, or the bounds of an `AnyOf` cannot be calculated.
    """

    trigger: Trigger
    timezone: str = "UTC"
    gap: GapPolicy | None = None
    fold: FoldPolicy | None = None
    zones: ZoneSource | None = field(default=None, repr=False)
    calendars: CalendarUse | None = None
    book: Book | None = field(default=None, repr=False, compare=False)
    zone: Zone = field(init=False, repr=False, compare=False)
    source: Source = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        zone = find_zone(self.timezone) if self.zones is None else self.zones.find(self.timezone)
        object.__setattr__(self, "zone", zone)
        object.__setattr__(self, "source", self._source(zone))

    def _source(self, zone: Zone) -> Source:
        names = needed_names(self.trigger, self.calendars)
        if not names:
            return source_of(self.trigger, zone, self.gap, self.fold)
        book = self.book or {}
        if missing := tuple(name for name in names if name not in book):
            return Unbound(missing)
        source = source_of(bind_trigger(self.trigger, book), zone, self.gap, self.fold)
        return source if self.calendars is None else OnCalendars(source, zone, self.calendars, book)

    @property
    def effective_gap(self) -> GapPolicy:
        """The gap policy in force once `None` is decided; of an `AnyOf`, that of its first trigger."""
        return self.gap or automatic_of(self.trigger).gap

    @property
    def effective_fold(self) -> FoldPolicy:
        """The fold policy in force once `None` is decided; of an `AnyOf`, that of its first trigger."""
        return self.fold or automatic_of(self.trigger).fold


def calendar_names(timing: Timing) -> tuple[str, ...]:
    """Return the names of the calendars that a timing needs, each once."""
    return needed_names(timing.trigger, timing.calendars)


def bind(timing: Timing, book: Book) -> Timing:
    """Return the timing with its calendars; one that needs none is returned as it is."""
    return replace(timing, book=book) if calendar_names(timing) else timing


def next_after(timing: Timing, instant: datetime) -> datetime | None:
    """Return the first fire strictly after an aware instant, UTC; None when there is never one again.

    It is the nominal instant, even of one that a calendar has rolled.
    """
    if instant.tzinfo is not UTC:
        instant = as_utc(instant, name="after")
    return timing.source.next_fire(instant)


def fires(
    timing: Timing, *, after: datetime, count: int | None = None, until: datetime | None = None
) -> Iterator[datetime]:
    """Return the fires strictly after an instant, ascending: at most `count`, none later than `until`."""
    found = timing.source.fires(as_utc(after, name="after"))
    if until is not None:
        found = takewhile(until.__ge__, found)
    return found if count is None else islice(found, max(0, count))


def occurrences(timing: Timing, *, after: datetime, until: datetime, limit: int) -> list[Occurrence]:
    """Return the intended instants in `(after, until]`, skipped ones included, ascending, at most `limit`."""
    return look(timing, after=after, until=until, limit=limit)[0]


def look(timing: Timing, *, after: datetime, until: datetime, limit: int) -> tuple[list[Occurrence], datetime | None]:
    """Return the `occurrences`, and when to look next if that was met on the way; None: `next_look` tells."""
    if after.tzinfo is not UTC:
        after = as_utc(after, name="after")
    found: list[Occurrence] = []
    for event in islice(timing.source.events(after), max(0, limit)):
        if event.at > until:
            if event.fires and not isinstance(timing.source, OnCalendars):
                return found, event.at
            break
        found.append(_occurrence(timing, event))
    return found, None


def next_look(timing: Timing, after: datetime, answered: Collection[datetime] = ()) -> datetime | None:
    """Return when whoever has decided everything up to an instant has to look again; None: never.

    That is the next fire, or soon after what is skipped before that, so that it is recorded; with calendars it may be
    before the nominal instant, when that rolls back, unless it is among those `answered` already.
    """
    if after.tzinfo is not UTC:
        after = as_utc(after, name="after")
    source = timing.source
    if isinstance(source, OnCalendars):
        return source.next_look(after, answered)
    events = iter(source.events(after))
    first = next(events, None)
    if first is None or first.fires:
        return None if first is None else first.at
    soon = add(first.at, SKIPPED_TOGETHER)
    return next((min(event.at, soon) for event in events if event.fires or event.at >= soon), soon)


def start_of(timing: Timing) -> datetime | None:
    """Return the instant at which a timing begins by its own words: a bound, or where its recurrence starts."""
    match timing.trigger:
        case AnyOf(start=datetime() as start):
            return bound_at(start, timing.zone)
        case Rrule(dtstart=dtstart, recurrence=recurrence):
            return bound_at(recurrence.start or dtstart, timing.zone)
        case _:
            return None


def reach(timing: Timing, until: datetime) -> datetime:
    """Return the last nominal instant that calendars make due by `until`; `until`, unless something rolls back."""
    if until.tzinfo is not UTC:
        until = as_utc(until, name="until")
    source = timing.source
    return source.reach(until) if isinstance(source, OnCalendars) else until


def refuse_dense_rolls(timing: Timing, *, after: datetime) -> None:
    """Raise TriggerError when a timing rolls, and fires too often for that from an instant on."""
    source = timing.source
    if isinstance(source, OnCalendars):
        refuse_dense(source.base, source.use, after=after)


def _occurrence(timing: Timing, event: Event) -> Occurrence:
    zone = timing.zone
    local = zone.local(event.at)
    return Occurrence(
        nominal_at=event.at,
        local=local,
        skipped=None if event.fires else _reason(event),
        missing=event.missing,
        repeated=not zone.is_calm(event.at) and zone.is_repeated(local),
        mark=event.mark,
    )


def _reason(event: Event) -> Reason:
    if event.mark is not None:
        return Reason.CALENDAR_EXCLUDED if event.mark.due_at is None else Reason.CALENDAR_ROLLED
    return Reason.CALENDAR_EXCLUDED if event.excluded else Reason.CALENDAR_DST_GAP
