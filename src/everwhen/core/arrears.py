"""Arrears: a stretch of a schedule's past whose instants passed undecided, and how it is worked off step by step.

    watermark                                              now
       |------------- arrears (after, until] ---------------|--- live --->
       |  too old  | beyond max_runs |  what runs           |

A schedule that is found far behind is not planned through its past: the past becomes arrears, the watermark goes to its
end, and live planning goes on at once. The arrears are worked off later, in bounded steps, at a lower priority.

States of arrears: *held* (a pause keeps them; without a rule until the schedule is resumed), *open*, *finished*.
Open ones remember what is left, `(after, until]`, which a step shrinks from one side; nothing is decided twice, and
every step shrinks it, so the work ends. Which instants run is fixed when the work begins (`begin`), by bounds: what is
older than the window does not; of a replay the earliest or latest `max_runs` do; of a coalescing one exactly one does,
which is written last, when all that it stands for have been counted. What does not run is recorded.

Neighbours of one verdict make one span, however many steps it takes to get to its end: an open span is carried from
step to step, and written when the verdict changes. Regular stretches are counted and not visited (see `tally`).

A replay with a rate gives each run its own instant from which it may be taken, `1 / rate` after the one before. Steps
plan only what may be taken soon, so a pause finds little that it cannot hold; the last such instant is kept with the
arrears, and pacing holds over steps, planners and restarts.

Arithmetic: runs + coalesced + skipped + missed, together with what is left, are the instants of the stretch, always.

With a calendar an instant may have been rolled to where it is not late at all. That one runs, as if it had been planned
in time, and counts among the runs; it neither stands for others nor is stood for.

An instant of the stretch may have an answer already: its run was due before its instant, or somebody cancelled it
ahead. Those are known when the arrears are opened (`answered`) and passed over: no span covers one, none is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from everwhen.core.calendars import Roll
from everwhen.core.catchup import CatchUpPolicy, Cause, Keep, Rule
from everwhen.core.flex import Flex, due_after
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import Answer, Cursor, Span, not_intended
from everwhen.core.reasons import Reason
from everwhen.core.tally import last_event, last_fire, nth_last_fire, tally
from everwhen.core.triggers import Occurrence, Timing, fires, look, next_after
from everwhen.core.zones import add

RUNS: Final = RunState.PLANNED
"""What an instant that runs counts as."""

_TICK: Final = timedelta(microseconds=1)
_VISITED: Final = 500


class Counts(NamedTuple):
    """How many instants of some arrears were answered, by verdict."""

    runs: int = 0
    coalesced: int = 0
    skipped: int = 0
    missed: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)

    def plus(self, state: RunState, instants: int) -> "Counts":
        """Return the counts with some more of one verdict; any other state is a run's."""
        name = state.value if state.value in self._fields else "runs"
        return self._replace(**{name: getattr(self, name) + instants})


NOTHING: Final = Counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrears:
    """What is left of a stretch, `(after, until]`, and what has become of the rest.

    Attributes:
        since, stretch_until: the whole stretch, without its first instant and with its last.
        as_of: when it was opened; ages are measured from it.
        skip_reason: why an instant that `skip` keeps from running does not run.
        late_before: what is due before this is late.
        begun: whether it is fixed which instants run; then `first_run` and `last_run` bound them, None: there are none.
        open_span: neighbours that are counted and not written yet.
        paced_until: the latest turn that a paced run was given.
        answered: instants of the stretch that have an answer already, ascending.
    """

    tenant_id: UUID
    schedule_uid: UUID
    timing: Timing
    flex: Flex | None = None
    cause: Cause
    rule: Rule
    since: datetime
    stretch_until: datetime
    after: datetime
    until: datetime
    as_of: datetime
    late_before: datetime
    skip_reason: Reason = Reason.CATCHUP_SKIP
    begun: bool = False
    first_run: datetime | None = None
    last_run: datetime | None = None
    open_span: Span | None = None
    paced_until: datetime | None = None
    answered: tuple[datetime, ...] = ()
    counts: Counts = NOTHING


class Band(NamedTuple):
    """A part of what is left with one answer; `answer` is None where instants run."""

    after: datetime
    until: datetime
    answer: Answer | None


STANDS: Final = Answer(RunState.PLANNED, None)
"""The place of the one that stands for all: passed over, and written at the end."""

