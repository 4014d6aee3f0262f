"""When a delivery is tried again: with a growing pause, for an hour, and never past it.

A receiver that says when it wants to hear again is obeyed, as long as that is within the hour; beyond it nobody would
wait for the message, and it is dead, with what the receiver said.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The first pause, the longest, and how long after its first try a delivery is tried for the last time."""

    first: timedelta = timedelta(seconds=5)
    most: timedelta = timedelta(minutes=10)
    give_up: timedelta = timedelta(hours=1)


def next_try(
    patience: Patience, *, tries: int, first_tried_at: datetime, now: datetime, after: timedelta | None, jitter: float
) -> datetime | None:
    """Return when to try again after so many tries; None: never. `jitter` is in [0, 1)."""
    last_at = first_tried_at + patience.give_up
    if now >= last_at:
        return None
    pause = min(patience.first * 2 ** min(tries - 1, 20), patience.most)
    at = now + pause * (0.5 + jitter / 2)
    if after is not None and now + after > at:
        return None if now + after > last_at else now + after
    return min(at, last_at)
