"""Working arrears off: one bounded step after the other. See `arrears` for what it keeps to."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from everwhen.core.arrears import (
    ANSWERED,
    RUNS,
    STANDS,
    Arrears,
    Band,
    answer_of,
    bands,
    begin,
    is_rolled_ahead,
    last_late,
    may_roll,
    oldest_of,
)
from everwhen.core.catchup import CatchUpPolicy, Order
from everwhen.core.flex import due_after
from everwhen.core.planning import SPAN_FROM, Answer, Cursor, IntendedRun, Span, intended
from everwhen.core.tally import last_fire, tally, window_back
from everwhen.core.triggers import Occurrence, fires, look, next_after

PACED_AHEAD: Final = timedelta(seconds=30)
"""How far ahead of their turn the runs of a paced replay are written."""

MOST_LISTED: Final = 50
"""How many of the instants that a coalesced run stands for are listed, the oldest; all of them are counted."""

MOST_ROLLED: Final = 10_000
"""How many instants are looked at to say what a run stands for whose schedule uses calendars."""

COUNT_FROM: Final = 32
"""From how many instants on it is cheaper to count than to visit."""

_TICK: Final = timedelta(microseconds=1)
_RUN: Final = Answer(RUNS, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """A run for a missed instant: from when on it may be taken, and as JSON text what it stands for.

    One that was rolled to where it is not late is not `late`: it is a run like any other.
    """

    run: IntendedRun
    available_at: datetime
    stands_for: str | None = None
    late: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to write. `look_at` is when to go on; None: the arrears are finished."""

    runs: tuple[CaughtUp, ...]
    verdicts: tuple[IntendedRun, ...]
    spans: tuple[Span, ...]
    rest: Arrears
    look_at: datetime | None


def step(arrears: Arrears, *, now: datetime, limit: int) -> Step:
    """Answer some of what is left: at most `limit` instants that are visited, and any number that are counted."""
    now = now.astimezone(UTC)
    work = _Work(arrears if arrears.begun else begin(arrears), now)
    look_at: datetime | None = now
    while limit > 0 and work.is_left:
        if (turn := work.next_turn()) is not None:
            look_at = turn
            break
        limit -= work.answer_some(limit)
    if not work.is_left:
        work.finish()
        look_at = None
    return work.step(look_at)


