"""Why a run started when it did, or did not: from recorded facts to one headline and a timeline that adds up.

    intended ──> due ──> planned ──> let into the line ──> claimed ──> attempt ──> back-off ──> claimed …
           flex,     scheduler   pace, overlap        limits, workers    its own        retry
         calendar     late, down                      others in line     reason        policy

The timeline runs from the instant that was intended to the claim of the attempt that the run is at, or has ended by;
where there was no attempt, to its end; where there is none yet, to now. Its segments cover that span without gap or
overlap, so their durations sum to the lateness exactly, whatever the facts: see `timeline`, which cannot do otherwise.

Facts come from the events of the run, which are complete, and from the states of its line, which an observer kept.
Where nobody observed, `is_complete` is False: the time is told as waiting in the line, and something may have blocked
it meanwhile.

The claim counts as the start. When the worker's own code began is told by the worker's clock, which decides nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from everwhen.core.lifecycle import RESTING, TERMINAL, EventKind, RunState
from everwhen.core.reasons import Reason
from everwhen.core.timeline import Blocked, Segment, Timeline, within

MOST_ALSO: Final = 50
"""The most that are told of what blocked a run besides what its segments are put down to."""

MOST_ERROR: Final = 200
"""How much of an error is told."""

UNWATCHED: Final = timedelta(seconds=5)
"""For how long nobody may have looked at a line without the explanation being incomplete: two or three looks."""

PLANNER_GRACE: Final = timedelta(seconds=10)
"""A scheduler that looks later than this was away; below that it was a little late."""

NEVER_TO_RUN: Final = frozenset({Reason.CALENDAR_DST_GAP, Reason.CALENDAR_EXCLUDED, Reason.CALENDAR_ROLLED})
"""Why an instant was not to run in the first place: such an end waits for nothing, whenever it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event of a run's history, with its detail read."""

    kind: str
    at: datetime
    attempt: int | None = None
    reason: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One attempt: who made it, and what became of it."""

    attempt: int
    worker: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """The arrears that an instant was left in: why, since when, and when they were found and their work began.

    `is_held`: they wait for their schedule to be resumed.
    """

    cause: str
    since: datetime
    found_at: datetime
    is_held: bool = False
    is_finished: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run, as far as its explanation needs it.

    `intended_at` is the nominal instant, or the due one where that comes first or nothing else was intended.
    `available_at` is set while it waits in its line. `decided_at` is when its schedule had been looked at last before
    it was planned, and `was_paused` and `created_at` are its schedule's, as of the intended instant.
    """

    state: RunState
    source: str
    queue: str
    intended_at: datetime
    due_at: datetime
    planned_at: datetime
    attempts: int = 0
    reason: str | None = None
    available_at: datetime | None = None
    expires_at: datetime | None = None
    decided_at: datetime | None = None
    created_at: datetime | None = None
    was_paused: bool = False
    arrears: LeftBehind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that an explanation is made from. `events` may be cut; then `is_cut`."""

    run: RunFacts
    events: Sequence[Told]
    attempts: Sequence[Tried]
    blocked: Sequence[Blocked]
    observed: Sequence[tuple[datetime, datetime]]
    now: datetime
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the time went. `also` is what blocked the run while a segment is put down to something else.

    `is_started`: `until` is the claim of the last attempt; else the run's end, or now.
    """

    since: datetime
    until: datetime
    segments: tuple[Segment, ...]
    also: tuple[Segment, ...]
    is_complete: bool
    is_started: bool = False

    @property
    def lateness(self) -> timedelta:
        """From the intended instant to the start, the end, or now."""
        return self.until - self.since


def account_for(facts: Facts) -> Account:
    """Say where the time between the intended instant and the start, the end, or now has gone."""
    run = facts.run
    claimed_at = _claim_that_counts(facts)
    line = Timeline(run.intended_at, claimed_at or _end(facts))
    waits = _Waits(line, facts.blocked, run.queue)
    _before_the_line(line, facts)
    _in_the_line(line, waits, facts)
    return Account(
        since=line.start,
        until=line.end,
        segments=tuple(line.segments),
        also=tuple(_also(line.segments, waits.stretches, facts.blocked))[:MOST_ALSO],
        is_started=claimed_at is not None,
        is_complete=not facts.is_cut and all(_is_covered(a, b, facts.observed) for a, b in waits.stretches),
    )


@dataclass(slots=True)
class _Waits:
    """Notes the stretches that were spent in the line, where what blocked it counts."""

    line: Timeline
    blocked: Sequence[Blocked]
    queue: str
    stretches: list[tuple[datetime, datetime]] = field(default_factory=list[tuple[datetime, datetime]])

    def until(self, instant: datetime) -> None:
        since = self.line.segments[-1].until if self.line.segments else self.line.start
        until = min(instant, self.line.end)
        if until > since:
            self.stretches.append((since, until))
            self.line.waited(until, self.blocked, queue=self.queue)


def _claim_that_counts(facts: Facts) -> datetime | None:
    """Return when the attempt was claimed that the run is at, or ended by; None when it rests, or ended resting."""
    if facts.run.state in RESTING:
        return None
    claims = [event.at for event in facts.events if event.kind == EventKind.CLAIMED]
    rested = [event.at for event in facts.events if event.kind in {EventKind.RETRYING, EventKind.RELEASED}]
    return claims[-1] if claims and not (rested and rested[-1] >= claims[-1]) else None


