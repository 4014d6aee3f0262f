"""What a change does to the fires of a schedule: another trigger, policy, or release of the tz database.

The two lists of fires are merged by instant. What stands in both is unchanged. What is left over is paired, first by
the same local time on the wall (a zone that moved), then in order within one local day (a rule that moved); a pair is a
*moved* fire, and what finds no partner was *removed* or *added*. Nothing is counted twice.

The work is bounded: at most `most` fires of each side are looked at. When a side has more, the comparison ends where
the shorter look ended, and `until` says so; nothing beyond it is claimed.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from everwhen.core.triggers import Timing, fires

MOST_FIRES: Final = 10_000
"""The most fires of each side that one comparison looks at."""


class MoveKind(StrEnum):
    """What became of a fire."""

    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One difference: an aware local time before, after, or both."""

    before: datetime | None
    after: datetime | None

    @property
    def kind(self) -> MoveKind:
        """Added, removed or moved."""
        if self.before is None:
            return MoveKind.ADDED
        return MoveKind.REMOVED if self.after is None else MoveKind.MOVED

    @property
    def at(self) -> datetime:
        """The earlier of its instants."""
        return min(side for side in (self.before, self.after) if side is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All differences in `(after, until]`, by instant, and how many fires are the same; `cut` when it ended early."""

    moves: tuple[Move, ...]
    unchanged: int
    until: datetime
    cut: bool

    def count(self, kind: MoveKind) -> int:
        """Tell how many fires were added, removed or moved."""
        return sum(move.kind is kind for move in self.moves)


def compare(
    old: Timing | None, new: Timing | None, *, after: datetime, until: datetime, most: int = MOST_FIRES
) -> Comparison:
    """Compare the fires of two timings in `(after, until]`; None fires never."""
    before, before_until = _look(old, after=after, until=until, most=most)
    later, later_until = _look(new, after=after, until=until, most=most)
    reached = min(before_until, later_until)
    was = {at for at in before if at <= reached}
    becomes = {at for at in later if at <= reached}
    gone = [_local(old, at) for at in sorted(was - becomes)]
    come = [_local(new, at) for at in sorted(becomes - was)]
    moves = sorted(_paired(gone, come), key=lambda move: move.at)
    return Comparison(moves=tuple(moves), unchanged=len(was & becomes), until=reached, cut=reached < until)


def _look(timing: Timing | None, *, after: datetime, until: datetime, most: int) -> tuple[list[datetime], datetime]:
    if timing is None:
        return [], until
    found = list(fires(timing, after=after, until=until, count=most + 1))
    return (found[:most], found[most - 1]) if len(found) > most else (found, until)


def _local(timing: Timing | None, at: datetime) -> datetime:
    return at if timing is None else timing.zone.local(at)


def _paired(gone: list[datetime], come: list[datetime]) -> Iterator[Move]:
    for key in (_wall, _day):
        pairs = _pairs(gone, come, key)
        yield from (Move(before=before, after=after) for before, after in pairs)
        gone = _without(gone, {before for before, _ in pairs})
        come = _without(come, {after for _, after in pairs})
    yield from (Move(before=before, after=None) for before in gone)
    yield from (Move(before=None, after=after) for after in come)


def _pairs(
    gone: list[datetime], come: list[datetime], key: Callable[[datetime], Hashable]
) -> list[tuple[datetime, datetime]]:
    waiting: defaultdict[Hashable, deque[datetime]] = defaultdict(deque)
    for after in come:
        waiting[key(after)].append(after)
    return [(before, waiting[key(before)].popleft()) for before in gone if waiting[key(before)]]


def _without(instants: list[datetime], taken: set[datetime]) -> list[datetime]:
    return [instant for instant in instants if instant not in taken]


def _wall(local: datetime) -> Hashable:
    return local.replace(tzinfo=None, fold=0)


def _day(local: datetime) -> Hashable:
    return local.date()
