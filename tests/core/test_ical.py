"""Closed days from iCalendar texts: what is read, and what is refused by its line."""

from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.calendars import CLOSED, DayRange
from everwhen.core.errors import TriggerError
from everwhen.core.ical import closed_days

YEARS = range(2026, 2029)


def text(*events):
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0"]
    for event in events:
        lines += ["BEGIN:VEVENT", "UID:1@x", *event, "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


def days(*events, years=YEARS):
    return [(each.first.isoformat(), len(each), each.label) for each in closed_days(text(*events), years=years)]


def test_an_event_of_one_day_and_of_several():
    found = closed_days(
        text(["DTSTART;VALUE=DATE:20271224", "SUMMARY:Christmas\\, eve"], ["DTSTART:20270101", "DTEND:20270103"]),
        years=YEARS,
    )

    assert found == [
        DayRange(first=date(2027, 1, 1), last=date(2027, 1, 2), hours=CLOSED),
        DayRange(first=date(2027, 12, 24), last=date(2027, 12, 24), hours=CLOSED, label="Christmas, eve"),
    ]


def test_a_rule_is_followed_within_the_years_and_without_its_exceptions():
    yearly = ["DTSTART;VALUE=DATE:20000501", "RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20270501", "SUMMARY:May"]
    monday = ["DTSTART;VALUE=DATE:20260525", "RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO", "DURATION:P1D"]

    assert days(yearly) == [("2026-05-01", 1, "May"), ("2028-05-01", 1, "May")]
    assert [found[0] for found in days(monday)] == ["2026-05-25", "2027-05-31", "2028-05-29"]


def test_further_dates_long_lines_alarms_and_cancelled_events():
    alarm = ["BEGIN:VALARM", "TRIGGER:-PT1H", "DTSTART:nonsense", "END:VALARM"]
    found = days(
        ["DTSTART:20270301", "RDATE:20270302,20270304", "SUMMARY:Lo", " ng", *alarm],
        ["DTSTART:20270401", "STATUS:CANCELLED"],
    )

    assert found == [("2027-03-01", 1, "Long"), ("2027-03-02", 1, "Long"), ("2027-03-04", 1, "Long")]


WRONG = [
    ("", "ical.syntax"),
    ("hello", "ical.syntax"),
    ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20270101", "ical.syntax"),
    (text(["SUMMARY:x"]), "ical.event"),
    (text(["DTSTART:20270101T090000Z"]), "ical.date"),
    (text(["DTSTART:20270230"]), "ical.date"),
    (text(["DTSTART:18000101"]), "ical.date"),
    (text(["DTSTART:20270102", "DTEND:20270101"]), "ical.event"),
    (text(["DTSTART:20270102", "DURATION:PT1H"]), "ical.event"),
    (text(["DTSTART:20270102", "RRULE:FREQ=SOMETIMES"]), "ical.rule"),
    (text(["DTSTART:20270102", "RRULE:FREQ=DAILY", "RRULE:FREQ=DAILY"]), "ical.rule"),
    (text(["DTSTART:20270102", "RDATE;VALUE=PERIOD:20270101/P1D"]), "ical.rule"),
    (text(*[["DTSTART:20270102"]] * 5_001), "ical.size"),
    ("x" * 1_000_001, "ical.size"),
]


@pytest.mark.parametrize(("wrong", "code"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_read_is_refused_by_name(wrong, code):
    with pytest.raises(TriggerError) as refused:
        closed_days(wrong, years=YEARS)

    assert refused.value.code == code


def test_more_days_than_a_calendar_may_list_are_refused():
    with pytest.raises(TriggerError) as refused:
        closed_days(text(["DTSTART:20260101", "RRULE:FREQ=DAILY"]), years=range(2026, 2100))

    assert refused.value.code == "ical.size"


@given(st.text(alphabet=st.sampled_from("BEGINDVTSARUL:;=,\r\n \t0123456789P"), max_size=300))
def test_whatever_comes_it_is_read_or_refused(noise):
    for candidate in (noise, text(noise.splitlines())):
        with suppress(TriggerError):
            closed_days(candidate, years=YEARS)