def _end(facts: Facts) -> datetime:
    if facts.run.state in {RunState.SKIPPED, RunState.COALESCED} and facts.run.reason in NEVER_TO_RUN:
        return facts.run.intended_at
    if facts.run.state in RESTING:
        return facts.now
    ends = [event.at for event in facts.events if event.kind in TERMINAL]
    return ends[-1] if ends else facts.now


def _before_the_line(line: Timeline, facts: Facts) -> None:
    run = facts.run
    rolled = next((event for event in facts.events if event.kind == EventKind.ROLLED), None)
    if rolled is not None:
        line.until(run.due_at, Reason.CALENDAR_ROLLED, **rolled.detail)
    else:
        line.until(run.due_at, Reason.FLEX_WINDOW, seconds=(run.due_at - run.intended_at).total_seconds())
    _planned_late(line, run)


_CAUSES: Final[Mapping[str, Reason]] = {
    "outage": Reason.SCHEDULER_DOWN,
    "resume": Reason.SCHEDULE_PAUSED,
    "creation": Reason.SCHEDULE_BEFORE_CREATION,
    "edit": Reason.SCHEDULE_CHANGED,
}


def _caught_up(line: Timeline, run: RunFacts, arrears: LeftBehind) -> None:
    """First until it was found to be left behind, then until its turn came."""
    facts: dict[str, Any] = {}
    if arrears.cause == "outage":
        facts = {"since": run.decided_at or arrears.since, "until": arrears.found_at}
    elif arrears.cause == "creation" and run.created_at is not None:
        facts = {"created": run.created_at}
    line.until(min(arrears.found_at, run.planned_at), _CAUSES.get(arrears.cause, Reason.SCHEDULER_DOWN), **facts)
    line.until(run.planned_at, Reason.CATCHUP_PACED)


def _planned_late(line: Timeline, run: RunFacts) -> None:
    late = (run.planned_at - run.due_at).total_seconds()
    if run.planned_at > run.due_at and run.arrears is not None:
        _caught_up(line, run, run.arrears)
    elif run.source == "backfill":
        line.until(run.planned_at, Reason.BACKFILL_REQUESTED)
    elif run.source != "schedule":
        line.until(run.planned_at, Reason.REQUEST_AFTER_DUE)
    elif run.created_at is not None and run.created_at >= run.due_at:
        line.until(run.planned_at, Reason.SCHEDULE_BEFORE_CREATION, created=run.created_at)
    elif run.was_paused:
        line.until(run.planned_at, Reason.SCHEDULE_PAUSED)
    elif run.planned_at - run.due_at <= PLANNER_GRACE:
        line.until(run.planned_at, Reason.SCHEDULER_LATE, seconds=late)
    else:
        facts = {} if run.decided_at is None else {"since": run.decided_at, "until": run.planned_at}
        line.until(run.planned_at, Reason.SCHEDULER_DOWN, **facts)


def _in_the_line(line: Timeline, waits: _Waits, facts: Facts) -> None:
    held: Told | None = None
    tried = {each.attempt: each for each in facts.attempts}
    for event in facts.events:
        match event.kind:
            case EventKind.PLANNED:
                if (paced := _instant(event.detail.get("available_at"))) is not None:
                    line.until(paced, Reason.CATCHUP_PACED)
            case EventKind.RETRYING | EventKind.RELEASED:
                _attempt(line, event, tried)
                _back_off(line, event)
            case kind if kind in _MOVES:
                _rest(line, waits, held, event.at)
                held = event if kind == EventKind.HELD else None
            case _:
                pass
    if facts.is_cut:
        line.until(line.end, Reason.ATTEMPT_MANY, attempts=facts.run.attempts)
    _rest(line, waits, held, line.end)


_MOVES: Final[frozenset[str]] = frozenset({EventKind.CLAIMED, EventKind.HELD, EventKind.ADMITTED}) | TERMINAL


def _rest(line: Timeline, waits: _Waits, held: Told | None, until: datetime) -> None:
    """The time up to here was spent behind a gate, or in the line."""
    if held is None:
        waits.until(until)
    else:
        line.until(until, held.reason or Reason.OVERLAP_BUFFERED, **held.detail)


def _attempt(line: Timeline, event: Told, tried: Mapping[int, Tried]) -> None:
    one = tried.get(event.attempt or 0)
    facts: dict[str, Any] = {"attempt": event.attempt}
    if one is not None:
        facts |= {"worker": one.worker} | ({} if one.error is None else {"error": one.error[:MOST_ERROR]})
    line.until(event.at, event.reason or Reason.ATTEMPT_RUNNING, **facts)


def _back_off(line: Timeline, event: Told) -> None:
    until = _instant(event.detail.get("available_at"))
    if until is not None and until > event.at:
        seconds = (until - event.at).total_seconds()
        line.until(until, Reason.RETRY_BACKOFF, attempt=event.attempt, seconds=seconds)


def _also(
    segments: Iterable[Segment], stretches: Sequence[tuple[datetime, datetime]], blocked: Sequence[Blocked]
) -> Iterable[Segment]:
    told = [(segment.reason, segment.since, segment.until) for segment in segments]
    for since, until in stretches:
        for part in within(since, until, blocked):
            own = any(r == part.reason and a <= part.since and part.until <= b for r, a, b in told)
            if not own:
                yield part


def _is_covered(since: datetime, until: datetime, observed: Sequence[tuple[datetime, datetime]]) -> bool:
    """Say whether somebody watched all the time, but for what is shorter than two looks."""
    reached = since
    for start, end in sorted(observed):
        if start > reached + UNWATCHED:
            break
        reached = max(reached, end)
    return reached + UNWATCHED >= until


def _instant(text: object) -> datetime | None:
    if isinstance(text, datetime):
        return text
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
