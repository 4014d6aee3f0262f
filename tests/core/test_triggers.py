import dataclasses
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.reasons import Reason
from everwhen.core.triggers import (
    At,
    Cron,
    Every,
    FoldPolicy,
    GapPolicy,
    Timing,
    TriggerError,
    fires,
    next_after,
    occurrences,
    parse_fold,
    parse_gap,
    parse_instant,
    parse_trigger,
    trigger_to_json,
)
from everwhen.core.zones import zone_names


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def in_berlin(expr, gap=None, fold=None):
    return Timing(Cron(expr), "Europe/Berlin", gap, fold)


def in_gap_of_2027(timing):
    return occurrences(timing, after=utc(2027, 3, 27, 22), until=utc(2027, 3, 28, 3), limit=50)


def test_a_skipped_match_is_an_occurrence_at_the_transition_with_its_reason():
    [skipped] = in_gap_of_2027(in_berlin("10,30 2 * * *", GapPolicy.SKIP))
    assert skipped.nominal_at == utc(2027, 3, 28, 1)
    assert skipped.local.isoformat() == "2027-03-28T03:00:00+02:00"
    assert skipped.skipped is Reason.CALENDAR_DST_GAP
    assert [local.isoformat() for local in skipped.missing] == ["2027-03-28T02:10:00", "2027-03-28T02:30:00"]


def test_a_moved_match_fires_at_the_gaps_end_and_says_what_it_stands_for():
    [moved] = in_gap_of_2027(in_berlin("10,30 2 * * *", GapPolicy.GAP_END))
    assert (moved.nominal_at, moved.skipped) == (utc(2027, 3, 28, 1), None)
    assert len(moved.missing) == 2


def test_a_natural_match_at_the_gaps_end_absorbs_what_was_skipped():
    [merged] = in_gap_of_2027(in_berlin("0 2,3 * * *", GapPolicy.SKIP))
    assert (merged.nominal_at, merged.skipped) == (utc(2027, 3, 28, 1), None)
    assert [local.isoformat() for local in merged.missing] == ["2027-03-28T02:00:00"]


def test_shifted_matches_interleave_with_natural_ones_and_merge_where_they_meet():
    found = in_gap_of_2027(in_berlin("0,30 2-3 * * *", GapPolicy.SHIFT))
    assert [(o.nominal_at, len(o.missing)) for o in found] == [(utc(2027, 3, 28, 1), 1), (utc(2027, 3, 28, 1, 30), 1)]
    found = in_gap_of_2027(in_berlin("20 2 * * *", GapPolicy.SHIFT))
    assert [(o.nominal_at, len(o.missing)) for o in found] == [(utc(2027, 3, 28, 1, 20), 1)]


def test_a_fold_keeps_both_offsets():
    timing = in_berlin("30 2 * * *", fold=FoldPolicy.BOTH)
    found = occurrences(timing, after=utc(2027, 10, 30, 12), until=utc(2027, 11, 1), limit=10)
    assert [(o.local.isoformat(), o.repeated) for o in found] == [
        ("2027-10-31T02:30:00+02:00", True),
        ("2027-10-31T02:30:00+01:00", True),
    ]


@pytest.mark.parametrize(
    ("expr", "gap", "fold"),
    [
        ("30 * * * *", "skip", "both"),
        ("30 */2 * * *", "skip", "both"),
        ("0 9-17/2 * * *", "skip", "both"),
        ("@hourly", "skip", "both"),
        ("*/5 2 * * *", "gap_end", "first"),
        ("30 1,2,3 * * *", "gap_end", "first"),
        ("@daily", "gap_end", "first"),
    ],
)
def test_automatic_policies_let_sub_daily_patterns_ride_on_elapsed_time(expr, gap, fold):
    timing = in_berlin(expr)
    assert (timing.effective_gap, timing.effective_fold) == (gap, fold)
    assert (in_berlin(expr, GapPolicy.SHIFT, FoldPolicy.SECOND).effective_gap) == "shift"


def test_an_hourly_pattern_fires_every_elapsed_hour_of_a_year():
    found = list(fires(in_berlin("30 * * * *"), after=utc(2026, 12, 31, 23), until=utc(2027, 12, 31, 22, 59)))
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(hours=1)}


