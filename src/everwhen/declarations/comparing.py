"""What changes do to fires, within a budget that all schedules share. No I/O."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from everwhen.core.compare import Comparison, MoveKind, compare
from everwhen.core.errors import TriggerError
from everwhen.core.triggers import Timing, calendar_names, next_after
from everwhen.declarations.model import Action, Fate, Fires, Kind, Timings

MOST_FIRES: Final = 60_000
FEWEST_FIRES: Final = 20
MOST_FIRES_EACH: Final = 2_000
"""How many fires are looked at in all, and of each schedule."""

MOST_MOVES: Final = 5
"""How many moves are told one by one."""


def compare_fires(fates: Sequence[Fate], *, now: datetime, until: datetime) -> None:
    """Say in each fate what it does to fires in `(now, until]`."""
    changing = [fate for fate in fates if fate.timings and fate.action is not Action.REFUSED]
    count = sum(len(fate.timings) for fate in changing)
    most = max(FEWEST_FIRES, min(MOST_FIRES_EACH, MOST_FIRES // max(1, count)))
    for fate in changing:
        found = list(_comparisons(fate, now, until, most))
        if found:
            fate.fires = _together(fate, found, now)


def _comparisons(fate: Fate, now: datetime, until: datetime, most: int) -> Iterator[Comparison]:
    for each in fate.timings:
        if _is_same(each):
            continue
        try:
            yield compare(each.before, each.after, after=now, until=until, most=most)
        except TriggerError as error:
            fate.notes = (*fate.notes, f"its fires cannot be compared: {error.message}")


def _is_same(timings: Timings) -> bool:
    """Tell whether nothing has changed: neither the rule, nor a version of a calendar that it needs."""
    before, after = timings.before, timings.after
    if before is None or after is None or before != after:
        return before is after
    books = (before.book or {}, after.book or {})
    return all(books[0].get(name) is books[1].get(name) for name in calendar_names(after))


def _together(fate: Fate, found: Sequence[Comparison], now: datetime) -> Fires:
    moves = sorted((move for each in found for move in each.moves), key=lambda move: move.at)
    own: Timings | None = fate.timings[0] if fate.kind is Kind.SCHEDULE else None
    return Fires(
        added=sum(each.count(MoveKind.ADDED) for each in found),
        removed=sum(each.count(MoveKind.REMOVED) for each in found),
        moved=sum(each.count(MoveKind.MOVED) for each in found),
        unchanged=sum(each.unchanged for each in found),
        until=min(each.until for each in found),
        moves=moves[:MOST_MOVES],
        next_before=None if own is None else _next(own.before, now),
        next_after=None if own is None else _next(own.after, now),
    )


def _next(timing: Timing | None, now: datetime) -> datetime | None:
    at = None if timing is None else next_after(timing, now)
    return None if timing is None or at is None else timing.zone.local(at)
