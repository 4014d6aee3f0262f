"""When a message leaves: windows, rates and quiet hours."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.alert_folding import BURST, WAIT, Manner, Pace, is_urgent, leave
from everwhen.core.alert_retry import Patience, next_try
from everwhen.core.errors import TriggerError
from everwhen.core.quiet_hours import QuietHours, parse_quiet, quiet_json

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
PATIENCE = Patience()
NIGHT = QuietHours(zone="Europe/Berlin", begins=time(22), ends=time(7))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_the_first_leaves_at_once_and_the_next_no_sooner_than_a_window_later():
    manner = Manner(window=30 * SECOND)
    first, pace = leave(Pace(), manner, urgent=False, now=NOW)
    second, pace = leave(pace, manner, urgent=False, now=NOW + SECOND)
    much_later, _ = leave(pace, manner, urgent=False, now=NOW + HOUR)

    assert first == NOW + WAIT
    assert second == first + 30 * SECOND
    assert much_later == NOW + HOUR + WAIT


@given(st.lists(st.floats(0, 120), max_size=60), st.integers(1, 60))
def test_no_receiver_gets_more_than_its_rate(pauses, an_hour):
    """In no hour more than the burst and the rate together, and never two messages within a window."""
    manner, pace, now, left = Manner(window=SECOND, messages_an_hour=an_hour), Pace(), NOW, list[datetime]()
    for pause in pauses:
        now = max([now + timedelta(seconds=pause), *left[-1:]])
        due, pace = leave(pace, manner, urgent=False, now=now)
        assert due >= now + WAIT
        left.append(due)

    assert all(b - a >= SECOND for a, b in pairwise(left))
    for index, first in enumerate(left):
        assert sum(first <= other < first + HOUR for other in left[index:]) <= an_hour + BURST


def test_the_night_holds_back_and_what_pierces_it_goes_apart():
    manner = Manner(window=30 * SECOND, quiet=NIGHT)
    night = at("2026-11-30T23:00+01:00")
    due, pace = leave(Pace(), manner, urgent=False, now=night)
    urgent, pace = leave(pace, manner, urgent=True, now=night)
    next_urgent, _ = leave(pace, manner, urgent=True, now=night + SECOND)

    assert due == at("2026-12-01T07:00+01:00")
    assert urgent == night + WAIT
    assert next_urgent == urgent + 30 * SECOND
    assert is_urgent(manner, pierces=True, now=night)
    assert not is_urgent(manner, pierces=False, now=night)
    assert not is_urgent(manner, pierces=True, now=NOW)


@pytest.mark.parametrize(
    ("instant", "end"),
    [
        ("2026-11-30T21:59:59+01:00", None),
        ("2026-11-30T22:00:00+01:00", "2026-12-01T07:00+01:00"),
        ("2026-12-01T06:59:59+01:00", "2026-12-01T07:00+01:00"),
        ("2026-12-01T07:00:00+01:00", None),
        ("2026-03-28T23:00:00+01:00", "2026-03-29T07:00+02:00"),  # the night is an hour shorter
        ("2026-10-24T23:00:00+02:00", "2026-10-25T07:00+01:00"),  # and longer
    ],
)
def test_quiet_hours_are_local(instant, end):
    assert NIGHT.until(at(instant)) == (None if end is None else at(end))


LATE = QuietHours(zone="Europe/Berlin", begins=time(22), ends=time(2, 30))
EARLY = QuietHours(zone="Europe/Berlin", begins=time(2, 30), ends=time(8))
WEEKEND = QuietHours(zone="UTC", begins=time(0), ends=time(0), days=frozenset({5, 6}))
ALWAYS = QuietHours(zone="UTC", begins=time(0), ends=time(0))


@pytest.mark.parametrize(
    ("quiet", "instant", "end"),
    [
        # 02:30 does not exist on 29 March, and occurs twice on 25 October
        (EARLY, "2026-03-29T03:00+02:00", "2026-03-29T08:00+02:00"),
        (LATE, "2026-10-25T02:15+02:00", "2026-10-25T02:30+01:00"),
        (EARLY, "2026-10-25T02:40+02:00", "2026-10-25T08:00+01:00"),
        # whole weekends are one stretch
        (WEEKEND, "2026-11-28T01:00+00:00", "2026-11-30T00:00+00:00"),
        (WEEKEND, "2026-11-30T00:00+00:00", None),
        # always quiet is never quiet
        (ALWAYS, "2026-11-30T00:00+00:00", None),
    ],
)
def test_quiet_hours_around_transitions_and_weekends(quiet, instant, end):
    for zone in (UTC, ZoneInfo("America/Los_Angeles"), ZoneInfo("Pacific/Kiritimati")):
        assert quiet.until(at(instant).astimezone(zone)) == (None if end is None else at(end))


def test_quiet_hours_as_json():
    stored = {"zone": "Europe/Berlin", "begins": "22:00", "ends": "07:00", "days": ["mon", "fri"]}

    assert quiet_json(parse_quiet(stored)) == stored
    for field, value in (("zone", "Mars/Phobos"), ("begins", "25:00"), ("ends", "noon"), ("days", ["monday"])):
        with pytest.raises(TriggerError):
            parse_quiet(stored | {field: value})


@given(st.floats(0, 0.999))
def test_tries_go_on_for_an_hour_with_growing_pauses(jitter):
    now, tries, instants = NOW, 1, [NOW]
    while (
        following := next_try(PATIENCE, tries=tries, first_tried_at=NOW, now=now, after=None, jitter=jitter)
    ) is not None:
        assert now < following <= min(now + PATIENCE.most, NOW + PATIENCE.give_up)
        now, tries = following, tries + 1
        instants.append(now)

    assert instants[-1] == NOW + PATIENCE.give_up
    assert 9 <= tries <= 20


def test_a_receiver_that_says_when_is_obeyed_within_the_hour():
    given_up = next_try(PATIENCE, tries=1, first_tried_at=NOW, now=NOW, after=timedelta(hours=2), jitter=0)
    obeyed = next_try(PATIENCE, tries=1, first_tried_at=NOW, now=NOW, after=timedelta(minutes=20), jitter=0)
    sooner = next_try(PATIENCE, tries=6, first_tried_at=NOW, now=NOW, after=SECOND, jitter=0)

    assert given_up is None
    assert obeyed == NOW + timedelta(minutes=20)
    assert sooner == NOW + timedelta(seconds=80)
