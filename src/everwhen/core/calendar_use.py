"""How a schedule uses calendars: which of its occurrences are excluded on a closed day, and which are rolled.

An occurrence passes when, at its local time, every calendar of `open` is open and every one of `closed` is closed. One
that does not pass is excluded, or rolls to the same local time of another day, as the convention says. It keeps its
nominal instant, which is its identity; only its due instant moves. The first calendar that objected, with the version
that did, is the `Mark` on the occurrence.

Where two occurrences become due at one instant, one run stands for both: the one whose own instant it is, else the one
that was moved by fewer days, else the earlier one. The others are coalesced, marked as rolled.

A roll goes at most `MOST_ROLLED` days; without a day to go to within them the occurrence is excluded. A local time that
does not exist on that day means the end of the gap, one that occurs twice the first pass.

Occurrences stay in the order of their nominal instants, one at each, so this is a source like the others. Under
`preceding` some become due before their nominal instant: `reach` says how far a planner has to look ahead for them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, cast

from everwhen.core.calendars import Calendar, Mark, Roll
from everwhen.core.errors import TriggerError, quoted
from everwhen.core.walk import Event
from everwhen.core.zones import FoldPolicy, GapPolicy, Zone, add, resolve

MOST_CALENDARS: Final = 8
MOST_ROLLED: Final = 31
MOST_STEPS: Final = 1_500
MOST_STEPS_ROLLING: Final = 300
MOST_A_DAY: Final = 24
"""How often a schedule that rolls may fire within a day."""

LONGEST_NAME: Final = 200

SKIPPED_TOGETHER: Final = timedelta(minutes=15)
"""How long skipped instants may wait to be recorded together: a minutely schedule's closed night is a few spans."""

_TICK: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_LOOK_AHEAD: Final = 10 * MOST_A_DAY
_MOST_TOGETHER: Final = 100

Book = Mapping[str, Calendar]
"""Calendars by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarUse:
    """Names of calendars that have to be open, and closed, for an occurrence to pass, and the roll convention."""

    open: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    roll: Roll = Roll.NONE

    @property
    def names(self) -> tuple[str, ...]:
        """Return every calendar's name, once."""
        return tuple(dict.fromkeys((*self.open, *self.closed)))


class Base(Protocol):
    """What is filtered: a source of events (see `sources`)."""

    def next_fire(self, after: datetime) -> datetime | None:
        """Return the first fire strictly after an instant."""
        ...

    def events(self, after: datetime) -> Iterator[Event]:
        """Yield the fires and skips strictly after an instant."""
        ...


class Unbound(NamedTuple):
    """A source whose calendars are not at hand: it answers nothing."""

    names: tuple[str, ...]

    def next_fire(self, after: datetime) -> datetime | None:  # noqa: ARG002  # a source
        """Raise TriggerError."""
        raise self._error()

    def fires(self, after: datetime) -> Iterator[datetime]:  # noqa: ARG002
        """Raise TriggerError."""
        raise self._error()

    def events(self, after: datetime) -> Iterator[Event]:  # noqa: ARG002
        """Raise TriggerError."""
        raise self._error()

    def _error(self) -> TriggerError:
        names = ", ".join(quoted(name) for name in self.names)
        return TriggerError(
            "calendar.unknown", f"there is no calendar named {names}: create it first", field="calendars"
        )


