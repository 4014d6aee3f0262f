"""The engine against the minute walk: zones whose clocks do unusual things, every policy, many patterns."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.triggers import Cron, FoldPolicy, GapPolicy, Timing, fires, occurrences
from tests.core.minute_walk import transitions, window

# A zone and a year in which its clocks do something: half an hour, two hours, three, a whole day, midnight.
YEARS = (
    ("America/New_York", 2026),
    ("Europe/Berlin", 2027),
    ("Australia/Lord_Howe", 2026),
    ("Antarctica/Troll", 2025),
    ("Antarctica/Casey", 2023),
    ("Antarctica/Vostok", 2023),
    ("Africa/Cairo", 2026),
    ("Africa/Casablanca", 2026),
    ("America/Santiago", 2026),
    ("America/Sao_Paulo", 2018),
    ("America/Havana", 2025),
    ("America/St_Johns", 2010),
    ("Asia/Gaza", 2040),
    ("Asia/Pyongyang", 2015),
    ("Asia/Tehran", 2022),
    ("Pacific/Apia", 2011),
    ("Pacific/Chatham", 2026),
    ("Pacific/Norfolk", 2015),
    ("America/New_York", 2051),
)

EXPRESSIONS = (
    "* * * * *",
    "*/7 * * * *",
    "0 * * * *",
    "30 * * * *",
    "15,45 */2 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "15 1 * * *",
    "30 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "0,30 2 * * *",
    "30 1-3 * * *",
    "0 2,3 * * *",
    "59 2 * * *",
    "0 3 * * *",
    "30 3 * * *",
    "45 23 * * *",
    "0 12 30 * *",
    "30 2 * * 0",
    "30 2 1-15 * 0",
    "*/20 0-4/2 */2 * 0,5",
)

CASES = [(zone, change) for zone, year in YEARS for change in transitions(zone, first_year=year, last_year=year)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
POLICIES = [(gap, fold) for gap in GapPolicy for fold in FoldPolicy]


@pytest.mark.parametrize(("zone", "change"), CASES, ids=lambda value: str(value)[:20])
def test_fires_around_a_transition_equal_those_of_the_minute_walk(zone, change):
    around = window(zone, change)
    for expr in EXPRESSIONS:
        for gap, fold in POLICIES:
            timing = Timing(Cron(expr), zone, gap, fold)
            expected = around.fires(expr, gap=gap, fold=fold)
            found = list(fires(timing, after=around.start, until=around.end - timedelta(seconds=1)))
            assert found == expected, (expr, zone, gap, fold)


@pytest.mark.parametrize(("zone", "change"), CASES, ids=lambda value: str(value)[:20])
def test_what_skip_skips_is_one_occurrence_a_gap_that_names_the_missing_times(zone, change):
    around = window(zone, change)
    for expr in EXPRESSIONS:
        timing = Timing(Cron(expr), zone, GapPolicy.SKIP, FoldPolicy.BOTH)
        found = occurrences(timing, after=around.start, until=around.end - timedelta(seconds=1), limit=10_000)
        assert [(o.nominal_at, list(o.missing)) for o in found if o.missing] == [
            (instant, walls[:60]) for instant, walls in around.skips(expr)
        ]
        assert [o.nominal_at for o in found if o.skipped is None] == around.fires(expr, gap="skip", fold="both")
        assert len({o.nominal_at for o in found}) == len(found)


FIELD = st.sampled_from
EXPRESSION = st.builds(
    "{} {} {} {} {}".format,
    FIELD(["*", "0", "*/15", "30", "5,35", "59", "10-20"]),
    FIELD(["*", "0", "*/2", "1-3", "2", "23", "1,2,3"]),
    FIELD(["*", "*/2", "1-7", "25-31", "30"]),
    FIELD(["*", "3,10", "*/2", "4-11"]),
    FIELD(["*", "0", "1-5", "6,7", "*/2"]),
)


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from(CASES), expr=EXPRESSION, policy=st.sampled_from(POLICIES))
def test_any_expression_agrees_with_the_minute_walk(case, expr, policy):
    (zone, change), (gap, fold) = case, policy
    around = window(zone, change)
    timing = Timing(Cron(expr), zone, gap, fold)
    found = list(fires(timing, after=around.start, until=around.end - timedelta(seconds=1)))
    assert found == around.fires(expr, gap=gap, fold=fold)


@settings(max_examples=200, deadline=None)
@given(
    expr=EXPRESSION,
    zone=st.sampled_from([zone for zone, _ in YEARS]),
    policy=st.sampled_from(POLICIES),
    after=st.integers(-10 * 365, 180 * 365).map(lambda days: EPOCH + timedelta(days=days, seconds=days % 86_399)),
)
def test_fires_ascend_and_nothing_lies_between_two_of_them(expr, zone, policy, after):
    timing = Timing(Cron(expr), zone, *policy)
    found = list(islice(fires(timing, after=after), 10))
    assert all(earlier < later for earlier, later in zip([after, *found], found, strict=False))
    for earlier, later in pairwise(found):
        for tenths in (0, 3, 9):
            assert next(fires(timing, after=earlier + (later - earlier) * tenths / 10)) == later


@pytest.mark.parametrize(("zone", "change"), CASES, ids=lambda value: str(value)[:20])
def test_a_date_near_a_transition_is_found_from_far_away(zone, change):
    around = window(zone, change)
    walls = sorted(around.passes)
    near = [walls[i] for i in range(len(walls) // 3, 2 * len(walls) // 3, 97)]
    for wall in [
        *near,
        *(missing[0] for _, _, missing in around.jumps),
        *(missing[-1] for _, _, missing in around.jumps),
    ]:
        expr = f"{wall.minute} {wall.hour} {wall.day} {wall.month} *"
        for gap, fold in (("gap_end", "both"), ("shift", "second"), ("skip", "first")):
            timing = Timing(Cron(expr), zone, GapPolicy(gap), FoldPolicy(fold))
            for days in (2, 150, 700):
                found = fires(timing, after=around.start - timedelta(days=days), until=around.end)
                inside = [instant for instant in found if around.start < instant < around.end]
                assert inside == around.fires(expr, gap=gap, fold=fold), (expr, days)
