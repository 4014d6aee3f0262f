"""The forecast counts what becomes due, and smoothing makes the busiest minute less busy."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.flex import Flex, FlexMode, due_after
from everwhen.core.forecast import Item, forecast, smooth
from everwhen.core.triggers import Timing, fires, next_after, parse_trigger

START = datetime(2027, 3, 28, 0, 17, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EXPRESSIONS = ["0 * * * *", "30 2 * * *", "*/15 * * * *", "0 0 1 1 *", "* * * * *", "0 9 * * 1-5"]
smooths = st.integers(1, 7_200).map(lambda s: Flex(mode=FlexMode.SMOOTH, window=timedelta(seconds=s)))
hashes = st.integers(1, 7_200).map(lambda s: Flex(mode=FlexMode.HASH, window=timedelta(seconds=s)))


def item(number: int, expr: str, flex: Flex | None = None) -> Item:
    timing = Timing(parse_trigger({"kind": "cron", "expr": expr}), "Europe/Berlin")
    return Item(uid=UUID(int=number), name=f"s{number}", timing=timing, flex=flex)


items = st.lists(st.tuples(st.sampled_from(EXPRESSIONS), st.one_of(st.none(), smooths, hashes)), max_size=8).map(
    lambda rows: [item(number, *row) for number, row in enumerate(rows)]
)


def counted_one_by_one(found: list[Item], minutes: int) -> list[int]:
    """The same by the plainest means: every fire that could be due in the horizon, one after the other."""
    counts = [0] * minutes
    end = START + minutes * MINUTE
    for each in found:
        for at in fires(each.timing, after=START - timedelta(days=2), until=end):
            due = due_after(each.flex, each.uid, nominal_at=at, following=next_after(each.timing, at))
            if START <= due < end:
                counts[(due - START) // MINUTE] += 1
    return counts


@given(found=items, minutes=st.integers(1, 300))
def test_each_minute_has_what_becomes_due_in_it(found, minutes):
    made = forecast(found, start=START, minutes=minutes)

    assert list(made.counts) == counted_one_by_one(found, minutes)
    assert made.due == sum(made.counts)
    assert made.peak[1] == max(made.counts)
    assert sum(made.by_minute_of_hour()) == made.due
    assert made.cut == ()


@given(found=items)
def test_smoothing_never_makes_the_peak_higher_than_all_at_once_and_stays_in_the_windows(found):
    made = smooth(found, start=START, minutes=240)
    fixed = [each for each in found if each.flex is None or each.flex.mode is not FlexMode.SMOOTH]

    assert set(made.offsets) == {each.uid for each in found if each not in fixed}
    for each in found:
        if each.uid in made.offsets:
            assert timedelta(0) <= made.offsets[each.uid] < each.flex.window
    assert made.after.peak[1] >= forecast(fixed, start=START, minutes=240).peak[1]


def test_a_herd_at_the_full_hour_is_spread_evenly_over_its_windows():
    flex = Flex(mode=FlexMode.SMOOTH, window=timedelta(minutes=20), offset=timedelta(0))
    found = [item(number, "0 * * * *", flex) for number in range(200)]
    made = smooth(found, start=START, minutes=240)

    assert (made.before.peak[1], made.after.peak[1]) == (200, 10)
    assert made.before.due == made.after.due


def test_smoothing_again_changes_nothing():
    flex = Flex(mode=FlexMode.SMOOTH, window=timedelta(minutes=10))
    found = [item(number, "0 * * * *", flex) for number in range(40)]
    first = smooth(found, start=START, minutes=240)
    placed = [item(n, "0 * * * *", Flex(mode=FlexMode.SMOOTH, window=flex.window, offset=first.offsets[UUID(int=n)]))
              for n in range(40)]  # fmt: skip
    again = smooth(placed, start=START, minutes=240)

    assert again.after.peak[1] == first.after.peak[1] == 4
    assert again.offsets == first.offsets


def test_what_is_not_counted_to_its_end_is_named():
    made = forecast([item(1, "* * * * *"), item(2, "0 * * * *")], start=START, minutes=120, budget=50)

    assert made.cut == ("s1", "s2")
    assert made.due == 50


def test_the_work_is_the_fires_within_the_horizon():
    """Linear in schedules × horizon: what is counted is what the cost follows."""

    def due(schedules: int, hours: int) -> int:
        return forecast([item(n, "*/15 * * * *") for n in range(schedules)], start=START, minutes=60 * hours).due

    assert (due(10, 4), due(20, 4), due(10, 8)) == (160, 320, 320)


def test_a_forecast_ends_with_the_calendar():
    last = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)
    made = smooth([item(1, "* * * * *", Flex(mode=FlexMode.SMOOTH, window=MINUTE))], start=last, minutes=300).after

    assert len(made.counts) == 29
    assert made.due == 0  # in Berlin it is the year 10000 already
