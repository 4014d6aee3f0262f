import re
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from everwhen.core.cron import compile_cron
from everwhen.core.cron_dialects import DIALECTS
from everwhen.core.errors import TriggerError
from everwhen.core.triggers import Cron, parse_trigger, trigger_to_json

START = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=1)


def walls(expr, dialect, *, count=3, start=START, **options):
    compiled, wall, found = compile_cron(expr, dialect=dialect, **options), start, []
    while len(found) < count and (wall := compiled.following(wall)):
        found.append(wall)
    return found


def days(expr, dialect, **options):
    return [f"{wall:%m-%d}" for wall in walls(expr, dialect, **options)]


def refusal(expr, dialect, **options):
    with pytest.raises(TriggerError) as caught:
        compile_cron(expr, dialect=dialect, **options)
    return caught.value.code.removeprefix("trigger.cron."), caught.value.message


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("0 0 L * *", ["01-31", "02-28", "03-31"]),
        ("0 0 L-2 * *", ["01-29", "02-26", "03-29"]),
        ("0 0 L-30 * *", ["01-01", "03-01", "05-01"]),
        ("0 0 LW * *", ["01-30", "02-27", "03-31"]),
        ("0 0 L-2W * *", ["01-29", "02-26", "03-30"]),
        ("0 0 15W * *", ["01-15", "02-16", "03-16"]),
        ("0 0 1W * *", ["01-01", "02-02", "03-02"]),
        ("0 0 31W * *", ["01-30", "03-31", "05-29"]),
        ("0 0 1,L * *", ["01-01", "01-31", "02-01"]),
        ("0 0 * * 5#2", ["01-09", "02-13", "03-13"]),
        ("0 0 * * fri#5", ["01-30", "05-29", "07-31"]),
        ("0 0 * * 5L", ["01-30", "02-27", "03-27"]),
        ("0 0 * * sunl", ["01-25", "02-22", "03-29"]),
        ("0 0 * * 7#1", ["01-04", "02-01", "03-01"]),
        ("0 0 13 * 5L", ["01-13", "01-30", "02-13"]),
        ("0 0 * * FRI-MON", ["01-02", "01-03", "01-04"]),
        ("0 0 * * 6-0", ["01-03", "01-04", "01-10"]),
        ("0 0 30-2 * *", ["01-01", "01-02", "01-30"]),
        ("0 0 1 NOV-FEB *", ["01-01", "02-01", "11-01"]),
    ],
)
def test_days_that_depend_on_their_month(expr, expected):
    assert days(expr, "vixie-ext") == expected


def test_a_range_may_wrap_around_midnight():
    hours = [wall.hour for wall in walls("0 22-2 * * *", "vixie-ext", count=6)]
    assert hours == [0, 1, 2, 22, 23, 0]
    assert [wall.minute for wall in walls("50-10/5 3 * * *", "vixie-ext", count=5)] == [0, 5, 10, 50, 55]


@pytest.mark.parametrize(
    ("dialect", "expr", "weekday"),
    [
        ("vixie", "0 0 * * 1", 1),
        ("vixie-ext", "0 0 * * 1#1", 1),
        ("spring", "0 0 0 * * 1", 1),
        ("quartz", "0 0 0 ? * 1", 7),
        ("quartz", "0 0 0 ? * 2#1", 1),
        ("quartz", "0 0 0 ? * L", 6),
        ("eventbridge", "0 0 ? * 1 *", 7),
        ("eventbridge", "cron(0 0 ? * 7L *)", 6),
        ("kubernetes", "0 0 * * 1", 1),
        ("temporal", "0 0 * * 7", 7),
        ("apscheduler", "0 0 * * 0", 1),
        ("apscheduler", "0 0 * * sun", 7),
        ("croniter", "0 0 * * 7", 7),
    ],
)
def test_each_dialect_numbers_weekdays_in_its_own_way(dialect, expr, weekday):
    assert walls(expr, dialect)[0].isoweekday() == weekday


