"""Planning: which instants of a schedule become runs, and what verdict the others get.

`plan` looks at the half-open stretch of time after the schedule's watermark, up to `until`, which lies a little ahead
of now. Every instant that the trigger intends there gets exactly one answer:

    ahead of now, or late by no more than the grace      a run
    late by more than the grace (a misfire)              what the catch-up policy says: replay, coalesce or skip
    before `skip_until` (left behind by a pause)         skipped, with that reason
    a local time that does not exist, policy `skip`      skipped, calendar.dst_gap
    a closed day of a calendar, an exception             skipped, calendar.excluded
    a closed day, of a schedule that rolls               moved, or coalesced with another: calendar.rolled

A run that is planned ahead can be withdrawn until it is due. A verdict is an end, and an end is final: so it is given
when its instant has come, and whatever a person changes before that still counts. The watermark stops right before the
first instant that is to be skipped and has not come. What is due behind it waits for it, and there is no use in looking
again before the last such instant ahead of what waits has come (`look_from`):

    old watermark     now       new watermark                         until
          |---- run ---|--- run --|skip --- skip --- run --- skip ------|
                                              `look_from`

Invariants

1. The new watermark is never before the old one, and no instant at or before it is answered again. Beyond it, only the
   instants in `answered` have an answer: what a calendar has rolled back to before its instant, and what was decided
   for good before a change of the schedule moved the watermark back.
2. Nothing is lost and nothing repeated however `now` jumps: the answer depends on the watermark, not on when the last
   look was. A clock that steps back only makes `until` fall behind the watermark, and the plan is empty.
3. The work is bounded: at most `limit` instants a call. `more` says that some are left; each call moves the watermark,
   so even a year's outage of a schedule that fires every second ends.
4. With `coalesce`, the latest instant that is due runs and stands for all that were missed; while instants are left
   over for a later call, none of this call's can be the latest.

With a flex window a run becomes due, and late, a little after its instant (see `flex`); which instants are looked at,
and the watermark, are about nominal instants all the same. So it is with what a calendar rolls. Its run's id is made
of the nominal instant alone: a calendar that changes may move the run, but never make a second one. What rolls back is
due before its nominal instant: the plan reaches as far ahead as it must to find it, and answers it ahead of time.

The plan is written in one transaction with the watermark it started from as its guard. A crash before the commit leaves
the watermark where it was; the same plan is made again, with the same run ids.
"""

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from everwhen.core.catchup import CatchUp, CatchUpPolicy
from everwhen.core.flex import Flex, due_after
from everwhen.core.ids import scheduled_run_id
from everwhen.core.lifecycle import RunState
from everwhen.core.reasons import Reason
from everwhen.core.triggers import Occurrence, Timing, look, next_after, next_look, reach

MOST_INSTANTS: Final = 1_000
"""The most instants that one call answers."""

SPAN_FROM: Final = 10
"""From how many neighbours with an equal verdict on, one span stands for them instead of a row each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """What a plan starts from: whose schedule, its timing, and how far it was decided.

    `answered` are the instants beyond that which have an answer already, ascending.
    """

    tenant_id: UUID
    schedule_uid: UUID
    timing: Timing
    decided_until: datetime
    skip_until: datetime | None = None
    skip_reason: Reason | None = None
    flex: Flex | None = None
    answered: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IntendedRun:
    """One intended run, or one verdict on an instant that will not run (`state` is then terminal).

    `due_at` is the nominal instant, or later within the schedule's flex window, or where a calendar rolled it. `detail`
    is JSON text: which calendar excluded or rolled it, by which version.
    """

    run_id: UUID
    nominal_at: datetime
    due_at: datetime
    utc_offset: timedelta
    state: RunState
    reason: Reason | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Neighbouring instants with one verdict; `instants` counts them, both ends included."""

    first_at: datetime
    last_at: datetime
    instants: int
    verdict: RunState
    reason: Reason
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to write, and the cursor that it leaves: the watermark, and what is answered beyond it.

    `next_at` is when to look again; None means that the schedule never fires again. Before `look_from` there would be
    nothing to decide, since an instant that is to be skipped has not come.
    """

    runs: tuple[IntendedRun, ...]
    verdicts: tuple[IntendedRun, ...]
    spans: tuple[Span, ...]
    decided_until: datetime
    next_at: datetime | None
    answered: tuple[datetime, ...] = ()
    look_from: datetime | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of an instant; `detail` is JSON text."""

    state: RunState
    reason: Reason | None
    detail: str | None = None