class _Work:
    """One step under way."""

    def __init__(self, arrears: Arrears, now: datetime) -> None:
        self._now = now
        self._all = arrears
        self._cursor = Cursor(
            tenant_id=arrears.tenant_id,
            schedule_uid=arrears.schedule_uid,
            timing=arrears.timing,
            flex=arrears.flex,
            decided_until=arrears.after,
        )
        self._after, self._until = arrears.after, arrears.until
        self._open, self._counts, self._paced = arrears.open_span, arrears.counts, arrears.paced_until
        self._backwards = arrears.rule.policy is CatchUpPolicy.REPLAY and arrears.rule.order is Order.NEWEST_FIRST
        self._runs: list[CaughtUp] = []
        self._verdicts: list[IntendedRun] = []
        self._spans: list[Span] = []

    @property
    def is_left(self) -> bool:
        return self._after < self._until

    def next_turn(self) -> datetime | None:
        """Return when to go on, if enough runs have been given their turns for now."""
        if not self._is_paced_out() or self._band().answer is not None:
            return None
        assert self._paced is not None
        return self._paced - PACED_AHEAD / 2

    def answer_some(self, limit: int) -> int:
        """Answer the beginning of what is left, or its end; return how much work it was, in instants visited."""
        band = self._band()
        if band.answer is ANSWERED:
            self._pass_over(band)
            return 1
        if band.answer is not None and self._count(band, band.answer):
            return COUNT_FROM
        after = band.after
        if self._backwards:
            after = window_back(self._all.timing, after=after, until=band.until, most=limit)
        found, following = look(self._all.timing, after=after, until=band.until, limit=limit)
        whole = self._backwards or len(found) < limit
        pairs = list(zip(found, self._dues(found, following), strict=True))
        for number, (occurrence, due_at) in enumerate(reversed(pairs) if self._backwards else pairs, start=1):
            if band.answer is None and self._is_paced_out():
                self._stop_before(occurrence.nominal_at)
                return number
            self._answer(occurrence, due_at, band.answer)
        if self._backwards:
            self._until = after
        else:
            self._after = band.until if whole else found[-1].nominal_at
        return max(1, len(found))

    def finish(self) -> None:
        """Write what was kept for the end: the open span, and the run that stands for all."""
        self._flush()
        stand = self._all.first_run
        if self._all.rule.policy is not CatchUpPolicy.COALESCE or stand is None:
            return
        occurrence = look(self._all.timing, after=stand - _TICK, until=stand, limit=1)[0]
        if occurrence:
            due_at = self._dues(occurrence, None)[0]
            self._run(occurrence[0], due_at, stands_for=self._stands_for())

    def step(self, look_at: datetime | None) -> Step:
        rest = replace(
            self._all,
            after=self._after,
            until=self._until,
            open_span=self._open,
            counts=self._counts,
            paced_until=self._paced,
        )
        return Step(
            runs=tuple(self._runs),
            verdicts=tuple(self._verdicts),
            spans=tuple(self._spans),
            rest=rest,
            look_at=look_at,
        )

    def _band(self) -> Band:
        """Return what of the rest comes first, with one answer for all of it."""
        found = list(bands(self._all, after=self._after, until=self._until))
        return found[-1 if self._backwards else 0]

    def _count(self, band: Band, answer: Answer) -> bool:
        """Count what is regular and long enough, and answer it as a whole; False: it has to be visited."""
        counted = tally(self._all.timing.source, after=band.after, until=band.until)
        if counted is None or counted.fires < COUNT_FROM or (self._backwards and counted.until < band.until):
            return False
        first = next_after(self._all.timing, band.after)
        last = last_fire(self._all.timing, after=band.after, until=counted.until)
        assert first is not None  # they were counted
        assert last is not None
        self._absorb(answer, first=first, last=last, instants=counted.fires)
        if self._backwards:
            self._until = band.after
        else:
            self._after = counted.until
        return True

    def _pass_over(self, band: Band) -> None:
        """Leave an instant alone that has an answer; no span goes on beyond it."""
        self._flush()
        if self._backwards:
            self._until = band.after
        else:
            self._after = band.until

    def _is_paced_out(self) -> bool:
        return self._paced is not None and self._paced >= self._now + PACED_AHEAD

    def _answer(self, occurrence: Occurrence, due_at: datetime, answer: Answer | None) -> None:
        at = occurrence.nominal_at
        verdict = answer_of(self._all, occurrence, answer)
        if verdict is None:
            self._run(occurrence, due_at, late=not is_rolled_ahead(self._all, occurrence))
        elif verdict is not STANDS:
            self._absorb(verdict, first=at, last=at, instants=1)

    def _run(
        self, occurrence: Occurrence, due_at: datetime, *, stands_for: str | None = None, late: bool = True
    ) -> None:
        self._flush()
        available_at = max(due_at, self._turn()) if late else due_at
        run = intended(self._cursor, occurrence, _RUN, due_at)
        self._runs.append(CaughtUp(run=run, available_at=available_at, stands_for=stands_for, late=late))
        self._counts = self._counts.plus(RUNS, 1)

    def _turn(self) -> datetime:
        rate = self._all.rule.rate
        if rate is None or self._all.rule.policy is not CatchUpPolicy.REPLAY:
            return self._now
        following = None if self._paced is None else self._paced + timedelta(seconds=1 / rate)
        self._paced = self._now if following is None else max(self._now, following)
        return self._paced

    def _stop_before(self, instant: datetime) -> None:
        """Leave this one, and what comes after it, for when it has a turn."""
        if self._backwards:
            self._until = instant
        else:
            self._after = instant - _TICK

    def _absorb(self, answer: Answer, *, first: datetime, last: datetime, instants: int) -> None:
        """Add neighbours to the open span, or begin another one."""
        assert answer.reason is not None
        self._counts = self._counts.plus(answer.state, instants)
        kept = self._open
        alike = kept is not None and (kept.verdict, kept.reason, kept.detail) == (
            answer.state,
            answer.reason,
            answer.detail,
        )
        if kept is not None and alike:
            self._open = replace(
                kept,
                first_at=min(first, kept.first_at),
                last_at=max(last, kept.last_at),
                instants=kept.instants + instants,
            )
            return
        self._flush()
        self._open = Span(
            first_at=first,
            last_at=last,
            instants=instants,
            verdict=answer.state,
            reason=answer.reason,
            detail=answer.detail,
        )

    def _flush(self) -> None:
        """Write the open span, as single verdicts when it is short."""
        span, self._open = self._open, None
        if span is None:
            return
        if span.instants >= SPAN_FROM:
            self._spans.append(span)
            return
        answer = Answer(span.verdict, span.reason, span.detail)
        found, _ = look(self._all.timing, after=span.first_at - _TICK, until=span.last_at, limit=SPAN_FROM)
        self._verdicts += (intended(self._cursor, each, answer, each.nominal_at) for each in found)

    def _dues(self, found: list[Occurrence], following: datetime | None) -> list[datetime]:
        if self._all.flex is None or not found:
            return [occurrence.due_at for occurrence in found]
        last = found[-1].nominal_at
        after = following or next_after(self._all.timing, last)
        nominals = [occurrence.nominal_at for occurrence in found]
        pairs = zip(found, (*nominals[1:], after), strict=True)
        uid = self._all.schedule_uid
        return [
            due_after(self._all.flex, uid, nominal_at=o.nominal_at, following=then) if o.mark is None else o.due_at
            for o, then in pairs
        ]

    def _stands_for(self) -> str:
        """Say what the run stands for: how many instants, itself among them, the first, the last, and some of them."""
        arrears, oldest = self._all, oldest_of(self._all)
        after = arrears.since if oldest is None else max(arrears.since, oldest - _TICK)
        if may_roll(arrears.timing):
            found, _ = look(arrears.timing, after=after, until=arrears.stretch_until, limit=MOST_ROLLED)
            late = [o.nominal_at for o in found if o.skipped is None and not is_rolled_ahead(arrears, o)]
            late = [at for at in late if at not in arrears.answered]
            count, listed, last = len(late), late[:MOST_LISTED], late[-1]
        else:
            count = self._counts.coalesced + 1
            most = MOST_LISTED + len(arrears.answered)
            first = fires(arrears.timing, after=after, until=arrears.stretch_until, count=most)
            listed = [at for at in first if at not in arrears.answered][:MOST_LISTED]
            last = last_late(arrears, after=after, until=arrears.stretch_until) or listed[-1]
        instants = [instant.isoformat() for instant in listed]
        return json.dumps({"count": count, "first": instants[0], "last": last.isoformat(), "instants": instants})
