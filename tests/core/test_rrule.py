"""Recurrence rules: RFC 5545's own examples, python-dateutil as the oracle, and the bounds on work."""

# ruff: noqa: DTZ001  # local times

import re
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile

import pytest
from dateutil.rrule import rrulestr
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from everwhen.core.errors import TriggerError
from everwhen.core.rrule import MOST_WALKED, compile_rule
from everwhen.core.rrule_syntax import LONGEST, parse_recurrence
from everwhen.core.triggers import FoldPolicy, GapPolicy, Rrule, Timing, fires, next_after

NEW_YORK = "America/New_York"
START = datetime(1997, 9, 2, 9)  # the standard's favourite DTSTART
NAMES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def pattern(text, start=START):
    return compile_rule(parse_recurrence(text).rules[0], start.replace(tzinfo=UTC))


def instances(compiled, start=START):
    """The instances from the start on, naive."""
    found = compiled.following(start.replace(tzinfo=UTC) - timedelta(seconds=1))
    while found is not None:
        yield found.replace(tzinfo=None)
        found = compiled.following(found)


def local(text, *, count, start=START, zone=NEW_YORK):
    timing = Timing(Rrule(text, start), zone, GapPolicy.SKIP, FoldPolicy.FIRST)
    after = datetime(1990, 1, 1, tzinfo=UTC)
    return [f"{timing.zone.local(fire):%Y-%m-%d %H:%M}" for fire in fires(timing, after=after, count=count)]


# Section 3.8.5.3: rule, DTSTART, the first instances in New York, and how many there are in all, None for no end.
EXAMPLES = [
    ("FREQ=DAILY;COUNT=10", START, ["1997-09-02 09:00", "1997-09-03 09:00"], 10),
    ("FREQ=DAILY;UNTIL=19971224T000000Z", START, ["1997-09-02 09:00", "1997-09-03 09:00"], 113),
    ("FREQ=DAILY;INTERVAL=2", START, ["1997-09-02 09:00", "1997-09-04 09:00"], None),
    ("FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA", datetime(1998, 1, 1, 9), [], 93),
    ("FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1", datetime(1998, 1, 1, 9), ["1998-01-01 09:00"], 93),
    ("FREQ=WEEKLY;COUNT=10", START, ["1997-09-02 09:00", "1997-09-09 09:00"], 10),
    ("FREQ=WEEKLY;INTERVAL=2;WKST=SU", START, ["1997-09-02 09:00", "1997-09-16 09:00"], None),
    ("FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH", START, ["1997-09-02 09:00", "1997-09-04 09:00"], 10),
    (
        "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
        datetime(1997, 9, 1, 9),
        ["1997-09-01 09:00", "1997-09-03 09:00", "1997-09-05 09:00", "1997-09-15 09:00"],
        25,
    ),
    ("FREQ=MONTHLY;COUNT=10;BYDAY=1FR", datetime(1997, 9, 5, 9), ["1997-09-05 09:00", "1997-10-03 09:00"], 10),
    ("FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU", datetime(1997, 9, 7, 9), ["1997-09-07 09:00"], 10),
    ("FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", datetime(1997, 9, 22, 9), ["1997-09-22 09:00", "1997-10-20 09:00"], 6),
    ("FREQ=MONTHLY;BYMONTHDAY=-3", datetime(1997, 9, 28, 9), ["1997-09-28 09:00", "1997-10-29 09:00"], None),
    ("FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15", START, ["1997-09-02 09:00", "1997-09-15 09:00"], 10),
    ("FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1", datetime(1997, 9, 30, 9), ["1997-09-30 09:00", "1997-10-01 09:00"], 10),
    (
        "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
        datetime(1997, 9, 10, 9),
        ["1997-09-10 09:00"],
        10,
    ),
    ("FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", START, ["1997-09-02 09:00", "1997-09-09 09:00"], None),
    ("FREQ=YEARLY;COUNT=10;BYMONTH=6,7", datetime(1997, 6, 10, 9), ["1997-06-10 09:00", "1997-07-10 09:00"], 10),
    (
        "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
        datetime(1997, 1, 1, 9),
        ["1997-01-01 09:00", "1997-04-10 09:00", "1997-07-19 09:00", "2000-01-01 09:00"],
        10,
    ),
    ("FREQ=YEARLY;BYDAY=20MO", datetime(1997, 5, 19, 9), ["1997-05-19 09:00", "1998-05-18 09:00"], None),
    ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", datetime(1997, 5, 12, 9), ["1997-05-12 09:00", "1998-05-11 09:00"], None),
    ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH", datetime(1997, 3, 13, 9), ["1997-03-13 09:00", "1997-03-20 09:00"], None),
    ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", START, ["1998-02-13 09:00", "1998-03-13 09:00"], None),
    (
        "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
        datetime(1997, 9, 13, 9),
        ["1997-09-13 09:00", "1997-10-11 09:00"],
        None,
    ),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", datetime(1997, 9, 29, 9), ["1997-09-29 09:00"], None),
    ("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z", START, ["1997-09-02 09:00", "1997-09-02 12:00"], 3),
    ("FREQ=MINUTELY;INTERVAL=15;COUNT=6", START, ["1997-09-02 09:00", "1997-09-02 09:15"], 6),
    ("FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40", START, ["1997-09-02 09:00"], None),
    ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16", START, ["1997-09-02 09:00"], None),
    ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", datetime(1997, 8, 5, 9), ["1997-08-05 09:00"], 4),
    (
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
        datetime(1997, 8, 5, 9),
        ["1997-08-05 09:00", "1997-08-17 09:00", "1997-08-19 09:00", "1997-08-31 09:00"],
        4,
    ),
    (
        "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5",
        datetime(2007, 1, 15, 9),
        ["2007-01-15 09:00", "2007-01-30 09:00", "2007-02-15 09:00", "2007-03-15 09:00", "2007-03-30 09:00"],
        5,
    ),
]


