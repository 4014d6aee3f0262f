"""Arrears: every instant of the stretch is answered once, in bounded steps, as the rule says, at the rate it says."""

import json
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.arrears import Arrears, Counts, overdue, skip_reason_of, survey
from everwhen.core.arrears_steps import PACED_AHEAD, step
from everwhen.core.catchup import (
    CatchUp,
    CatchUpPolicy,
    Cause,
    Keep,
    Order,
    Rule,
    catch_up_to_json,
    parse_catch_up,
)
from everwhen.core.flex import Flex, FlexMode
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import SPAN_FROM, Cursor
from everwhen.core.reasons import Reason
from everwhen.core.triggers import AnyOf, Cron, Every, GapPolicy, Rrule, Timing, occurrences

START = datetime(2026, 3, 26, tzinfo=UTC)
LOCAL = datetime.fromisoformat("2026-03-01T01:07")
MINUTE = timedelta(minutes=1)
MINUTELY = Timing(Cron("* * * * *"))
REPLAY, COALESCE, SKIP = (Rule(policy=policy) for policy in CatchUpPolicy)
EXCEEDED, TOO_OLD = (RunState.MISSED, Reason.CATCHUP_EXCEEDED), (RunState.MISSED, Reason.CATCHUP_WINDOW)


def arrears(rule: Rule, *, timing: Timing = MINUTELY, length: timedelta = 60 * MINUTE, **known) -> Arrears:
    cause = known.pop("cause", Cause.OUTAGE)
    until = START + length
    return Arrears(
        tenant_id=uuid.UUID(int=1),
        schedule_uid=uuid.UUID(int=2),
        timing=timing,
        cause=cause,
        rule=rule,
        since=START,
        stretch_until=until,
        after=START,
        until=until,
        as_of=until,
        late_before=until,
        skip_reason=skip_reason_of(cause),
        **known,
    )


class Done:
    """All the steps of some arrears, with the clock moved to where each asked for."""

    def __init__(self, start: Arrears, *, limit: int = 1000) -> None:
        self.runs, self.verdicts, self.spans, self.steps = [], [], [], 0
        self.at, look_at = start, start.as_of
        while look_at is not None:
            made = step(self.at, now=look_at, limit=limit)
            left = self.at.until - self.at.after
            assert made.look_at is None or made.look_at > look_at or made.rest.until - made.rest.after < left
            self.runs += [(look_at, run) for run in made.runs]
            self.verdicts += made.verdicts
            self.spans += made.spans
            self.at, look_at = made.rest, made.look_at
            self.steps += 1

    @property
    def nominals(self) -> list[datetime]:
        return [each.run.nominal_at for _, each in self.runs]

    @property
    def answered(self) -> Counter:
        found = Counter({"runs": len(self.runs)})
        for verdict in self.verdicts:
            found[verdict.state.value] += 1
        for span in self.spans:
            found[span.verdict.value] += span.instants
        return found


@pytest.mark.parametrize(
    ("rule", "cause", "runs", "rest"),
    [
        (REPLAY, Cause.OUTAGE, range(1, 61), None),
        (COALESCE, Cause.OUTAGE, [60], (RunState.COALESCED, Reason.CATCHUP_COALESCED)),
        (Rule(keep=Keep.EARLIEST), Cause.OUTAGE, [1], (RunState.COALESCED, Reason.CATCHUP_COALESCED)),
        (SKIP, Cause.OUTAGE, [], (RunState.MISSED, Reason.CATCHUP_SKIP)),
        (SKIP, Cause.RESUME, [], (RunState.SKIPPED, Reason.SCHEDULE_PAUSED)),
        (SKIP, Cause.CREATION, [], (RunState.SKIPPED, Reason.CATCHUP_SKIP)),
        (Rule(policy=CatchUpPolicy.REPLAY, max_runs=5), Cause.OUTAGE, range(56, 61), EXCEEDED),
        (
            Rule(policy=CatchUpPolicy.REPLAY, max_runs=5, keep=Keep.EARLIEST),
            Cause.RESUME,
            range(1, 6),
            (RunState.SKIPPED, Reason.CATCHUP_EXCEEDED),
        ),
        (Rule(policy=CatchUpPolicy.REPLAY, window=9 * MINUTE), Cause.OUTAGE, range(51, 61), TOO_OLD),
        (Rule(window=timedelta(0)), Cause.OUTAGE, [60], TOO_OLD),
    ],
)  # fmt: skip
def test_each_rule_runs_what_it_says_and_records_the_rest_as_one_span(rule, cause, runs, rest) -> None:
    done = Done(arrears(rule, cause=cause))

    assert done.nominals == [START + n * MINUTE for n in runs]
    assert [(span.verdict, span.reason, span.instants) for span in done.spans] == (
        [(*rest, 60 - len(runs))] if rest else []
    )
    assert done.verdicts == []


def test_the_newest_go_first_when_the_rule_says_so() -> None:
    rule = Rule(policy=CatchUpPolicy.REPLAY, order=Order.NEWEST_FIRST, max_runs=30)
    done = Done(arrears(rule), limit=7)

    assert done.nominals == [START + n * MINUTE for n in range(60, 30, -1)]
    assert [span.instants for span in done.spans] == [30]


