"""Punctuality: each run of a schedule is counted once, when it can be told whether it started in time."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.punctuality import BOUNDS, BUCKETS, NEVER, DayCounts, add, bucket_of, percentile, summarise
from everwhen.errors import NotFound
from everwhen.runs import service as runs
from everwhen.schedules.planner import plan_due
from everwhen.schedules.scheduler import Scheduler
from everwhen.sentinel import sentinel as module
from everwhen.sentinel import service
from everwhen.sentinel.counting import count_days
from everwhen.sentinel.model import MissedSpan, Start
from everwhen.sentinel.sentinel import SETTLE, Sentinel
from tests.dispatch.scene import make_line
from tests.factories import make_schedule

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
T0 = datetime(2027, 1, 1, 23, 59, 30, tzinfo=UTC)
KEY = UUID(int=1), UUID(int=2)


# The core -------------------------------------------------------------------------------------------------------------


@given(st.floats(min_value=0, max_value=1e7))
def test_a_lateness_lies_within_the_bounds_of_its_bucket(lateness):
    index = bucket_of(lateness)

    assert index == 0 or lateness > BOUNDS[index - 1]
    assert index == len(BOUNDS) or lateness <= BOUNDS[index]


@given(st.lists(st.one_of(st.none(), st.floats(min_value=0, max_value=1e5)), min_size=1), st.sampled_from([0.5, 0.99]))
def test_a_percentile_is_a_bound_above_the_true_one(latenesses, share):
    buckets = [0] * BUCKETS
    for lateness in latenesses:
        buckets[bucket_of(lateness)] += 1
    ranked = sorted(float("inf") if lateness is None else lateness for lateness in latenesses)
    true = ranked[-(-int(share * 100) * len(ranked) // 100) - 1]

    estimate = percentile(buckets, share)
    assert (estimate is None) == (bucket_of(None if true == float("inf") else true) >= len(BOUNDS))
    assert estimate is None or true <= estimate


def test_days_add_up_and_nothing_counted_has_no_ratio():
    one = DayCounts(day=T0.date(), on_time=3, late=1, buckets=[3, *[0] * (BUCKETS - 2), 1])

    both = summarise([one, one])
    assert (both.runs, both.on_time, both.late, both.never_started, both.ratio) == (8, 6, 2, 2, 0.75)
    assert (both.p50_seconds, both.p99_seconds) == (BOUNDS[0], None)
    assert summarise([]).ratio is None
    assert add([1, 2], [3, 4]) == [4, 6]


def test_starts_are_counted_by_day_and_what_was_not_meant_to_run_is_not():
    def start(due, lateness, *, counts=True):
        started = None if lateness is None else due + timedelta(seconds=lateness)
        return Start(tenant_id=KEY[0], schedule_uid=KEY[1], due_at=due, started_at=started, counts=counts)

    starts = [start(T0, 1), start(T0, 31), start(T0 + MINUTE, None), start(T0, None, counts=False)]
    missed = [MissedSpan(tenant_id=KEY[0], schedule_uid=KEY[1], first_at=T0 + MINUTE, instants=40)]
    first, second = count_days(starts, missed, {KEY: 30.0})

    assert (first.day, first.on_time, first.late) == (T0.date(), 1, 1)
    assert (second.day, second.on_time, second.late, second.buckets[NEVER]) == ((T0 + DAY).date(), 0, 41, 41)


# The sweep ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def line(database):
    return await make_line(database)


@pytest.fixture
async def schedule(database, line):
    """Fires each second; a minute of it is planned from `start` on."""
    return await make_schedule(database, line.tenant, trigger={"kind": "every", "every": "PT1S"}, name="busy")


async def plan(database, line, schedule, *, seconds=60):
    now = schedule.decided_until
    await Scheduler(database=database, ahead=timedelta(seconds=seconds / 2)).tick(now)
    return now


async def counted(database, line):
    view = await service.get_punctuality(database, tenant_id=line.tenant.id, name="busy")
    return view.periods[30]


async def test_runs_are_counted_once_after_they_have_settled(database, line, schedule):
    start = await plan(database, line, schedule)
    leases = await line.claim(now=start + 40 * SECOND, limit=1000, lease_seconds=3000.0)
    assert len(leases) == 40
    sentinel = Sentinel(database=database)

    await sentinel.tick(start + SETTLE + 20 * SECOND)
    first = await counted(database, line)
    # Due within 20 s of the start, claimed 40 s after it: those due in the first ten seconds are later than 30 s.
    assert first.runs in {19, 20}
    assert first.late in {9, 10}
    for _ in range(3):
        sentinel.place.rested_at = None
        await sentinel.tick(start + SETTLE + 20 * SECOND)
    assert (await counted(database, line)).runs == first.runs

    sentinel.place.rested_at = None
    await sentinel.tick(start + SETTLE + 2 * HOUR)
    everything = await counted(database, line)
    planned = (await line.rows("select count(*) from everwhen.runs"))[0][0]
    assert (everything.runs, everything.never_started) == (planned, planned - 40)


async def test_a_round_is_not_begun_again_before_its_time(database, line, schedule):
    start = await plan(database, line, schedule)
    sentinel = Sentinel(database=database)
    await sentinel.tick(start)

    await sentinel.tick(start + SECOND)
    assert sentinel.place.rested_at == start


async def test_what_is_not_decided_yet_is_not_counted_however_old(database, line, schedule):
    await Sentinel(database=database).tick(schedule.decided_until + DAY)

    assert (await counted(database, line)).runs == 0


async def test_more_than_fits_is_counted_in_steps_and_none_of_it_twice(database, line, schedule, monkeypatch):
    monkeypatch.setattr(module, "MOST_STARTS", 7)
    start = await plan(database, line, schedule)
    sentinel, looks = Sentinel(database=database), 0
    while (await sentinel.tick(start + 3 * HOUR)).more:
        looks += 1

    planned = (await line.rows("select count(*) from everwhen.runs"))[0][0]
    assert (await counted(database, line)).runs == planned
    assert looks >= planned // 7


async def test_pages_of_schedules_are_all_counted(database, line, monkeypatch):
    monkeypatch.setattr(module, "PAGE", 2)
    for number in range(5):
        last = await make_schedule(database, line.tenant, name=f"s{number}", trigger={"kind": "every", "every": "PT1S"})
    while (await Scheduler(database=database).tick(last.decided_until)).more:
        pass
    sentinel = Sentinel(database=database)
    while (await sentinel.tick(last.decided_until + 3 * HOUR)).more:
        pass

    assert await line.rows("select count(*) from everwhen.punctuality") == [(5,)]


async def test_what_a_person_kept_from_running_is_neither_on_time_nor_late(database, line, schedule):
    start = await plan(database, line, schedule)
    await line.rows("select 1")
    for (run_id,) in await line.rows("select run_id from everwhen.runs order by run_id limit 5"):
        await runs.cancel_run(database, tenant_id=line.tenant.id, ref=str(run_id), by="ann", reason=None)

    await Sentinel(database=database).tick(start + 3 * HOUR)

    planned = (await line.rows("select count(*) from everwhen.runs"))[0][0]
    assert (await counted(database, line)).runs == planned - 5


async def test_an_outage_counts_as_late_whether_it_is_in_rows_or_in_a_span(database, line):
    await make_schedule(
        database,
        line.tenant,
        name="busy",
        trigger={"kind": "cron", "expr": "* * * * *"},
        catch_up=CatchUp(policy=CatchUpPolicy.SKIP),
    )
    begin = await line.now() - 2 * HOUR
    await line.rows("update everwhen.schedules set created_at = %s returning 1", begin)
    await line.rows("update everwhen.watermarks set decided_until = %s, next_at = %s returning 1", begin, begin)
    now = await line.now()
    while (await Scheduler(database=database).tick(now)).more:
        pass

    await Sentinel(database=database).tick(now)

    assert await line.rows("select count(*) from everwhen.spans") == [(1,)]
    (missed,) = (await line.rows("select instants from everwhen.spans"))[0]
    assert (await counted(database, line)).never_started == missed


async def test_an_objective_is_kept_and_judges_what_is_counted_from_then_on(database, line, schedule):
    start = await plan(database, line, schedule)
    await line.claim(now=start + 60 * SECOND, limit=1000, lease_seconds=3000.0)
    tight = await service.set_objective(database, tenant_id=line.tenant.id, name="busy", objective_seconds=0.5)
    assert (tight.objective_seconds, tight.periods[7].runs) == (0.5, 0)

    await Sentinel(database=database).tick(start + 3 * HOUR)

    found = await counted(database, line)
    assert found.on_time <= 1
    assert found.late >= 59


async def test_a_schedule_that_is_not_there_has_no_punctuality(database, line):
    with pytest.raises(NotFound):
        await service.get_punctuality(database, tenant_id=line.tenant.id, name="nothing")


async def test_what_is_still_to_be_caught_up_on_is_counted_when_it_was(database, line):
    """Live instants are decided at once, those of the outage later: the count waits for them."""
    replay = CatchUp(policy=CatchUpPolicy.REPLAY)
    trigger = {"kind": "cron", "expr": "* * * * *"}
    await make_schedule(database, line.tenant, name="busy", trigger=trigger, catch_up=replay)
    begin = await line.now() - 2 * HOUR
    await line.rows("update everwhen.schedules set created_at = %s returning 1", begin)
    await line.rows("update everwhen.watermarks set decided_until = %s, next_at = %s returning 1", begin, begin)
    async with database.system() as conn:
        await plan_due(conn, now=conn.now, ahead=MINUTE, batch=10)
        now = conn.now
    await Sentinel(database=database).tick(now + HOUR)
    assert (await counted(database, line)).runs == 0

    while (await Scheduler(database=database).tick(now)).more:
        pass
    await Sentinel(database=database).tick(now + HOUR)

    assert (await counted(database, line)).runs >= 119
