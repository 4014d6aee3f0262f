"""An instant is told so that nobody has to guess which one it is."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.alerts.texts.telling import told, told_span
from everwhen.core.zones import find_zone, zone_names


@pytest.mark.parametrize(
    ("at", "zone", "expected"),
    [
        (
            "2026-11-30T01:30Z",
            "Europe/Berlin",
            ("Mon 30 Nov 2026, 02:30 CET (UTC+01:00)", "2026-11-30 01:30 UTC", "30 Nov 02:30 CET"),
        ),
        (
            "2026-10-25T00:30Z",
            "Europe/Berlin",
            ("Sun 25 Oct 2026, 02:30 CEST (UTC+02:00), the first of two", "2026-10-25 00:30 UTC", "25 Oct 02:30 CEST"),
        ),
        (
            "2026-10-25T01:30Z",
            "Europe/Berlin",
            ("Sun 25 Oct 2026, 02:30 CET (UTC+01:00), the second of two", "2026-10-25 01:30 UTC", "25 Oct 02:30 CET"),
        ),
        (
            "2026-03-29T01:00Z",
            "Europe/Berlin",
            ("Sun 29 Mar 2026, 03:00 CEST (UTC+02:00)", "2026-03-29 01:00 UTC", "29 Mar 03:00 CEST"),
        ),
        (
            "2026-04-04T15:15Z",
            "Australia/Lord_Howe",
            ("Sun 5 Apr 2026, 01:45 UTC+10:30, the second of two", "2026-04-04 15:15 UTC", "5 Apr 01:45 UTC+10:30"),
        ),
        (
            "2026-01-01T00:00:07Z",
            "Asia/Kathmandu",
            ("Thu 1 Jan 2026, 05:45:07 UTC+05:45", "2026-01-01 00:00:07 UTC", "1 Jan 05:45:07 UTC+05:45"),
        ),
        ("2026-01-01T00:00Z", None, ("2026-01-01 00:00 UTC", "2026-01-01 00:00 UTC", "1 Jan 00:00 UTC")),
        ("2026-01-01T00:00Z", "Mars/Base", ("2026-01-01 00:00 UTC", "2026-01-01 00:00 UTC", "1 Jan 00:00 UTC")),
        ("2026-01-01T00:00Z", "../etc", ("2026-01-01 00:00 UTC", "2026-01-01 00:00 UTC", "1 Jan 00:00 UTC")),
        (
            "9999-12-31T23:59:59Z",
            "Asia/Tokyo",
            ("Fri 31 Dec 9999, 23:59:59 UTC (UTC+00:00)", "9999-12-31 23:59:59 UTC", "31 Dec 23:59:59 UTC"),
        ),
    ],
)
def test_an_instant_in_its_zone_and_in_utc(at, zone, expected):
    found = told(datetime.fromisoformat(at), zone)

    assert (found.local, found.utc, found.short) == expected


def test_no_instant_is_told_as_nothing():
    assert set(told(None, "Europe/Berlin")) == {""}


@given(
    st.sampled_from(sorted(zone_names())),
    st.integers(0, 3_000_000_000),
    st.sampled_from([timedelta(minutes=30), timedelta(hours=1), timedelta(hours=2)]),
)
def test_two_instants_are_never_told_alike(zone, seconds, apart):
    changes = list(find_zone(zone).transitions(datetime.fromtimestamp(seconds, UTC), datetime(2100, 1, 1, tzinfo=UTC)))
    at = changes[0].at if changes else datetime.fromtimestamp(seconds, UTC)

    assert told(at - apart / 2, zone).local != told(at + apart / 2, zone).local


@pytest.mark.parametrize(
    ("first", "last", "local", "utc"),
    [
        (
            "2026-11-30T01:34Z",
            "2026-11-30T01:35Z",
            "Mon 30 Nov 2026, 02:34 to 02:35 CET (UTC+01:00)",
            "2026-11-30 01:34 to 01:35 UTC",
        ),
        (
            "2026-11-30T22:30Z",
            "2026-11-30T23:30Z",
            "Mon 30 Nov 2026, 23:30 CET (UTC+01:00) to Tue 1 Dec 2026, 00:30 CET (UTC+01:00)",
            "2026-11-30 22:30 to 23:30 UTC",
        ),
        (
            "2026-10-25T00:30Z",
            "2026-10-25T01:30Z",
            (
                "Sun 25 Oct 2026, 02:30 CEST (UTC+02:00), the first of two"
                " to Sun 25 Oct 2026, 02:30 CET (UTC+01:00), the second of two"
            ),
            "2026-10-25 00:30 to 01:30 UTC",
        ),
    ],
)
def test_a_span_says_once_what_both_ends_share(first, last, local, utc):
    found = told_span(datetime.fromisoformat(first), datetime.fromisoformat(last), "Europe/Berlin")

    assert found == (local, utc)


def test_a_span_of_one_instant_is_told_as_one():
    at = datetime(2026, 11, 30, tzinfo=UTC)

    assert told_span(at, at, None) == ("2026-11-30 00:00 UTC", "2026-11-30 00:00 UTC")
