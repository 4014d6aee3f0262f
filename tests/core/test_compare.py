"""What a change does to fires: nothing is counted twice, nothing is left out."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.compare import MoveKind, compare
from everwhen.core.triggers import FoldPolicy, GapPolicy, Timing, fires, parse_trigger
from tests.tzif import BERLIN, WITHOUT_SUMMER_TIME, release

AFTER = datetime(2027, 3, 20, tzinfo=UTC)
UNTIL = AFTER + timedelta(days=14)
EXPRESSIONS = ["30 2 * * *", "0 9 * * *", "*/30 * * * *", "0 0 * * 1", "15 1,2,3 * * *", "0 */2 * * *"]
OLD = release("a", {"Europe/Berlin": BERLIN})
NEW = release("b", {"Europe/Berlin": WITHOUT_SUMMER_TIME})

timings = st.builds(
    Timing,
    st.sampled_from(EXPRESSIONS).map(lambda expr: parse_trigger({"kind": "cron", "expr": expr})),
    st.sampled_from(["Europe/Berlin", "America/New_York", "UTC"]),
    st.sampled_from([None, *GapPolicy]),
    st.sampled_from([None, *FoldPolicy]),
)


def daily(expr: str, zones=None) -> Timing:
    return Timing(parse_trigger({"kind": "cron", "expr": expr}), "Europe/Berlin", zones=zones)


@given(old=timings, new=timings)
def test_the_moves_turn_the_old_fires_into_the_new_ones(old, new):
    found = compare(old, new, after=AFTER, until=UNTIL)
    was, becomes = (set(fires(timing, after=AFTER, until=UNTIL)) for timing in (old, new))
    gone = [move.before.astimezone(UTC) for move in found.moves if move.before is not None]
    come = [move.after.astimezone(UTC) for move in found.moves if move.after is not None]

    assert len(gone) == len(set(gone))
    assert len(come) == len(set(come))
    assert (was - set(gone)) | set(come) == becomes
    assert set(gone) == was - becomes
    assert found.unchanged == len(was & becomes)
    assert [move.at for move in found.moves] == sorted(move.at for move in found.moves)


@given(timing=timings)
def test_a_timing_equals_itself(timing):
    found = compare(timing, timing, after=AFTER, until=UNTIL)

    assert (found.moves, found.cut) == ((), False)


def test_a_zone_without_summer_time_moves_each_fire_to_the_same_time_on_the_wall():
    found = compare(daily("0 9 * * *", OLD), daily("0 9 * * *", NEW), after=AFTER, until=UNTIL)

    assert {move.kind for move in found.moves} == {MoveKind.MOVED}
    assert found.unchanged == 8
    assert found.count(MoveKind.MOVED) == 6
    for move in found.moves:
        assert move.before.replace(tzinfo=None) == move.after.replace(tzinfo=None)
        assert move.after - move.before == timedelta(hours=1)


def test_a_fire_that_a_gap_had_moved_is_the_same_days_fire():
    found = compare(daily("30 2 * * *", OLD), daily("30 2 * * *", NEW), after=AFTER, until=UNTIL)
    first = found.moves[0]

    assert (first.kind, first.before.isoformat(), first.after.isoformat()) == (
        MoveKind.MOVED,
        "2027-03-28T03:00:00+02:00",
        "2027-03-28T02:30:00+01:00",
    )


def test_another_time_of_day_moves_and_another_frequency_adds():
    later = compare(daily("30 2 * * *"), daily("30 4 * * *"), after=AFTER, until=UNTIL)
    more = compare(daily("0 2 * * *"), daily("0 2,14 * * *"), after=AFTER, until=UNTIL)
    never = compare(daily("0 2 * * *"), None, after=AFTER, until=UNTIL)

    assert [later.count(kind) for kind in MoveKind] == [0, 0, 14]
    assert [more.count(kind) for kind in MoveKind] == [14, 0, 0]
    assert [never.count(kind) for kind in MoveKind] == [0, 15, 0]


def test_a_comparison_that_is_cut_claims_nothing_beyond():
    often = Timing(parse_trigger({"kind": "every", "every": "PT1M"}))
    found = compare(often, daily("0 9 * * *"), after=AFTER, until=UNTIL, most=100)

    assert found.cut
    assert found.until == AFTER + timedelta(minutes=100)
    assert all(move.at <= found.until for move in found.moves)
    assert found.count(MoveKind.REMOVED) == 100
