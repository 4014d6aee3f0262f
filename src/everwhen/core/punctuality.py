"""Punctuality: how late the runs of a schedule started, kept as counts in fixed buckets.

Counts of buckets add up over days and schedules, which percentiles do not; a percentile is estimated from them, as the
upper bound of the bucket that it lies in. What never started stands in a bucket of its own, beyond all bounds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 86_400.0)
"""Upper bounds in seconds, inclusive; what is later falls into the bucket after the last."""

NEVER: Final = len(BOUNDS) + 1
"""The index of what never started."""

BUCKETS: Final = len(BOUNDS) + 2
DEFAULT_OBJECTIVE_SECONDS: Final = 30.0
MOST_OBJECTIVE_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCounts:
    """One day of a schedule."""

    day: date
    on_time: int
    late: int
    buckets: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Punctuality:
    """Some days together. Percentiles are upper bounds in seconds; None: nothing started, or beyond all bounds."""

    runs: int
    on_time: int
    late: int
    never_started: int
    ratio: float | None
    p50_seconds: float | None
    p99_seconds: float | None


def bucket_of(lateness: float | None) -> int:
    """Return the index of the bucket of a start so many seconds after it was due; None: it never started."""
    if lateness is None:
        return NEVER
    return next((index for index, bound in enumerate(BOUNDS) if lateness <= bound), len(BOUNDS))


def add(buckets: Sequence[int], others: Sequence[int]) -> list[int]:
    """Add two rows of counts."""
    return [a + b for a, b in zip(buckets, others, strict=True)]


def summarise(days: Iterable[DayCounts]) -> Punctuality:
    """Put days together."""
    on_time, late, buckets = 0, 0, [0] * BUCKETS
    for each in days:
        on_time, late, buckets = on_time + each.on_time, late + each.late, add(buckets, each.buckets)
    runs = on_time + late
    return Punctuality(
        runs=runs,
        on_time=on_time,
        late=late,
        never_started=buckets[NEVER],
        ratio=on_time / runs if runs else None,
        p50_seconds=percentile(buckets, 0.5),
        p99_seconds=percentile(buckets, 0.99),
    )


def percentile(buckets: Sequence[int], share: float) -> float | None:
    """Return the upper bound of the bucket in which this share of all runs is reached."""
    total, reached = sum(buckets), 0
    for bound, count in zip(BOUNDS, buckets, strict=False):
        reached += count
        if total and reached >= share * total:
            return bound
    return None
