"""A slice of the conformance run (`make conformance` is the whole), and the engine's days against the naive ones."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.cron import compile_cron
from everwhen.core.errors import TriggerError
from tests.core.conformance import SPECS, check_zone, zones_by_file
from tests.core.naive_cron import NaiveCron

ODD_ZONES = (
    ("America/New_York", 2026),
    ("Australia/Lord_Howe", 2026),
    ("Antarctica/Troll", 2026),
    ("Antarctica/Casey", 2020),
    ("Africa/Cairo", 2026),
    ("Africa/Casablanca", 2025),
    ("America/Santiago", 2026),
    ("America/Sao_Paulo", 2018),
    ("Asia/Gaza", 2040),
    ("Asia/Pyongyang", 2018),
    ("Pacific/Apia", 2011),
    ("Pacific/Norfolk", 2015),
)


@pytest.mark.parametrize(("zone", "year"), ODD_ZONES)
def test_every_spec_of_every_dialect_equals_the_oracle_around_a_change(zone, year):
    outcome = check_zone(zone, first_year=year, last_year=year)
    assert outcome.transitions >= 1
    assert outcome.questions == outcome.transitions * len(SPECS) * 9
    assert outcome.differences == []


def test_the_whole_run_is_what_it_says():
    assert len(SPECS) >= 50
    assert sum(map(len, zones_by_file())) > 590


def spelled(columns, dialect):
    """Return five columns as the dialect writes them."""
    minute, hour, day, month, weekday = columns
    if dialect in {"quartz", "eventbridge"}:
        if weekday in {"*", "?"}:
            day, weekday = ("*" if day == "?" else day), "?"
        else:
            day = "?"
    text = f"{minute} {hour} {day} {month} {weekday}"
    return f"{text} *" if dialect == "eventbridge" else f"0 {text}" if dialect in {"quartz", "spring"} else text


def number(low, high):
    return st.integers(low, high).map(str)


def span(low, high):
    return st.builds("{}-{}".format, st.integers(low, high), st.integers(low, high))


def column(low, high, *special):
    stepped = st.builds("{}/{}".format, st.one_of(st.just("*"), span(low, high), number(low, high)), st.integers(1, 9))
    term = st.one_of(number(low, high), number(low, high), span(low, high), stepped, *special)
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


DAY_TERMS = st.one_of(
    st.sampled_from(["L", "LW", "L-0W"]),
    st.builds("L-{}".format, st.integers(0, 30)),
    st.builds("L-{}W".format, st.integers(0, 30)),
    st.builds("{}W".format, st.integers(1, 31)),
)
NAMES = st.sampled_from(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])
WEEKDAY_TERMS = st.one_of(
    NAMES,
    st.builds("{}-{}".format, NAMES, NAMES),
    st.builds("{}L".format, st.one_of(NAMES, st.integers(0, 7))),
    st.builds("{}#{}".format, st.one_of(NAMES, st.integers(0, 7)), st.integers(1, 5)),
)
COLUMNS = st.tuples(
    st.just("0"),
    st.just("0"),
    column(1, 31, DAY_TERMS, DAY_TERMS) | st.just("?"),
    column(1, 12, st.sampled_from(["JAN", "NOV-FEB", "jul"])) | st.just("*"),
    column(0, 7, WEEKDAY_TERMS, WEEKDAY_TERMS) | st.just("?"),
)
START = st.integers(0, 40_000).map(lambda days: date(1975, 1, 1) + timedelta(days=days))


@settings(max_examples=1500, deadline=None)
@given(
    columns=COLUMNS,
    dialect=st.sampled_from(["vixie-ext", "quartz", "spring", "eventbridge", "vixie", "kubernetes", "apscheduler"]),
    start=START,
)
def test_the_days_of_any_expression_are_those_of_the_naive_matcher(columns, dialect, start):
    expr = spelled(columns, dialect)
    try:
        compiled = compile_cron(expr, dialect=dialect, seconds=dialect in {"quartz", "spring"})
    except TriggerError:
        return
    naive = NaiveCron(expr, dialect)
    dates = [start + timedelta(days=i) for i in range(430)]
    wall, found = datetime(start.year, start.month, start.day, tzinfo=UTC) - timedelta(seconds=1), []
    while (wall := compiled.following(wall)) and wall.date() <= dates[-1]:
        found.append(wall.date())
    assert found == [day for day in dates if naive.holds_on(day)], expr


@settings(max_examples=600, deadline=None)
@given(minute=column(0, 59), hour=column(0, 23), dialect=st.sampled_from(["vixie-ext", "quartz", "spring"]))
def test_the_times_of_any_expression_are_those_of_the_naive_matcher(minute, hour, dialect):
    expr = spelled((minute, hour, "*", "*", "*"), dialect) if dialect != "quartz" else f"0 {minute} {hour} * * ?"
    try:
        compiled = compile_cron(expr, dialect=dialect, seconds=dialect != "vixie-ext")
    except TriggerError:
        return
    naive = NaiveCron(expr, dialect)
    wall, found = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC), []
    while (wall := compiled.following(wall)) and wall.date() == date(2026, 1, 1):
        found.append((wall.hour, wall.minute))
    assert found == [(h, m) for h in range(24) for m in range(60) if naive.holds_at(h, m)], expr
