"""When a delivery is tried again: with a growing pause, for an hour, and never past it.

A receiver that says when it wants to hear again is obeyed, as long as that is within the hour; beyond it nobody would
wait for the message, and it is dead, with what the receiver said.
"""

from datetime import datetime, timedelta
from typing import Final

FIRST: Final = timedelta(seconds=5)
MOST: Final = timedelta(minutes=10)
GIVE_UP: Final = timedelta(hours=1)
"""How long after its first try a delivery is tried for the last time."""


def next_try(
    *, tries: int, first_tried_at: datetime, now: datetime, after: timedelta | None, jitter: float
) -> datetime | None:
    """Return when to try again after so many tries; None: never. `jitter` is in [0, 1)."""
    last_at = first_tried_at + GIVE_UP
    if now >= last_at:
        return None
    pause = min(FIRST * 2 ** min(tries - 1, 20), MOST)
    at = now + pause * (0.5 + jitter / 2)
    if after is not None and now + after > at:
        return None if now + after > last_at else now + after
    return min(at, last_at)
