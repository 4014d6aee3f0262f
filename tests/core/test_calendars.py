"""Calendars against a day-by-day walk that shares no code with them, and their properties."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.calendars import (
    CLOSED,
    OPEN,
    Calendar,
    CalendarVersion,
    DayRange,
    Definition,
    Roll,
    in_force,
)

DAY = timedelta(days=1)
HALF = ((540, 780),)
WORKING_WEEK = (OPEN,) * 5 + (CLOSED,) * 2
DAYS = st.dates(date(2023, 11, 1), date(2026, 3, 1))
HOURS = st.sampled_from([OPEN, CLOSED, HALF])


@st.composite
def ranges(draw):
    first = draw(DAYS)
    return DayRange(
        first=first, last=first + DAY * draw(st.integers(0, 20)), hours=draw(HOURS), label=draw(st.text("ab"))
    )


definitions = st.builds(
    Definition,
    week=st.tuples(*[HOURS] * 7),
    days=st.lists(ranges(), max_size=12).map(tuple),
)


@st.composite
def chains(draw):
    count = draw(st.integers(1, 4))
    return [
        CalendarVersion(number=n + 1, definition=draw(definitions), effective_from=draw(st.none() | DAYS))
        for n in range(count)
    ]


def told(versions, day):
    """The hours of a day and the version that says so, by reading the versions from the latest on."""
    for version in sorted(versions, key=lambda version: -version.number):
        if version.effective_from is None or version.effective_from <= day:
            for entry in reversed(version.definition.days):
                if entry.first <= day <= entry.last:
                    return entry.hours, version.number
            return version.definition.week[day.weekday()], version.number
    return OPEN, 0


def walked(versions, day, step, *, limit=2500):
    for _ in range(limit):
        if told(versions, day)[0]:
            return day
        day += DAY * step
    return None


@given(chains(), DAYS)
def test_a_day_is_what_the_latest_version_in_force_says(versions, day):
    state = Calendar("c", versions).state(day)

    assert (state.hours, state.version) == told(versions, day)
    assert Calendar("c", versions).version_on(day) == told(versions, day)[1]


@given(chains(), DAYS)
def test_the_next_and_the_previous_open_day_are_those_of_a_walk(versions, day):
    calendar = Calendar("c", versions)

    assert calendar.next_open(day) == walked(versions, day, 1)
    if any(version.effective_from is None for version in versions):
        assert calendar.previous_open(day) == walked(versions, day, -1)


@given(chains(), DAYS, st.integers(-40, 40))
def test_adding_business_days_counts_the_open_ones(versions, day, count):
    found, left, step = day, abs(count), 1 if count > 0 else -1
    for _ in range(3000):
        if left == 0:
            break
        found += DAY * step
        left -= bool(told(versions, found)[0])
    if left == 0:
        assert Calendar("c", versions).add_business_days(day, count) == found


@given(chains(), DAYS, st.integers(-24, 24))
def test_the_nth_business_day_is_the_nth_of_the_open_ones(versions, day, n):
    first = day.replace(day=1)
    month = [first + DAY * i for i in range(31) if (first + DAY * i).month == first.month]
    opened = [each for each in month if told(versions, each)[0]]
    expected = opened[n - 1 if n > 0 else n] if n and abs(n) <= len(opened) else None

    assert Calendar("c", versions).nth_business_day(day.year, day.month, n) == expected


@given(chains(), DAYS, st.sampled_from(Roll))
def test_a_roll_is_that_of_a_walk_and_idempotent(versions, day, convention):
    calendar = Calendar("c", versions)
    following, preceding = walked(versions, day, 1), walked(versions, day, -1)
    modified = following if following and (following.year, following.month) == (day.year, day.month) else preceding
    expected = {
        Roll.NONE: None,
        Roll.FOLLOWING: following,
        Roll.PRECEDING: preceding,
        Roll.MODIFIED_FOLLOWING: modified,
    }[convention]
    found = calendar.roll(day, convention)

    if told(versions, day)[0]:
        assert found == day
    elif expected is not None:
        assert found == expected
        assert calendar.roll(found, convention) == found


@given(chains(), DAYS, st.integers(0, 1439))
def test_open_at_a_time_is_inside_a_window_and_the_next_change_is_the_first_one(versions, day, minute):
    calendar = Calendar("c", versions)
    wall = datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=UTC)
    is_open = any(start <= minute < end for start, end in told(versions, day)[0])
    change = calendar.next_change(wall)

    assert calendar.is_open_at(wall) == is_open
    probe = wall
    for _ in range(4 * 24 * 60 // 15):
        probe += timedelta(minutes=15 - probe.minute % 15)
        if change is not None and probe >= change:
            assert calendar.is_open_at(change) != is_open
            break
        assert calendar.is_open_at(probe) == is_open


@given(chains())
def test_versions_that_no_day_depends_on_are_not_in_force(versions):
    kept = in_force(versions)

    assert kept == sorted(kept, key=lambda version: version.number)
    assert all(Calendar("c", kept).state(day) == Calendar("c", versions).state(day) for day in some_days())


def some_days():
    return [date(2023, 11, 1) + DAY * 37 * step for step in range(25)]


@pytest.mark.parametrize("day", [date(1, 1, 1), date(2026, 5, 5), date(9999, 12, 31)])
def test_a_calendar_that_is_closed_for_ever_says_so(day):
    closed = Calendar("c", [CalendarVersion(number=1, definition=Definition(week=(CLOSED,) * 7))])

    assert closed.next_open(day) is None
    assert closed.previous_open(day) is None
    assert closed.add_business_days(day, 1) is None
    assert closed.nth_business_day(day.year, day.month, 1) is None
    assert [closed.roll(day, convention) for convention in Roll] == [None] * 4
    assert closed.next_change(datetime(day.year, day.month, day.day, tzinfo=UTC)) is None


def test_the_conventions_differ_at_the_end_of_a_month():
    calendar = Calendar("c", [CalendarVersion(number=1, definition=Definition(week=WORKING_WEEK))])
    sunday = date(2027, 1, 31)

    assert calendar.roll(sunday, Roll.FOLLOWING) == date(2027, 2, 1)
    assert calendar.roll(sunday, Roll.MODIFIED_FOLLOWING) == date(2027, 1, 29)
    assert calendar.roll(sunday, Roll.PRECEDING) == date(2027, 1, 29)
    assert calendar.roll(sunday, Roll.NONE) is None


def test_the_calendar_ends_with_the_year_9999():
    calendar = Calendar("c", [CalendarVersion(number=1, definition=Definition(week=WORKING_WEEK))])

    assert calendar.next_open(date(9999, 12, 31)) == date(9999, 12, 31)
    assert calendar.add_business_days(date(9999, 12, 31), 1) is None
    assert calendar.add_business_days(date(1, 1, 1), -1) is None


def test_more_business_days_than_a_million_are_refused():
    calendar = Calendar("c", [CalendarVersion(number=1, definition=Definition())])

    with pytest.raises(ValueError, match="1000000"):
        calendar.add_business_days(date(2027, 1, 1), 10_000_000)
