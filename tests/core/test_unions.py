"""Unions, exclusions and bounds, wall-clock steps, and what holds for every kind of trigger."""

# ruff: noqa: DTZ001  # local times

import uuid
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.errors import TriggerError
from everwhen.core.planning import CatchUp, CatchUpPolicy, Cursor, plan
from everwhen.core.reasons import Reason
from everwhen.core.sources import MOST_COUNTED
from everwhen.core.triggers import (
    AnyOf,
    At,
    Cron,
    Every,
    FoldPolicy,
    GapPolicy,
    Rrule,
    Timing,
    fires,
    next_after,
    occurrences,
    parse_trigger,
    trigger_to_json,
)

HOURLY = {"kind": "every", "every": "PT1H"}
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo")
POLICIES = [(gap, fold) for gap in (None, *GapPolicy) for fold in (None, *FoldPolicy)]
SIMPLE = [
    Cron("30 2 * * *"),
    Cron("*/20 * * * *"),
    Cron("0 0 13 * 5"),
    Every("PT50M"),
    Every("P1D", datetime(2026, 1, 1, 2, 30), "wall"),
    Every("PT6H", datetime(2026, 1, 1, 2, 30), "wall"),
    Every("P1M", datetime(2026, 1, 31, 2, 30), "wall"),
    At(datetime(2026, 3, 29, 2, 30)),
    At(datetime(2026, 6, 1, tzinfo=UTC)),
    Rrule("FREQ=DAILY;INTERVAL=2", datetime(2026, 1, 1, 2, 30)),
    Rrule("FREQ=HOURLY;INTERVAL=5\nEXDATE:20260329T021500", datetime(2026, 1, 1, 0, 15)),
    Rrule(
        "FREQ=MONTHLY;BYDAY=-1SU;BYSETPOS=-1\nRDATE:20260329T024500,20260401T000000Z\nEXDATE:20260426T013000Z",
        datetime(2026, 1, 1, 2, 30),
    ),
    Rrule("FREQ=DAILY;UNTIL=20261025T003000Z", datetime(2026, 1, 1, 2, 30)),
    parse_trigger({"kind": "daily", "times": ["02:15", "03:00"]}),
    parse_trigger({"kind": "weekly", "weekdays": ["SUN"], "times": ["01:30", "02:30"]}),
    parse_trigger({"kind": "monthly", "days": [-1], "times": ["00:00"]}),
    parse_trigger({"kind": "yearly", "months": ["MAR"], "on": [{"weekday": "SUN", "nth": -1}], "times": ["02:30"]}),
]


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


INSTANTS = st.datetimes(datetime(2025, 11, 1), datetime(2027, 4, 1)).map(lambda at: at.replace(tzinfo=UTC))
LEAVES = st.sampled_from(SIMPLE)
BOUNDS = st.fixed_dictionaries(
    {}, optional={"start": INSTANTS, "end": INSTANTS | st.just(datetime(2026, 10, 25, 2, 30))}
)


@st.composite
def unions(draw):
    bounds = draw(BOUNDS)
    if "start" in bounds and draw(st.booleans()):
        bounds["max_runs"] = draw(st.integers(1, 40))
    return AnyOf(
        triggers=tuple(draw(st.lists(LEAVES, min_size=1, max_size=4))),
        exceptions=tuple(draw(st.lists(st.sampled_from(BARS), max_size=2))),
        **bounds,
    )


# None of them takes all instants of an endless trigger away: that has a test of its own.
BARS = [
    Cron("30 2 * * 1"),
    parse_trigger({"kind": "monthly", "days": [15], "times": ["02:30", "00:00"]}),
    At(utc(2026, 3, 29, 1)),
    Every("P10D", utc(2026, 1, 1, 1, 30)),
]
SPARSE = [trigger for trigger in SIMPLE if trigger not in {Cron("*/20 * * * *"), Every("PT50M")}]
TRIGGERS = LEAVES | unions()
TIMINGS = st.builds(
    lambda trigger, zone, policy: Timing(trigger, zone, *policy),
    TRIGGERS,
    st.sampled_from(ZONES),
    st.sampled_from(POLICIES),
)
MEMBERS = st.tuples(st.sampled_from(ZONES), st.sampled_from(POLICIES), st.lists(LEAVES, min_size=1, max_size=4))


