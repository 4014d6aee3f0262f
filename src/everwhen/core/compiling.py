"""From a trigger, in a zone under its policies, to the source of its events."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple, assert_never

from everwhen.core.business_days import BusinessDay
from everwhen.core.calendar_use import Unbound
from everwhen.core.cron_dialects import TIME_OF_DAY, Automatic
from everwhen.core.rrule_syntax import Freq
from everwhen.core.rules import CalendarRule
from everwhen.core.sources import Between, Elapsed, Except, Listed, Source, nth_fire, union
from everwhen.core.trigger_values import AnyOf, At, Cron, Every, Rrule, Trigger
from everwhen.core.walk import Event, Pattern, Walk
from everwhen.core.zones import FoldPolicy, GapPolicy, Zone, gap_around, resolve

_RIDES_ON: Final = Automatic(GapPolicy.SKIP, FoldPolicy.BOTH)


class _Walls(NamedTuple):
    """Some wall-clock times, ascending."""

    items: tuple[datetime, ...]

    def following(self, wall: datetime) -> datetime | None:
        index = bisect_right(self.items, wall)
        return self.items[index] if index < len(self.items) else None


def automatic_of(trigger: Trigger) -> Automatic:
    """Return the policies of a trigger whose schedule names none; of an `AnyOf`, those of its first trigger."""
    match trigger:
        case Cron(compiled=compiled):
            return compiled.automatic
        case Every(steps=steps):
            return _RIDES_ON if steps is not None and steps.sub_daily else TIME_OF_DAY
        case Rrule(recurrence=recurrence):
            rides_on = any(rule.freq > Freq.DAILY and not rule.hours for rule in recurrence.rules)
            return _RIDES_ON if rides_on else TIME_OF_DAY
        case AnyOf(triggers=triggers):
            return automatic_of(triggers[0])
        case At() | CalendarRule() | BusinessDay():
            return TIME_OF_DAY
        case _:
            assert_never(trigger)


def source_of(  # noqa: PLR0911  # one for each kind
    trigger: Trigger, zone: Zone, gap: GapPolicy | None, fold: FoldPolicy | None
) -> Source:
    """Return the source of a trigger's events; a policy of None is automatic.

    Raises:
        TriggerError: the bounds of an `AnyOf` cannot be calculated.
    """
    automatic = automatic_of(trigger)
    a_gap, a_fold = gap or automatic.gap, fold or automatic.fold
    match trigger:
        case Cron(compiled=compiled):
            # A policy that is named is obeyed as it is written.
            habit = compiled.fields.dialect.gap_habit if gap is None else None
            return Walk(compiled, zone, a_gap, a_fold, habit)
        case Every(period=period, anchor=anchor, steps=steps):
            return Elapsed(period, anchor) if steps is None else Walk(steps, zone, a_gap, a_fold)
        case At(at=at):
            return Listed(tuple(_single(at, zone, a_gap, a_fold)))
        case Rrule():
            return _recurrence(trigger, lambda pattern: Walk(pattern, zone, a_gap, a_fold))
        case CalendarRule(compiled=compiled):
            return Walk(compiled, zone, a_gap, a_fold)
        case BusinessDay(pattern=pattern, calendar=calendar):
            return Unbound((calendar,)) if pattern is None else Walk(pattern, zone, a_gap, a_fold)
        case AnyOf():
            return _any_of(trigger, zone, gap, fold)
        case _:
            assert_never(trigger)


def _recurrence(trigger: Rrule, walk: Callable[[Pattern], Walk]) -> Source:
    """Return the union of the rules and further times. A rule that ends at an instant is bounded on its own."""
    found = trigger.recurrence
    members: list[Source] = [
        walk(rule) if rule.until is None else Between(walk(rule), None, rule.until) for rule in trigger.compiled
    ]
    walls = {wall for wall in found.further if wall.tzinfo is None} - set(found.excluded)
    if walls:
        members.append(walk(_Walls(tuple(sorted(wall.replace(tzinfo=UTC) for wall in walls)))))
    instants = [instant for instant in found.further if instant.tzinfo is not None]
    if instants:
        members.append(_listed(instants))
    source = union(members)
    excluded = [instant for instant in found.excluded if instant.tzinfo is not None]
    return Except(source, _listed(excluded)) if excluded else source


def _listed(instants: list[datetime]) -> Listed:
    return Listed(tuple(Event(instant, True, ()) for instant in sorted(instants)))


def _any_of(trigger: AnyOf, zone: Zone, gap: GapPolicy | None, fold: FoldPolicy | None) -> Source:
    source = union(source_of(member, zone, gap, fold) for member in trigger.triggers)
    if trigger.exceptions:
        source = Except(source, union(source_of(member, zone, gap, fold) for member in trigger.exceptions))
    first, last = bound_at(trigger.start, zone), bound_at(trigger.end, zone)
    if trigger.max_runs is not None and first is not None:
        final = nth_fire(source, trigger.max_runs, first=first)
        last = min((instant for instant in (final, last) if instant is not None), default=None)
    return source if first is None and last is None else Between(source, first, last)


def bound_at(time: datetime | None, zone: Zone) -> datetime | None:
    """Return a bound as an instant: of a local time that occurs twice the first, of a missing one the gap's end."""
    if time is None or time.tzinfo is not None:
        return time
    return resolve(time, zone, gap=GapPolicy.GAP_END, fold=FoldPolicy.FIRST)[0]


def _single(at: datetime, zone: Zone, gap: GapPolicy, fold: FoldPolicy) -> Iterator[Event]:
    if at.tzinfo is not None:
        yield Event(at, True, ())
        return
    jump = gap_around(at, zone)
    missing = () if jump is None else (at,)
    for instant in resolve(at, zone, gap=gap, fold=fold):
        yield Event(instant, True, missing)
    if jump is not None and gap is GapPolicy.SKIP:
        yield Event(jump.at, False, missing)
