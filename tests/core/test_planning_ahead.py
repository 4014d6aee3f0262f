"""What is planned ahead and what is not: a run before it is due, a verdict when its instant has come, each once.

The planner's loop is acted out with the clock as an argument: look, write, and look again when the plan says so.
"""

import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.calendar_use import CalendarUse
from everwhen.core.calendars import CLOSED, OPEN, Calendar, CalendarVersion, DayRange, Definition, Roll
from everwhen.core.flex import Flex, FlexMode
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import CatchUp, CatchUpPolicy, Cursor, Plan, plan
from everwhen.core.reasons import Reason
from everwhen.core.triggers import GapPolicy, Timing, bind, occurrences, parse_trigger

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
AHEAD = timedelta(seconds=30)
MONDAY = datetime(2027, 3, 8, tzinfo=UTC)
REPLAY = CatchUp(policy=CatchUpPolicy.REPLAY)
OFFICE = (((540, 1020),),) * 5 + (CLOSED,) * 2  # nine to five


def every(text):
    return {"kind": "every", "every": text}


def cron(expr):
    return {"kind": "cron", "expr": expr, "seconds": len(expr.split()) == 6}


def any_of(*triggers, but=()):
    return {"kind": "any_of", "triggers": list(triggers), "except": list(but)}


def timing(trigger, *, week=OFFICE, days=(), roll=None, timezone="UTC", **policies):
    use = None if roll is None else CalendarUse(open=("de",), roll=roll)
    made = Timing(parse_trigger(trigger), timezone, calendars=use, **policies)
    calendar = Calendar("de", [CalendarVersion(number=1, definition=Definition(week=week, days=tuple(days)))])
    return bind(made, {"de": calendar})


def begin(found, at, **known):
    return Cursor(tenant_id=uuid.UUID(int=1), schedule_uid=uuid.UUID(int=2), timing=found, decided_until=at, **known)


@dataclass
class Planner:
    """What a planner does with one schedule: when it looks, and what it has answered so far, instant by instant."""

    cursor: Cursor
    now: datetime
    looks: int = 0
    runs: dict = field(default_factory=dict)
    verdicts: dict = field(default_factory=dict)

    def look_until(self, end):
        next_at = self.now
        while next_at is not None and next_at - AHEAD <= end:
            self.now = max(self.now, next_at - AHEAD)
            made = plan(self.cursor, now=self.now, until=self.now + 2 * AHEAD, policy=REPLAY)
            self.take(made)
            next_at = made.next_at
            if next_at is not None and made.look_from is not None:
                next_at = max(next_at, made.look_from + AHEAD)
            assert made.more or next_at is None or next_at - AHEAD > self.now, "it looks again at once, and in vain"

    def take(self, made: Plan):
        self.looks += 1
        told = [*made.verdicts]
        for span in made.spans:
            inside = occurrences(self.cursor.timing, after=span.first_at - SECOND / 2, until=span.last_at, limit=2000)
            assert [inside[0].nominal_at, len(inside)] == [span.first_at, span.instants]
            told += inside
        fresh = [each.nominal_at for each in (*made.runs, *told)]
        assert len(set(fresh)) == len(fresh)
        assert not {*fresh} & {*self.runs, *self.verdicts}, "an instant is answered twice"
        assert all(each.nominal_at <= self.now for each in told), "a verdict before its instant has come"
        self.runs |= {run.nominal_at: (run.due_at, self.now) for run in made.runs}
        self.verdicts |= {each.nominal_at: self.now for each in told}
        self.cursor = replace(self.cursor, decided_until=made.decided_until, answered=made.answered)
        assert self.cursor.decided_until <= self.now + 2 * AHEAD

    def adds_up(self, start):
        """Every instant up to the watermark is answered, and beyond it only what the cursor knows."""
        found = occurrences(self.cursor.timing, after=start, until=self.cursor.decided_until, limit=100_000)
        answered = {*self.runs, *self.verdicts}
        assert {o.nominal_at for o in found} == {at for at in answered if at <= self.cursor.decided_until}
        assert {at for at in answered if at > self.cursor.decided_until} == set(self.cursor.answered)
        assert {o.nominal_at for o in found if o.skipped} == set(self.verdicts)


