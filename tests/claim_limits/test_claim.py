"""Limits of tasks and of their keys at the claim, on real rows: taken, parked, and let go."""

from datetime import timedelta

import pytest

from everwhen.core.claim_limits import KeyLimit, Rate
from everwhen.dispatch.reaper import Reaper
from everwhen.explaining.service import explain
from everwhen.queues import store as queues
from everwhen.runs import service as runs
from everwhen.tasks import service as tasks
from everwhen.verify.service import verify
from tests.dispatch.scene import make_line, report_on
from tests.factories import make_task

SECOND = timedelta(seconds=1)
CUSTOMER = KeyLimit(pointers=("/customer",), max_in_flight=1)


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify(database) == {}


async def fill(line, count=1, **row):
    """Line up runs, and return their ids in the order in which they are claimed."""
    return sorted(await line.fill(count, **row))


def ids(leases):
    return sorted(lease.run_id for lease in leases)


async def parked(line):
    return await line.rows(
        "select split_part(limit_group, ':', 1), count(*) from everwhen.waiting"
        " where limit_group is not null group by 1"
    )


async def reap(line, at=None):
    await Reaper(database=line.db, jitter=lambda: 0.0).tick(at or await line.now())


async def change(line, name="report", **changes):
    return await tasks.update_task(line.db, tenant_id=line.tenant.id, name=name, changes=changes)


async def end(line, *leases, outcome="succeeded"):
    for accepted, _, _ in await line.complete(*(report_on(lease, outcome) for lease in leases)):
        assert accepted


async def test_a_claim_takes_no_more_runs_of_a_task_than_its_limit_and_parks_the_rest(database):
    line = await make_line(database, max_in_flight=2)
    run_ids = await fill(line, 5)

    leases = await line.claim()

    assert ids(leases) == run_ids[:2]
    assert await parked(line) == [("parked task", 3)]
    assert await line.claim() == []


async def test_the_end_of_an_attempt_lets_as_many_go_as_there_is_room_for(database):
    line = await make_line(database, max_in_flight=2)
    run_ids = await fill(line, 5)
    first, second = await line.claim()

    await end(line, first)

    assert sorted(await parked(line)) == [("offered task", 1), ("parked task", 2)]
    assert ids(await line.claim()) == run_ids[2:3]
    await end(line, second)
    assert ids(await line.claim()) == run_ids[3:4]


async def test_an_urgent_run_overtakes_what_is_parked_of_its_task(database):
    line = await make_line(database, max_in_flight=1)
    run_ids = await fill(line, 3)
    (lease,) = await line.claim()
    urgent = await fill(line, 1, priority=9)

    await end(line, lease)

    (lease,) = await line.claim()
    assert [lease.run_id] == urgent
    await end(line, lease)
    assert ids(await line.claim()) == run_ids[1:2]


async def test_a_full_task_is_in_no_others_way(database):
    line = await make_line(database, max_in_flight=1)
    await make_task(database, line.tenant, name="other", queue="line")
    await fill(line, 100)
    others = await fill(line, 3, task="other")

    assert ids(await line.claim(limit=3))[1:] == others[:2]
    assert ids(await line.claim(limit=3)) == others[2:]


async def test_runs_with_equal_values_share_a_key(database):
    line = await make_line(database, concurrency=CUSTOMER)
    first = await fill(line, 2, input={"customer": "a", "n": 1})
    second = await fill(line, 2, input={"customer": {"id": 1}})
    none = await fill(line, 2, input={})

    leases = await line.claim()

    assert ids(leases) == sorted([first[0], second[0], none[0]])
    assert await parked(line) == [("parked key", 3)]
    await end(line, next(lease for lease in leases if lease.run_id == second[0]))
    assert ids(await line.claim()) == [second[1]]


async def test_a_key_that_is_full_leaves_the_room_of_its_task_to_others(database):
    line = await make_line(database, max_in_flight=2, concurrency=CUSTOMER)
    await fill(line, 60, input={"customer": "a"})
    other = await fill(line, 2, input={"customer": "b"})

    leases = await line.claim()

    assert ids(leases)[1:] == other[:1]
    await end(line, next(lease for lease in leases if lease.run_id == other[0]))
    assert ids(await line.claim()) == other[1:]


async def test_a_failed_attempt_gives_its_place_back(database):
    line = await make_line(database, max_in_flight=1)
    run_ids = await fill(line, 2)
    leases = await line.claim()

    await end(line, *leases, outcome="failed")

    assert ids(await line.claim()) == run_ids[1:]


async def test_a_lost_attempt_gives_its_place_back(database):
    line = await make_line(database, max_in_flight=1)
    run_ids = await fill(line, 2)
    (lease,) = await line.claim(lease_seconds=1)

    await reap(line, lease.lease_until)

    assert ids(await line.claim(now=lease.lease_until)) == run_ids[1:]


