"""Planning: every intended instant gets exactly one answer, however time jumps."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.calendar_use import SKIPPED_TOGETHER
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import SPAN_FROM, CatchUp, CatchUpPolicy, Cursor, Plan, plan
from everwhen.core.reasons import Reason
from everwhen.core.triggers import At, Cron, Every, GapPolicy, Timing, fires

START = datetime(2026, 11, 29, tzinfo=UTC)
MINUTELY = Timing(Cron("* * * * *"))
REPLAY, COALESCE, SKIP = (CatchUp(policy=policy) for policy in CatchUpPolicy)


def cursor(timing: Timing = MINUTELY, *, decided_until: datetime = START, **known) -> Cursor:
    return Cursor(
        tenant_id=uuid.UUID(int=1), schedule_uid=uuid.UUID(int=2), timing=timing, decided_until=decided_until, **known
    )


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def planned(policy: CatchUp, *, outage: timedelta, ahead: timedelta = timedelta(seconds=30)) -> Plan:
    now = START + outage
    return plan(cursor(), now=now, until=now + ahead, policy=policy)


def answered(made: Plan) -> int:
    return len(made.runs) + len(made.verdicts) + sum(span.instants for span in made.spans)


def test_a_run_is_planned_before_it_is_due() -> None:
    now = START + timedelta(seconds=45)

    made = plan(cursor(), now=now, until=now + minutes(1), policy=COALESCE)

    assert [run.nominal_at for run in made.runs] == [START + minutes(1)]
    assert (made.decided_until, made.next_at) == (now + minutes(1), START + minutes(2))


def test_the_next_look_is_soon_after_a_gap_that_is_skipped() -> None:
    timing = Timing(Cron("30 2 * * *"), "Europe/Berlin", GapPolicy.SKIP)
    eve = datetime(2027, 3, 28, tzinfo=UTC)

    made = plan(cursor(timing, decided_until=eve), now=eve, until=eve + minutes(1), policy=COALESCE)

    assert (made.runs, made.verdicts, made.spans) == ((), (), ())
    assert made.next_at == datetime(2027, 3, 28, 1, tzinfo=UTC) + SKIPPED_TOGETHER


def test_late_within_the_grace_is_merely_late() -> None:
    made = planned(SKIP, outage=minutes(1) + timedelta(seconds=50))

    assert [run.nominal_at for run in made.runs] == [START + minutes(1), START + minutes(2)]


@pytest.mark.parametrize(
    ("policy", "runs", "state", "reason"),
    [
        (REPLAY, 5, None, None),
        (COALESCE, 1, RunState.COALESCED, Reason.CATCHUP_COALESCED),
        (SKIP, 1, RunState.MISSED, Reason.CATCHUP_SKIP),
    ],
)
def test_catch_up_does_what_the_schedule_says(policy, runs, state, reason) -> None:
    made = planned(policy, outage=minutes(5) + timedelta(seconds=10), ahead=timedelta(0))

    assert len(made.runs) == runs
    assert answered(made) == 5
    assert {(verdict.state, verdict.reason) for verdict in made.verdicts} == ({(state, reason)} if state else set())


def test_a_coalesced_outage_of_a_slow_schedule_still_runs_once() -> None:
    hourly = cursor(Timing(Cron("0 * * * *")))
    now = START + timedelta(hours=4, minutes=30)

    made = plan(hourly, now=now, until=now, policy=COALESCE)

    assert [run.nominal_at for run in made.runs] == [START + timedelta(hours=4)]
    assert len(made.verdicts) == 3


def test_an_instant_older_than_the_window_never_runs() -> None:
    policy = CatchUp(policy=CatchUpPolicy.REPLAY, window=minutes(3))

    made = planned(policy, outage=minutes(5), ahead=timedelta(0))

    assert {v.reason for v in made.verdicts} == {Reason.CATCHUP_WINDOW}
    assert [run.nominal_at for run in made.runs] == [START + minutes(n) for n in (2, 3, 4, 5)]


def test_what_a_pause_left_behind_is_skipped_for_its_reason() -> None:
    paused = cursor(skip_until=START + minutes(3), skip_reason=Reason.SCHEDULE_PAUSED)

    made = plan(paused, now=START + minutes(3), until=START + minutes(4), policy=REPLAY)

    assert {(v.state, v.reason) for v in made.verdicts} == {(RunState.SKIPPED, Reason.SCHEDULE_PAUSED)}
    assert [run.nominal_at for run in made.runs] == [START + minutes(4)]


def test_a_local_time_that_does_not_exist_is_skipped_for_a_reason() -> None:
    timing = Timing(Cron("30 2 * * *"), "Europe/Berlin", GapPolicy.SKIP)
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)

    after = before + timedelta(days=1)
    made = plan(cursor(timing, decided_until=before), now=after, until=before + timedelta(days=2), policy=REPLAY)

    assert [(v.state, v.reason) for v in made.verdicts] == [(RunState.SKIPPED, Reason.CALENDAR_DST_GAP)]
    assert len(made.runs) == 1


def test_many_neighbours_with_one_verdict_become_a_span() -> None:
    made = planned(SKIP, outage=minutes(60))

    (span,) = made.spans
    assert made.verdicts == ()
    assert span.instants >= SPAN_FROM
    assert (span.verdict, span.reason) == (RunState.MISSED, Reason.CATCHUP_SKIP)
    assert answered(made) == 60


def test_a_long_outage_is_worked_off_in_bounded_steps() -> None:
    now, at, steps, runs, missed = START + timedelta(days=7), cursor(), 0, 0, 0
    more = True
    while more:
        made = plan(at, now=now, until=now, policy=COALESCE)
        assert made.decided_until > at.decided_until
        at, more, steps = cursor(decided_until=made.decided_until), made.more, steps + 1
        runs, missed = runs + len(made.runs), missed + answered(made) - len(made.runs)

    assert (runs + missed, steps) == (7 * 24 * 60, 11)
    assert runs == 2


def test_a_clock_that_steps_back_plans_nothing() -> None:
    made = plan(cursor(), now=START - minutes(5), until=START - minutes(4), policy=REPLAY)

    assert (answered(made), made.decided_until, made.next_at) == (0, START, START + minutes(1))


def test_a_trigger_that_is_over_has_no_next_instant() -> None:
    once = cursor(Timing(At(START + timedelta(hours=1))))

    made = plan(once, now=START, until=START + timedelta(hours=2), policy=REPLAY)

    assert [run.nominal_at for run in made.runs] == [START + timedelta(hours=1)]
    assert made.next_at is None


jumps = st.lists(st.integers(-600, 7200), min_size=1, max_size=30)
timings = st.sampled_from(
    [
        MINUTELY,
        Timing(Cron("*/7 * * * *"), "Europe/Berlin"),
        Timing(Cron("30 2 * * *"), "America/New_York", GapPolicy.SKIP),
        Timing(Every("PT11M", anchor=START)),
    ]
)


@settings(max_examples=200)
@given(timings, st.sampled_from([REPLAY, COALESCE, SKIP]), jumps, st.integers(1, 50))
def test_nothing_is_lost_or_repeated_however_now_jumps(timing, policy, seconds, limit) -> None:
    at, now, instants, ids = cursor(timing), START, 0, set()
    for jump in seconds:
        now = now + timedelta(seconds=jump)
        until = now + timedelta(seconds=60)
        made = plan(at, now=now, until=until, policy=policy, limit=limit)
        assert made.decided_until >= at.decided_until
        at = cursor(timing, decided_until=made.decided_until)
        instants += answered(made)
        fresh = {run.run_id for run in (*made.runs, *made.verdicts)}
        assert not fresh & ids
        ids |= fresh

    intended = sum(1 for _ in fires(timing, after=START, until=at.decided_until))
    assert instants == intended


@given(timings, jumps)
def test_the_next_look_is_never_after_the_next_instant(timing, seconds) -> None:
    now = START + timedelta(seconds=max(0, sum(seconds)))

    made = plan(cursor(timing), now=now, until=now, policy=REPLAY)

    assert made.next_at == next(fires(timing, after=made.decided_until, count=1))