ANSWERED: Final = Answer(RunState.SKIPPED, None)
"""The place of an instant that has an answer already: passed over."""


def skip_reason_of(cause: Cause) -> Reason:
    """Return why `skip` does not run an instant of this cause."""
    return Reason.SCHEDULE_PAUSED if cause is Cause.RESUME else Reason.CATCHUP_SKIP


def overdue(cursor: Cursor, *, now: datetime, grace: timedelta, rule: Rule) -> datetime | None:
    """Return the last instant of the past that is to become arrears; None when nothing is late.

    Everything late by more than the grace belongs to it. If the latest one is to stand for all, so does what is merely
    late: then the latest of these stands.
    """
    now = now.astimezone(UTC)  # arithmetic in a zone whose clocks change would be off
    late_before = now - grace
    cursor = replace(cursor, decided_until=cursor.decided_until.astimezone(UTC))
    timing, after = cursor.timing, cursor.decided_until
    if after >= late_before or (cursor.skip_until is not None and cursor.skip_until > after):
        return None
    first = next_after(timing, after)
    while first is not None and first in cursor.answered:
        first = next_after(timing, first)
    if first is None or _due_of(cursor, first) >= late_before:
        return None
    edge = _last_due(cursor, until=late_before - _TICK, due_until=late_before - _TICK)
    if rule.policy is CatchUpPolicy.COALESCE and rule.keep is Keep.LATEST and not may_roll(timing):
        edge = _last_due(cursor, until=now, due_until=now)
    return last_event(timing, after=after, until=edge)


def begin(arrears: Arrears) -> Arrears:
    """Fix which instants run."""
    rule, oldest = arrears.rule, oldest_of(arrears)
    first, last = arrears.after if oldest is None else max(arrears.after, oldest - _TICK), arrears.until
    if rule.policy is CatchUpPolicy.SKIP or first >= last:
        return replace(arrears, begun=True)
    if rule.policy is CatchUpPolicy.COALESCE:
        stand = _stand(arrears, after=first)
        return replace(arrears, begun=True, first_run=stand, last_run=stand)
    if rule.max_runs is None:
        return replace(arrears, begun=True, first_run=first + _TICK, last_run=last)
    if rule.keep is Keep.LATEST:
        cut = nth_last_fire(arrears.timing, rule.max_runs, after=first, until=last)
        return replace(arrears, begun=True, first_run=cut or first + _TICK, last_run=last)
    earliest = list(fires(arrears.timing, after=first, until=last, count=rule.max_runs))
    return replace(arrears, begun=True, first_run=first + _TICK, last_run=earliest[-1] if earliest else first)


def answer_of(arrears: Arrears, occurrence: Occurrence, answer: Answer | None) -> Answer | None:
    """Return what becomes of an instant of a part with this answer; None: it runs."""
    if answer is ANSWERED:
        return ANSWERED
    if occurrence.skipped is not None:
        return not_intended(occurrence, occurrence.skipped)
    return None if is_rolled_ahead(arrears, occurrence) else answer


def is_rolled_ahead(arrears: Arrears, occurrence: Occurrence) -> bool:
    """Tell whether a calendar has moved an instant to where it is not late."""
    return occurrence.skipped is None and occurrence.mark is not None and occurrence.due_at >= arrears.late_before


def survey(arrears: Arrears, *, most: int) -> tuple[Counts, bool]:
    """Count what becomes of what is left, and tell whether all of it was counted: at most `most` are visited."""
    arrears = arrears if arrears.begun else begin(arrears)
    counts = NOTHING
    for band in bands(arrears, after=arrears.after, until=arrears.until):
        if band.answer is ANSWERED:
            continue
        after, state = band.after, RUNS if band.answer is None else band.answer.state
        while after < band.until:
            if counted := tally(arrears.timing.source, after=after, until=band.until):
                counts, after = counts.plus(state, counted.fires), counted.until
                continue
            if most <= 0:
                return counts, False
            found, _ = look(arrears.timing, after=after, until=band.until, limit=_VISITED)
            for occurrence in found:
                answer = answer_of(arrears, occurrence, band.answer)
                counts = counts.plus(RUNS if answer is None else answer.state, 1)
            most -= len(found)
            after = band.until if len(found) < _VISITED else found[-1].nominal_at
    return counts, True