@pytest.mark.parametrize("order", list(Order))
def test_a_paced_replay_gives_each_run_its_turn_over_any_number_of_steps(order) -> None:
    rule = Rule(policy=CatchUpPolicy.REPLAY, rate=0.5, order=order)
    done = Done(arrears(rule), limit=11)
    turns = [each.available_at for _, each in done.runs]

    assert turns == [START + 60 * MINUTE + timedelta(seconds=2 * n) for n in range(60)]
    assert all(
        turn - written_at <= PACED_AHEAD + timedelta(seconds=2)
        for (written_at, _), turn in zip(done.runs, turns, strict=True)
    )
    assert sorted(done.nominals) == [START + n * MINUTE for n in range(1, 61)]


def test_a_coalesced_run_says_what_it_stands_for() -> None:
    ((_, latest),) = Done(arrears(COALESCE)).runs
    ((_, earliest),) = Done(arrears(Rule(keep=Keep.EARLIEST))).runs
    ((_, within),) = Done(arrears(Rule(window=9 * MINUTE))).runs

    said = json.loads(latest.stands_for)
    assert (said["count"], said["first"], said["last"]) == (
        60,
        "2026-03-26T00:01:00+00:00",
        "2026-03-26T01:00:00+00:00",
    )
    assert said["instants"] == [(START + n * MINUTE).isoformat() for n in range(1, 51)]
    assert json.loads(earliest.stands_for) == said
    assert json.loads(within.stands_for)["count"] == 10


def test_a_run_stands_for_no_instant_that_is_answered_and_never_stands_there() -> None:
    answered = (START + MINUTE, START + 60 * MINUTE)
    done = Done(arrears(COALESCE, answered=answered))
    ((_, run),) = done.runs
    told = json.loads(run.stands_for)

    assert run.run.nominal_at == START + 59 * MINUTE
    assert (told["count"], len(told["instants"])) == (58, 50)
    assert [told["first"], told["instants"][0], told["last"]] == [(START + n * MINUTE).isoformat() for n in (2, 2, 59)]


def test_short_neighbours_are_recorded_singly() -> None:
    done = Done(arrears(SKIP, length=(SPAN_FROM - 1) * MINUTE))

    assert len(done.verdicts) == SPAN_FROM - 1
    assert len({verdict.run_id for verdict in done.verdicts}) == SPAN_FROM - 1
    assert done.spans == []


def test_seven_days_are_skipped_in_one_step_and_recorded_as_one_span() -> None:
    done = Done(arrears(SKIP, length=timedelta(days=7)), limit=100)

    assert done.steps == 1
    assert [span.instants for span in done.spans] == [7 * 1440]


def test_an_irregular_trigger_is_one_span_too_however_many_steps_it_takes() -> None:
    timing = Timing(AnyOf(triggers=(Cron("*/2 * * * *"), Cron("1-59/2 * * * *"))))
    done = Done(arrears(SKIP, timing=timing, length=timedelta(days=1)), limit=100)

    assert done.steps > 10
    assert [span.instants for span in done.spans] == [1440]


def test_what_is_skipped_for_the_clock_keeps_its_own_reason() -> None:
    timing = Timing(Cron("30 2 * * *"), "Europe/Berlin", GapPolicy.SKIP)
    done = Done(arrears(SKIP, timing=timing, length=timedelta(days=30)))

    assert Counter(verdict.reason for verdict in done.verdicts)[Reason.CALENDAR_DST_GAP] == 1
    assert sum(done.answered.values()) == 30


# Whatever the stretch, the rule and the bound of a step ---------------------------------------------------------------

TIMINGS = [
    MINUTELY,
    Timing(Cron("*/7 0-12 * * *"), "Europe/Berlin"),
    Timing(Cron("30 2 * * *"), "Europe/Berlin", GapPolicy.SKIP),
    Timing(Every("PT11M", anchor=START)),
    Timing(AnyOf(triggers=(Cron("5 * * * *"), Cron("*/10 * * * *")), exceptions=(Cron("0 * * * *"),))),
    Timing(Rrule("FREQ=DAILY;BYHOUR=1,2,3", LOCAL), "Europe/Berlin"),
]
rules = st.builds(
    Rule,
    policy=st.sampled_from(CatchUpPolicy),
    keep=st.sampled_from(Keep),
    window=st.none() | st.integers(0, 6 * 86_400).map(lambda n: timedelta(seconds=n)),
    max_runs=st.none() | st.integers(1, 50),
    rate=st.none() | st.sampled_from([0.2, 3.0, 1000.0]),
    order=st.sampled_from(Order),
)