class OnCalendars(NamedTuple):
    """A source, with what its calendars exclude and roll."""

    base: Base
    zone: Zone
    use: CalendarUse
    book: Book

    def next_fire(self, after: datetime) -> datetime | None:
        """Return the next instant that runs, be it rolled; raise TriggerError after too many that do not."""
        steps = MOST_STEPS if self.use.roll is Roll.NONE else MOST_STEPS_ROLLING
        for _ in range(steps):
            event = next(self.base.events(after), None)
            if event is None:
                return None
            if self._judged(event).fires:
                return event.at
            after = event.at
            if self.use.roll is Roll.NONE and event.fires:
                opening = self._opening(event.at)
                if opening is None:
                    return None
                after = max(after, add(opening, -_TICK))
        raise TriggerError(
            "calendar.work", f"more than {steps} occurrences in a row fall on closed days", field="calendars"
        )

    def fires(self, after: datetime) -> Iterator[datetime]:
        """Yield the instants that run."""
        while (fire := self.next_fire(after)) is not None:
            yield fire
            after = fire

    def events(self, after: datetime) -> Iterator[Event]:
        """Yield every event, judged."""
        return (self._judged(event) for event in self.base.events(after))

    def reach(self, until: datetime) -> datetime:
        """Return the last nominal instant that is due by `until`, though it lies after it; else `until`."""
        if self.use.roll not in {Roll.PRECEDING, Roll.MODIFIED_FOLLOWING}:
            return until
        found = until
        for event in self._ahead(until):
            judged = self._judged(event)
            if judged.fires and due_of(judged) <= until:
                found = event.at
        return found

    def next_look(self, after: datetime, answered: Collection[datetime] = ()) -> datetime | None:
        """Return when a planner that has decided all up to `after`, and `answered`, has to look again; None: never."""
        first = next(self.events(after), None)
        if first is None:
            return None
        look = first.at + SKIPPED_TOGETHER
        last = first.at
        for event in islice(self.events(after), _MOST_TOGETHER):
            last = event.at
            if last >= look:
                break
            if event.fires and event.at not in answered:
                look = min(look, due_of(event), last)
        else:
            look = min(look, max(last, first.at + _TICK))
        if self.use.roll in {Roll.PRECEDING, Roll.MODIFIED_FOLLOWING}:
            ahead = (self._judged(event) for event in self._ahead(first.at - _TICK) if event.at not in answered)
            look = min(look, min((due_of(event) for event in ahead if event.fires), default=look))
        return look

    def _ahead(self, after: datetime) -> Iterator[Event]:
        """Yield what lies between an instant and the next wholly open day: nothing later can roll back before it."""
        day, last = self._wall(after).date(), add(after, _DAY * (MOST_ROLLED + 1))
        for event in islice(self.base.events(after), _LOOK_AHEAD):
            today = self._wall(event.at).date()
            while event.at <= last and day < today:
                day += _DAY
                if self._wholly_open(day):
                    return
            if event.at > last:
                return
            yield event

    def _wholly_open(self, day: date) -> bool:
        start = datetime(day.year, day.month, day.day, tzinfo=UTC)
        return self._objection(start) is None and all(
            (change := self.book[name].next_change(start)) is None or change - start >= _DAY for name in self.use.names
        )

    def _judged(self, event: Event) -> Event:
        if not event.fires:
            return event
        wall = self._wall(event.at)
        calendar = self._objection(wall)
        if calendar is None:
            return event
        state = calendar.state(wall.date())
        mark = Mark(calendar.name, state.version, state.label, None)
        target = self._target(wall)
        due = None if target is None else self._instant(target)
        if target is None or due is None:
            return event._replace(fires=False, mark=mark)
        return event._replace(fires=not self._stands_in(event.at, wall, target), mark=mark._replace(due_at=due))

    def _objection(self, wall: datetime) -> Calendar | None:
        for name in self.use.open:
            if not (calendar := self.book[name]).is_open_at(wall):
                return calendar
        for name in self.use.closed:
            if (calendar := self.book[name]).is_open_at(wall):
                return calendar
        return None

    def _target(self, wall: datetime) -> datetime | None:
        """Return the local time that a closed one rolls to."""
        match self.use.roll:
            case Roll.NONE:
                return None
            case Roll.FOLLOWING:
                return self._passing(wall, 1)
            case Roll.PRECEDING:
                return self._passing(wall, -1)
            case Roll.MODIFIED_FOLLOWING:
                found = self._passing(wall, 1)
                same_month = found is not None and (found.year, found.month) == (wall.year, wall.month)
                return found if same_month else self._passing(wall, -1)

    def _passing(self, wall: datetime, direction: int) -> datetime | None:
        candidate = add(wall, _DAY * direction)
        while _DAY <= abs(candidate - wall) <= _DAY * MOST_ROLLED:
            objector = self._objection(candidate)
            if objector is None:
                return candidate
            following = add(candidate, _DAY * direction)
            if objector.name in self.use.open:
                day = following.date()
                opening = objector.next_open(day) if direction > 0 else objector.previous_open(day)
                if opening is None:
                    return None
                following = add(following, opening - day)
            candidate = following
        return None

    def _stands_in(self, at: datetime, wall: datetime, target: datetime) -> bool:
        """Tell whether another occurrence is due at the instant that this one rolls to, and has the better right."""
        if at != self._instant(wall):
            return self._occurs(wall)  # the second pass of a fold; the first one rolls as well
        distance = abs((target - wall).days)
        for days in range(distance + 1):
            for other in {add(target, -_DAY * days), add(target, _DAY * days)}:
                if other == wall or (days == distance and other > wall):
                    continue
                if days and (self._objection(other) is None or self._target(other) != target):
                    continue
                if self._occurs(other):
                    return True
        return False

    def _occurs(self, wall: datetime) -> bool:
        at = self._instant(wall)
        return self.base.next_fire(add(at, -_TICK)) == at

    def _instant(self, wall: datetime) -> datetime:
        return resolve(wall.replace(tzinfo=None), self.zone, gap=GapPolicy.GAP_END, fold=FoldPolicy.FIRST)[0]

    def _opening(self, at: datetime) -> datetime | None:
        """Return the next instant at which any calendar changes its mind, so that a closed stretch is leapt over."""
        wall = self._wall(at)
        objector = self._objection(wall)
        change = None if objector is None else objector.next_change(wall)
        return None if change is None else self._instant(change)

    def _wall(self, at: datetime) -> datetime:
        return add(at, self.zone.at(at).offset)