_RUN: Final = Answer(RunState.PLANNED, None)
_TICK: Final = timedelta(microseconds=1)


def plan(cursor: Cursor, *, now: datetime, until: datetime, policy: CatchUp, limit: int = MOST_INSTANTS) -> Plan:
    """Answer the instants after the cursor's watermark up to and including `until`, at most `limit` of them.

    The first that is to be skipped and has not come ends the plan.
    """
    timing = cursor.timing
    if until <= cursor.decided_until:
        return _nothing(cursor)
    found, next_at = look(timing, after=cursor.decided_until, until=reach(timing, until), limit=limit)
    more = len(found) >= limit and found[-1].nominal_at < until
    cut = _Cut(found, found[-1].nominal_at if more else until, cursor.answered)
    if timing.calendars is not None or cursor.answered or any(o.skipped is not None for o in found):
        cut = _cut(cut, now=now, until=until)
    found, more = cut.found, more and cut.look_from is None
    if cut.look_from is not None or next_at is None:
        next_at = next_look(timing, cut.decided_until, cut.answered)
    dues = _dues(found, cursor)
    answers = _answers(found, dues, cursor, now=now, policy=policy, more=more)
    runs = tuple(intended(cursor, o, a, due) for o, a, due in zip(found, answers, dues, strict=True) if a is _RUN)
    verdicts, spans = ((), ()) if len(runs) == len(found) else _verdicts(cursor, found, answers, cut.decided_until)
    return Plan(
        runs=runs,
        verdicts=verdicts,
        spans=spans,
        decided_until=cut.decided_until,
        next_at=next_at,
        answered=cut.answered,
        look_from=cut.look_from,
        more=more,
    )


def _nothing(cursor: Cursor) -> Plan:
    return Plan(
        runs=(),
        verdicts=(),
        spans=(),
        decided_until=cursor.decided_until,
        next_at=next_look(cursor.timing, cursor.decided_until, cursor.answered),
        answered=cursor.answered,
    )


class _Cut(NamedTuple):
    """What of a stretch is decided: its instants, the new watermark, and what is answered beyond that."""

    found: Sequence[Occurrence]
    decided_until: datetime
    answered: tuple[datetime, ...]
    look_from: datetime | None = None


def _cut(whole: _Cut, *, now: datetime, until: datetime) -> _Cut:
    """Leave out what is answered, and what cannot be decided before an instant has come that is to be skipped."""
    answered, mark = frozenset(whole.answered), whole.decided_until
    found = [o for o in whole.found if o.nominal_at not in answered]
    waiting = [o.nominal_at for o in found if o.skipped is not None and now < o.nominal_at <= mark]
    due_by, look_from = mark, None
    if waiting:
        due_by, mark = waiting[0], waiting[0] - _TICK
        behind = min(
            (_first_of(o) for o in found if o.skipped is None and due_by < _first_of(o) <= until), default=None
        )
        look_from = max(at for at in waiting if behind is None or at < behind)
    kept = [o for o in found if o.nominal_at <= mark or (o.skipped is None and o.due_at <= due_by)]
    beyond = answered | {o.nominal_at for o in kept}
    return _Cut(kept, mark, tuple(sorted(at for at in beyond if at > mark)), look_from)


def _first_of(occurrence: Occurrence) -> datetime:
    """Return by when an occurrence has to be planned."""
    return min(occurrence.nominal_at, occurrence.due_at)


def _dues(found: Sequence[Occurrence], cursor: Cursor) -> list[datetime]:
    """Return when each occurrence becomes due: within its flex window, unless a calendar has moved it."""
    if cursor.flex is None or not found:
        return [occurrence.due_at for occurrence in found]
    nominals = [occurrence.nominal_at for occurrence in found]
    following = (*nominals[1:], next_after(cursor.timing, nominals[-1]))
    return [
        due_after(cursor.flex, cursor.schedule_uid, nominal_at=o.nominal_at, following=after)
        if o.mark is None
        else o.due_at
        for o, after in zip(found, following, strict=True)
    ]


def _answers(  # what the answers follow from
    found: Sequence[Occurrence], dues: Sequence[datetime], cursor: Cursor, *, now: datetime, policy: CatchUp, more: bool
) -> list[Answer]:
    late_before = now - policy.grace
    apart = [o for o, due in zip(found, dues, strict=True) if o.skipped or due < late_before]
    if not apart and cursor.skip_until is None:
        return [_RUN] * len(found)
    latest_due = None if more else max((o.due_at for o in found if _may_stand(o, cursor, now)), default=None)
    return [
        _answer(o, cursor, late=due < late_before, now=now, policy=policy, latest_due=latest_due)
        for o, due in zip(found, dues, strict=True)
    ]


