"""The limit of a tenant over all of its queues: exact at once, changed live, told with numbers."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from everwhen.core.claim_limits import KeyLimit
from everwhen.core.quotas import Limit
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Dispatch
from everwhen.explaining.observer import Observer
from everwhen.explaining.service import explain
from everwhen.postgres.wakeups import Wakeups, queue_topic
from everwhen.queues import service as queues
from everwhen.runs import service as runs
from everwhen.verify.service import verify
from everwhen.worker.protocol import Report
from tests.dispatch.scene import make_line, report_on
from tests.factories import make_task
from tests.limits.scene import set_limits, used

SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify(database) == {}


@pytest.fixture
async def line(database):
    """A tenant with tasks at two queues, three runs in each line."""
    made = await make_line(database)
    await make_task(database, made.tenant, name="other", queue="elsewhere")
    await made.fill(3)
    await made.fill(3, task="other")
    return made


async def end(line, *leases):
    for accepted, _, _ in await line.complete(*(report_on(lease) for lease in leases)):
        assert accepted


async def test_all_queues_of_a_tenant_together_have_no_more_in_flight_than_it_may(database, line):
    await set_limits(database, line.tenant, in_flight=4)

    first = await line.claim(queues=("elsewhere",))
    second = await line.claim()

    assert (len(first), len(second)) == (3, 1)
    assert await line.claim(queues=("line", "elsewhere")) == []
    assert await used(database, line.tenant, Limit.IN_FLIGHT) == 4
    await end(line, first[0])
    assert len(await line.claim()) == 1


async def test_one_claim_at_several_queues_takes_no_more_than_is_left(database, line):
    await set_limits(database, line.tenant, in_flight=4)

    assert len(await line.claim(queues=("line", "elsewhere"))) == 4


async def test_an_empty_line_takes_nothing_of_the_room_of_the_next(database, line):
    await make_task(database, line.tenant, name="idle", queue="idle")
    await set_limits(database, line.tenant, in_flight=2)

    assert len(await line.claim(queues=("idle", "line"))) == 2


async def test_it_counts_what_was_claimed_before_and_is_changed_live(database, line):
    await line.claim(limit=2)
    await set_limits(database, line.tenant, in_flight=1)
    assert await line.claim() == []

    await set_limits(database, line.tenant, in_flight=3)
    assert len(await line.claim(queues=("elsewhere",))) == 1
    await set_limits(database, line.tenant, in_flight=None)
    assert len(await line.claim(queues=("line", "elsewhere"))) == 3
    assert await line.rows("select bool_or(has_tenant_limit) from everwhen.lanes") == [(False,)]


async def test_a_queue_that_is_opened_later_is_no_way_out(database, line):
    await set_limits(database, line.tenant, in_flight=2)
    await make_task(database, line.tenant, name="late", queue="late")
    await line.fill(5, task="late")

    assert len(await line.claim(queues=("late",))) == 2
    assert await line.claim() == []


async def test_it_holds_beside_the_limits_of_tasks_and_keys(database):
    line = await make_line(database, max_in_flight=3, concurrency=KeyLimit(pointers=("/customer",), max_in_flight=1))
    await line.fill(4, input={"customer": "a"})
    await line.fill(4, input={"customer": "b"})
    await line.fill(4, input={"customer": "c"})
    await set_limits(database, line.tenant, in_flight=2)

    leases = await line.claim()

    assert len(leases) == 2
    await end(line, leases[0])
    assert len(await line.claim()) == 1


async def test_a_worker_of_the_platform_is_held_to_it_and_serves_the_others(database, line):
    other = await make_line(database)
    await other.fill(5)
    await set_limits(database, line.tenant, in_flight=1)

    leases = await line.claim(tenant_id=None, queues=("line", "elsewhere"))

    assert sorted(lease.tenant_id == line.tenant.id for lease in leases) == [False] * 5 + [True]
    await other.fill(2)
    assert len(await line.claim(tenant_id=None, queues=("line", "elsewhere"))) == 2


async def test_two_claims_at_two_queues_at_once_take_no_more_than_one_would(database, line):
    await set_limits(database, line.tenant, in_flight=3)
    dispatches = [Dispatch(database, jitter=lambda: 0.0) for _ in range(6)]

    found = await asyncio.gather(
        *(
            each.claim(line.wish(queues=(("line", "elsewhere")[n % 2],), tenant_id=(line.tenant.id, None)[n % 3 == 0]))
            for n, each in enumerate(dispatches)
        )
    )

    assert sum(len(grant.leases) for grant in found) == 3


async def test_a_run_that_waits_for_it_in_vain_expires_for_want_of_it(database):
    line = await make_line(database, start_deadline_seconds=30.0)
    await line.fill(2)
    await set_limits(database, line.tenant, in_flight=1)
    await line.claim(lease_seconds=60)

    await Reaper(database=database, jitter=lambda: 0.0).tick(await line.now() + 31 * SECOND)

    assert await line.rows("select state, reason from everwhen.run_ends") == [("expired", "limit.tenant")]


async def test_whoever_asks_why_a_run_waits_is_told_of_the_limit_with_numbers(database, line):
    await set_limits(database, line.tenant, in_flight=1)
    await line.claim()
    await Observer(database=database, observer_id=UUID(int=9)).tick(await line.now() + 2 * SECOND)
    (waiting,) = await line.rows("select run_id from everwhen.waiting where queue = 'elsewhere' limit 1")

    said = await explain(database, tenant_id=line.tenant.id, tenant="acme", ref=str(waiting[0]))
    view = await runs.get_run(database, tenant_id=line.tenant.id, ref=str(waiting[0]))
    queue = await queues.get_queue(database, tenant_id=line.tenant.id, name="elsewhere")

    assert said.segments[-1].segment.reason == view.row.reason == "limit.tenant"
    assert said.segments[-1].sentence == "1 of 1 runs allowed to the tenant were in flight."
    assert view.row.waits_since is not None
    assert queue.line is not None
    assert (queue.line.tenant_limit, queue.line.tenant_in_flight) == (1, 1)
    assert "limit.tenant" in queue.line.reasons


async def test_the_end_of_an_attempt_wakes_the_other_lines_of_the_tenant(database, server, work_database, line):
    await line.claim(limit=1)
    await set_limits(database, line.tenant, in_flight=1)  # which counts what was claimed before, and hears of its end
    ((run_id, token),) = await line.rows("select run_id, lease_token from everwhen.leases")
    wakeups = Wakeups(server.app(work_database))
    listening = asyncio.create_task(wakeups.listen_forever())
    async with asyncio.timeout(10):
        await wakeups.listening.wait()
    with wakeups.subscribe(queue_topic(line.tenant.id, "elsewhere")) as waiter:
        report = Report(tenant_id=line.tenant.id, run_id=run_id, lease_token=str(token), outcome="succeeded")
        await line.complete(report)
        assert await waiter.wait(10)
    listening.cancel()
