"""Which clock changes touch a timing, and how often it fires."""

from datetime import UTC, datetime, timedelta

import pytest

from everwhen.core.ahead import fires_a_year, touches
from everwhen.core.triggers import FoldPolicy, GapPolicy, Timing, parse_trigger

AFTER = datetime(2027, 1, 1, tzinfo=UTC)
UNTIL = AFTER + timedelta(days=365)


def timing(expr: str, zone: str = "Europe/Berlin", gap=None, fold=None) -> Timing:
    return Timing(parse_trigger({"kind": "cron", "expr": expr}), zone, gap, fold)


def counts(found: Timing) -> list[tuple[int, int, int, int]]:
    return [(t.skipped, t.moved, t.doubled, t.once) for t in touches(found, after=AFTER, until=UNTIL)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (timing("30 2 * * *"), [(0, 1, 0, 0), (0, 0, 0, 1)]),
        (timing("30 2 * * *", gap=GapPolicy.SKIP, fold=FoldPolicy.BOTH), [(1, 0, 0, 0), (0, 0, 1, 0)]),
        (timing("0,30 2 * * *", gap=GapPolicy.SHIFT, fold=FoldPolicy.SECOND), [(0, 2, 0, 0), (0, 0, 0, 2)]),
        (timing("0 9 * * *"), []),
        (timing("30 2 * * *", "UTC"), []),
        (timing("15 2 * * *", "Australia/Lord_Howe"), [(0, 1, 0, 0)]),
        (timing("45 1 * * *", "Australia/Lord_Howe"), [(0, 0, 0, 1)]),
        (timing("0 0 * * *", "Africa/Cairo"), [(0, 1, 0, 0)]),
        (timing("30 1 * * *", "Antarctica/Troll"), [(0, 1, 0, 0), (0, 0, 0, 1)]),
    ],
)
def test_only_the_changes_that_touch_it_are_told_with_what_they_do(found, expected):
    assert sorted(counts(found)) == sorted(expected)


def test_a_year_is_counted_or_extrapolated():
    daily, minutely = fires_a_year(timing("30 2 * * *"), after=AFTER), fires_a_year(timing("* * * * *"), after=AFTER)

    assert (daily.fires, daily.exact) == (365, True)
    assert (minutely.fires, minutely.exact) == (525_600, False)
    assert fires_a_year(Timing(parse_trigger({"kind": "at", "at": "2020-01-01T00:00:00Z"})), after=AFTER).fires == 0