@pytest.mark.parametrize(
    ("dialect", "expr", "both"),
    [
        ("vixie", "0 0 13 * 5", False),
        ("vixie", "0 0 */2 * 5", True),
        ("spring", "0 0 0 13 * 5", True),
        ("temporal", "0 0 13 * 5", True),
        ("apscheduler", "0 0 13 * 4", True),
        ("kubernetes", "0 0 13 * 5", False),
        ("kubernetes", "0 0 */2 * 5", False),
        ("kubernetes", "0 0 */1 * 5", True),
        ("croniter", "0 0 */2 * 5", False),
        ("croniter", "0 0 */1 * 5", False),
    ],
)
def test_each_dialect_combines_the_day_columns_in_its_own_way(dialect, expr, both):
    found = walls(expr, dialect, count=40)
    assert all(wall.isoweekday() == 5 for wall in found) is both


def test_the_year_ends_a_quartz_expression():
    assert [wall.year for wall in walls("0 0 12 1 1 ? 2027,2030-2032", "quartz", count=9)] == [2027, 2030, 2031, 2032]
    assert walls("0 0 12 30 6 ? 2024", "quartz") == []
    assert days("0 0 29 2 ? 2028-2040", "eventbridge", count=9) == ["02-29"] * 4
    assert walls("30 0 12 1 1 * 2030", "temporal", count=9) == [datetime(2030, 1, 1, 12, 0, 30, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("dialect", "expr", "code"),
    [
        ("quartz", "0 0 12 * * *", "day_columns"),
        ("quartz", "0 0 12 ? * ?", "day_columns"),
        ("quartz", "0 0 12 1 * MON", "day_columns"),
        ("quartz", "0 12 * * ?", "fields"),
        ("quartz", "0 0 12 ? * 0", "value"),
        ("quartz", "0 0 12 ? * 2,6L", "list"),
        ("quartz", "0 0/60 12 ? * 2", "step"),
        ("quartz", "0 0 0 30 2 ?", "unreachable"),
        ("quartz", "0 0 12 31 6 ? 2024", "unreachable"),
        ("quartz", "0 0 0 29 2 ? 2025-2027", "unreachable"),
        ("quartz", "0 0 0 1 1 ? 1969", "value"),
        ("quartz", "0 0 0 1 1 ? 2030-2020", "extension.wrap_range"),
        ("quartz", "@daily", "macro"),
        ("quartz", "0 H 0 * * ?", "extension"),
        ("quartz", "/ 0 8-18 ? * 2-6", "syntax"),
        ("spring", "0 0 0 * * 6-2", "extension.wrap_range"),
        ("spring", "0 0 0 * * L", "extension"),
        ("spring", "0 0 0 31 6 *", "unreachable"),
        ("eventbridge", "0 10 * * * *", "day_columns"),
        ("eventbridge", "0 10 ? * 1/2 *", "extension"),
        ("eventbridge", "0 10 L-3 * ? *", "extension"),
        ("eventbridge", "rate(5 minutes)", "every"),
        ("eventbridge", "at(2027-01-01T00:00:00)", "every"),
        ("eventbridge", "0 10 1 1 ? 2200", "value"),
        ("kubernetes", "0 0 * * 7", "value"),
        ("kubernetes", "@every 1h", "every"),
        ("apscheduler", "0 0 * * 7", "value"),
        ("vixie-ext", "0 0 L-31 * *", "value"),
        ("vixie-ext", "0 0 * * 5#6", "value"),
        ("vixie-ext", "0 0 * * 5#0", "value"),
        ("vixie-ext", "0 0 * * 8L", "value"),
        ("vixie-ext", "0 0 32W * *", "value"),
        ("vixie-ext", "0 0 * 2 5#5,L", "extension"),
        ("vixie-ext", "H(5-2) * * * *", "value"),
        ("vixie-ext", "H/0 * * * *", "step"),
        ("vixie-ext", "H(0-99) * * * *", "value"),
        ("vixie-ext", "H(1) * * * *", "extension"),
        ("vixie-ext", "0 0 30W 2 *", "unreachable"),
        ("vixie-ext", "0 0 L-29 2 *", "unreachable"),
    ],
)
def test_what_a_dialect_does_not_have_is_refused(dialect, expr, code):
    assert refusal(expr, dialect)[0] == code


@pytest.mark.parametrize(
    ("expr", "dialect", "named"),
    [
        ("0 0 L * *", "vixie", ["vixie-ext"]),
        ("0 22-2 * * *", "vixie", ["vixie-ext"]),
        ("H H * * *", "vixie", ["vixie-ext"]),
        ("0 0 12 ? * MON-FRI", "vixie", ["vixie", "vixie-ext", "quartz", "spring"]),
        ("0 0 12 1 1 ? 2030", "vixie", ["quartz"]),
        ("0 12 ? * MON *", "vixie", ["eventbridge"]),
        ("0 0 * * *", "quartz", ["vixie", "vixie-ext"]),
        ("0 0 * * 7", "kubernetes", ["vixie", "vixie-ext"]),
        ("0 0 0 ? * 6L", "eventbridge", ["quartz", "spring"]),
        ("0 0 * * 9", "vixie", []),
        ("x", "vixie", []),
    ],
)
def test_a_refusal_names_the_dialects_that_would_accept(expr, dialect, named):
    _, message = refusal(expr, dialect)
    hint = message.partition("; dialect ")[2]
    found = re.findall(r"'([a-z-]+)'", hint)
    assert set(named) - {"vixie"} <= set(found), message
    assert bool(found) == bool(named)


def test_a_zone_in_the_expression_is_refused_with_what_to_do():
    code, message = refusal("CRON_TZ=Europe/Berlin 0 0 * * *", "vixie")
    assert code == "timezone_prefix"
    assert "timezone to 'Europe/Berlin'" in message


def test_hash_is_stable_by_its_seed_and_spread_over_the_field():
    first = walls("H H * * *", "vixie-ext", hash_seed="a")
    assert first == walls("H H * * *", "vixie-ext", hash_seed="a")
    minutes = {walls("H H * * *", "vixie-ext", hash_seed=str(i))[0].minute for i in range(600)}
    assert minutes == set(range(60))
    assert walls("H H * * *", "vixie-ext", hash_seed="a")[0].strftime("%H:%M") == "18:34"


@pytest.mark.parametrize("seed", ["", "a", "b", "018f-7"])
def test_hash_keeps_to_its_range_and_its_step(seed):
    found = walls("H(10-19) H(2-4) * * *", "vixie-ext", hash_seed=seed, count=5)
    assert all(10 <= wall.minute <= 19 and 2 <= wall.hour <= 4 for wall in found)
    minutes = [wall.minute for wall in walls("H/15 0 * * *", "vixie-ext", hash_seed=seed, count=4)]
    assert [minute - minutes[0] for minute in minutes] == [0, 15, 30, 45]
    assert len(walls("0 0 H * *", "vixie-ext", hash_seed=seed, count=24)) == 24
    assert walls("0 0 H * *", "vixie-ext", hash_seed=seed, count=24)[-1].year == 2027


def test_a_trigger_keeps_its_seed_in_json_and_without_h_it_is_the_same_pattern():
    seeded = Cron("H 0 * * *", dialect="vixie-ext", hash_seed="uid")
    assert trigger_to_json(seeded)["hash_seed"] == "uid"
    assert parse_trigger(trigger_to_json(seeded)) == seeded
    assert "hash_seed" not in trigger_to_json(Cron("0 0 * * *"))
    assert Cron("0 0 * * *", hash_seed="uid").compiled is Cron("0 0 * * *").compiled


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_dialect_loses_a_day_of_a_plain_pattern(dialect):
    layout = DIALECTS[dialect].layouts
    expr = {5: "0 0 * * *", 6: "0 0 0 * * ?", 7: "0 0 0 * * ?"}[min(layout)]
    if dialect == "eventbridge":
        expr = "0 0 * * ? *"
    found = [wall.date() for wall in islice(walls(expr, dialect, count=800), 800)]
    assert found == [date(2026, 1, 1) + timedelta(days=i) for i in range(800)]