def some(timing, after, count=60):
    return list(fires(timing, after=after, count=count))


# --- every kind ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(timing=TIMINGS, after=INSTANTS)
def test_fires_ascend_and_nothing_lies_between_two_of_them(timing, after):
    found = some(timing, after, 12)
    assert all(earlier < later for earlier, later in pairwise([after, *found]))
    for earlier, later in pairwise([after, *found]):
        for tenths in (0, 3, 9):
            assert next_after(timing, earlier + (later - earlier) * tenths / 10) == later
    if len(found) < 12:
        assert next_after(timing, found[-1] if found else after) is None


@settings(max_examples=60, deadline=None)
@given(timing=TIMINGS, after=INSTANTS)
def test_the_fires_are_the_occurrences_that_are_not_skipped_and_no_two_share_an_instant(timing, after):
    until = after + timedelta(days=40)
    found = occurrences(timing, after=after, until=until, limit=5000)
    assert [o.nominal_at for o in found if o.skipped is None] == list(fires(timing, after=after, until=until))
    assert len({o.nominal_at for o in found}) == len(found)


@settings(max_examples=60, deadline=None)
@given(trigger=TRIGGERS)
def test_a_trigger_is_read_back_from_its_json(trigger):
    assert parse_trigger(trigger_to_json(trigger)) == trigger


@settings(max_examples=60, deadline=None)
@given(
    timing=TIMINGS,
    start=INSTANTS,
    policy=st.sampled_from(list(CatchUpPolicy)),
    jumps=st.lists(st.integers(-86_400, 20 * 86_400), min_size=1, max_size=12),
    limit=st.integers(1, 50),
)
def test_planning_neither_loses_nor_repeats_an_instant(timing, start, policy, jumps, limit):  # noqa: PLR0917  # drawn
    decided, now, answered, ids = start, start, 0, set()
    for jump in jumps:
        now += timedelta(seconds=jump)
        cursor = Cursor(tenant_id=uuid.UUID(int=1), schedule_uid=uuid.UUID(int=2), timing=timing, decided_until=decided)
        made = plan(cursor, now=now, until=now + timedelta(minutes=1), policy=CatchUp(policy=policy), limit=limit)
        assert made.decided_until >= decided
        decided = made.decided_until
        fresh = {run.run_id for run in (*made.runs, *made.verdicts)}
        assert not fresh & ids
        ids |= fresh
        answered += len(made.runs) + len(made.verdicts) + sum(span.instants for span in made.spans)
    assert answered == len(occurrences(timing, after=start, until=decided, limit=100_000))


# --- unions, exclusions, bounds -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(case=MEMBERS, after=INSTANTS)
def test_a_union_fires_at_the_instants_of_its_members_once(case, after):
    zone, policy, members = case
    until = after + timedelta(days=70)
    union = Timing(AnyOf(triggers=tuple(members)), zone, *policy)
    expected = {fire for member in members for fire in fires(Timing(member, zone, *policy), after=after, until=until)}
    assert list(fires(union, after=after, until=until)) == sorted(expected)


@settings(max_examples=60, deadline=None)
@given(case=MEMBERS, barred=st.sampled_from(SPARSE), after=INSTANTS)
def test_an_exclusion_takes_its_own_instants_away_and_records_each(case, barred, after):
    zone, policy, members = case
    until = after + timedelta(days=70)
    plain = Timing(AnyOf(triggers=tuple(members)), zone, *policy)
    timing = Timing(AnyOf(triggers=tuple(members), exceptions=(barred,)), zone, *policy)
    away = set(fires(Timing(barred, zone, *policy), after=after, until=until))
    before = list(fires(plain, after=after, until=until))

    found = occurrences(timing, after=after, until=until, limit=100_000)

    assert [o.nominal_at for o in found if o.skipped is None] == [fire for fire in before if fire not in away]
    excluded = [o.nominal_at for o in found if o.skipped is Reason.CALENDAR_EXCLUDED]
    assert excluded == [fire for fire in before if fire in away]