@pytest.mark.parametrize(("text", "start", "first", "size"), EXAMPLES, ids=[example[0] for example in EXAMPLES])
def test_an_example_of_the_standard_gives_what_it_says(text, start, first, size):
    found = local(text, count=200, start=start)

    assert found[: len(first)] == first
    assert len(found) == (size or 200)


def test_the_two_ways_to_say_every_day_in_january_are_one():
    by_year = local("FREQ=YEARLY;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA", count=200)
    assert by_year == local("FREQ=DAILY;BYMONTH=1", count=200)


# --- the oracle ---------------------------------------------------------------------------------------------------

FREQS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")


def some(values, *, most):
    return st.lists(st.sampled_from(list(values)), min_size=1, max_size=most, unique=True)


def signed(last, first=1):
    return [*range(first, last + 1), *range(-last, -first + 1)]


@st.composite
def rules(draw):
    """A rule that RFC 5545 allows. Left out is what the oracle reads otherwise; see the tests that follow."""
    freq = draw(st.sampled_from(FREQS))
    parts = {"FREQ": freq}

    def may(name, strategy, *, chance=4):
        if draw(st.integers(1, chance)) == 1:
            parts[name] = ",".join(map(str, draw(strategy)))

    may("INTERVAL", st.sampled_from([2, 3, 4, 5, 7, 12, 13, 24, 36, 60, 90]).map(lambda n: [n]), chance=2)
    may("BYMONTH", some(range(1, 13), most=6))
    if freq == "YEARLY":
        may("BYWEEKNO", some([*range(2, 52), *range(-51, -1)], most=4))
    if freq not in {"MONTHLY", "WEEKLY", "DAILY"}:
        may("BYYEARDAY", some(signed(366), most=40))
    if freq != "WEEKLY":
        may("BYMONTHDAY", some(signed(31), most=8))
    may("BYDAY", days(freq, parts), chance=3)
    may("BYHOUR", some(range(24), most=5))
    may("BYMINUTE", some(range(60), most=5))
    may("BYSECOND", some(range(60), most=3))
    may("WKST", some(NAMES, most=1))
    if any(name.startswith("BY") for name in parts) and freq != "WEEKLY":
        may("BYSETPOS", some([1, 2, 3, 5, 10, -1, -2, -7, -20], most=2))
    may("COUNT", st.integers(1, 50).map(lambda n: [n]))
    return ";".join(f"{name}={value}" for name, value in parts.items())