async def test_a_parked_run_is_cancelled_like_any_other(database):
    line = await make_line(database, max_in_flight=1)
    run_ids = await fill(line, 2)
    await line.claim()

    await runs.cancel_run(line.db, tenant_id=line.tenant.id, ref=str(run_ids[1]), by="tester", reason=None)

    assert await parked(line) == []
    assert await line.rows("select state from everwhen.run_ends") == [("cancelled",)]


async def test_a_parked_run_expires_at_its_start_deadline(database):
    line = await make_line(database, max_in_flight=1, start_deadline_seconds=30.0)
    await fill(line, 2)
    await line.claim(lease_seconds=60)

    await reap(line, await line.now() + 31 * SECOND)

    assert await line.rows("select state, reason from everwhen.run_ends") == [("expired", "limit.task")]


async def test_a_raised_limit_lets_runs_go_at_once(database):
    line = await make_line(database, max_in_flight=1)
    run_ids = await fill(line, 5)
    await line.claim()
    assert await line.claim() == []

    await change(line, max_in_flight=3)

    assert ids(await line.claim()) == run_ids[1:3]


async def test_a_lowered_limit_stops_nothing_and_is_counted_exactly(database):
    line = await make_line(database, max_in_flight=3)
    run_ids = await fill(line, 6)
    leases = await line.claim()

    await change(line, max_in_flight=1)
    await end(line, *leases[:2])

    assert await line.claim() == []
    await end(line, leases[2])
    assert ids(await line.claim()) == run_ids[3:4]


async def test_a_limit_counts_what_was_claimed_before_there_was_one(database):
    line = await make_line(database)
    run_ids = await fill(line, 5)
    first = await line.claim(limit=2)

    await change(line, max_in_flight=3)

    assert ids(await line.claim()) == run_ids[2:3]
    assert await line.claim() == []
    await end(line, first[0])
    assert ids(await line.claim()) == run_ids[3:4]


async def test_keys_count_what_was_claimed_when_they_were_made_otherwise(database):
    line = await make_line(database, concurrency=KeyLimit(pointers=("/region",), max_in_flight=1))
    await fill(line, 1, input={"customer": "a", "region": 1})
    waiting = await fill(line, 1, input={"customer": "a", "region": 2})
    (lease,) = await line.claim(limit=1)

    await change(line, concurrency={"key": ["/customer"], "max_in_flight": 1, "rate": None})

    assert await line.claim() == []
    await end(line, lease)
    assert ids(await line.claim()) == waiting


async def test_a_limit_that_is_lifted_lets_all_go_and_leaves_no_trace(database):
    line = await make_line(database, max_in_flight=1)
    await fill(line, 8)
    await line.claim()
    assert await line.claim() == []

    await change(line, max_in_flight=None)

    assert len(await line.claim()) == 7
    await reap(line)
    assert await line.rows("select count(*) from everwhen.task_limits") == [(0,)]
    assert await line.rows("select is_limited from everwhen.lanes") == [(False,)]


async def test_a_run_in_another_line_than_its_task_counts_as_well(database):
    line = await make_line(database, max_in_flight=1)
    run_ids = await fill(line, 2)
    await make_task(database, line.tenant, name="other", queue="elsewhere")
    async with database.tenant(line.tenant.id) as conn:
        await conn.execute("update everwhen.waiting set queue = 'elsewhere' where run_id = %s", (run_ids[0],))

    (lease,) = await line.claim(queues=("elsewhere",))

    assert await line.claim() == []
    await end(line, lease)
    assert ids(await line.claim()) == run_ids[1:]


async def test_tokens_that_are_used_up_come_back_one_by_one(database):
    line = await make_line(database, rate=Rate(tokens=2, seconds=10, burst=2))
    run_ids = await fill(line, 5)
    now = await line.now()

    assert ids(await line.claim(now=now)) == run_ids[:2]
    grant = await line.grant(now=now + SECOND)
    assert (grant.leases, grant.next_due) == ([], now + 5 * SECOND)
    assert ids(await line.claim(now=now + 5 * SECOND)) == run_ids[2:3]
    assert await line.claim(now=now + 9 * SECOND) == []
    assert ids(await line.claim(now=now + 60 * SECOND)) == run_ids[3:]


