import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
import tzdata
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.errors import TriggerError
from everwhen.core.zones import (
    FoldPolicy,
    GapPolicy,
    find_zone,
    gap_around,
    resolve,
    tz_version,
    use_tzdata_only,
    zone_names,
)
from tests.core.minute_walk import standard_zone

ALL_ZONES = sorted(zone_names())


@pytest.fixture
def search_path():
    """Restore what the process searches for zones."""
    before = zoneinfo.TZPATH
    yield
    zoneinfo.reset_tzpath(to=before)
    ZoneInfo.clear_cache()


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def wall(*parts):
    return datetime(*parts)  # noqa: DTZ001 - a wall-clock time has no zone


def resolved(name, local, gap="skip", fold="both"):
    return list(resolve(local, find_zone(name), gap=GapPolicy(gap), fold=FoldPolicy(fold)))


@pytest.mark.parametrize(
    "name",
    ["", "Europe", "../x", "../../etc/passwd", "/etc/localtime", "\0", "UTC\0", "utc", "europe/berlin", "Mars/Base",
     "A" * 10_000, "Europe/Berlin ", "tzdata.zi", "zone1970.tab", "__init__.py", "\ud800"],
)  # fmt: skip
def test_what_is_no_zone_is_refused_by_its_field(name):
    with pytest.raises(TriggerError) as caught:
        find_zone(name)
    assert (caught.value.code, caught.value.field) == ("trigger.timezone.unknown", "timezone")
    assert len(caught.value.message) < 200


def test_the_version_is_that_of_the_package():
    assert tz_version() == tzdata.IANA_VERSION


def test_the_process_can_be_told_to_use_the_package_only(search_path):
    use_tzdata_only()
    assert zoneinfo.TZPATH == ()


def test_zones_do_not_come_from_the_system(search_path):
    zoneinfo.reset_tzpath(to=["/nonexistent"])
    assert find_zone("Pacific/Kwajalein").at(utc(2026, 1, 1)).offset == timedelta(hours=12)
    assert zone_names() == zoneinfo.available_timezones()


@pytest.mark.parametrize("name", ALL_ZONES[:: len(ALL_ZONES) // 120])
def test_stretches_tile_the_calendar_and_agree_with_the_standard_library(name):
    zone, oracle = find_zone(name), standard_zone(name)
    changes = list(zone.transitions(utc(1900, 1, 1), utc(2110, 1, 1)))
    tick = timedelta(microseconds=1)
    for change in changes:
        assert (change.at - tick).astimezone(oracle).utcoffset() == change.before != change.after
        assert change.at.astimezone(oracle).utcoffset() == change.after
    for earlier, later in pairwise(changes):
        # The search inside a ruled year steps by days, and the walk relies on one transition at a time.
        assert later.at - earlier.at > timedelta(days=6)
        assert earlier.after == later.before
    days = [utc(1900, 1, 1) + timedelta(days=23 * i, hours=i % 24) for i in range(3300)]
    assert all(zone.at(day).offset == day.astimezone(oracle).utcoffset() for day in days)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(ALL_ZONES), second=st.integers(-62_135_596_800, 253_402_300_799))
def test_the_offset_of_any_instant_is_that_of_the_standard_library(name, second):
    instant = utc(1970, 1, 1) + timedelta(seconds=second)
    stretch = find_zone(name).at(instant)
    assert stretch.start <= instant < stretch.end
    assert stretch.calm_from >= stretch.start
    assert stretch.calm_until <= stretch.end
    if 2 <= instant.year <= 9998:
        assert stretch.offset == instant.astimezone(standard_zone(name)).utcoffset()


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(ALL_ZONES), minute=st.integers(-60_000_000, 60_000_000))
def test_resolving_an_existing_local_time_inverts_the_standard_library(name, minute):
    instant = utc(1970, 1, 1) + timedelta(minutes=minute)
    local = find_zone(name).local(instant)
    assert instant in resolved(name, local.replace(tzinfo=None, fold=0))
    assert find_zone(name).is_repeated(local) == (len(resolved(name, local.replace(tzinfo=None))) == 2)


GAPS = [
    ("America/New_York", wall(2026, 3, 8, 2, 30), utc(2026, 3, 8, 7), utc(2026, 3, 8, 7, 30)),
    ("Australia/Lord_Howe", wall(2026, 10, 4, 2, 15), utc(2026, 10, 3, 15, 30), utc(2026, 10, 3, 15, 45)),
    ("Antarctica/Troll", wall(2026, 3, 29, 2, 30), utc(2026, 3, 29, 1), utc(2026, 3, 29, 2, 30)),
    ("Africa/Cairo", wall(2026, 4, 24, 0, 0), utc(2026, 4, 23, 22), utc(2026, 4, 23, 22)),
    ("Pacific/Apia", wall(2011, 12, 30, 12, 0), utc(2011, 12, 30, 10), utc(2011, 12, 30, 22)),
]


@pytest.mark.parametrize(("name", "local", "gap_end", "shifted"), GAPS)
def test_a_gap_of_any_length_is_skipped_left_at_its_end_or_shifted_by_its_length(name, local, gap_end, shifted):
    assert resolved(name, local, gap="skip") == []
    assert resolved(name, local, gap="gap_end") == [gap_end]
    assert resolved(name, local, gap="shift") == [shifted]
    assert gap_around(local, find_zone(name)).at == gap_end


FOLDS = [
    ("America/New_York", wall(2026, 11, 1, 1, 30), [utc(2026, 11, 1, 5, 30), utc(2026, 11, 1, 6, 30)]),
    ("Australia/Lord_Howe", wall(2026, 4, 5, 1, 45), [utc(2026, 4, 4, 14, 45), utc(2026, 4, 4, 15, 15)]),
    ("Antarctica/Troll", wall(2026, 10, 25, 1, 0), [utc(2026, 10, 24, 23), utc(2026, 10, 25, 1)]),
    ("Antarctica/Casey", wall(2023, 3, 9, 0, 0), [utc(2023, 3, 8, 13), utc(2023, 3, 8, 16)]),
]


@pytest.mark.parametrize(("name", "local", "passes"), FOLDS)
def test_a_fold_of_any_length_gives_the_first_pass_the_second_or_both(name, local, passes):
    assert resolved(name, local, fold="first") == passes[:1]
    assert resolved(name, local, fold="second") == passes[1:]
    assert resolved(name, local, fold="both") == passes


def test_the_ends_of_the_calendar_resolve_or_do_not_and_never_raise():
    assert resolved("America/New_York", wall(9999, 12, 31, 23, 30)) == []
    assert resolved("Asia/Tokyo", wall(1, 1, 1)) == []
    assert resolved("UTC", wall(9999, 12, 31, 23, 59, 59)) == [utc(9999, 12, 31, 23, 59, 59)]
    assert find_zone("Asia/Tokyo").local(utc(9999, 12, 31, 23)) == utc(9999, 12, 31, 23)