def days(freq, parts):
    if freq == "MONTHLY" or (freq == "YEARLY" and "BYMONTH" in parts):
        ordinals = [1, 2, 3, 4, 5, -1, -2, -5]
    else:
        ordinals = [1, 2, 9, 20, 52, 53, -1, -20, -53]
    numbered = some([f"{n}{name}" for n in ordinals for name in NAMES], most=3)
    plain = some(NAMES, most=4)
    return plain | numbered if freq in {"YEARLY", "MONTHLY"} and "BYWEEKNO" not in parts else plain


STARTS = st.datetimes(datetime(1995, 1, 1), datetime(2009, 12, 31)).map(lambda at: at.replace(microsecond=0))


def of_the_oracle(text, start, *, until, most):
    """The oracle's instances; it searches blindly, so it is asked only where there are some to be found soon."""
    return list(islice(takewhile(lambda at: at <= until, rrulestr(text, dtstart=start)), most))


def is_dense(text, start, *, horizon):
    """Whether instances are near enough for the oracle, in our own eyes; a rule without any is another test's."""
    try:
        first = next(instances(pattern(text, start), start))
    except TriggerError:
        return False
    return first - start < horizon


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(text=rules(), start=STARTS)
def test_a_rule_agrees_with_the_oracle_from_its_start_on(text, start):
    sub_daily = re.search("FREQ=(HOURLY|MINUTELY|SECONDLY)", text)
    assume(is_dense(text, start, horizon=timedelta(days=2 if sub_daily else 4000)))
    mine = list(islice(instances(pattern(text, start), start), 6 if sub_daily else 30))
    horizon = start + timedelta(days=3 if sub_daily else 20_000)
    mine = [at for at in mine if at <= horizon]

    assert mine == of_the_oracle(text, start, until=mine[-1], most=len(mine))


@settings(max_examples=200, deadline=None)
@given(text=rules(), start=STARTS, ahead=st.timedeltas(timedelta(0), timedelta(days=30_000)))
def test_an_answer_does_not_depend_on_where_one_starts_to_ask(text, start, ahead):
    try:
        compiled = pattern(text, start)
        after = start.replace(tzinfo=UTC) + ahead
        found = compiled.following(after)
        between = None if found is None else compiled.following(after + (found - after) / 2)
    except TriggerError as error:
        found = between = None
        code = error.code
    else:
        code = "trigger.rrule.work"
    assert code in {"trigger.rrule.work", "trigger.rrule.unreachable"}
    assert found is None or (found > after and between == found)


def test_a_partial_first_week_is_a_whole_one_for_bysetpos():
    # The oracle counts positions from DTSTART in the first week; the standard, from the week's beginning.
    friday = datetime(2026, 11, 27, 9)
    found = list(islice(instances(pattern("FREQ=WEEKLY;BYDAY=MO,WE,FR,SA;BYSETPOS=3", friday), friday), 2))
    assert found == [datetime(2026, 11, 27, 9), datetime(2026, 12, 4, 9)]


def test_days_with_and_without_an_ordinal_add_up():
    # The oracle takes only those that are both.
    start = datetime(2026, 12, 1)
    found = list(islice(instances(pattern("FREQ=MONTHLY;BYDAY=MO,1TU", start), start), 3))
    assert [at.day for at in found] == [1, 7, 14]


@pytest.mark.parametrize("week_start", NAMES)
def test_week_numbers_agree_with_their_definition_for_every_first_day(week_start):
    shift = NAMES.index(week_start)
    compiled = pattern(f"FREQ=YEARLY;BYWEEKNO=1,-1,53;WKST={week_start}", datetime(2000, 1, 1))
    found = {at.date() for at in takewhile(lambda at: at.year < 2030, instances(compiled, datetime(2000, 1, 1)))}
    expected = set()
    for day in (date(2000, 1, 1) + timedelta(days=n) for n in range(30 * 365 + 8)):
        # A week's number is that of its fourth day in its year; the last week is the one whose successor is week 1.
        fourth = day - timedelta(days=(day.weekday() - shift) % 7) + timedelta(days=3)
        number = (fourth.timetuple().tm_yday - 1) // 7 + 1
        is_last = (fourth + timedelta(days=7)).year > fourth.year
        if number in {1, 53} or is_last:
            expected.add(day)
    assert found == {day for day in expected if day.year < 2030}


