"""A proof catches each difference, claims nothing beyond its budget, and is about the source's own rules."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.compare import MoveKind
from everwhen.core.proofs import SHOWN, prove
from everwhen.core.triggers import AnyOf, Cron, FoldPolicy, GapPolicy, Timing, fires

AFTER = datetime(2026, 11, 29, tzinfo=UTC)


def cron(expr, zone="Europe/Berlin", gap=None, fold=None, *, dialect="vixie"):
    return Timing(Cron(expr, dialect=dialect), zone, gap, fold)


def test_one_rule_is_equal_without_a_walk():
    found = prove(cron("* * * * *"), cron("* * * * *"), after=AFTER)

    assert (found.is_equal, found.complete, found.same_rule, found.same) == (True, True, True, None)


def test_one_cron_in_two_notations_is_one_rule():
    assert prove(cron("0 12 * * 0"), cron("0 12 ? * SUN", dialect="vixie-ext"), after=AFTER).same_rule
    assert not prove(cron("0 12 * * 0"), cron("0 12 * * 0", "Europe/Paris"), after=AFTER).same_rule
    # The same columns, but the one rides on elapsed time and the other does not.
    assert not prove(cron("0 9-17/2 * * *"), cron("0 9-17/2 * * *", dialect="cronie"), after=AFTER).same_rule


def test_two_ways_to_say_the_same_are_walked_for_ten_years():
    found = prove(cron("0 12 * * 0"), Timing(AnyOf(triggers=(Cron("0 12 * * SUN"),)), "Europe/Berlin"), after=AFTER)

    assert (found.is_equal, found.complete, found.same_rule) == (True, True, False)
    assert found.same == 522


def test_what_differs_once_a_year_is_found_and_paired():
    source = cron("30 2 * * *", gap=GapPolicy.SKIP, fold=FoldPolicy.FIRST)
    found = prove(source, cron("30 2 * * *", gap=GapPolicy.SHIFT, fold=FoldPolicy.FIRST), after=AFTER)

    assert found.differences == 10
    assert {(move.kind, move.after.hour, move.after.month) for move in found.first} == {(MoveKind.ADDED, 3, 3)}


def test_what_fires_too_often_to_be_walked_is_proven_where_clocks_change():
    source = cron("*/5 * * * *", gap=GapPolicy.SKIP, fold=FoldPolicy.FIRST)
    stored = cron("*/5 * * * *", gap=GapPolicy.SKIP, fold=FoldPolicy.BOTH)
    walked = prove(source, stored, after=AFTER, most=2_000_000)
    found = prove(source, stored, after=AFTER)

    assert (found.complete, found.same, found.until) == (True, None, walked.until)
    assert (found.differences, found.first) == (walked.differences, walked.first)
    assert found.differences == 10 * 12
    assert prove(source, cron("*/5 * * * *", "Europe/Paris", GapPolicy.SKIP), after=AFTER).complete is False


@given(
    st.sampled_from(["*/7 1-4 * * *", "*/10 * * * *", "30 */1 * * *", "0 0-3 * * *"]),
    st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Pacific/Apia"]),
    *[st.sampled_from([None, *policies]) for policies in (GapPolicy, FoldPolicy, GapPolicy, FoldPolicy)],
    st.sampled_from([AFTER, datetime(2009, 4, 5, 14, 30, tzinfo=UTC)]),
)
@settings(max_examples=20)
def test_both_ways_to_prove_find_the_same(expr, zone, gap, fold, other_gap, other_fold, after):  # noqa: PLR0917
    source, stored = cron(expr, zone, gap, fold), cron(expr, zone, other_gap, other_fold)
    walked, found = (prove(source, stored, after=after, most=most) for most in (3_000_000, 100))

    assert (found.differences, found.first) == (walked.differences, walked.first)


def test_an_automatic_policy_is_not_the_policy_that_it_resembles():
    # The habit of dagster's dialect applies only while no gap is named.
    source = cron("30 2 * * *", "America/New_York", dialect="dagster")
    found = prove(source, cron("30 2 * * *", "America/New_York", GapPolicy.SHIFT, FoldPolicy.SECOND), after=AFTER)

    assert {move.kind for move in found.first} == {MoveKind.MOVED}


def test_a_seeded_difference_in_the_ninth_year_is_found():
    # 29 February 2036 is a Friday.
    found = prove(cron("0 0 * * 5"), cron("0 0 1-28,30,31 * *"), after=datetime(2036, 2, 25, tzinfo=UTC))
    assert not found.is_equal

    found = prove(cron("0 0 1-28 2 *"), cron("0 0 * 2 *"), after=datetime(2028, 3, 1, tzinfo=UTC))
    assert [move.after.date().isoformat() for move in found.first] == ["2032-02-29", "2036-02-29"]


def test_the_budget_ends_the_walk_and_says_where():
    union = Timing(AnyOf(triggers=(Cron("* * * * *"),)), "Europe/Berlin")
    found = prove(cron("* * * * *"), union, after=AFTER, most=1_000)

    assert (found.is_equal, found.complete, found.same) == (True, False, 1_000)
    assert found.until == AFTER + timedelta(minutes=1_000)


def test_only_the_first_differences_are_shown_and_all_are_counted():
    found = prove(cron("0 1 * * *"), cron("0 1 1 * *"), after=AFTER)

    assert len(found.first) == SHOWN
    assert found.differences > 3_000


def test_a_proof_near_the_calendars_end_ends_with_it():
    assert prove(cron("0 0 1 1 *"), cron("0 0 1 1,2 *"), after=datetime(9995, 1, 1, tzinfo=UTC)).differences > 0


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.tuples(*[st.sampled_from(list(GapPolicy))] * 2),
    folds=st.tuples(*[st.sampled_from(list(FoldPolicy))] * 2),
    zone=st.sampled_from(["America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo"]),
    time=st.tuples(st.sampled_from(["0", "15", "30"]), st.integers(0, 4)),
)
def test_equal_means_that_the_fires_are_equal(gaps, folds, zone, time):
    one, other = (cron(f"{time[0]} {time[1]} * * *", zone, gap, fold) for gap, fold in zip(gaps, folds, strict=True))
    found = prove(one, other, after=AFTER)
    until = found.until
    sets = [set(fires(timing, after=AFTER, until=until)) for timing in (one, other)]

    assert found.complete
    assert found.is_equal == (sets[0] == sets[1])


column = st.sampled_from(["*", "*/2", "0", "1,2", "1-3", "0-6/2"])


@settings(max_examples=200, deadline=None)
@given(
    minute=column,
    hour=column,
    days=st.tuples(column, column).map(lambda pair: tuple(text.replace("0", "1") for text in pair)),
    dialects=st.tuples(*[st.sampled_from(["vixie", "cronie", "kubernetes", "temporal", "airflow", "dagster"])] * 2),
)
def test_what_counts_as_one_rule_fires_alike(minute, hour, days, dialects):
    expr = f"{minute} {hour} {days[0]} * {days[1]}"
    one, other = (cron(expr, "America/New_York", dialect=dialect) for dialect in dialects)
    after = datetime(2027, 3, 12, tzinfo=UTC)

    if prove(one, other, after=after, most=10).same_rule:
        assert list(fires(one, after=after, count=300)) == list(fires(other, after=after, count=300))
        autumn = datetime(2027, 11, 6, tzinfo=UTC)
        assert list(fires(one, after=autumn, count=300)) == list(fires(other, after=autumn, count=300))
