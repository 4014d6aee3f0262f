from datetime import UTC, datetime, timedelta

import pytest
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim, CronSimError
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from everwhen.core.cron import compile_cron
from everwhen.core.errors import TriggerError


def walls(expr, *, start, count, **options):
    compiled, found = compile_cron(expr, **options), []
    wall = start
    for _ in range(count):
        wall = compiled.following(wall)
        if wall is None:
            break
        found.append(wall)
    return found


def at(*parts):
    return datetime(*parts, tzinfo=UTC)


def code_of(expr, **options):
    with pytest.raises(TriggerError) as caught:
        compile_cron(expr, **options)
    assert caught.value.field in {"expr", "dialect"}
    return caught.value.code


def test_the_result_is_strictly_later():
    assert walls("0 10 * * *", start=at(2026, 5, 1, 10), count=1) == [at(2026, 5, 2, 10)]
    assert walls("0 10 * * *", start=at(2026, 5, 1, 9, 59, 59, 999_999), count=1) == [at(2026, 5, 1, 10)]


def test_sunday_is_0_and_7():
    start = at(2026, 1, 1)
    assert walls("0 0 * * 7", start=start, count=5) == walls("0 0 * * 0", start=start, count=5)
    assert [wall.isoweekday() for wall in walls("0 0 * * 5-7", start=start, count=3)] == [5, 6, 7]


def test_two_restricted_day_fields_are_alternatives():
    found = walls("0 0 13 * 5", start=at(2026, 2, 1), count=4)
    assert [wall.day for wall in found] == [6, 13, 20, 27]


def test_a_day_field_that_starts_with_a_star_must_hold_as_well():
    assert all(w.day % 2 == 1 and w.isoweekday() == 1 for w in walls("0 0 */2 * 1", start=at(2026, 1, 1), count=20))
    assert all(w.day == 13 and w.isoweekday() in {7, 5} for w in walls("0 0 13 * */5", start=at(2026, 1, 1), count=20))


def test_leading_seconds_are_read_only_when_asked_for():
    assert walls("*/20 0 * * * *", start=at(2026, 1, 1), count=3, seconds=True) == [
        at(2026, 1, 1, 0, 0, 20),
        at(2026, 1, 1, 0, 0, 40),
        at(2026, 1, 1, 1, 0, 0),
    ]
    assert code_of("*/20 0 * * * *") == "trigger.cron.fields"
    assert code_of("0 * * * *", seconds=True) == "trigger.cron.fields"


def test_a_start_with_a_step_runs_to_the_end_of_the_field():
    assert [wall.minute for wall in walls("50/5 0 * * *", start=at(2026, 1, 1), count=2)] == [50, 55]