def _may_stand(occurrence: Occurrence, cursor: Cursor, now: datetime) -> bool:
    left_behind = cursor.skip_until is not None and occurrence.nominal_at <= cursor.skip_until
    return occurrence.due_at <= now and occurrence.skipped is None and not left_behind


def _answer(
    occurrence: Occurrence, cursor: Cursor, *, late: bool, now: datetime, policy: CatchUp, latest_due: datetime | None
) -> Answer:
    at = occurrence.nominal_at
    if occurrence.skipped is not None:
        return not_intended(occurrence, occurrence.skipped)
    if cursor.skip_until is not None and at <= cursor.skip_until:
        return Answer(RunState.SKIPPED, cursor.skip_reason or Reason.SCHEDULE_PAUSED)
    if not late:
        return _RUN
    return _misfire(occurrence.due_at, now=now, policy=policy, latest_due=latest_due)


def not_intended(occurrence: Occurrence, reason: Reason) -> Answer:
    """Return the verdict on an instant that its timing skips."""
    state = RunState.COALESCED if reason is Reason.CALENDAR_ROLLED else RunState.SKIPPED
    return Answer(state, reason, _detail(occurrence))


def _misfire(at: datetime, *, now: datetime, policy: CatchUp, latest_due: datetime | None) -> Answer:
    if policy.window is not None and at < now - policy.window:
        return Answer(RunState.MISSED, Reason.CATCHUP_WINDOW)
    match policy.policy:
        case CatchUpPolicy.REPLAY:
            return _RUN
        case CatchUpPolicy.SKIP:
            return Answer(RunState.MISSED, Reason.CATCHUP_SKIP)
        case CatchUpPolicy.COALESCE:
            return _RUN if at == latest_due else Answer(RunState.COALESCED, Reason.CATCHUP_COALESCED)


def intended(cursor: Cursor, occurrence: Occurrence, answer: Answer, due_at: datetime) -> IntendedRun:
    """Return the run, or the verdict, that stands for an occurrence: its id is made of whose it is and when."""
    at = occurrence.nominal_at
    return IntendedRun(
        run_id=scheduled_run_id(
            cursor.tenant_id, cursor.schedule_uid, nominal_at=at, due_at=due_at if occurrence.mark is None else at
        ),
        nominal_at=at,
        due_at=due_at,
        utc_offset=occurrence.local.utcoffset() or timedelta(0),
        state=answer.state,
        reason=answer.reason,
        detail=None if occurrence.mark is None else _detail(occurrence),
    )


def _detail(occurrence: Occurrence) -> str | None:
    mark = occurrence.mark
    if mark is None:
        return None
    label = {"label": mark.label} if mark.label else {}
    return json.dumps({"calendar": mark.calendar, "version": mark.version} | label)


def _verdicts(
    cursor: Cursor, found: Sequence[Occurrence], answers: Sequence[Answer], decided_until: datetime
) -> tuple[tuple[IntendedRun, ...], tuple[Span, ...]]:
    """Return a row for each verdict, and a span for many neighbours.

    What lies on different sides of an instant that is answered is no neighbour, nor is anything beyond the watermark.
    """
    verdicts: list[IntendedRun] = []
    spans: list[Span] = []

    def place(pair: tuple[Occurrence, Answer]) -> tuple[Answer, int, bool]:
        at = pair[0].nominal_at
        return pair[1], bisect_left(cursor.answered, at), at > decided_until

    for (answer, _, is_beyond), neighbours in groupby(zip(found, answers, strict=True), key=place):
        group = [occurrence for occurrence, _ in neighbours]
        if answer.reason is None:
            continue
        if len(group) < SPAN_FROM or is_beyond:
            verdicts += (intended(cursor, each, answer, each.due_at) for each in group)
        else:
            spans.append(_span(group, answer, answer.reason))
    return tuple(verdicts), tuple(spans)


def _span(group: Sequence[Occurrence], answer: Answer, reason: Reason) -> Span:
    first, last = group[0].nominal_at, group[-1].nominal_at
    return Span(
        first_at=first,
        last_at=last,
        instants=len(group),
        verdict=answer.state,
        reason=reason,
        detail=answer.detail,
    )