def expected(start: Arrears) -> Counter:
    """What the rule comes to, said in another way: a list, and a slice of it."""
    rule = start.rule
    found = occurrences(start.timing, after=START, until=start.stretch_until, limit=10**6)
    counts = Counter({"skipped": sum(o.skipped is not None and o.nominal_at not in start.answered for o in found)})
    intended = [o.nominal_at for o in found if o.skipped is None]
    if rule.policy is CatchUpPolicy.COALESCE:
        intended = [at for at in intended if at not in start.answered]
    young = [at for at in intended if rule.window is None or at >= start.as_of - rule.window]
    if rule.policy is CatchUpPolicy.SKIP:
        running = []
    elif rule.policy is CatchUpPolicy.COALESCE:
        running = young[-1:] if rule.keep is Keep.LATEST else young[:1]
    elif rule.max_runs is None:
        running = young
    else:
        running = young[-rule.max_runs :] if rule.keep is Keep.LATEST else young[: rule.max_runs]
    running = [at for at in running if at not in start.answered]
    intended = [at for at in intended if at not in start.answered]
    coalesced = len(young) - len(running) if rule.policy is CatchUpPolicy.COALESCE else 0
    counts += Counter(runs=len(running), coalesced=coalesced, missed=len(intended) - len(running) - coalesced)
    return +counts


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TIMINGS), rules, st.integers(0, 7 * 86_400), st.data())
def test_the_arithmetic_is_exact(timing, rule, seconds, data) -> None:
    limit = data.draw(st.integers(1, 400))
    length = timedelta(seconds=seconds)
    if rule.rate is not None:
        length = min(length, timedelta(hours=9))
    instants = [o.nominal_at for o in occurrences(timing, after=START, until=START + length, limit=10**6)]
    answered = data.draw(st.sets(st.sampled_from(instants), max_size=4)) if instants else set()
    start = arrears(rule, timing=timing, length=length, answered=tuple(sorted(answered)))
    done = Done(start, limit=limit)
    counts, whole = survey(start, most=10**6)

    assert +done.answered == expected(start)
    assert whole
    assert counts == done.at.counts == Counts(**{name: expected(start)[name] for name in Counts._fields})
    assert len(set(done.nominals)) == len(done.nominals)
    assert set(done.nominals) <= set(instants) - answered
    covered = set(done.nominals) | {verdict.nominal_at for verdict in done.verdicts}
    for span in done.spans:
        held = {at for at in instants if span.first_at <= at <= span.last_at}
        assert not held & answered
        assert len(held) == span.instants
        assert not held & covered
        covered |= held
    assert covered == set(instants) - answered


# Where arrears begin --------------------------------------------------------------------------------------------------


def cursor(timing: Timing = MINUTELY, **known) -> Cursor:
    return Cursor(
        tenant_id=uuid.UUID(int=1), schedule_uid=uuid.UUID(int=2), timing=timing, decided_until=START, **known
    )


def test_nothing_is_overdue_that_is_late_by_no_more_than_the_grace() -> None:
    now = START + 2 * MINUTE

    assert overdue(cursor(), now=now, grace=MINUTE, rule=REPLAY) is None
    assert overdue(cursor(), now=now + timedelta(seconds=1), grace=MINUTE, rule=REPLAY) == START + MINUTE


def test_nothing_is_overdue_that_is_answered() -> None:
    answered = cursor(answered=(START + MINUTE,))
    late = START + MINUTE + timedelta(minutes=1, seconds=30)

    assert overdue(cursor(), now=late, grace=MINUTE, rule=SKIP) == START + MINUTE
    assert overdue(answered, now=late, grace=MINUTE, rule=SKIP) is None
    assert overdue(answered, now=late + MINUTE, grace=MINUTE, rule=SKIP) == START + 2 * MINUTE


def test_the_latest_stands_also_for_what_is_merely_late() -> None:
    now = START + 5 * MINUTE + timedelta(seconds=1)

    assert overdue(cursor(), now=now, grace=MINUTE, rule=COALESCE) == START + 5 * MINUTE
    assert overdue(cursor(), now=now, grace=MINUTE, rule=Rule(keep=Keep.EARLIEST)) == START + 4 * MINUTE


def test_what_flexes_is_late_after_it_was_due() -> None:
    hourly = Timing(Cron("0 * * * *"))
    flexing = cursor(
        hourly, flex=Flex(mode=FlexMode.SMOOTH, window=timedelta(minutes=30), offset=timedelta(minutes=20))
    )

    assert overdue(flexing, now=START + timedelta(hours=1, minutes=21), grace=MINUTE, rule=REPLAY) is None
    assert overdue(flexing, now=START + timedelta(hours=2, minutes=1), grace=MINUTE, rule=REPLAY) == START + timedelta(
        hours=1
    )


@given(rules, st.none() | rules, st.none() | rules)
def test_a_policy_is_read_as_it_was_written_and_an_old_one_as_ever(rule, creation, edit) -> None:
    mine = {name: getattr(rule, name) for name in rule.__dataclass_fields__}
    catch_up = CatchUp(**mine, grace=3 * MINUTE, on_resume=rule, on_creation=creation, on_edit=edit)

    assert parse_catch_up(json.loads(json.dumps(catch_up_to_json(catch_up)))) == catch_up
    assert parse_catch_up({"policy": "skip", "grace_seconds": 60.0, "window_seconds": None}) == CatchUp(
        policy=CatchUpPolicy.SKIP
    )