def test_a_pattern_that_always_meets_a_gap_is_never_again_and_quickly_so():
    # Two in the morning of the second Sunday of March is when New York's clocks go forward, for ever.
    timing = Timing(Cron("30 2 8-14 3 */7"), "America/New_York", GapPolicy.SKIP)
    assert next_after(timing, utc(2026, 1, 1)) is None
    assert next_after(Timing(timing.trigger, "America/New_York", GapPolicy.GAP_END), utc(2026, 1, 1)) is not None
    found = occurrences(timing, after=utc(2026, 1, 1), until=utc(2030, 1, 1), limit=10)
    assert [o.skipped for o in found] == [Reason.CALENDAR_DST_GAP] * 4


def test_a_whole_missing_day_makes_one_skip_however_many_seconds_it_had():
    timing = Timing(Cron("* * * * * *", seconds=True), "Pacific/Apia")
    found = occurrences(timing, after=utc(2011, 12, 30, 9, 59, 58), until=utc(2011, 12, 30, 10, 0, 1), limit=9)
    assert [o.skipped for o in found] == [None, None, None]
    assert [len(o.missing) for o in found] == [0, 60, 0]


def test_elapsed_intervals_know_no_transition():
    timing = Timing(Every("PT24H", utc(2025, 10, 24, 0, 30)), "Antarctica/Troll")
    found = occurrences(timing, after=utc(2025, 10, 24, 0, 30), until=utc(2025, 10, 27, 1), limit=9)
    assert [o.local.isoformat() for o in found] == [
        "2025-10-25T02:30:00+02:00",
        "2025-10-26T02:30:00+02:00",
        "2025-10-27T00:30:00+00:00",
    ]


def test_a_one_off_fires_once():
    timing = Timing(At(utc(2027, 1, 1, 12)))
    assert list(fires(timing, after=utc(2026, 1, 1))) == [utc(2027, 1, 1, 12)]
    assert next_after(timing, utc(2027, 1, 1, 12)) is None


def test_a_one_off_at_a_local_time_follows_the_policies():
    missing = At(datetime.fromisoformat("2027-03-28T02:30"))
    assert list(fires(Timing(missing, "Europe/Berlin"), after=utc(2027, 1, 1))) == [utc(2027, 3, 28, 1)]
    skipping = Timing(missing, "Europe/Berlin", GapPolicy.SKIP)
    assert next_after(skipping, utc(2027, 1, 1)) is None
    [skipped] = occurrences(skipping, after=utc(2027, 1, 1), until=utc(2028, 1, 1), limit=5)
    assert (skipped.nominal_at, skipped.skipped) == (utc(2027, 3, 28, 1), Reason.CALENDAR_DST_GAP)
    twice = Timing(At(datetime.fromisoformat("2027-10-31T02:30")), "Europe/Berlin", fold=FoldPolicy.BOTH)
    assert list(fires(twice, after=utc(2027, 1, 1))) == [utc(2027, 10, 31, 0, 30), utc(2027, 10, 31, 1, 30)]


def test_count_until_and_limit_bound_what_comes():
    timing = in_berlin("* * * * *")
    assert list(fires(timing, after=utc(2026, 1, 1), count=0)) == []
    assert len(list(fires(timing, after=utc(2026, 1, 1), count=3))) == 3
    assert list(fires(timing, after=utc(2026, 1, 1), until=utc(2026, 1, 1, 0, 2))) == [
        utc(2026, 1, 1, 0, 1),
        utc(2026, 1, 1, 0, 2),
    ]
    assert len(occurrences(timing, after=utc(2026, 1, 1), until=utc(2027, 1, 1), limit=7)) == 7


def test_an_instant_in_another_offset_is_the_same_instant():
    timing, berlin = in_berlin("0 12 * * *"), timedelta(hours=2)
    assert next_after(timing, datetime.fromisoformat("2027-07-01T11:00:00+02:00")) == utc(2027, 7, 1, 12) - berlin
    with pytest.raises(TriggerError):
        next_after(timing, datetime.fromisoformat("2027-07-01T11:00:00"))