def refuse_dense(base: Base, use: CalendarUse, *, after: datetime) -> None:
    """Raise TriggerError when a schedule that rolls fires too often: a roll is for what happens on days."""
    if use.roll is Roll.NONE:
        return
    first = at = base.next_fire(after)
    for _ in range(MOST_A_DAY):
        if at is None:
            return
        at = base.next_fire(at)
    if first is not None and at is not None and at - first < _DAY:
        raise _wrong(f"a schedule that rolls fires at most {MOST_A_DAY} times a day")


def due_of(event: Event) -> datetime:
    """Return when an event that fires is due."""
    return event.at if event.mark is None or event.mark.due_at is None else event.mark.due_at


def parse_use(value: object) -> CalendarUse | None:
    """Read from JSON data how a schedule uses calendars; None stays None.

    Raises:
        TriggerError: it is no such thing.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _wrong("calendars is an object with open, closed and roll")
    given = cast("Mapping[str, Any]", value)
    if extra := sorted(set(given) - {"open", "closed", "roll"}):
        raise _wrong(f"unknown key {quoted(extra[0])}; known are closed, open, roll")
    roll = given.get("roll", Roll.NONE.value)
    if roll not in list(Roll):
        raise _wrong(f"roll is one of {', '.join(Roll)}")
    use = CalendarUse(open=_names(given, "open"), closed=_names(given, "closed"), roll=Roll(roll))
    if not 1 <= len(use.open) + len(use.closed) <= MOST_CALENDARS:
        raise _wrong(f"name 1 to {MOST_CALENDARS} calendars")
    if len(use.names) != len(use.open) + len(use.closed):
        raise _wrong("name each calendar once")
    return use


def use_to_json(use: CalendarUse | None) -> dict[str, Any] | None:
    """Return what `parse_use` reads."""
    if use is None:
        return None
    return {"open": list(use.open), "closed": list(use.closed), "roll": use.roll.value}


def _names(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if not isinstance(value, list | tuple):
        raise _wrong(f"{key} is a list of calendars' names")
    names = cast("list[object]", value)
    if not all(isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in names):
        raise _wrong(f"{key} is a list of calendars' names")
    return tuple(cast("list[str]", names))


def _wrong(message: str) -> TriggerError:
    return TriggerError("calendar.use", message, field="calendars")
