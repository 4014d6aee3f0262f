from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.errors import TriggerError
from everwhen.core.interval import LONGEST, SHORTEST, following, parse_duration

INSTANTS = st.datetimes(timezones=st.just(UTC))
PERIODS = st.timedeltas(SHORTEST, LONGEST)


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("PT1S", timedelta(seconds=1)),
        ("PT90M", timedelta(minutes=90)),
        ("P1D", timedelta(hours=24)),
        ("P2W", timedelta(days=14)),
        ("P1W2DT3H4M5S", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)),
        ("PT23H59M59S", timedelta(hours=24) - timedelta(seconds=1)),
        ("PT3600S", timedelta(hours=1)),
    ],
)
def test_durations_of_whole_units_are_read(text, period):
    assert parse_duration(text) == period


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("P1Y", "calendar_unit"),
        ("P1M", "calendar_unit"),
        ("P1Y2M3D", "calendar_unit"),
        ("P0.5Y", "calendar_unit"),
        ("", "syntax"),
        ("P", "syntax"),
        ("PT", "syntax"),
        ("P1DT", "syntax"),
        ("1h", "syntax"),
        ("PT0.5S", "syntax"),
        ("PT1,5H", "syntax"),
        ("-PT1H", "syntax"),
        ("P-1D", "syntax"),
        ("PT1H1D", "syntax"),
        ("PT\u0661H", "syntax"),
        ("PT1H\n", "syntax"),
        ("PT" + "9" * 300 + "S", "syntax"),
        ("PT0S", "bounds"),
        ("P0D", "bounds"),
        ("P36526D", "bounds"),
        ("P999999999W", "bounds"),
    ],
)
def test_other_durations_are_refused_with_their_code(text, kind):
    with pytest.raises(TriggerError) as caught:
        parse_duration(text)
    assert (caught.value.code, caught.value.field) == (f"trigger.every.{kind}", "every")


@given(text=st.text(max_size=30))
def test_any_text_is_a_duration_or_a_trigger_error(text):
    with suppress(TriggerError):
        assert SHORTEST <= parse_duration(text) <= LONGEST


@given(anchor=INSTANTS, after=INSTANTS, period=PERIODS)
def test_the_next_instant_is_the_first_one_later_that_is_whole_periods_from_the_anchor(anchor, after, period):
    found = following(period, anchor=anchor, after=after)
    if found is None:
        assert (after - anchor) // period >= (datetime.max.replace(tzinfo=UTC) - anchor) // period
        return
    assert found > after
    assert (found - anchor) % period == timedelta(0)
    assert found == anchor or found - period <= after


def test_the_anchor_is_the_first_instant():
    anchor = datetime(2027, 1, 1, tzinfo=UTC)
    assert following(timedelta(hours=1), anchor=anchor, after=datetime(2026, 1, 1, tzinfo=UTC)) == anchor