@settings(max_examples=300, deadline=None)
@given(
    zone=st.sampled_from(sorted(zone_names())),
    trigger=st.sampled_from(
        [
            Cron("* * * * *"),
            Cron("0 0 29 2 *"),
            Cron("59 23 31 12 *"),
            Every("P1D"),
            Every("PT1S"),
            At(utc(9999, 12, 31)),
        ]
    ),
    after=st.datetimes(timezones=st.just(UTC)),
    gap=st.sampled_from([None, *GapPolicy]),
    fold=st.sampled_from([None, *FoldPolicy]),
)
def test_any_instant_of_the_calendar_has_an_answer(zone, trigger, after, gap, fold):  # noqa: PLR0917
    found = next_after(Timing(trigger, zone, gap, fold), after)
    assert found is None or found > after


@pytest.mark.parametrize("after", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Antarctica/Troll"])
def test_the_ends_of_the_calendar_have_an_answer(after, zone):
    for trigger in (Cron("* * * * *"), Cron("30 2 * 3 *"), Every("PT1H"), At(utc(2026, 1, 1))):
        timing = Timing(trigger, zone)
        found = next_after(timing, after)
        assert found is None or found > after
        assert len(occurrences(timing, after=after, until=datetime.max.replace(tzinfo=UTC), limit=3)) <= 3


def test_values_are_frozen_equal_by_content_and_survive_json():
    for trigger in (Cron("0 2 * * *"), Cron("0 0 2 * * *", True), Every("PT90M", utc(2027, 1, 1)), At(utc(2027, 1, 1)),
                    At(datetime.fromisoformat("2027-01-01T02:30:00"))):  # fmt: skip
        assert parse_trigger(json.loads(json.dumps(trigger_to_json(trigger)))) == trigger
    with pytest.raises(dataclasses.FrozenInstanceError):
        Cron("0 2 * * *").expr = "x"
    assert Every("PT1H", datetime.fromisoformat("2027-01-01T02:00+02:00")) == Every("PT1H", utc(2027, 1, 1))


@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        (None, "trigger.type", "trigger"),
        ([], "trigger.type", "trigger"),
        ({}, "trigger.field.missing", "kind"),
        ({"kind": 1}, "trigger.field.type", "kind"),
        ({"kind": "rrule", "rrule": "FREQ=DAILY"}, "trigger.field.missing", "dtstart"),
        ({"kind": "moon"}, "trigger.kind.unknown", "kind"),
        ({"kind": "cron"}, "trigger.field.missing", "expr"),
        ({"kind": "cron", "expr": None}, "trigger.field.type", "expr"),
        ({"kind": "cron", "expr": "* * * * *", "tz": "UTC"}, "trigger.field.unknown", "tz"),
        ({"kind": "cron", "expr": "* * * * *", "seconds": 1}, "trigger.field.type", "seconds"),
        ({"kind": "cron", "expr": "* * * * *", "dialect": "moon"}, "trigger.cron.dialect", "dialect"),
        ({"kind": "every"}, "trigger.field.missing", "every"),
        ({"kind": "every", "every": "PT1H", "mode": "lunar"}, "trigger.every.mode", "mode"),
        ({"kind": "every", "every": "PT1H", "anchor": "2027-01-01T00:00"}, "trigger.instant.naive", "anchor"),
        ({"kind": "every", "every": "PT1H", "anchor": "soon"}, "trigger.instant.syntax", "anchor"),
        ({"kind": "at", "at": "2027-02-30T00:00Z"}, "trigger.instant.range", "at"),
        ({"kind": "at", "at": "0001-01-01T00:00+14:00"}, "trigger.instant.range", "at"),
        ({"kind": "at", "at": "2027-01-01T24:00Z"}, "trigger.instant.range", "at"),
        ({"kind": "at", "at": "20270101T000000Z"}, "trigger.instant.syntax", "at"),
    ],
)
def test_json_that_is_no_trigger_is_refused_by_its_key(data, code, field):
    with pytest.raises(TriggerError) as caught:
        parse_trigger(data)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_policies_are_read_by_name():
    assert (parse_gap(None), parse_gap("shift"), parse_fold("second")) == (None, GapPolicy.SHIFT, FoldPolicy.SECOND)
    for read, field in ((parse_gap, "gap"), (parse_fold, "fold")):
        with pytest.raises(TriggerError) as caught:
            read("shift_forward")
        assert caught.value.field == field


def test_instants_keep_their_microseconds():
    assert parse_instant("2027-01-01T00:00:00.25Z", field="at") == utc(2027, 1, 1, 0, 0, 0, 250_000)
