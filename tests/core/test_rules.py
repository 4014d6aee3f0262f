"""Plain calendar rules: equal to the recurrences that say the same, and refused where they say nothing."""

# ruff: noqa: DTZ001  # local times

from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from everwhen.core.errors import TriggerError
from everwhen.core.explain import explain
from everwhen.core.rules import MONTHS, WEEKDAYS
from everwhen.core.triggers import Rrule, Timing, fires, parse_trigger, trigger_to_json

BEFORE = datetime(1969, 1, 1, tzinfo=UTC)
ZONE = "Europe/Berlin"


def first_fires(trigger, *, count=40, after=BEFORE):
    return list(fires(Timing(trigger, ZONE), after=after, count=count))


EQUAL = [
    ({"kind": "daily", "times": ["09:00"]}, ["FREQ=DAILY"]),
    ({"kind": "daily", "times": ["09:00", "17:30"]}, ["FREQ=DAILY", "FREQ=DAILY;BYHOUR=17;BYMINUTE=30"]),
    ({"kind": "daily", "times": ["09:00"], "every": 3, "anchor": "2027-01-02"}, ["FREQ=DAILY;INTERVAL=3"]),
    ({"kind": "weekly", "weekdays": ["MON", "FRI"], "times": ["09:00"]}, ["FREQ=WEEKLY;BYDAY=MO,FR"]),
    (
        {"kind": "weekly", "weekdays": ["SUN", "MON"], "times": ["09:00"], "every": 2, "anchor": "2027-01-02"},
        ["FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO;WKST=MO"],
    ),
    ({"kind": "monthly", "days": [1, 15, -1], "times": ["09:00"]}, ["FREQ=MONTHLY;BYMONTHDAY=1,15,-1"]),
    ({"kind": "monthly", "days": [31], "times": ["09:00"]}, ["FREQ=MONTHLY;BYMONTHDAY=31"]),
    (
        {"kind": "monthly", "on": [{"weekday": "FRI", "nth": -1}, {"weekday": "MON", "nth": 2}], "times": ["09:00"]},
        ["FREQ=MONTHLY;BYDAY=-1FR,2MO"],
    ),
    (
        {"kind": "monthly", "days": [1], "months": ["JAN", "JUL"], "times": ["09:00"]},
        ["FREQ=MONTHLY;BYMONTHDAY=1;BYMONTH=1,7"],
    ),
    (
        {"kind": "monthly", "days": [-1], "times": ["09:00"], "every": 5, "anchor": "2027-01-02"},
        ["FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=-1"],
    ),
    ({"kind": "yearly", "months": ["FEB"], "days": [29], "times": ["09:00"]}, ["FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29"]),
    (
        {"kind": "yearly", "months": ["NOV"], "on": [{"weekday": "THU", "nth": 4}], "times": ["09:00"]},
        ["FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"],
    ),
    (
        {"kind": "yearly", "months": ["MAR"], "days": [1], "times": ["09:00"], "every": 4, "anchor": "2027-01-02"},
        ["FREQ=YEARLY;INTERVAL=4;BYMONTH=3;BYMONTHDAY=1"],
    ),
]


@pytest.mark.parametrize(("rule", "texts"), EQUAL, ids=range(len(EQUAL)))
def test_a_rule_equals_the_recurrence_that_says_the_same(rule, texts):
    anchor = date.fromisoformat(rule.get("anchor", "1970-01-01"))
    start = datetime(anchor.year, anchor.month, anchor.day, 9)

    recurrence = Rrule("\n".join(f"RRULE:{text}" for text in texts), start)

    assert first_fires(parse_trigger(rule)) == first_fires(recurrence)


TIME = st.times().map(lambda at: f"{at:%H:%M:%S}" if at.second % 2 else f"{at:%H:%M}")
DAYS = st.lists(st.integers(-31, 31).filter(bool), min_size=1, max_size=5, unique=True)
ON = st.lists(
    st.tuples(st.sampled_from(WEEKDAYS), st.integers(-5, 5).filter(bool)).map(
        lambda pair: {"weekday": pair[0], "nth": pair[1]}
    ),
    min_size=1,
    max_size=4,
    unique_by=str,
)


