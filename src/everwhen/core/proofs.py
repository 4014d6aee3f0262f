"""What an import claims: a schedule fires here when it fired there, for ten years, or these are the differences.

Both sides are a `Timing`: the source's own rules, and what will be stored. Where they are the same rule there is
nothing to walk; otherwise both are walked, and `compare` pairs what differs. The work is bounded by a number of fires,
not by the years: where it ends before the ten years do, the proof ends there, says so, and claims nothing beyond.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from everwhen.core.compare import Move, compare
from everwhen.core.triggers import Cron, Timing
from everwhen.core.zones import LAST_INSTANT

YEARS: Final = 10
FEBRUARY: Final = 2
SHOWN: Final = 20
MOST_FIRES: Final = 200_000
"""The most fires of each side that one proof looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How two timings compare in `(after, until]`.

    Attributes:
        same_rule: both are one rule, so that they are equal for ever; nothing was counted.
        same: how many fires stand in both; None when nothing was counted.
        differences: how many do not.
        first: the first of them.
        complete: whether the ten years were walked to their end.
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
    return Proof(
        same_rule=False,
        same=found.unchanged,
        differences=len(found.moves),
        first=found.moves[:SHOWN],
        until=found.until,
        complete=not found.cut,
    )


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