def bands(arrears: Arrears, *, after: datetime, until: datetime) -> Iterator[Band]:
    """Cut a stretch into parts with one answer each, around what is answered already."""
    for band in _bands(arrears, after=after, until=until):
        begin = band.after
        for at in arrears.answered:
            if begin < at <= band.until:
                if begin < at - _TICK:
                    yield Band(begin, at - _TICK, band.answer)
                yield Band(at - _TICK, at, ANSWERED)
                begin = at
        if begin < band.until:
            yield Band(begin, band.until, band.answer)


def _bands(arrears: Arrears, *, after: datetime, until: datetime) -> Iterator[Band]:
    oldest = oldest_of(arrears)
    bounds: list[tuple[datetime, Answer | None]] = []
    rest = _rest_answer(arrears)
    if oldest is not None:
        bounds.append((oldest - _TICK, _not_run(arrears, Reason.CATCHUP_WINDOW)))
    if arrears.first_run is not None and arrears.last_run is not None:
        bounds += [
            (arrears.first_run - _TICK, rest),
            (arrears.last_run, STANDS if arrears.rule.policy is CatchUpPolicy.COALESCE else None),
        ]
    bounds.append((until, rest))
    for bound, answer in bounds:
        end = min(bound, until)
        if after < end:
            yield Band(after, end, answer)
            after = end


def _rest_answer(arrears: Arrears) -> Answer:
    match arrears.rule.policy:
        case CatchUpPolicy.REPLAY:
            return _not_run(arrears, Reason.CATCHUP_EXCEEDED)
        case CatchUpPolicy.COALESCE:
            return Answer(RunState.COALESCED, Reason.CATCHUP_COALESCED)
        case CatchUpPolicy.SKIP:
            return _not_run(arrears, arrears.skip_reason)


def _not_run(arrears: Arrears, reason: Reason) -> Answer:
    """Only an outage is our failure; a pause, and a beginning in the past, are what somebody chose."""
    missed = arrears.cause is Cause.OUTAGE and arrears.skip_reason is Reason.CATCHUP_SKIP
    return Answer(RunState.MISSED if missed else RunState.SKIPPED, reason)


def oldest_of(arrears: Arrears) -> datetime | None:
    """Return the oldest instant within the window; None: none is too old."""
    window = arrears.rule.window
    return None if window is None else add(arrears.as_of, -window)


def _stand(arrears: Arrears, *, after: datetime) -> datetime | None:
    """Return the instant that stands for all that are late."""
    timing, until = arrears.timing, arrears.until
    if arrears.rule.keep is Keep.EARLIEST:
        found = next_after(timing, after)
        while found is not None and found <= until and _is_apart(arrears, found):
            found = next_after(timing, found)
        return found if found is not None and found <= until else None
    return last_late(arrears, after=after, until=until)


def last_late(arrears: Arrears, *, after: datetime, until: datetime) -> datetime | None:
    """Return the last fire of a stretch that stands for others, or is stood for."""
    found = last_fire(arrears.timing, after=after, until=until)
    while found is not None and _is_apart(arrears, found):
        found = last_fire(arrears.timing, after=after, until=found - _TICK)
    return found


def _is_apart(arrears: Arrears, at: datetime) -> bool:
    """Tell whether an instant that fires neither stands for others nor is stood for."""
    if at in arrears.answered:
        return True
    if not may_roll(arrears.timing):
        return False
    return is_rolled_ahead(arrears, look(arrears.timing, after=at - _TICK, until=at, limit=1)[0][0])


def may_roll(timing: Timing) -> bool:
    """Tell whether a calendar may move its instants."""
    return timing.calendars is not None and timing.calendars.roll is not Roll.NONE


def _due_of(cursor: Cursor, nominal_at: datetime) -> datetime:
    if cursor.flex is None:
        return nominal_at
    following = next_after(cursor.timing, nominal_at)
    return due_after(cursor.flex, cursor.schedule_uid, nominal_at=nominal_at, following=following)


def _last_due(cursor: Cursor, *, until: datetime, due_until: datetime) -> datetime:
    """Return up to where everything is due by an instant: only the last fire before it may flex beyond it."""
    if cursor.flex is None:
        return until
    last = last_fire(cursor.timing, after=cursor.decided_until, until=until)
    return until if last is None or _due_of(cursor, last) <= due_until else last - _TICK