@settings(max_examples=60, deadline=None)
@given(case=MEMBERS, start=INSTANTS, length=st.timedeltas(timedelta(0), timedelta(days=60)), runs=st.integers(1, 60))
def test_bounds_keep_what_lies_between_and_the_first_runs_from_the_start(case, start, length, runs):
    zone, policy, members = case
    unbounded = Timing(AnyOf(triggers=tuple(members)), zone, *policy)
    before = start - timedelta(microseconds=1)
    try:
        inside = list(fires(unbounded, after=before, until=start + length))
        bounded = Timing(AnyOf(triggers=tuple(members), start=start, end=start + length, max_runs=runs), zone, *policy)
    except TriggerError as error:
        if error.code == "trigger.except.work":  # a member that excludes nearly all of itself is too dear to count
            return
        raise

    for after in (start - timedelta(days=400), before, start, start + length / 2):
        found = list(fires(bounded, after=after))
        assert found == [fire for fire in inside[:runs] if fire > after]


def test_what_is_skipped_does_not_count_as_a_run():
    trigger = AnyOf(
        triggers=(Cron("0 9 * * *"),), exceptions=(Cron("0 9 * * 6,0"),), start=datetime(2027, 1, 1), max_runs=3
    )
    found = list(fires(Timing(trigger, "Europe/Berlin"), after=utc(2020, 1, 1)))
    assert [f"{fire:%a %d}" for fire in found] == ["Fri 01", "Mon 04", "Tue 05"]


def test_the_runs_of_elapsed_time_are_calculated_not_counted():
    trigger = AnyOf(triggers=(Every("PT1S"),), start=utc(2027, 1, 1), max_runs=1_000_000_000)
    last = utc(2027, 1, 1) + timedelta(seconds=999_999_999)
    assert list(fires(Timing(trigger), after=last - timedelta(seconds=2))) == [last - timedelta(seconds=1), last]


def test_many_runs_of_anything_else_are_refused():
    trigger = AnyOf(triggers=(Cron("* * * * *"),), start=utc(2027, 1, 1), max_runs=MOST_COUNTED + 1)
    with pytest.raises(TriggerError, match="max_runs"):
        Timing(trigger)


def test_an_exclusion_of_everything_ends_with_an_error_and_not_with_the_calendar():
    timing = Timing(AnyOf(triggers=(Cron("* * * * *"),), exceptions=(Cron("* * * * *"),)))
    with pytest.raises(TriggerError) as caught:
        next_after(timing, utc(2027, 1, 1))
    assert caught.value.code == "trigger.except.work"


def test_a_long_weekend_of_minutes_is_passed_over():
    closed = Cron("* * * * sat,sun")
    timing = Timing(AnyOf(triggers=(Cron("* * * * *"),), exceptions=(closed,)))
    assert next_after(timing, utc(2027, 1, 1, 23, 59)) == utc(2027, 1, 4)


def test_an_exception_that_fires_far_more_often_is_leapt_over():
    dense = AnyOf(triggers=(Rrule("FREQ=SECONDLY;UNTIL=20270601T000000Z", datetime(2027, 1, 1)),))
    timing = Timing(AnyOf(triggers=(Cron("30 9 * * *"),), exceptions=(dense,)))
    assert next_after(timing, utc(2027, 1, 1)) == utc(2027, 6, 1, 9, 30)
    with pytest.raises(TriggerError, match="denser"):
        next_after(Timing(AnyOf(triggers=(Cron("30 9 * * *"),), exceptions=(Every("PT1S"),))), utc(2027, 1, 1))


