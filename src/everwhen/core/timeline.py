"""A span of time cut into segments, each with one reason, without gap or overlap: their durations sum to the span's.

`Timeline` is filled from its beginning: each `until` says why the time up to an instant was spent. What lies before the
cursor is ignored and what lies beyond the end is cut off, so whatever it is told, in whatever order, it covers the span
exactly. `sliced` cuts a stretch of waiting where what blocked the line began and ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from everwhen.core.reasons import Reason

RESOLUTION: Final = timedelta(seconds=5)
"""How much later than it began something may have been noticed; by so much its beginning is brought forward."""

# Of several things that block a line at once, which one a segment is put down to: the first of these. A pause stops
# all; a full line moves when one of its own runs ends, whatever the workers do; then the workers; then the others.
PRECEDENCE: Final[Sequence[str]] = (
    Reason.TENANT_PAUSED,
    Reason.QUEUE_PAUSED,
    Reason.LIMIT_TENANT,
    Reason.LIMIT_QUEUE,
    Reason.LIMIT_TASK,
    Reason.LIMIT_KEY,
    Reason.LIMIT_RATE,
    Reason.WORKER_NONE_REGISTERED,
    Reason.WORKER_NONE_LIVE,
    Reason.WORKER_CORDONED,
    Reason.WORKER_DRAINING,
    Reason.WORKER_NO_CAPABILITY_MATCH,
    Reason.WORKER_SLOTS_FULL,
    Reason.PRIORITY_BEHIND,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of time, `since` inclusive to `until` exclusive, and its reason. `facts` are numbers and names."""

    since: datetime
    until: datetime
    reason: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def duration(self) -> timedelta:
        """How long it is."""
        return self.until - self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Something blocked the line from `since` to `until` (None: it still does); it was noticed at `noticed_at`."""

    reason: str
    since: datetime
    until: datetime | None
    noticed_at: datetime
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Timeline:
    """The span from `start` to `end`, told from its beginning."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start = start
        self.end = max(start, end)
        self.segments: list[Segment] = []
        self._cursor = start

    def until(self, instant: datetime, reason: str, **facts: Any) -> None:
        """Put the time from the cursor to `instant` down to this reason."""
        self.add([Segment(since=self._cursor, until=instant, reason=reason, facts=facts)])

    def waited(self, instant: datetime, blocked: Iterable[Blocked], **facts: Any) -> None:
        """Put the time from the cursor to `instant` down to what blocked the line; the rest is waiting in it."""
        instant = min(instant, self.end)
        if instant > self._cursor:
            self.add(sliced(self._cursor, instant, blocked, **facts))

    def add(self, segments: Iterable[Segment]) -> None:
        """Append these, cut to what is left of the span and joined to an equal neighbour."""
        for segment in segments:
            until = min(segment.until, self.end)
            if until <= self._cursor:
                continue
            last = self.segments[-1] if self.segments else None
            if last is not None and (last.reason, last.facts) == (segment.reason, segment.facts):
                self.segments[-1] = Segment(since=last.since, until=until, reason=last.reason, facts=last.facts)
            else:
                self.segments.append(
                    Segment(since=self._cursor, until=until, reason=segment.reason, facts=segment.facts)
                )
            self._cursor = until


def sliced(since: datetime, until: datetime, blocked: Iterable[Blocked], **facts: Any) -> list[Segment]:
    """Cut a stretch of waiting by what blocked the line; `facts` go to the parts when nothing did."""
    parts = within(since, until, blocked)
    cuts = sorted({since, until, *(part.since for part in parts), *(part.until for part in parts)})
    segments: list[Segment] = []
    for start, end in pairwise(cuts):
        over = [part for part in parts if part.since <= start and part.until >= end]
        chosen = min(over, key=lambda part: _rank(part.reason), default=None)
        reason, told = (Reason.QUEUE_WAITING, facts) if chosen is None else (chosen.reason, chosen.facts)
        segments.append(Segment(since=start, until=end, reason=reason, facts=told))
    return segments


def within(since: datetime, until: datetime, blocked: Iterable[Blocked]) -> list[Segment]:
    """Return what blocked the line between two instants, each cut to them."""
    parts: list[Segment] = []
    for each in blocked:
        start, end = max(since, each.since), min(until, each.until or until)
        if each.since >= each.noticed_at and start - since <= RESOLUTION:
            start = since
        if start < end:
            parts.append(Segment(since=start, until=end, reason=each.reason, facts=each.facts))
    return parts


def _rank(reason: str) -> int:
    return PRECEDENCE.index(reason) if reason in PRECEDENCE else len(PRECEDENCE)
