"""What another release of the tz database does to schedules: which of their fires move, and from when to when."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everwhen.core.compare import Comparison, MoveKind, compare
from everwhen.core.errors import TriggerError
from everwhen.core.zones import ZoneSource
from everwhen.schedules.model import timing_from_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """The two releases, and the stretch of time in which fires are compared."""

    old: ZoneSource
    new: ZoneSource
    after: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMoves:
    """What the releases do to one schedule. `error` says why it cannot be told; `comparison` is then None."""

    name: str
    timezone: str
    after: datetime
    comparison: Comparison | None
    error: str | None = None

    @property
    def affected(self) -> bool:
        """Whether something moves, or cannot be told."""
        return self.comparison is None or bool(self.comparison.moves)


def compare_releases(specs: Iterable[tuple[str, Mapping[str, Any]]], releases: Releases) -> Iterator[ScheduleMoves]:
    """Yield what becomes of each named spec (the wire's form), lazily and in order.

    A zone whose file is the same in both releases costs one comparison of bytes, whatever the horizon. Calendars that a
    schedule uses are left out: what moves is told also of instants that they exclude.
    """
    for name, spec in specs:
        timezone = str(spec.get("timezone") or "UTC")
        try:
            comparison, error = _compare(spec, timezone, releases), None
        except TriggerError as refused:
            comparison, error = None, f"{refused.code}: {refused.message}"
        yield ScheduleMoves(name=name, timezone=timezone, after=releases.after, comparison=comparison, error=error)


def _compare(spec: Mapping[str, Any], timezone: str, releases: Releases) -> Comparison:
    spec = {key: value for key, value in spec.items() if key != "calendars"}
    old = timing_from_data(spec, zones=releases.old)
    if releases.old.agrees(releases.new, timezone):
        return Comparison(moves=(), unchanged=0, until=releases.until, cut=False)
    new = timing_from_data(spec, zones=releases.new)
    return compare(old, new, after=releases.after, until=releases.until)


def summarise(found: Iterable[ScheduleMoves]) -> dict[str, int]:
    """Count schedules and moves."""
    totals = {"schedules": 0, "affected": 0, "moved": 0, "added": 0, "removed": 0, "cut": 0, "errors": 0}
    for each in found:
        totals["schedules"] += 1
        totals["affected"] += each.affected
        totals["errors"] += each.error is not None
        if each.comparison is not None:
            totals["cut"] += each.comparison.cut
            for kind in MoveKind:
                totals[kind.value] += each.comparison.count(kind)
    return totals