# --- COUNT, UNTIL, exceptions -------------------------------------------------------------------------------------


def test_count_counts_local_times_even_those_that_do_not_exist():
    # 02:30 on 8 March 2026 is the second of three; it is skipped, and still counts.
    found = local("FREQ=DAILY;COUNT=3", count=5, start=datetime(2026, 3, 7, 2, 30))
    assert found == ["2026-03-07 02:30", "2026-03-09 02:30"]


def test_until_as_an_instant_tells_the_passes_of_a_fold_apart():
    start = datetime(2026, 10, 31, 1, 30)  # 1 November: 01:30 at 05:30Z and again at 06:30Z
    for until, fold, expected in (
        ("20261101T053000Z", FoldPolicy.BOTH, 2),
        ("20261101T062959Z", FoldPolicy.BOTH, 2),
        ("20261101T063000Z", FoldPolicy.BOTH, 3),
        ("20261101T063000Z", FoldPolicy.FIRST, 2),
        ("20261101T062959Z", FoldPolicy.SECOND, 1),
    ):
        timing = Timing(Rrule(f"FREQ=DAILY;UNTIL={until}", start), NEW_YORK, None, fold)
        assert len(list(fires(timing, after=datetime(2026, 10, 1, tzinfo=UTC), count=9))) == expected


def test_several_rules_further_and_excluded_times_make_one_set():
    text = "\n".join(  # noqa: FLY002  # lines
        [
            "DTSTART:20270101T090000",
            "RRULE:FREQ=DAILY;COUNT=3",
            "RRULE:FREQ=DAILY;INTERVAL=2;UNTIL=20270105T090000",
            "RDATE:20270110T120000,20270111T170000Z",
            "EXDATE:20270102T090000",
            "EXDATE;VALUE=DATE-TIME:20270105T140000Z",
        ]
    )
    assert local(text, start=None, count=9) == [
        "2027-01-01 09:00",
        "2027-01-03 09:00",
        "2027-01-10 12:00",
        "2027-01-11 12:00",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "syntax"),
        ("FREQ", "syntax"),
        ("INTERVAL=2", "freq"),
        ("FREQ=FORTNIGHTLY", "freq"),
        ("FREQ=DAILY;FREQ=WEEKLY", "part"),
        ("FREQ=DAILY;BYEASTER=0", "part"),
        ("FREQ=DAILY;INTERVAL=0", "value"),
        ("FREQ=DAILY;INTERVAL=-1", "value"),
        ("FREQ=DAILY;INTERVAL=1.5", "value"),
        ("FREQ=DAILY;COUNT=0", "value"),
        ("FREQ=DAILY;COUNT=9999999999", "value"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20300101T000000", "combination"),
        ("FREQ=DAILY;UNTIL=someday", "time"),
        ("FREQ=DAILY;UNTIL=20300230T000000", "time"),
        ("FREQ=DAILY;UNTIL=20300101", "until"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "value"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "value"),
        ("FREQ=YEARLY;BYMONTH=13", "value"),
        ("FREQ=YEARLY;BYMONTH=-1", "value"),
        ("FREQ=DAILY;BYHOUR=24", "value"),
        ("FREQ=DAILY;BYMINUTE=60", "value"),
        ("FREQ=DAILY;BYSECOND=61", "value"),
        ("FREQ=DAILY;BYHOUR=", "syntax"),
        ("FREQ=DAILY;BYHOUR=1,,2", "value"),
        ("FREQ=DAILY;BYDAY=XX", "value"),
        ("FREQ=MONTHLY;BYDAY=0MO", "value"),
        ("FREQ=MONTHLY;BYDAY=54MO", "value"),
        ("FREQ=DAILY;BYDAY=1MO", "combination"),
        ("FREQ=YEARLY;BYWEEKNO=3;BYDAY=1MO", "combination"),
        ("FREQ=MONTHLY;BYWEEKNO=3", "combination"),
        ("FREQ=MONTHLY;BYYEARDAY=3", "combination"),
        ("FREQ=WEEKLY;BYMONTHDAY=3", "combination"),
        ("FREQ=DAILY;BYSETPOS=1", "combination"),
        ("FREQ=DAILY;WKST=MON", "value"),
        ("EXRULE:FREQ=DAILY", "exrule"),
        ("EXDATE;TZID=Europe/Berlin:20270101T000000\nFREQ=DAILY", "timezone"),
        ("EXDATE;VALUE=DATE:20270101\nFREQ=DAILY", "property"),
        ("SUMMARY:FREQ=DAILY", "property"),
        ("RRULE:FREQ=DAILY\n" * 9, "rules"),
        ("FREQ=DAILY" + " " * LONGEST, "length"),
        ("FREQ=DAILY;WKST=ＭＯ", "character"),
        ("FREQ=DAILY\x00", "character"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "unreachable"),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "unreachable"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=MO", "unreachable"),
        ("FREQ=HOURLY;INTERVAL=24;BYHOUR=8", "unreachable"),
        ("FREQ=SECONDLY;INTERVAL=604800;BYDAY=MO", "unreachable"),
        ("FREQ=MINUTELY;INTERVAL=30;BYMINUTE=1", "unreachable"),
        ("FREQ=DAILY;BYHOUR=9;BYSETPOS=2", "unreachable"),
        ("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=2", "work"),
        (f"FREQ=HOURLY;BYDAY=MO;COUNT={MOST_WALKED + 1}", "count"),
    ],
)
def test_a_rule_is_refused_by_name(text, code):
    with pytest.raises(TriggerError) as caught:
        Rrule(text, START)
    assert caught.value.code == f"trigger.rrule.{code}"
    assert caught.value.field == "rrule"


