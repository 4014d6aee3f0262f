"""Why there is no run at an instant: what a name like `nightly@2026-11-30T02:30` means, and what became of it.

A name is read by the schedule's clock. With an offset it is an instant; without one it is a local time, which may occur
twice (then it is asked back) or not at all (a gap). An offset that the zone does not have at that local time is taken
for the clock that was just put forward: `02:30+01:00` on the night of the gap is the 02:30 that did not exist.

    before the schedule was made, after it was deleted     never intended
    the trigger does not name it                           never intended; with its neighbours
    in a recorded span                                     the span's verdict; one of so many
    after the watermark                                    still ahead, or to be skipped, or paused, or overdue
    in arrears that are not worked off                     not decided yet
    otherwise                                              there is no record, which verify finds as well
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from everwhen.core.explaining import LeftBehind
from everwhen.core.lifecycle import RunState
from everwhen.core.reasons import Reason
from everwhen.core.trigger_values import AnyOf
from everwhen.core.triggers import FoldPolicy, GapPolicy, Occurrence, Timing, next_after, occurrences
from everwhen.core.zones import Zone, add, gap_around, resolve

_TICK: Final = timedelta(microseconds=1)
_LOOKS_BACK: Final = tuple(
    timedelta(seconds=seconds) for seconds in (60, 3_600, 86_400, 31 * 86_400, 366 * 86_400, 3_660 * 86_400)
)
MOST_LOOKED: Final = 4_000
"""How many occurrences one look back enumerates at most: those of an hour, second by second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a local time means: one instant, two (`others` holds the second one), or, in a gap, the transition's.

    `missing` is the local time that does not exist.
    """

    at: datetime
    others: tuple[datetime, ...] = ()
    missing: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Neighbouring instants with one verdict; `instants` counts them, both ends included."""

    first_at: datetime
    last_at: datetime
    instants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """A schedule as it is, with the timing that was in force at the instant in question."""

    name: str
    timing: Timing
    created_at: datetime
    decided_until: datetime
    deleted_at: datetime | None = None
    is_paused: bool = False
    state_reason: str | None = None
    failures: int = 0
    last_error: str | None = None
    arrears: LeftBehind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of an instant without a run.

    `opening` begins the headline, `facts` are for the reason's sentence. `waits` says that time passes for this reason
    from the instant on, until now. `before` and `after` are the neighbours that the schedule does intend.
    """

    opening: str
    reason: Reason | None
    state: RunState | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    before: datetime | None = None
    after: datetime | None = None
    waits: bool = False
    is_complete: bool = True


def read_name(text: str, timing: Timing) -> Named:
    """Read the part of a name after `@`; raise ValueError when it is no time."""
    said = datetime.fromisoformat(text)
    wall = said.replace(tzinfo=None)
    if said.tzinfo is None:
        return _by_the_clock(wall, timing)
    at = said.astimezone(UTC)
    if timing.zone.local(at).replace(tzinfo=None) != wall and gap_around(wall, timing.zone) is not None:
        return _by_the_clock(wall, timing)
    return Named(at=at)


def answer_for(at: datetime, schedule: ScheduleFacts, *, now: datetime) -> Answer:
    """Say why the schedule has no run, and no recorded span, at this instant."""
    if at < schedule.created_at:
        return Answer(
            opening="Never intended.", reason=Reason.SCHEDULE_BEFORE_CREATION, facts={"created": schedule.created_at}
        )
    if schedule.deleted_at is not None and at >= schedule.deleted_at:
        facts = {"deleted": schedule.deleted_at}
        return Answer(opening="Never intended.", reason=Reason.SCHEDULE_AFTER_DELETION, facts=facts)
    occurrence = occurrence_at(at, schedule.timing)
    if occurrence is None:
        return _not_intended(at, schedule.timing)
    if at > schedule.decided_until:
        return _undecided(occurrence, schedule, now=now)
    if schedule.arrears is not None and not schedule.arrears.is_finished:
        return _in_arrears(schedule.arrears)
    return Answer(opening="There is no record of this instant, although the schedule intends it: run everwhen verify.",
                  reason=None, is_complete=False)  # fmt: skip


def occurrence_at(at: datetime, timing: Timing) -> Occurrence | None:
    """Return what the timing intends at exactly this instant."""
    found = occurrences(timing, after=add(at, -_TICK), until=at, limit=2)
    return next((each for each in found if each.nominal_at == at), None)


def neighbours(at: datetime, timing: Timing) -> tuple[datetime | None, datetime | None]:
    """Return the nearest fires before and after an instant, as far as ten years back."""
    for span in _LOOKS_BACK:
        since = add(at, -span)
        found = occurrences(timing, after=add(since, -_TICK), until=add(at, -_TICK), limit=MOST_LOOKED)
        fires = [each.nominal_at for each in found if each.skipped is None]
        if fires:
            return fires[-1], next_after(timing, at)
    return None, next_after(timing, at)


def joined(spans: Sequence[Stretch], at: datetime, timing: Timing) -> Stretch:
    """Join the spans, ascending, around the one that holds `at`, as long as no instant of the timing lies between."""
    here = next(index for index, span in enumerate(spans) if span.first_at <= at <= span.last_at)
    first = last = here
    while first > 0 and next_after(timing, spans[first - 1].last_at) == spans[first].first_at:
        first -= 1
    while last + 1 < len(spans) and next_after(timing, spans[last].last_at) == spans[last + 1].first_at:
        last += 1
    count = sum(span.instants for span in spans[first : last + 1])
    return Stretch(first_at=spans[first].first_at, last_at=spans[last].last_at, instants=count)


def gap_facts(missing: datetime, timing: Timing) -> dict[str, Any]:
    """Return the facts that tell of a local time that does not exist."""
    return {"local": missing.isoformat(sep=" ", timespec="minutes"), "timezone": timing.timezone}


def _by_the_clock(wall: datetime, timing: Timing) -> Named:
    zone = timing.zone
    both = resolve(wall, zone, gap=GapPolicy.SKIP, fold=FoldPolicy.BOTH)
    if both:
        return Named(at=both[0], others=both[1:])
    moved = resolve(wall, zone, gap=timing.effective_gap, fold=FoldPolicy.FIRST)
    return Named(at=moved[0] if moved else _transition(wall, zone), missing=wall)


def _transition(wall: datetime, zone: Zone) -> datetime:
    jump = gap_around(wall, zone)
    if jump is None:  # beyond the calendar, where no local time is an instant
        raise ValueError(wall)
    return jump.at


def _not_intended(at: datetime, timing: Timing) -> Answer:
    before, after = neighbours(at, timing)
    reason, facts = _bound(at, timing), {}
    if reason is None and (fold := _other_pass(at, timing)) is not None:
        reason, facts = Reason.CALENDAR_DST_DUPLICATE, fold
    return Answer(
        opening="Never intended.",
        reason=reason or Reason.SCHEDULE_NOT_INTENDED,
        facts=facts or {"before": before, "after": after},
        before=before,
        after=after,
    )


def _bound(at: datetime, timing: Timing) -> Reason | None:
    trigger = timing.trigger
    if not isinstance(trigger, AnyOf):
        return None
    if trigger.start is not None and at < _as_instant(trigger.start, timing):
        return Reason.WINDOW_BEFORE_START
    if trigger.end is not None and at > _as_instant(trigger.end, timing):
        return Reason.WINDOW_AFTER_END
    return None


def _as_instant(bound: datetime, timing: Timing) -> datetime:
    if bound.tzinfo is not None:
        return bound
    found = resolve(bound, timing.zone, gap=GapPolicy.GAP_END, fold=FoldPolicy.FIRST)
    return found[0] if found else bound.replace(tzinfo=UTC)


def _other_pass(at: datetime, timing: Timing) -> dict[str, Any] | None:
    """Return what is to be told of a local time of which the schedule takes the other pass only."""
    local = timing.zone.local(at).replace(tzinfo=None)
    both = resolve(local, timing.zone, gap=GapPolicy.SKIP, fold=FoldPolicy.BOTH)
    if len(both) < 2:
        return None
    other = both[1] if at == both[0] else both[0]
    if occurrence_at(other, timing) is None:
        return None
    return {
        "local": local.isoformat(sep=" ", timespec="minutes"),
        "fold": "first" if other == both[0] else "second",
    }


def _in_arrears(arrears: LeftBehind) -> Answer:
    if arrears.is_held:
        return Answer(opening="It is decided when the schedule is resumed.", reason=Reason.SCHEDULE_PAUSED, waits=True)
    return Answer(opening="Not decided yet.", reason=Reason.CATCHUP_PACED, waits=True)


def _undecided(occurrence: Occurrence, schedule: ScheduleFacts, *, now: datetime) -> Answer:
    at = occurrence.nominal_at
    if schedule.is_paused:
        facts = {"why": schedule.state_reason}
        return Answer(opening="It is skipped.", reason=Reason.SCHEDULE_PAUSED, state=RunState.SKIPPED, facts=facts)
    if occurrence.skipped is not None:  # recorded once it has come, together with its neighbours
        return _skipped(occurrence, occurrence.skipped, schedule.timing, has_come=at <= now)
    if at > now:
        facts = {"due": occurrence.due_at}
        return Answer(opening="Not planned yet.", reason=Reason.SCHEDULE_UPCOMING, state=RunState.PLANNED, facts=facts)
    if schedule.failures and schedule.last_error:
        facts = {"failures": schedule.failures, "error": schedule.last_error}
        return Answer(opening="Overdue.", reason=Reason.SCHEDULE_FAILING, facts=facts, waits=True)
    facts = {"since": schedule.decided_until, "until": now}
    return Answer(opening="Overdue.", reason=Reason.SCHEDULER_DOWN, facts=facts, waits=True)


def _skipped(occurrence: Occurrence, reason: Reason, timing: Timing, *, has_come: bool) -> Answer:
    facts = gap_facts(occurrence.missing[0], timing) if occurrence.missing else {}
    if occurrence.mark is not None:
        mark = occurrence.mark
        facts = {"calendar": mark.calendar, "version": mark.version, "label": mark.label}
    is_rolled = reason is Reason.CALENDAR_ROLLED
    state = RunState.COALESCED if is_rolled else RunState.SKIPPED
    word = "coalesced" if is_rolled else "skipped"
    return Answer(opening=f"It {'is' if has_come else 'will be'} {word}.", reason=reason, state=state, facts=facts)
