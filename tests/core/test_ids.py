"""Identity: pure, time-ordered, and never the same for two intentions."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core import ids

instants = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
uuids = st.uuids()
TENANT, SCHEDULE = uuid.UUID(int=1), uuid.UUID(int=2)
AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def an_id(**changed) -> uuid.UUID:
    intention = {"tenant_id": TENANT, "schedule_uid": SCHEDULE, "nominal_at": AT, "due_at": AT, **changed}
    return ids.scheduled_run_id(intention.pop("tenant_id"), intention.pop("schedule_uid"), **intention)


def test_the_id_of_an_intention_never_changes() -> None:
    assert str(an_id()) == "019d3736-51c0-8017-a993-0c5cd39733cf"


@given(uuids, uuids, instants)
def test_an_id_is_a_uuid_of_its_version_and_instant(tenant: uuid.UUID, schedule: uuid.UUID, at: datetime) -> None:
    run_id = ids.scheduled_run_id(tenant, schedule, nominal_at=at, due_at=at)

    assert (run_id.version, run_id.variant) == (8, uuid.RFC_4122)
    assert timedelta(0) <= at - ids.instant_of(run_id) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant_id": uuid.UUID(int=3)},
        {"schedule_uid": uuid.UUID(int=3)},
        {"nominal_at": AT + timedelta(microseconds=1)},
        {"source": "backfill:1"},
    ],
)
def test_another_intention_has_another_id(changed: dict) -> None:
    assert an_id(**changed) != an_id()


@given(instants, instants, st.integers(0, 2**74 - 1), st.integers(0, 2**74 - 1))
def test_ids_sort_by_time(one: datetime, other: datetime, random_one: int, random_other: int) -> None:
    early, late = sorted([(one, random_one), (other, random_other)])
    first = ids.time_ordered_id(early[0], random_bits=early[1])
    second = ids.time_ordered_id(late[0], random_bits=late[1])

    assert first.version == 7
    if ids.unix_milliseconds(early[0]) < ids.unix_milliseconds(late[0]):
        assert first < second


@given(instants, st.integers(0, 2**74 - 1))
def test_a_range_of_time_is_a_range_of_ids(at: datetime, random_bits: int) -> None:
    run_id = ids.time_ordered_id(at, random_bits=random_bits)

    assert ids.first_id_at(at) <= run_id < ids.first_id_at(at + timedelta(milliseconds=1))


@pytest.mark.parametrize("at", [datetime(1969, 12, 31, 23, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)])
def test_an_instant_that_no_id_can_hold_is_refused(at: datetime) -> None:
    with pytest.raises(ValueError, match="outside the range"):
        ids.first_id_at(at)
