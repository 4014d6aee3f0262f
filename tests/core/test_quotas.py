"""Runs over a tenant's limit become verdicts, the latest ones; nothing is lost and nothing is said twice."""

import uuid
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.catchup import CatchUp
from everwhen.core.flex import Flex, FlexMode
from everwhen.core.ids import scheduled_run_id
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import Cursor, plan
from everwhen.core.quotas import KINDS, Limit, count_by_day, day_of, within
from everwhen.core.reasons import Reason
from everwhen.core.triggers import Timing, fires, parse_trigger

TENANTS = (uuid.UUID(int=1), uuid.UUID(int=2))
NOW = datetime(2026, 12, 7, 23, 58, 30, tzinfo=UTC)
UNTIL = NOW + timedelta(minutes=3)


def planned(number, seconds, *, flex=None):
    trigger = {"kind": "every", "every": f"PT{seconds}S", "anchor": f"2026-12-07T00:00:{number % 60:02}Z"}
    cursor = Cursor(
        tenant_id=TENANTS[number % 2],
        schedule_uid=uuid.UUID(int=100 + number),
        timing=Timing(parse_trigger(trigger), "UTC"),
        decided_until=NOW,
        flex=flex,
    )
    return cursor, plan(cursor, now=NOW, until=UNTIL, policy=CatchUp())


@given(
    intervals=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    rooms=st.dictionaries(st.tuples(st.sampled_from(TENANTS), st.sampled_from([0, 1])), st.integers(0, 200)),
)
def test_every_instant_keeps_one_answer_and_the_earliest_have_the_room(intervals, rooms):
    plans = [planned(n, seconds) for n, seconds in enumerate(intervals)]
    room = {(tenant, day_of(NOW) + timedelta(days=days)): count for (tenant, days), count in rooms.items()}

    found = within(plans, room)

    wanted, got = count_by_day(plans), count_by_day(found)
    for day, count in wanted.items():
        assert got.get(day, 0) == min(count, room.get(day, count))
    for (cursor, before), (same, after) in zip(plans, found, strict=True):
        assert same is cursor
        assert (after.decided_until, after.next_at) == (before.decided_until, before.next_at)
        told = [run.nominal_at for run in (*after.runs, *after.verdicts)]
        for span in after.spans:
            inside = list(fires(cursor.timing, after=span.first_at - timedelta(seconds=1), until=span.last_at))
            assert (span.instants, span.verdict, span.reason) == (
                len(inside), RunState.SKIPPED, Reason.QUOTA_RUNS_PER_DAY,
            )  # fmt: skip
            told += inside
        assert sorted(told) == [run.nominal_at for run in before.runs]
        for verdict in after.verdicts:
            assert (verdict.state, verdict.reason) == (RunState.SKIPPED, Reason.QUOTA_RUNS_PER_DAY)
            assert verdict.run_id == scheduled_run_id(
                cursor.tenant_id, cursor.schedule_uid, nominal_at=verdict.nominal_at, due_at=verdict.nominal_at
            )
    for key, most in room.items():
        kept = [run.due_at for c, p in found if c.tenant_id == key[0] for run in p.runs if day_of(run.due_at) == key[1]]
        all_of = sorted(
            run.due_at for c, p in plans if c.tenant_id == key[0] for run in p.runs if day_of(run.due_at) == key[1]
        )
        assert sorted(kept) == all_of[:most]


def test_what_flexes_counts_on_the_day_on_which_it_is_due():
    flexed = planned(1, 60, flex=Flex(mode=FlexMode.HASH, window=timedelta(minutes=10)))

    assert count_by_day([flexed]) == {
        (TENANTS[1], day): sum(day_of(run.due_at) == day for run in flexed[1].runs)
        for day in {day_of(run.due_at) for run in flexed[1].runs}
    }


def test_without_a_shortage_the_plans_are_as_they_were():
    plans = [planned(n, 7) for n in range(4)]

    assert [after is before for (_, after), (_, before) in zip(within(plans, {}), plans, strict=True)] == [True] * 4


def test_every_limit_has_a_meaning_in_the_order_of_the_names():
    assert list(KINDS) == list(Limit) == sorted(Limit)