@pytest.mark.parametrize("macro", ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"])
def test_macros_are_read_in_five_and_six_fields(macro):
    start = at(2026, 3, 1, 5, 5, 5)
    assert walls(macro, start=start, count=3) == walls(macro.upper(), start=start, count=3, seconds=True)


def test_29_february_is_found_across_a_century_without_one():
    assert walls("0 0 29 2 *", start=at(2096, 3, 1), count=1) == [at(2104, 2, 29)]
    assert walls("0 0 29 2 */7", start=at(2026, 1, 1), count=3) == [at(2032, 2, 29), at(2060, 2, 29), at(2088, 2, 29)]


def test_the_end_of_the_calendar_is_never_again():
    assert walls("0 0 1 1 *", start=at(9998, 6, 1), count=2) == [at(9999, 1, 1)]
    assert walls("59 23 31 12 *", start=at(9999, 12, 31, 23, 59), count=1) == []


@pytest.mark.parametrize(
    ("expr", "code"),
    [
        ("", "empty"),
        (" \t ", "empty"),
        ("* * * *", "fields"),
        ("0 " * 129, "length"),
        ("0 0 31 2 *", "unreachable"),
        ("0 0 30 2 *", "unreachable"),
        ("0 0 31 4,6,9,11 *", "unreachable"),
        ("0 0 30 2 */2", "unreachable"),
        ("CRON_TZ=UTC 0 0 * * *", "timezone_prefix"),
        ("TZ=Europe/Berlin * * * * *", "timezone_prefix"),
        ("@reboot", "reboot"),
        ("@fortnightly", "macro"),
        ("60 * * * *", "value"),
        ("* 24 * * *", "value"),
        ("* * 0 * *", "value"),
        ("* * * 13 *", "value"),
        ("* * * * 8", "value"),
        ("*/0 * * * *", "step"),
        ("5-1 * * * *", "extension.wrap_range"),
        ("* * * * FRI-MON", "extension.wrap_range"),
        ("0 0 L * *", "extension"),
        ("0 0 L-3 * *", "extension"),
        ("0 0 LW * *", "extension"),
        ("0 0 15W * *", "extension"),
        ("0 ? * * *", "extension"),
        ("0 0 ?,1 * *", "syntax"),
        ("0 0 * * 5#2", "extension"),
        ("0 0 * * FRI#2", "extension"),
        ("0 0 * * 5L", "extension"),
        ("H 0 * * *", "extension"),
        ("H(0-29) 0 * * *", "extension"),
        ("H/15 0 * * *", "extension"),
        ("0~30 0 * * *", "extension"),
        ("a * * * *", "syntax"),
        ("1,, * * * *", "syntax"),
        ("*-5 * * * *", "syntax"),
        ("1_0 * * * *", "syntax"),
        ("+1 * * * *", "syntax"),
        ("JAN * * * *", "syntax"),
        ("* * * JANUARY *", "syntax"),
        ("\uff11 * * * *", "character"),
        ("\u0661 * * * *", "character"),
        ("0 0 * * *\n", "character"),
        ("0\u00a00 * * *", "character"),
        ("0 0 * * \0", "character"),
        ("\ud800 0 * * *", "character"),
    ],
)
def test_what_is_no_vixie_expression_is_refused_with_its_code(expr, code):
    assert code_of(expr) == f"trigger.cron.{code}"


@pytest.mark.parametrize("dialect", ["moon", "VIXIE", "", "quartz "])
def test_an_unknown_dialect_is_refused(dialect):
    assert code_of("0 0 * * *", dialect=dialect) == "trigger.cron.dialect"


def test_an_impossible_date_is_named_in_the_message():
    with pytest.raises(TriggerError, match=r"day-of-month '31' does not occur in month 'FEB'"):
        compile_cron("0 0 31 feb *")


def test_equal_expressions_share_one_value():
    assert compile_cron("1 2 3 4 5") is compile_cron("1 2 3 4 5")


LONG_AGO, FAR_AHEAD = datetime(1950, 1, 1), datetime(2150, 1, 1)  # noqa: DTZ001 - hypothesis adds the zone

ALPHABET = "0123456789*/-,LW#?H@ \tabcdefjmnopstuABCDEFJMNOPSTU()~=\n\u00e9\u0661"


@settings(max_examples=800, deadline=None)
@given(expr=st.one_of(st.text(max_size=300), st.text(ALPHABET, max_size=40)), seconds=st.booleans())
@example(expr="*" * 256, seconds=False)
@example(expr="9" * 250 + " * * * *", seconds=False)
@example(expr="*/" + "9" * 240 + " * * * *", seconds=False)
def test_any_text_is_an_expression_or_a_trigger_error(expr, seconds):
    try:
        compiled = compile_cron(expr, seconds=seconds)
    except TriggerError:
        return
    wall = at(2026, 1, 1)
    following = compiled.following(wall)
    assert following is not None
    assert following > wall


def columns(low, high, names=()):
    """Return columns: lists of stars, numbers, names, ranges and steps.

    Ranges have two ends: both oracles read `2-2/2` as `2/2`.
    """
    number = st.integers(low, high)
    span = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1]).map("{0[0]}-{0[1]}".format)
    steps = st.integers(1, 12)
    terms = [number.map(str), span, st.builds("{}/{}".format, span, steps), st.builds("*/{}".format, steps)]
    if names:
        terms.append(st.sampled_from(names))
    return st.just("*") | st.lists(st.one_of(terms), min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.builds(
    "{} {} {} {} {}".format,
    columns(0, 59),
    columns(0, 23),
    columns(1, 31),
    columns(1, 12, ["jan", "MAR", "Dec"]),
    columns(0, 6, ["sun", "MON", "Sat"]),
)


@settings(max_examples=400, deadline=None)
@given(expr=EXPRESSIONS, start=st.datetimes(LONG_AGO, FAR_AHEAD, timezones=st.just(UTC)))
def test_any_expression_agrees_with_cronsim(expr, start):
    try:
        oracle = CronSim(expr, start)
    except CronSimError:
        assert code_of(expr) == "trigger.cron.unreachable"
        return
    assert walls(expr, start=start, count=12) == [next(oracle) for _ in range(12)]


@settings(max_examples=200, deadline=None)
@given(expr=EXPRESSIONS, start=st.datetimes(LONG_AGO, FAR_AHEAD, timezones=st.just(UTC)))
def test_any_expression_agrees_with_croniter_where_its_day_rule_is_the_same(expr, start):
    _, _, day, _, weekday = expr.split()
    # croniter calls `*/2` restricted, which Debian's cron does not.
    assume((day == "*" or "*" not in day) and (weekday == "*" or "*" not in weekday))
    try:
        oracle = croniter(expr, start)
    except CroniterBadDateError:
        assert code_of(expr) == "trigger.cron.unreachable"
        return
    assert walls(expr, start=start, count=8) == [oracle.get_next(datetime) for _ in range(8)]


def test_a_year_of_every_minute_equals_the_sets():
    compiled = compile_cron("*/13 7,8 1-9 * 2")
    wall, found = at(2026, 1, 1), []
    while (wall := compiled.following(wall)) and wall.year == 2026:
        found.append(wall)
    minute, expected = at(2026, 1, 1), []
    while (minute := minute + timedelta(minutes=1)).year == 2026:
        day = minute.day <= 9 or minute.isoweekday() == 2
        if day and minute.hour in {7, 8} and minute.minute % 13 == 0:
            expected.append(minute)
    assert found == expected