@st.composite
def rules(draw):
    kind = draw(st.sampled_from(["daily", "weekly", "monthly", "yearly"]))
    rule = {"kind": kind, "times": draw(st.lists(TIME, min_size=1, max_size=4, unique=True))}
    if kind == "weekly":
        rule["weekdays"] = draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, unique=True))
    if kind in {"monthly", "yearly"}:
        rule |= draw(st.fixed_dictionaries({"days": DAYS}) | st.fixed_dictionaries({"on": ON}))
        if kind == "yearly" or draw(st.booleans()):
            rule["months"] = draw(st.lists(st.sampled_from(MONTHS), min_size=1, unique=True))
    every = draw(st.integers(1, 5))
    if every > 1 or draw(st.booleans()):
        rule |= {"every": every, "anchor": draw(st.dates(date(2000, 1, 1), date(2030, 1, 1))).isoformat()}
    return rule


def matches(rule, day):
    """Whether a day is one of the rule's, by its words and by nothing else."""
    anchor = date.fromisoformat(rule.get("anchor", "1970-01-01"))
    every = rule.get("every", 1)
    monday, first_monday = (each - timedelta(days=each.weekday()) for each in (day, anchor))
    passed = {
        "daily": (day - anchor).days,
        "weekly": (monday - first_monday).days // 7,
        "monthly": (day.year - anchor.year) * 12 + day.month - anchor.month,
        "yearly": day.year - anchor.year,
    }[rule["kind"]]
    if day < anchor or passed % every or MONTHS[day.month - 1] not in rule.get("months", MONTHS):
        return False
    length = ((day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)).day
    from_end = day.day - length - 1
    nths = {(day.day - 1) // 7 + 1, -((length - day.day) // 7 + 1)}
    named = WEEKDAYS[day.weekday()]
    return (
        named in rule.get("weekdays", WEEKDAYS)
        and (not rule.get("days") or bool({day.day, from_end} & set(rule["days"])))
        and (not rule.get("on") or any(item["weekday"] == named and item["nth"] in nths for item in rule["on"]))
    )


@settings(max_examples=150, deadline=None)
@given(rule=rules(), first=st.dates(date(1999, 1, 1), date(2032, 1, 1)))
def test_a_rule_fires_on_the_days_that_its_words_name(rule, first):
    try:
        trigger = parse_trigger(rule)
    except TriggerError as error:
        assume(error.code != "trigger.rule.unreachable")
        raise
    start = datetime(first.year, first.month, first.day, tzinfo=UTC)
    timing = Timing(trigger)

    found = [fire.replace(tzinfo=None) for fire in fires(timing, after=start, until=start + timedelta(days=800))]

    clock = sorted({datetime.fromisoformat(f"2000-01-01T{text}").time() for text in rule["times"]})
    days = [first + timedelta(days=n) for n in range(801)]
    expected = [datetime.combine(day, at) for day in days if matches(rule, day) for at in clock]
    last = start.replace(tzinfo=None) + timedelta(days=800)
    assert found == [at for at in expected if start.replace(tzinfo=None) < at <= last]


@given(rule=rules())
def test_a_rule_is_read_back_from_its_json(rule):
    try:
        trigger = parse_trigger(rule)
    except TriggerError:
        return
    assert parse_trigger(trigger_to_json(trigger)) == trigger


@pytest.mark.parametrize(
    ("rule", "code", "field"),
    [
        ({"kind": "daily"}, "rule.times", "times"),
        ({"kind": "daily", "times": []}, "rule.times", "times"),
        ({"kind": "daily", "times": "09:00"}, "field.type", "times"),
        ({"kind": "daily", "times": [9]}, "field.type", "times"),
        ({"kind": "daily", "times": ["24:00"]}, "rule.times", "times"),
        ({"kind": "daily", "times": ["09:00"] * 101}, "field.type", "times"),
        ({"kind": "daily", "times": [f"{n // 60:02}:{n % 60:02}" for n in range(49)]}, "rule.times", "times"),
        ({"kind": "daily", "times": ["09:00"], "every": 0}, "rule.every", "every"),
        ({"kind": "daily", "times": ["09:00"], "every": True}, "rule.every", "every"),
        ({"kind": "daily", "times": ["09:00"], "every": 2}, "rule.anchor", "anchor"),
        ({"kind": "daily", "times": ["09:00"], "anchor": "2027-02-30"}, "rule.anchor", "anchor"),
        ({"kind": "daily", "times": ["09:00"], "anchor": 7}, "rule.anchor", "anchor"),
        ({"kind": "daily", "times": ["09:00"], "weekdays": ["MON"]}, "field.unknown", "weekdays"),
        ({"kind": "weekly", "times": ["09:00"]}, "rule.days", "weekdays"),
        ({"kind": "weekly", "times": ["09:00"], "weekdays": ["Monday"]}, "rule.weekdays", "weekdays"),
        ({"kind": "monthly", "times": ["09:00"]}, "rule.days", "days"),
        ({"kind": "monthly", "times": ["09:00"], "days": [0]}, "rule.days", "days"),
        ({"kind": "monthly", "times": ["09:00"], "days": [32]}, "rule.days", "days"),
        (
            {"kind": "monthly", "times": ["09:00"], "days": [1], "on": [{"weekday": "MON", "nth": 1}]},
            "rule.days",
            "days",
        ),
        ({"kind": "monthly", "times": ["09:00"], "on": [{"weekday": "MON"}]}, "field.type", "on"),
        ({"kind": "monthly", "times": ["09:00"], "on": [{"weekday": "MON", "nth": 6}]}, "rule.on", "on"),
        ({"kind": "monthly", "times": ["09:00"], "days": [30], "months": ["FEB"]}, "rule.unreachable", "days"),
        ({"kind": "yearly", "times": ["09:00"], "days": [1]}, "rule.months", "months"),
        ({"kind": "yearly", "times": ["09:00"], "days": [1], "months": [1]}, "field.type", "months"),
    ],
)
def test_a_rule_that_says_nothing_is_refused_by_name(rule, code, field):
    with pytest.raises(TriggerError) as caught:
        parse_trigger(rule)
    assert (caught.value.code, caught.value.field) == (f"trigger.{code}", field)


def test_times_are_not_combined_with_each_other():
    trigger = parse_trigger({"kind": "daily", "times": ["09:30", "17:00", "17:00:15"]})
    found = islice(fires(Timing(trigger), after=datetime(2027, 1, 1, tzinfo=UTC)), 3)
    assert [f"{fire:%H:%M:%S}" for fire in found] == ["09:30:00", "17:00:00", "17:00:15"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"kind": "daily", "times": ["09:00", "17:30"]}, "At 09:00 and 17:30 every day."),
        (
            {"kind": "weekly", "weekdays": ["MON", "FRI"], "times": ["09:00"], "every": 2, "anchor": "2024-01-01"},
            "At 09:00 on Monday and Friday of every 2 weeks from 2024-01-01 on.",
        ),
        (
            {"kind": "monthly", "days": [1, 22, -1, -2], "times": ["09:00"]},
            "At 09:00 on the 1st, the 22nd, the last day and the 2nd to last day of every month.",
        ),
        (
            {"kind": "yearly", "months": ["NOV"], "on": [{"weekday": "THU", "nth": 4}], "times": ["12:00"]},
            "At 12:00 on the 4th Thursday of every year in November.",
        ),
        (
            {"kind": "every", "every": "P1Y6M", "mode": "wall", "anchor": "2024-01-31T09:00"},
            "Every 18 months on the wall clock, counted from 2024-01-31 09:00:00 local time.",
        ),
        (
            {
                "kind": "any_of",
                "triggers": [{"kind": "daily", "times": ["09:00"]}, {"kind": "daily", "times": ["12:00"]}],
                "except": [{"kind": "weekly", "weekdays": ["SUN"], "times": ["09:00"]}],
            },
            "At 09:00 every day; or at 12:00 every day; except at 09:00 on Sunday of every week.",
        ),
    ],
)
def test_a_sentence_says_what_a_rule_means(data, sentence):
    assert explain(parse_trigger(data)) == sentence