async def test_each_key_has_tokens_of_its_own(database):
    line = await make_line(
        database, concurrency=KeyLimit(pointers=("/customer",), rate=Rate(tokens=1, seconds=10, burst=1))
    )
    first = await fill(line, 2, input={"customer": "a"})
    second = await fill(line, 2, input={"customer": "b"})
    now = await line.now()

    assert ids(await line.claim(now=now)) == [first[0], second[0]]
    grant = await line.grant(now=now + SECOND)
    assert (grant.leases, grant.next_due) == ([], now + 10 * SECOND)
    assert ids(await line.claim(now=now + 10 * SECOND)) == [first[1], second[1]]


async def test_what_was_offered_and_cancelled_is_offered_to_another_by_the_backstop(database):
    line = await make_line(database, max_in_flight=1)
    run_ids = await fill(line, 3)
    (lease,) = await line.claim()
    await end(line, lease)
    await runs.cancel_run(line.db, tenant_id=line.tenant.id, ref=str(run_ids[1]), by="tester", reason=None)
    assert await line.claim() == []

    await reap(line)

    assert ids(await line.claim()) == run_ids[2:]


async def test_a_worker_of_the_platform_is_held_to_the_limits_of_each_tenant(database):
    first = await make_line(database, max_in_flight=1)
    second = await make_line(database, rate=Rate(tokens=1, seconds=10, burst=1))
    for line in (first, second):
        await fill(line, 3)
    now = await first.now()

    leases = await first.claim(tenant_id=None, now=now)

    assert sorted(lease.tenant_id for lease in leases) == sorted([first.tenant.id, second.tenant.id])
    assert await first.claim(tenant_id=None, now=now) == []
    (lease,) = await first.claim(tenant_id=None, now=now + 10 * SECOND)
    assert lease.tenant_id == second.tenant.id


async def test_whoever_asks_is_told_for_what_a_run_waits_with_numbers(database):
    line = await make_line(database, max_in_flight=2, concurrency=KeyLimit(pointers=("/customer",), max_in_flight=1))
    await fill(line, 2, input={"customer": "a"})
    await fill(line, 2, input={"customer": "b"})
    await fill(line, 1, input={"customer": "c"})
    assert len(await line.claim()) == 2
    waiting = await line.rows("select run_id, limit_group from everwhen.waiting where priority < 0")

    told = {}
    for run_id, group in waiting:
        view = await runs.get_run(database, tenant_id=line.tenant.id, ref=str(run_id))
        said = await explain(database, tenant_id=line.tenant.id, tenant="acme", ref=str(run_id))
        assert view.row.waits_since is not None
        assert said.segments[-1].segment.reason == view.row.reason
        told[group.split(":")[0]] = (view.row.reason, said.segments[-1].sentence)

    assert told == {
        "parked key": (
            "limit.key",
            "As many runs or nodes with the same concurrency key were under way as it allows.",
        ),
        "parked task": ("limit.task", "2 of 2 runs that task report allows at once were under way."),
    }


async def test_a_queue_lets_its_runs_begin_no_faster_than_its_rate(database):
    line = await make_line(database)
    run_ids = await fill(line, 5)
    async with database.tenant(line.tenant.id) as conn:
        await conn.execute(
            "insert into everwhen.queues"
            " (tenant_id, name, rate_tokens, rate_seconds, rate_burst, created_at, updated_at)"
            " values (%s, 'line', 2, 10, 2, now(), now())",
            (line.tenant.id,),
        )
        await queues.settle_lane(conn, tenant_id=line.tenant.id, queue="line")
    now = await line.now()

    assert ids(await line.claim(now=now)) == run_ids[:2]
    assert await line.claim(now=now + 4 * SECOND) == []
    assert ids(await line.claim(now=now + 5 * SECOND)) == run_ids[2:3]


async def test_a_parked_run_that_has_grown_old_goes_before_all_that_are_more_urgent(database):
    line = await make_line(database, max_in_flight=1)
    await line.set_lane(ageing_seconds=60.0)
    (old,) = await fill(line, 1, priority=2, due_in=-8 * 60 * SECOND)
    await fill(line, 3, priority=9)
    (lease,) = await line.claim()  # it is old by a minute
    assert lease.run_id == old
    (young,) = await fill(line, 1, priority=1, due_in=-7 * 60 * SECOND)
    assert await line.claim() == []
    assert await parked(line) == [("parked task", 4)]

    await end(line, lease)
    (lease,) = await line.claim()
    assert lease.run_id != young
    await fill(line, 2, priority=9)
    await line.set_lane(ageing_seconds=50.0)  # by which it has grown old
    await end(line, lease)

    (lease,) = await line.claim()
    assert lease.run_id == young


async def test_a_claim_that_meets_a_crowd_takes_what_there_is_room_for_and_parks_beyond_what_it_looked_at(database):
    line = await make_line(database, max_in_flight=2)
    await fill(line, 700)

    assert len(await line.claim(limit=5)) == 2
    assert await parked(line) == [("parked task", 698)]