def test_an_exclusion_that_leaves_nothing_of_a_finite_trigger_is_never():
    moment = At(utc(2027, 1, 1))
    assert next_after(Timing(AnyOf(triggers=(moment,), exceptions=(moment,))), utc(2020, 1, 1)) is None


def test_members_decide_for_themselves_what_a_clock_change_means():
    # On 31 October 2027 02:30 occurs twice in Berlin.
    union = Timing(AnyOf(triggers=(Cron("30 2 * * *"), Cron("40 * * * *"))), "Europe/Berlin")
    found = list(fires(union, after=utc(2027, 10, 31), until=utc(2027, 10, 31, 2)))
    assert [f"{fire:%H:%M}" for fire in found] == ["00:30", "00:40", "01:40"]


def test_skips_of_several_members_in_one_gap_are_one_occurrence():
    union = Timing(AnyOf(triggers=(Cron("30 2 * * *"), Cron("10 2 * * *"))), "Europe/Berlin", GapPolicy.SKIP)
    [skipped] = occurrences(union, after=utc(2027, 3, 27, 12), until=utc(2027, 3, 28, 12), limit=9)
    assert (skipped.nominal_at, skipped.skipped) == (utc(2027, 3, 28, 1), Reason.CALENDAR_DST_GAP)
    assert [f"{wall:%H:%M}" for wall in skipped.missing] == ["02:10", "02:30"]


@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        ({}, "any_of.triggers", "triggers"),
        ({"triggers": []}, "any_of.triggers", "triggers"),
        ({"triggers": {}}, "field.type", "triggers"),
        ({"triggers": [{"kind": "cron"}]}, "field.missing", "triggers/0/expr"),
        ({"triggers": ["x"]}, "type", "triggers/0/trigger"),
        ({"triggers": [{"kind": "at", "at": "2027-01-01T00:00Z"}] * 33}, "field.type", "triggers"),
        (
            {"triggers": [{"kind": "at", "at": "2027-01-01T00:00Z"}] * 32, "except": [{"kind": "moon"}]},
            "kind.unknown",
            "except/0/kind",
        ),
        (
            {"triggers": [{"kind": "any_of", "triggers": [HOURLY], "except": [HOURLY]}]},
            "any_of.except",
            "except",
        ),
        ({"triggers": [{"kind": "every", "every": "PT1H"}], "start": "soon"}, "instant.syntax", "start"),
        ({"triggers": [{"kind": "every", "every": "PT1H"}], "max_runs": 3}, "any_of.max_runs", "start"),
        (
            {"triggers": [{"kind": "every", "every": "PT1H"}], "max_runs": 0, "start": "2027-01-01T00:00"},
            "any_of.max_runs",
            "max_runs",
        ),
        ({"triggers": [{"kind": "every", "every": "PT1H"}], "max_runs": True}, "field.type", "max_runs"),
        ({"triggers": [{"kind": "every", "every": "PT1H"}], "not": []}, "field.unknown", "not"),
    ],
)
def test_a_union_is_refused_by_name(data, code, field):
    with pytest.raises(TriggerError) as caught:
        parse_trigger({"kind": "any_of", **data})
    assert (caught.value.code, caught.value.field) == (f"trigger.{code}", field)


def test_nesting_and_size_are_limited():
    trigger = {"kind": "every", "every": "PT1H"}
    for _ in range(3):
        trigger = {"kind": "any_of", "triggers": [trigger] * 2}
    assert len(list(islice(fires(Timing(parse_trigger(trigger)), after=utc(2027, 1, 1)), 2))) == 2
    with pytest.raises(TriggerError, match="levels"):
        parse_trigger({"kind": "any_of", "triggers": [trigger]})
    with pytest.raises(TriggerError, match="32 triggers"):
        parse_trigger({"kind": "any_of", "triggers": trigger["triggers"] * 9})


# --- steps of the wall clock --------------------------------------------------------------------------------------


