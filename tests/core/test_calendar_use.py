"""What calendars exclude and roll, against a walk over days that shares no code with the engine."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.calendar_use import CalendarUse, parse_use, use_to_json
from everwhen.core.calendars import CLOSED, OPEN, Calendar, CalendarVersion, DayRange, Definition, Roll
from everwhen.core.errors import TriggerError
from everwhen.core.reasons import Reason
from everwhen.core.triggers import (
    Timing,
    bind,
    calendar_names,
    fires,
    next_after,
    next_look,
    occurrences,
    parse_trigger,
    reach,
    refuse_dense_rolls,
    trigger_to_json,
)

DAY = timedelta(days=1)
ZONE = ZoneInfo("Europe/Berlin")
WEEK = (OPEN,) * 5 + (CLOSED,) * 2
HALF = ((540, 780),)
START = datetime(2027, 3, 1, tzinfo=UTC)
END = datetime(2027, 6, 1, tzinfo=UTC)


def cron(expr):
    return {"kind": "cron", "expr": expr}


def calendar(*days, week=WEEK, name="de", number=1):
    return Calendar(name, [CalendarVersion(number=number, definition=Definition(week=week, days=tuple(days)))])


def closed(day, label=""):
    return DayRange(first=day, last=day, hours=CLOSED, label=label)


def timing(trigger, *, use, book, timezone="Europe/Berlin"):
    return bind(Timing(parse_trigger(trigger), timezone, calendars=use), {each.name: each for each in book})


def instant(day, minute):
    return datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=ZONE).astimezone(UTC)


def day_it_goes_to(day, minute, is_open, roll):
    def search(step):
        return next((day + DAY * step * n for n in range(1, 32) if is_open(day + DAY * step * n, minute)), None)

    if is_open(day, minute):
        return day
    forward = search(1)
    modified = forward if forward and forward.month == day.month else search(-1)
    return {
        Roll.NONE: None,
        Roll.FOLLOWING: forward,
        Roll.PRECEDING: search(-1),
        Roll.MODIFIED_FOLLOWING: modified,
    }[roll]


def walk_days(times, weekdays, is_open, roll):
    """(nominal, due or None, stands elsewhere) by looking at each day on its own; no gap or fold at these times."""
    days = [START.date() - DAY * 70 + DAY * n for n in range(240)]
    nominal = {(day, minute): day_it_goes_to(day, minute, is_open, roll)
               for day in days for minute in times if day.weekday() in weekdays}  # fmt: skip
    meeting = {}
    for (day, minute), goal in nominal.items():
        meeting.setdefault((goal, minute), []).append(day)
    for (day, minute), goal in nominal.items():
        if START < instant(day, minute) < END:
            best = goal and min(meeting[goal, minute], key=lambda other, goal=goal: (abs(other - goal), other))
            yield instant(day, minute), goal and instant(goal, minute), goal is not None and best != day


SOME_DAYS = st.dates(date(2027, 2, 1), date(2027, 7, 1))


@settings(max_examples=150)
@given(
    st.sets(st.sampled_from([10, 600, 1080]), min_size=1),
    st.sets(st.integers(0, 6), min_size=1),
    st.lists(st.tuples(SOME_DAYS, st.integers(0, 6), st.sampled_from([OPEN, CLOSED, HALF])), max_size=10),
    st.sampled_from(Roll),
)
def test_exclusions_and_rolls_are_those_of_a_walk_over_days(times, weekdays, entries, roll):
    ranges = [DayRange(first=day, last=day + DAY * length, hours=hours) for day, length, hours in entries]
    use = CalendarUse(open=("de",), roll=roll)
    triggers = [cron(f"{t % 60} {t // 60} * * {','.join(str((d + 1) % 7) for d in weekdays)}") for t in times]
    found = timing({"kind": "any_of", "triggers": triggers}, use=use, book=[calendar(*ranges)])

    def is_open(day, minute):
        for entry in reversed(ranges):
            if entry.first <= day <= entry.last:
                return any(start <= minute < end for start, end in entry.hours)
        return day.weekday() < 5

    seen = [
        (o.nominal_at, o.due_at if o.skipped is None else o.mark.due_at, o.skipped is Reason.CALENDAR_ROLLED)
        for o in occurrences(found, after=START, until=END - timedelta(microseconds=1), limit=1000)
    ]
    assert seen == sorted(walk_days(times, weekdays, is_open, roll))


@given(
    st.sampled_from(["30 9 * * *", "0 18 28-31 * *", "*/30 * * * *", "0 2 29 * *"]), st.sampled_from(Roll), st.data()
)
def test_whatever_was_decided_the_next_look_misses_nothing_and_comes_in_time(expr, roll, data):
    use = CalendarUse(open=("de",), roll=roll)
    found = timing(cron(expr), use=use, book=[calendar(closed(date(2027, 3, 26)), closed(date(2027, 3, 29)))])
    after = START + timedelta(minutes=data.draw(st.integers(0, 60 * 24 * 60)))
    coming = occurrences(found, after=after, until=after + DAY * 40, limit=300)
    look = next_look(found, after)

    for occurrence in coming:
        if occurrence.skipped is None:
            assert look <= occurrence.due_at
            assert look <= occurrence.nominal_at
    assert look <= coming[0].nominal_at + timedelta(minutes=15)
    for occurrence in coming:
        if occurrence.skipped is None and occurrence.due_at < occurrence.nominal_at:
            for zone in (UTC, ZoneInfo("America/Los_Angeles"), ZoneInfo("Pacific/Kiritimati")):
                assert reach(found, occurrence.due_at.astimezone(zone)) >= occurrence.nominal_at


@given(st.sampled_from(["30 9 * * *", "0 18 28-31 * *", "0 */2 * * *"]), st.sampled_from(Roll), st.integers(0, 80))
def test_next_after_is_the_first_occurrence_that_runs(expr, roll, days):
    found = timing(cron(expr), use=CalendarUse(open=("de",), roll=roll), book=[calendar(closed(date(2027, 3, 26)))])
    after = START + DAY * days
    coming = occurrences(found, after=after, until=after + DAY * 70, limit=1000)

    assert next_after(found, after) == next(o.nominal_at for o in coming if o.skipped is None)
    assert list(fires(found, after=after, count=3)) == list(
        islice((o.nominal_at for o in coming if o.skipped is None), 3)
    )


def test_an_occurrence_names_the_calendar_the_version_and_the_day():
    book = [calendar(closed(date(2027, 3, 26), "Good Friday"), number=7)]
    found = timing(cron("0 18 26 3 *"), use=CalendarUse(open=("de",), roll=Roll.PRECEDING), book=book)
    (only,) = occurrences(found, after=START, until=END, limit=5)

    assert (only.mark.calendar, only.mark.version, only.mark.label) == ("de", 7, "Good Friday")
    assert only.nominal_at == datetime(2027, 3, 26, 17, tzinfo=UTC)
    assert only.due_at == datetime(2027, 3, 25, 17, tzinfo=UTC)


def test_a_version_that_takes_effect_later_decides_from_its_date_on():
    versions = [
        CalendarVersion(number=1, definition=Definition()),
        CalendarVersion(number=2, definition=Definition(week=WEEK), effective_from=date(2027, 4, 1)),
    ]
    found = timing(cron("0 9 * * 6"), use=CalendarUse(open=("de",)), book=[Calendar("de", versions)])
    seen = occurrences(found, after=START, until=END, limit=100)

    assert [o.skipped for o in seen] == [None] * 4 + [Reason.CALENDAR_EXCLUDED] * 9
    assert {o.mark.version for o in seen if o.mark} == {2}


def test_a_calendar_that_must_be_closed_excludes_its_open_hours():
    window = DayRange(first=date(2027, 3, 3), last=date(2027, 3, 3), hours=((600, 660),))
    maintenance = calendar(window, week=(CLOSED,) * 7, name="maintenance")
    found = timing(cron("0 * * * *"), use=CalendarUse(closed=("maintenance",)), book=[maintenance])
    seen = occurrences(found, after=START, until=START + DAY * 5, limit=1000)

    assert [o.local.isoformat()[:16] for o in seen if o.skipped] == ["2027-03-03T10:00"]


def test_a_dense_trigger_leaps_over_a_closed_year():
    year = DayRange(first=date(2027, 1, 1), last=date(2027, 12, 31), hours=CLOSED)
    found = timing({"kind": "every", "every": "PT1S"}, use=CalendarUse(open=("de",)), book=[calendar(year)])

    assert next_after(found, START) == datetime(2028, 1, 2, 23, tzinfo=UTC)  # a Monday, by Berlin's clocks


def test_a_trigger_that_never_meets_an_open_day_is_answered_or_refused_at_once():
    never = calendar(week=(CLOSED,) * 7)
    sundays = timing(cron("0 9 * * 0"), use=CalendarUse(open=("de",)), book=[calendar()])

    assert next_after(timing(cron("0 9 * * *"), use=CalendarUse(open=("de",)), book=[never]), START) is None
    with pytest.raises(TriggerError) as refused:
        next_after(sundays, START)
    assert refused.value.code == "calendar.work"


def test_without_its_calendars_a_timing_answers_nothing():
    unbound = Timing(parse_trigger(cron("0 9 * * *")), calendars=CalendarUse(open=("de",)))

    assert calendar_names(unbound) == ("de",)
    for ask in (lambda: next_after(unbound, START), lambda: next_look(bind(unbound, {}), START)):
        with pytest.raises(TriggerError) as refused:
            ask()
        assert (refused.value.code, refused.value.field) == ("calendar.unknown", "calendars")


def business_day(**changes):
    return {"kind": "business_day", "nth": -1, "times": ["18:00"], "calendar": "de"} | changes


@given(st.integers(-23, 23).filter(bool), st.lists(SOME_DAYS, max_size=30))
def test_the_nth_business_day_fires_on_the_nth_open_day_of_each_month(nth, holidays):
    found = timing(business_day(nth=nth), use=None, book=[calendar(*map(closed, holidays))])
    expected = []
    for month in range(3, 6):
        days = [date(2027, month, 1) + DAY * n for n in range(31)]
        opened = [d for d in days if d.month == month and d.weekday() < 5 and d not in holidays]
        if abs(nth) <= len(opened):
            day = opened[nth - 1 if nth > 0 else nth]
            expected.append(datetime(day.year, day.month, day.day, 18, tzinfo=ZONE).astimezone(UTC))

    assert list(fires(found, after=START, until=END)) == expected


def test_a_business_day_that_no_month_has_never_fires():
    assert next_after(timing(business_day(nth=24), use=None, book=[calendar()]), START) is None


def test_a_business_day_survives_json_and_may_stand_in_a_union():
    trigger = parse_trigger(business_day(times=["09:00", "18:00:30"]))
    union = {"kind": "any_of", "triggers": [business_day(), cron("0 9 1 * *")]}

    assert parse_trigger(trigger_to_json(trigger)) == trigger
    assert calendar_names(Timing(parse_trigger(union))) == ("de",)
    assert len(list(fires(timing(union, use=None, book=[calendar()]), after=START, until=END))) == 6


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"nth": 0}, "nth"),
        ({"nth": True}, "nth"),
        ({"nth": 32}, "nth"),
        ({"times": []}, "times"),
        ({"times": ["9:00"]}, "times"),
        ({"times": "09:00"}, "times"),
        ({"calendar": ""}, "calendar"),
        ({"calendar": None}, "calendar"),
        ({"day": 1}, "day"),
    ],
)
def test_a_wrong_business_day_is_refused_where_it_is_wrong(changes, field):
    with pytest.raises(TriggerError) as refused:
        parse_trigger(business_day(**changes))

    assert refused.value.field == field


@pytest.mark.parametrize(
    "wrong",
    [
        [], "de", {}, {"open": []}, {"open": "de"}, {"open": [1]}, {"open": [""]}, {"open": ["x" * 201]},
        {"open": ["de"], "roll": "next"}, {"open": ["de"], "roll": None}, {"open": ["de"], "closed": ["de"]},
        {"only": ["de"]}, {"open": [f"c{n}" for n in range(9)]},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_use_of_calendars_is_refused(wrong):
    with pytest.raises(TriggerError) as refused:
        parse_use(wrong)

    assert (refused.value.code, refused.value.field) == ("calendar.use", "calendars")


@pytest.mark.parametrize(
    ("trigger", "roll", "refused"),
    [
        (cron("0 * * * *"), Roll.FOLLOWING, False),
        (cron("*/30 * * * *"), Roll.FOLLOWING, True),
        (cron("*/30 * * * *"), Roll.NONE, False),
        ({"kind": "every", "every": "PT1S"}, Roll.PRECEDING, True),
        ({"kind": "at", "at": "2027-03-06T09:00"}, Roll.PRECEDING, False),
    ],
)
def test_a_roll_is_for_what_happens_a_few_times_a_day(trigger, roll, refused):
    found = timing(trigger, use=CalendarUse(open=("de",), roll=roll), book=[calendar()])
    if refused:
        with pytest.raises(TriggerError, match="24 times a day"):
            refuse_dense_rolls(found, after=START)
    else:
        refuse_dense_rolls(found, after=START)


def test_a_use_of_calendars_survives_json():
    use = CalendarUse(open=("de", "trading"), closed=("maintenance",), roll=Roll.MODIFIED_FOLLOWING)

    assert parse_use(use_to_json(use)) == use
    assert parse_use(None) is None


def test_the_second_pass_of_a_fold_and_a_missing_local_time_roll_to_one_run():
    sunday, monday = date(2027, 10, 31), date(2027, 11, 1)
    use = CalendarUse(open=("de",), roll=Roll.FOLLOWING)
    found = bind(Timing(parse_trigger(cron("30 2 31 10 *")), "Europe/Berlin", None, "both", calendars=use),
                 {"de": calendar()})  # fmt: skip
    seen = occurrences(found, after=datetime(2027, 10, 1, tzinfo=UTC), until=datetime(2027, 12, 1, tzinfo=UTC), limit=9)

    assert [(o.local.date(), o.skipped) for o in seen] == [(sunday, None), (sunday, Reason.CALENDAR_ROLLED)]
    assert {o.mark.due_at for o in seen} == {datetime(2027, 11, 1, 1, 30, tzinfo=UTC)}
    assert monday == date(2027, 11, 1)