def acted_out(found, start, end):
    planner = Planner(begin(found, start), start)
    planner.look_until(end)
    planner.adds_up(start)
    late = {at: by for at, by in planner.runs.items() if by[1] > max(by[0], start)}
    assert not late, "a run is planned after it is due"
    return planner


ODD = any_of(every("PT1S"), but=[every("PT2S")])
OPENING, CLOSING = MONDAY + timedelta(hours=9), MONDAY + timedelta(hours=17)
GAP = {"timezone": "Europe/Berlin", "gap": GapPolicy.SKIP}
NIGHTS = any_of(cron("* * * * *"), but=[cron("* 22-23 * * *")])
CASES = {
    "every other second is an exception": (timing(ODD), MONDAY, 3 * MINUTE),
    "an office closes": (timing(every("PT1S"), roll=Roll.NONE), CLOSING - MINUTE, 4 * MINUTE),
    "an office opens": (timing(every("PT1S"), roll=Roll.NONE), OPENING - 3 * MINUTE, 5 * MINUTE),
    "an office opens, every ten seconds": (timing(every("PT10S"), roll=Roll.NONE), OPENING - 3 * MINUTE, 5 * MINUTE),
    "a night is an exception": (timing(NIGHTS), MONDAY + timedelta(hours=21, minutes=50), timedelta(hours=3)),
    "a gap, and a run right after it": (
        timing(any_of(cron("30 2 * * *"), cron("7 0 3 * * *")), **GAP),
        datetime(2027, 3, 28, tzinfo=UTC),
        DAY,
    ),
    "a weekend is paid on Friday": (timing(cron("0 10 * * 0,6"), roll=Roll.PRECEDING), MONDAY, 8 * DAY),
    "one that is excluded comes before one that rolls back": (
        timing(cron("0 8,10 * * 0,6"), roll=Roll.PRECEDING),
        MONDAY,
        8 * DAY,
    ),
    "one that is excluded comes right before one that rolls back is due": (
        timing(any_of(cron("40 59 8 * * 5"), cron("0 9 * * 6")), roll=Roll.PRECEDING),
        MONDAY,
        7 * DAY,
    ),
    "a month's last days": (timing(cron("0 16 28-31 * *"), roll=Roll.MODIFIED_FOLLOWING), MONDAY, 60 * DAY),
    "what is closed runs on Monday": (timing(cron("0 */2 * * *"), roll=Roll.FOLLOWING), MONDAY, 8 * DAY),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_runs_are_planned_in_time_and_verdicts_when_their_instants_have_come(case):
    found, start, length = case
    planner = acted_out(found, start, start + length)

    assert planner.runs
    assert planner.verdicts


def test_what_waits_for_an_instant_is_planned_when_that_has_come_and_not_looked_at_before():
    planner = acted_out(timing(ODD), MONDAY, MONDAY + 2 * MINUTE)

    assert {due - planned for due, planned in planner.runs.values()} == {SECOND}
    assert planner.looks <= 2 + 120 / 2 + 120 / 60


def test_the_last_instant_before_what_waits_is_waited_for_and_the_others_with_it():
    opening = MONDAY + timedelta(hours=9)
    found = timing(every("PT1S"), roll=Roll.NONE)

    made = plan(begin(found, opening - MINUTE), now=opening - 20 * SECOND, until=opening + 40 * SECOND, policy=REPLAY)

    assert made.runs == ()
    assert [span.last_at for span in made.spans] == [opening - 20 * SECOND]
    assert made.decided_until == opening - 19 * SECOND - timedelta(microseconds=1)
    assert made.look_from == opening - SECOND


def test_what_is_closed_is_looked_at_together():
    closing = MONDAY + timedelta(hours=17)
    planner = acted_out(timing(cron("* * * * *"), roll=Roll.NONE), closing - MINUTE, closing + timedelta(hours=2))

    assert planner.looks <= 2 + 120 / 15


def test_a_run_that_is_due_at_the_very_instant_of_a_skip_does_not_wait_for_it():
    # Saturday nine o'clock rolls back to Friday nine o'clock, at which the calendar excludes what the other one means.
    friday = MONDAY + 4 * DAY + timedelta(hours=9)
    week = (OPEN,) * 4 + (((540, 541),), CLOSED, CLOSED)
    found = timing(cron("0 9 * * 6"), week=week, roll=Roll.PRECEDING)
    planner = Planner(begin(found, friday - MINUTE), friday - 40 * SECOND)
    planner.look_until(friday)

    assert [due for due, _ in planner.runs.values()] == [friday]
    assert planner.cursor.answered == (friday + DAY,)


def test_what_is_answered_beyond_the_watermark_is_neither_answered_again_nor_waited_for():
    seconds = [MONDAY + n * SECOND for n in range(1, 61)]
    answered = begin(timing(every("PT1S")), MONDAY, answered=(seconds[3], seconds[40]))

    made = plan(answered, now=MONDAY, until=MONDAY + 30 * SECOND, policy=REPLAY)

    assert [run.nominal_at for run in made.runs] == [at for at in seconds[:30] if at != seconds[3]]
    assert made.answered == (seconds[40],)
    ended = plan(answered, now=MONDAY, until=MONDAY + MINUTE, policy=REPLAY)
    assert (len(ended.runs), ended.answered) == (58, ())


def test_a_span_stops_before_what_is_answered_and_goes_on_behind_it():
    night = MONDAY + timedelta(hours=1)
    found = begin(timing(every("PT1S"), roll=Roll.NONE), night, answered=(night + 20 * SECOND,))

    made = plan(found, now=night + MINUTE, until=night + MINUTE, policy=REPLAY)

    assert [(span.first_at - night, span.last_at - night, span.instants) for span in made.spans] == [
        (SECOND, 19 * SECOND, 19),
        (21 * SECOND, MINUTE, 40),
    ]


def test_what_rolled_back_and_was_missed_has_a_row_of_its_own_beyond_the_watermark():
    hours = timing(cron("0 0-23 * * 6"), roll=Roll.PRECEDING, week=(OPEN,) * 5 + (CLOSED, CLOSED))
    late = MONDAY + 4 * DAY + timedelta(hours=23, minutes=30)
    skip = CatchUp(policy=CatchUpPolicy.SKIP)

    made = plan(begin(hours, late), now=late, until=late + MINUTE, policy=skip)

    assert {(v.state, v.reason) for v in made.verdicts} == {(RunState.MISSED, Reason.CATCHUP_SKIP)}
    assert [v.nominal_at - v.due_at for v in made.verdicts] == [DAY] * 24
    assert made.spans == ()
    assert made.answered == tuple(v.nominal_at for v in made.verdicts)


def test_a_run_flexes_to_before_the_next_fire_whether_the_skip_between_is_in_sight_or_not():
    flex = Flex(mode=FlexMode.HASH, window=20 * SECOND)
    cursor = begin(timing(ODD), MONDAY, flex=flex)

    alone = plan(cursor, now=MONDAY, until=MONDAY + SECOND, policy=REPLAY)
    in_sight = plan(cursor, now=MONDAY, until=MONDAY + MINUTE, policy=REPLAY)

    assert [run.run_id for run in alone.runs] == [run.run_id for run in in_sight.runs]


TIMES = ["0 9 * * *", "30 9 * * 0,6", "0 10 * * *", "59 8 * * 1,5,6", "0 12 * * 1-5", "30 59 8 * * *"]
WEEKS = st.tuples(*[st.sampled_from([OPEN, CLOSED, ((540, 660),), ((0, 541), (600, 1440))])] * 7)


@settings(max_examples=120)
@given(
    st.lists(st.sampled_from(TIMES), min_size=1, max_size=3, unique=True),
    WEEKS.filter(lambda week: any(hours != CLOSED for hours in week)),
    st.lists(st.integers(0, 20), max_size=4),
    st.sampled_from(Roll),
)
def test_whatever_is_closed_every_instant_has_one_answer_in_time(times, week, holidays, roll):
    ranges = [
        DayRange(first=date(2027, 3, 8) + DAY * n, last=date(2027, 3, 8) + DAY * n, hours=CLOSED) for n in holidays
    ]
    acted_out(timing(any_of(*map(cron, times)), week=week, days=ranges, roll=roll), MONDAY, MONDAY + 16 * DAY)