def walls(every, anchor, *, zone="Europe/Berlin", after=datetime(2020, 1, 1), count=4, gap=None, fold=None):
    timing = Timing(Every(every, anchor, "wall"), zone, gap, fold)
    found = fires(timing, after=after.replace(tzinfo=UTC), count=count)
    return [f"{timing.zone.local(fire):%Y-%m-%d %H:%M}" for fire in found]


def test_a_day_on_the_wall_keeps_its_local_time_and_an_elapsed_one_does_not():
    anchor = datetime(2026, 3, 28, 9)
    assert walls("P1D", anchor, count=3) == ["2026-03-28 09:00", "2026-03-29 09:00", "2026-03-30 09:00"]
    elapsed = Timing(Every("P1D", anchor.replace(hour=8, tzinfo=UTC)), "Europe/Berlin")
    assert [elapsed.zone.local(fire).hour for fire in fires(elapsed, after=utc(2020, 1, 1), count=3)] == [9, 10, 10]


def test_months_are_counted_from_the_anchor_and_keep_the_last_day_of_a_shorter_month():
    found = walls("P1M", datetime(2027, 12, 31, 9), count=5)
    assert found == ["2027-12-31 09:00", "2028-01-31 09:00", "2028-02-29 09:00", "2028-03-31 09:00", "2028-04-30 09:00"]
    assert walls("P1Y", datetime(2024, 2, 29, 9), count=5)[1::3] == ["2025-02-28 09:00", "2028-02-29 09:00"]
    assert walls("P1Y6M", datetime(2024, 2, 29, 9), count=3)[1:] == ["2025-08-29 09:00", "2027-02-28 09:00"]


def test_hours_on_the_wall_ride_on_elapsed_time_unless_told_otherwise():
    anchor = datetime(2026, 10, 25)
    after = datetime(2026, 10, 24, 21)
    assert walls("PT1H", anchor, after=after, count=5)[1:] == [
        "2026-10-25 01:00",
        "2026-10-25 02:00",
        "2026-10-25 02:00",
        "2026-10-25 03:00",
    ]
    assert walls("PT1H", anchor, after=after, fold=FoldPolicy.FIRST)[1:] == [
        "2026-10-25 01:00",
        "2026-10-25 02:00",
        "2026-10-25 03:00",
    ]


@pytest.mark.parametrize(
    ("every", "anchor", "code", "field"),
    [
        ("P1M2D", None, "mixed", "every"),
        ("P1Y1DT1H", None, "mixed", "every"),
        ("P0M", None, "bounds", "every"),
        ("P101Y", None, "bounds", "every"),
        ("P1.5M", None, "mixed", "every"),
        ("month", None, "syntax", "every"),
        ("P1M", "2027-01-01T00:00Z", "anchor", "anchor"),
    ],
)
def test_steps_that_cannot_be_are_refused_by_name(every, anchor, code, field):
    data = {"kind": "every", "every": every, "mode": "wall"} | ({"anchor": anchor} if anchor else {})
    with pytest.raises(TriggerError) as caught:
        parse_trigger(data)
    assert (caught.value.code, caught.value.field) == (f"trigger.every.{code}", field)


@settings(max_examples=60, deadline=None)
@given(
    anchor=st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
    months=st.integers(1, 40),
    ahead=st.timedeltas(timedelta(-400), timedelta(40_000)),
)
def test_steps_of_months_are_those_that_counting_finds(anchor, months, ahead):
    after = anchor + ahead
    steps = Every(f"P{months}M", anchor, "wall").steps
    count, found = 0, anchor
    while found <= after:
        count += 1
        year, month = divmod(anchor.year * 12 + anchor.month - 1 + count * months, 12)
        first = datetime(year, month + 1, 1)
        length = ((first + timedelta(days=32)).replace(day=1) - first).days
        found = anchor.replace(year=year, month=month + 1, day=min(anchor.day, length))
    assert steps.following(after.replace(tzinfo=UTC)) == found.replace(tzinfo=UTC)
