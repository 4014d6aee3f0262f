"""Failures in a row: after how many of them a schedule pauses itself.

A planned run of the schedule that ends dead or expired is a failure; one that succeeds begins the count anew. Whatever
else becomes of a run (cancelled, skipped, coalesced, missed) says nothing about its task, and changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.core.lifecycle import RunState

MOST_NAMED: Final = 20
"""How many of the failed runs a count remembers."""

MOST_FAILURES: Final = 1_000
"""The most that `pause_after_failures` may say."""

_FAILED: Final = frozenset({RunState.DEAD, RunState.EXPIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Failures in a row. `pause_at` is when the schedule is to be paused for them; None: not now."""

    pause_after: int
    failures: int = 0
    run_ids: tuple[UUID, ...] = ()
    pause_at: datetime | None = None


def count_ends(count: Count, ends: Iterable[tuple[UUID, RunState]], *, now: datetime) -> Count:
    """Return the count after these ends, in their order.

    Once it has come to `pause_after` it stays so, whatever ends meanwhile: the schedule will be paused.
    """
    for run_id, state in ends:
        if count.pause_at is not None:
            return count
        if state is RunState.SUCCEEDED:
            count = replace(count, failures=0, run_ids=())
        elif state in _FAILED:
            failures = count.failures + 1
            count = replace(
                count,
                failures=failures,
                run_ids=(*count.run_ids, run_id)[-MOST_NAMED:],
                pause_at=now if failures >= count.pause_after else None,
            )
    return count