@pytest.mark.parametrize(
    "dtstart", [None, datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, 0, 0, 0, 1)], ids=["none", "utc", "micro"]
)
def test_a_start_is_a_local_time_in_whole_seconds(dtstart):
    with pytest.raises(TriggerError) as caught:
        Rrule("FREQ=DAILY", dtstart)
    assert caught.value.field == "dtstart"


def test_a_leap_second_is_the_one_before_it():
    assert local("FREQ=DAILY;BYSECOND=60;COUNT=1", count=1) == ["1997-09-02 09:00"]


# --- bounded work -------------------------------------------------------------------------------------------------


class Looks:
    """Counts how often a pattern looks at a year or tries a unit, instead of how long it takes."""

    def __init__(self, monkeypatch):
        from everwhen.core import days

        self.count = 0
        counted = days.Days._make

        def look(days_, year):
            self.count += 1
            return counted(days_, year)

        monkeypatch.setattr(days.Days, "_make", look)


HEAVY = [
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MINUTELY",
    "FREQ=SECONDLY",
    "FREQ=SECONDLY;INTERVAL=999999999",
    "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=2",
    "FREQ=SECONDLY;COUNT=999999999",
    "FREQ=DAILY;BYMONTH=1;COUNT=999999999",
    "FREQ=MONTHLY;BYDAY=5MO;COUNT=900000",
    "FREQ=MONTHLY;INTERVAL=604800",
    "FREQ=WEEKLY;INTERVAL=999999999",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;INTERVAL=399",
    "FREQ=DAILY;INTERVAL=97;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=MONTHLY;INTERVAL=90;BYDAY=-1TU,3MO;BYSETPOS=-20",
    "FREQ=WEEKLY;INTERVAL=3;BYMONTH=2;BYDAY=MO;BYSETPOS=5",
    f"FREQ=MONTHLY;COUNT={MOST_WALKED};BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
]


@pytest.mark.parametrize("text", HEAVY)
def test_the_work_for_an_answer_is_bounded_in_steps(text, monkeypatch):
    looks = Looks(monkeypatch)
    try:
        compiled = pattern(text, datetime(1970, 1, 1, 9))
        made, looks.count = looks.count, 0
        compiled.following(datetime(2026, 11, 29, tzinfo=UTC))
    except TriggerError:
        made = looks.count
    assert made <= 20_000
    assert looks.count <= 20_000


@pytest.mark.parametrize("after", [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)])
@pytest.mark.parametrize("text", ["FREQ=SECONDLY", "FREQ=YEARLY", "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=1", "FREQ=DAILY"])
def test_the_ends_of_the_calendar_are_answered(text, after):
    timing = Timing(Rrule(text, START), "Pacific/Kiritimati")
    found = next_after(timing, after.replace(tzinfo=UTC))
    assert (found is None) == (after.year == 9999)
