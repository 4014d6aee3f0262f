"""When a message leaves, and what is folded into it: windows, rates and quiet hours of one receiver.

    an occasion, and nothing gathers       a message begins to gather; it is decided here when it leaves
    an occasion, and a message gathers     it is folded into that one
    the message has left                   the next one leaves no sooner than a window after it

So the first occasion leaves after `WAIT`, with whatever happens meanwhile, and a storm comes as one digest a window. A
message leaves later than that when the rate of its receiver is used up, or when it is night there: what is held back is
folded, never lost. What pierces quiet hours gathers apart, and neither waits for the night's digest nor moves it.

All of it is a function of the receiver's three instants, its manner, and now.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from everwhen.core.quiet_hours import QuietHours

WAIT: Final = timedelta(milliseconds=500)
"""How long the first occasion waits for company."""

BURST: Final = 5
"""How many messages may leave at once where a rate is set and none have left for long."""

MOST_SHOWN: Final = 20
"""How many occasions of a digest are told whole; the others are counted."""

_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a channel wants its messages."""

    window: timedelta
    messages_an_hour: int | None = None
    quiet: QuietHours | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What has left for one receiver: when the next may, and how much of its rate is spent (see `_paced`)."""

    opens_at: datetime | None = None
    urgent_opens_at: datetime | None = None
    allowance: datetime | None = None


def is_urgent(manner: Manner, *, pierces: bool, now: datetime) -> bool:
    """Say whether an occasion gathers apart from the night's digest: it pierces, and it is night."""
    return pierces and manner.quiet is not None and manner.quiet.until(now + WAIT) is not None


def leave(pace: Pace, manner: Manner, *, urgent: bool, now: datetime) -> tuple[datetime, Pace]:
    """Decide when a message that begins to gather now leaves; return that, and the receiver's pace after it."""
    opens_at = pace.urgent_opens_at if urgent else pace.opens_at
    at = _held(max(now + WAIT, opens_at or now), manner, urgent=urgent)
    at, allowance = _paced(at, pace.allowance, manner.messages_an_hour)
    at = _held(at, manner, urgent=urgent)
    pace = replace(pace, allowance=allowance)
    if urgent:
        return at, replace(pace, urgent_opens_at=at + manner.window)
    return at, replace(pace, opens_at=at + manner.window)


def _held(at: datetime, manner: Manner, *, urgent: bool) -> datetime:
    until = None if urgent or manner.quiet is None else manner.quiet.until(at)
    return at if until is None else until


def _paced(at: datetime, allowance: datetime | None, an_hour: int | None) -> tuple[datetime, datetime | None]:
    """Spend one token of a bucket of BURST, kept as one instant: when it would be full again."""
    if an_hour is None:
        return at, None
    step = _HOUR / an_hour
    full_at = max(allowance or at, at)
    at = max(at, full_at - step * (BURST - 1))
    return at, max(full_at, at) + step


def add_counts(counts: Mapping[str, int], kinds: Iterable[str]) -> dict[str, int]:
    """Count more occasions of these kinds."""
    return dict(Counter(counts) + Counter(kinds))
