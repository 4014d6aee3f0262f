"""What an import claims: a schedule fires here when it fired there, for ten years, or these are the differences.

Both sides are a `Timing`: the source's own rules, and what will be stored. Where they are the same rule there is
nothing to walk; otherwise both are walked, and `compare` pairs what differs. The work is bounded by a number of fires,
not by the years. Where it ends before the ten years do, and both are one cron under other policies, what lies farther
than a day from every change of the clocks is equal by construction (a local time that exists once fires at its instant,
whatever the policies say), and only the days of the changes are walked. Where that does not hold either, the proof ends
with the budget, says so, and claims nothing beyond.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from everwhen.core.compare import Move, compare
from everwhen.core.triggers import Cron, Timing
from everwhen.core.zones import LAST_INSTANT, add

YEARS: Final = 10
FEBRUARY: Final = 2
SHOWN: Final = 20
MOST_FIRES: Final = 200_000
"""The most fires of each side that one proof looks at."""

_NEAR: Final = timedelta(hours=25)
"""No change of offset displaces a local time by more than a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How two timings compare in `(after, until]`.

    Attributes:
        same_rule: both are one rule, so that they are equal for ever; nothing was counted.
        same: how many fires stand in both; None when they were not counted.
        differences: how many do not.
        first: the first of them.
        complete: whether it holds for all of the ten years.
    """

    same_rule: bool
    same: int | None
    differences: int
    first: tuple[Move, ...]
    until: datetime
    complete: bool

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found; how far that reaches, `until` and `complete` say."""
        return self.differences == 0


def prove(source: Timing, stored: Timing, *, after: datetime, most: int = MOST_FIRES) -> Proof:
    """Compare what a source fires with what will be stored, over ten years from an instant.

    Raises:
        TriggerError: one side cannot be calculated so far ahead.
    """
    until = _years_after(after)
    if _rule(source) == _rule(stored):
        return Proof(same_rule=True, same=None, differences=0, first=(), until=until, complete=True)
    found = compare(source, stored, after=after, until=until, most=most)
    if found.cut and _is_one_cron(source, stored):
        moves = _moves_at_transitions(source, stored, after=after, until=until)
        return Proof(
            same_rule=False, same=None, differences=len(moves), first=moves[:SHOWN], until=until, complete=True
        )
    return Proof(
        same_rule=False,
        same=found.unchanged,
        differences=len(found.moves),
        first=found.moves[:SHOWN],
        until=found.until,
        complete=not found.cut,
    )


def _is_one_cron(source: Timing, stored: Timing) -> bool:
    """Tell whether both have the same columns, zone and days, so that they can only differ where clocks change."""
    if not (isinstance(source.trigger, Cron) and isinstance(stored.trigger, Cron)):
        return False
    one, other = _rule(source), _rule(stored)
    return one[:2] == other[:2] and source.calendars is None and stored.calendars is None


def _moves_at_transitions(source: Timing, stored: Timing, *, after: datetime, until: datetime) -> tuple[Move, ...]:
    return tuple(
        move
        for begin, end in _near_transitions(source, after=after, until=until)
        for move in compare(source, stored, after=begin, until=end, most=MOST_FIRES).moves
    )


def _near_transitions(timing: Timing, *, after: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the stretches within a day of a change of the clocks, those that touch joined to one."""
    begin = end = None
    for change in timing.zone.transitions(add(after, -_NEAR), add(until, _NEAR)):
        first, last = max(after, change.at - _NEAR), min(until, change.at + _NEAR)
        if begin is not None and end is not None and first > end:
            yield begin, end
            begin = None
        begin, end = first if begin is None else begin, last
    if begin is not None and end is not None:
        yield begin, end


def _years_after(after: datetime) -> datetime:
    if after.year + YEARS >= LAST_INSTANT.year:
        return LAST_INSTANT
    return after.replace(year=after.year + YEARS, day=min(after.day, 28) if after.month == FEBRUARY else after.day)


def _rule(timing: Timing) -> tuple[object, ...]:
    """Return what decides about the fires: of a cron what its columns hold, however they are written."""
    trigger, calendars = timing.trigger, timing.calendars
    if not isinstance(trigger, Cron):
        # An automatic policy may stand for a habit that no policy describes, so None is a value of its own.
        return trigger, timing.timezone, timing.gap, timing.fold, calendars
    fields = trigger.compiled.fields
    return (
        (fields.seconds, fields.minutes, fields.hours, fields.months, fields.years, fields.day_columns),
        timing.timezone,
        timing.effective_gap,
        timing.effective_fold,
        fields.dialect.gap_habit if timing.gap is None else None,
        calendars,
    )
