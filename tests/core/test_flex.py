"""Flex: due a little later, the same in every process, and never at or past the next nominal instant."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.errors import TriggerError
from everwhen.core.flex import Flex, FlexMode, due_after, flex_to_json, parse_flex
from everwhen.core.ids import scheduled_run_id
from everwhen.core.planning import CatchUp, CatchUpPolicy, Cursor, plan
from everwhen.core.triggers import Timing, parse_trigger

TENANT, SCHEDULE = UUID(int=1), UUID(int=2)
NOW = datetime(2027, 3, 28, tzinfo=UTC)
HOURLY = Timing(parse_trigger({"kind": "cron", "expr": "0 * * * *"}), "Europe/Berlin")

uids = st.uuids()
windows = st.integers(1, 86_400).map(lambda seconds: timedelta(seconds=seconds))
flexes = st.one_of(
    st.builds(Flex, mode=st.sampled_from([FlexMode.FIXED, FlexMode.HASH, FlexMode.SMOOTH]), window=windows),
    windows.flatmap(
        lambda window: st.builds(
            Flex,
            mode=st.just(FlexMode.SMOOTH),
            window=st.just(window),
            offset=st.integers(0, int(window.total_seconds()) - 1).map(lambda seconds: timedelta(seconds=seconds)),
        )
    ),
)


@given(flex=flexes, uid=uids, gap=st.one_of(st.none(), st.integers(1, 200_000).map(lambda s: timedelta(seconds=s))))
def test_a_run_is_due_within_its_window_and_before_the_next_instant(flex, uid, gap):
    due = due_after(flex, uid, nominal_at=NOW, following=None if gap is None else NOW + gap)

    assert NOW <= due < NOW + flex.window
    assert gap is None or due < NOW + gap
    assert due == due_after(flex, uid, nominal_at=NOW, following=None if gap is None else NOW + gap)


@given(gap=st.integers(1, 10**7).map(lambda us: timedelta(microseconds=us)), flex=flexes, uid=uids)
def test_even_where_the_next_instant_is_a_fraction_of_a_second_away_the_order_holds(flex, uid, gap):
    assert NOW <= due_after(flex, uid, nominal_at=NOW, following=NOW + gap) < NOW + gap


def test_the_hash_is_pinned_so_that_an_upgrade_moves_nobody():
    flex = Flex(mode=FlexMode.HASH, window=timedelta(hours=1))
    found = [due_after(flex, UUID(int=n), nominal_at=NOW, following=None) - NOW for n in (1, 2, 3)]

    assert [int(offset.total_seconds()) for offset in found] == [914, 1290, 1971]


def test_hashes_spread_over_the_window():
    flex = Flex(mode=FlexMode.HASH, window=timedelta(minutes=10))
    tenths = [0] * 10
    for n in range(2_000):
        tenths[int((due_after(flex, UUID(int=n), nominal_at=NOW, following=None) - NOW) / timedelta(minutes=1))] += 1

    assert min(tenths) > 140


@given(flex=flexes)
def test_a_flex_survives_its_json(flex):
    assert parse_flex(flex_to_json(flex)) == flex


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ([], "trigger.flex.type"),
        ({"mode": "hash"}, "trigger.flex.window"),
        ({"mode": "hash", "window_seconds": 0}, "trigger.flex.window"),
        ({"mode": "hash", "window_seconds": 86_401}, "trigger.flex.window"),
        ({"mode": "hash", "window_seconds": 1.5}, "trigger.flex.window"),
        ({"mode": "hash", "window_seconds": True}, "trigger.flex.window"),
        ({"mode": "moon", "window_seconds": 9}, "trigger.flex.mode"),
        ({"mode": "hash", "window_seconds": 9, "x": 1}, "trigger.flex.field"),
        ({"mode": "hash", "window_seconds": 9, "offset_seconds": 3}, "trigger.flex.offset"),
        ({"mode": "smooth", "window_seconds": 9, "offset_seconds": 9}, "trigger.flex.offset"),
    ],
)
def test_what_is_no_window_is_refused(value, code):
    with pytest.raises(TriggerError) as refused:
        parse_flex(value)

    assert refused.value.code == code


def planned(flex, *, now, until, decided=NOW, policy=CatchUpPolicy.COALESCE):
    cursor = Cursor(tenant_id=TENANT, schedule_uid=SCHEDULE, timing=HOURLY, decided_until=decided, flex=flex)
    return plan(cursor, now=now, until=until, policy=CatchUp(policy=policy))


def test_the_nominal_instant_stays_and_the_id_tells_when_it_is_due():
    flex = Flex(mode=FlexMode.SMOOTH, window=timedelta(minutes=30), offset=timedelta(minutes=20))
    found = planned(flex, now=NOW, until=NOW + timedelta(hours=3))

    assert [run.nominal_at.minute for run in found.runs] == [0, 0, 0]
    assert all(run.due_at == run.nominal_at + timedelta(minutes=20) for run in found.runs)
    for run in found.runs:
        assert run.run_id == scheduled_run_id(TENANT, SCHEDULE, nominal_at=run.nominal_at, due_at=run.due_at)


def test_an_instant_that_is_not_due_yet_is_not_late():
    flex = Flex(mode=FlexMode.SMOOTH, window=timedelta(minutes=30), offset=timedelta(minutes=20))
    now = NOW + timedelta(hours=2, minutes=10)
    found = planned(flex, now=now, until=now)

    assert [run.nominal_at for run in found.runs] == [NOW + timedelta(hours=2)]
    assert [run.nominal_at for run in found.verdicts] == [NOW + timedelta(hours=1)]


@given(flex=flexes, looks=st.lists(st.integers(-3_600, 40_000), min_size=1, max_size=12))
def test_nothing_is_lost_or_repeated_however_the_clock_jumps(flex, looks):
    decided, seen, now = NOW, [], NOW
    for seconds in looks:
        now = NOW + timedelta(seconds=seconds)
        found = planned(flex, now=now, until=now + timedelta(minutes=1), decided=decided, policy=CatchUpPolicy.REPLAY)
        decided = found.decided_until
        seen += [run.nominal_at for run in found.runs]

    assert seen == [NOW + timedelta(hours=n) for n in range(1, len(seen) + 1)]
    assert (decided - NOW) // timedelta(hours=1) == len(seen)
