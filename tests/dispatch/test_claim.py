"""Claims: what is handed out, to whom, in which order, and never more than a limit allows."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from everwhen.core.lanes import CREDIT_CLAIMS
from everwhen.dispatch import sharing
from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS
from everwhen.dispatch.sharing import MOST_LANES
from tests.dispatch.scene import LINE, ids, make_line, report_on, spoil_retry, wish
from tests.factories import make_task

HOUR, SECOND, TICK = timedelta(hours=1), timedelta(seconds=1), timedelta(microseconds=1)
CLAIMERS = 12


async def test_nothing_is_handed_out_before_the_instant_at_which_it_is_due(line):
    (run_id,) = await line.fill(due_in=HOUR)
    ((due_at,),) = await line.rows("select due_at from everwhen.runs")

    assert await line.claim() == []
    assert await line.claim(now=due_at - TICK) == []
    assert ids(await line.claim(now=due_at)) == [run_id]


async def test_an_empty_claim_says_when_the_next_run_is_due(line):
    await line.fill(due_in=2 * HOUR, priority=9)
    await line.fill(due_in=HOUR, priority=0)
    grant = await line.grant()

    assert (grant.leases, await line.rows("select min(due_at) from everwhen.runs")) == ([], [(grant.next_due,)])


async def test_a_higher_priority_goes_first_and_then_what_was_due_first(line):
    late = await line.fill(priority=5, due_in=-SECOND)
    early = await line.fill(priority=5, due_in=-HOUR)
    low = await line.fill(priority=0, due_in=-2 * HOUR)
    high = await line.fill(priority=9)

    taken = [ids(await line.claim(limit=1)) for _ in range(4)]

    assert taken == [high, early, late, low]


@pytest.mark.parametrize("limit", [1, 7])
async def test_what_has_waited_long_for_its_priority_goes_first_the_oldest_before_all(line, limit):
    await line.set_lane(ageing_seconds=60.0)
    young = await line.fill(priority=5, due_in=-239 * SECOND)  # 4 × 60 s make a run of priority 5 old
    urgent = await line.fill(priority=9)
    old = await line.fill(priority=5, due_in=-241 * SECOND)
    lowest = await line.fill(priority=0, due_in=-541 * SECOND)
    oldest = await line.fill(priority=9, due_in=-HOUR)
    low = await line.fill(priority=0, due_in=-300 * SECOND)
    high = await line.fill(priority=8, due_in=-61 * SECOND)

    taken = [run_id for _ in range(7) for run_id in ids(await line.claim(limit=limit))]

    if limit == 1:
        assert taken == [oldest[0], lowest[0], old[0], high[0], urgent[0], young[0], low[0]]
    assert sorted(taken) == sorted([*young, *urgent, *old, *lowest, *oldest, *low, *high])


async def test_nothing_ages_where_a_queue_says_so_and_by_default_it_takes_hours(line):
    old = await line.fill(priority=0, due_in=-24 * HOUR)
    high = await line.fill(priority=9)

    await line.set_lane(ageing_seconds=None)
    assert ids(await line.claim(limit=1)) == high
    again = await line.fill(priority=9)
    await line.set_lane(ageing_seconds=3_600.0)
    assert ids(await line.claim(limit=1)) == old
    assert ids(await line.claim(limit=1)) == again


async def test_what_another_claim_is_just_taking_of_the_old_keeps_nobody_from_the_rest(line):
    await line.set_lane(ageing_seconds=1.0)
    await line.fill(60, priority=5, due_in=-HOUR)

    grants = await asyncio.gather(*(line.claim(limit=10) for _ in range(4)))

    handed_out = [run_id for grant in grants for run_id in ids(grant)]
    assert (len(handed_out), len(set(handed_out))) == (40, 40)


async def test_a_task_that_a_worker_does_not_know_never_ages_into_its_hands(line):
    await line.set_lane(ageing_seconds=1.0)
    await make_task(line.db, line.tenant, name="other", queue=LINE)
    await line.fill(task="other", due_in=-HOUR)
    (known,) = await line.fill(priority=0)

    assert ids(await line.claim(tasks=("report",), limit=5)) == [known]


async def test_runs_planned_ahead_at_a_high_priority_do_not_hide_due_ones_at_a_low_one(line):
    await line.fill(200, priority=9, due_in=HOUR)
    due = await line.fill(3, priority=0)

    assert sorted(ids(await line.claim(limit=10))) == sorted(due)


async def test_the_worker_decides_in_which_order_its_queues_are_served(line):
    await make_task(line.db, line.tenant, name="other", queue="other")
    here, there = await line.fill(2), await line.fill(2, task="other")

    assert sorted(ids(await line.claim(queues=("other", LINE), limit=2))) == sorted(there)
    assert sorted(ids(await line.claim(queues=("other", LINE), limit=2))) == sorted(here)


async def test_a_worker_gets_only_the_tasks_that_it_knows(line):
    await make_task(line.db, line.tenant, name="other", queue=LINE)
    await line.fill(5)
    (known,) = await line.fill(task="other")

    assert await line.claim(tasks=()) == []
    assert ids(await line.claim(tasks=("other", "unheard-of"))) == [known]


async def test_a_run_past_its_start_deadline_is_not_handed_out(database):
    line = await make_line(database, start_deadline_seconds=60.0)
    await line.fill()
    now = await line.now()

    assert await line.claim(now=now + timedelta(seconds=61)) == []
    assert len(await line.claim(now=now + timedelta(seconds=59))) == 1


@pytest.mark.parametrize("queue", ["", "nowhere", "line ", "LINE", "'; drop table everwhen.runs; --"])
async def test_an_unknown_queue_is_empty(line, queue):
    await line.fill()

    grant = await line.grant(queues=(queue,))
    shared = await line.dispatch.claim(wish(tenant_id=None, queues=(queue,)))

    assert (grant.leases, grant.next_due, shared.leases) == ([], None, [])


async def test_two_claimers_never_get_the_same_run(line):
    lined_up = await line.fill(200)

    taken = await asyncio.gather(*(line.claim(limit=25) for _ in range(CLAIMERS)))

    handed_out = [run_id for leases in taken for run_id in ids(leases)]
    assert sorted(handed_out) == sorted(lined_up)
    assert await line.rows("select count(*) from everwhen.waiting") == [(0,)]


async def test_the_lease_ends_with_its_time_or_a_grace_after_the_attempts_time_out(database):
    line = await make_line(database, timeout_seconds=30.0)
    await line.fill(2)
    now = await line.now()

    (short,) = await line.claim(now=now, limit=1, lease_seconds=10.0)
    (long,) = await line.claim(now=now, limit=1, lease_seconds=300.0)

    assert (short.lease_until, long.lease_until) == (
        now + 10 * SECOND,
        now + 30 * SECOND + DEADLINE_GRACE_SECONDS * SECOND,
    )
    assert short.deadline_at == long.deadline_at == now + 30 * SECOND
    assert (short.claimed_at, short.attempt, short.max_attempts) == (now, 1, 5)


async def test_without_a_time_out_an_attempt_has_no_deadline(line):
    await line.fill()
    (lease,) = await line.claim()

    assert (lease.deadline_at, lease.lease_until - lease.claimed_at) == (None, 60 * SECOND)


@pytest.mark.parametrize("retry", ["{}", '{"max_attempts": "many"}', '{"max_attempts": 1e300}', "[]", '"x"', "null"])
async def test_a_task_with_a_broken_policy_does_not_stop_its_line(line, retry):
    await make_task(line.db, line.tenant, name="broken", queue=LINE)
    await spoil_retry(line.db, line.tenant, retry, task="broken")
    await line.fill(task="broken")
    await line.fill()

    taken = {lease.task: lease.max_attempts for lease in await line.claim()}

    assert taken == {"report": 5, "broken": 1}


async def test_a_claim_that_is_cancelled_is_granted_whole_or_not_at_all(line):
    lined_up = await line.fill(60)
    for milliseconds in range(12):
        claiming = asyncio.create_task(line.claim(limit=5))
        await asyncio.wait({claiming}, timeout=milliseconds / 1000)
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)

    leased = {run_id for (run_id,) in await line.rows("select run_id from everwhen.leases")}
    waiting = {run_id for (run_id,) in await line.rows("select run_id from everwhen.waiting")}
    assert len(leased) % 5 == 0
    assert (leased | waiting, leased & waiting) == (set(lined_up), set())


# Limits ---------------------------------------------------------------------------------------------------------------


async def storm(line, claimers=CLAIMERS, limit=7):
    """Claim from many sides at once; return how many each got."""
    return [len(leases) for leases in await asyncio.gather(*(line.claim(limit=limit) for _ in range(claimers)))]


async def in_flight(line):
    return (await line.rows("select count(*) from everwhen.leases"))[0][0]


@pytest.mark.parametrize("limit", [1, 10, 23])
async def test_a_limit_is_exact_under_many_claimers(line, limit):
    await line.fill(100)
    await line.set_lane(max_in_flight=limit)

    taken = await storm(line)

    assert (sum(taken), await in_flight(line)) == (limit, limit)


async def test_a_limit_of_nothing_hands_out_nothing(line):
    await line.fill(10)
    await line.set_lane(max_in_flight=0)

    assert await storm(line) == [0] * CLAIMERS
    assert (await line.dispatch.claim(wish(tenant_id=None))).leases == []


async def test_a_limit_holds_while_runs_end(line):
    await line.fill(60)
    await line.set_lane(max_in_flight=4)
    seen: list[int] = []

    async def work():
        while leases := await line.claim(limit=3):
            seen.append(await in_flight(line))
            await line.complete(*(report_on(lease) for lease in leases))

    while await line.rows("select from everwhen.waiting limit 1"):
        await asyncio.gather(*(work() for _ in range(CLAIMERS)))

    assert max(seen) <= 4
    assert await line.rows("select state, count(*) from everwhen.run_ends group by 1") == [("succeeded", 60)]


async def test_a_limit_that_is_changed_holds_from_the_next_claim_on(line):
    await line.fill(100)
    await line.set_lane(max_in_flight=10)
    held = await line.claim(limit=10)
    await line.set_lane(max_in_flight=3)

    assert sum(await storm(line)) == 0
    await line.complete(*(report_on(lease) for lease in held[:8]))
    assert (sum(await storm(line)), await in_flight(line)) == (1, 3)
    await line.set_lane(max_in_flight=20)
    assert (sum(await storm(line)), await in_flight(line)) == (17, 20)
    await line.set_lane(max_in_flight=None)
    assert sum(await storm(line)) == 72  # all that is left


async def test_a_limit_of_one_tenant_does_not_bind_another(line):
    other = await make_line(line.db)
    await line.fill(5)
    await other.fill(5)
    await line.set_lane(max_in_flight=1)

    assert (len(await line.claim()), len(await other.claim())) == (1, 5)


async def test_a_limit_is_exact_for_the_platforms_workers_too(line):
    await line.fill(50)
    await line.set_lane(max_in_flight=6)

    grants = await asyncio.gather(*(line.dispatch.claim(wish(tenant_id=None)) for _ in range(CLAIMERS)))

    assert sum(len(grant.leases) for grant in grants) <= 6
    while (await line.dispatch.claim(wish(tenant_id=None))).leases:
        pass
    assert await in_flight(line) == 6


# Queues that tenants share --------------------------------------------------------------------------------------------


async def tenants_at_one_queue(database, *weights, backlog):
    lines = [await make_line(database) for _ in weights]
    for line, weight in zip(lines, weights, strict=True):
        await line.set_lane(weight=weight)
        await line.fill(backlog)
    return lines


@pytest.mark.parametrize("limit", [1, 10, 64])
async def test_a_shared_queue_is_shared_by_weight(database, limit):
    lines = await tenants_at_one_queue(database, 1, 2, 4, backlog=210)
    taken = Counter()
    while taken.total() < 320:
        grant = await lines[0].dispatch.claim(wish(tenant_id=None, limit=limit))
        taken.update(lease.tenant_id for lease in grant.leases)

    shares = [taken[line.tenant.id] / taken.total() for line in lines]
    assert shares == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.05)


async def test_a_backlog_of_one_tenant_does_not_delay_another(database):
    busy, quiet = await tenants_at_one_queue(database, 1, 1, backlog=0)
    await busy.fill(300, due_in=-HOUR)
    for _ in range(20):
        await busy.dispatch.claim(wish(tenant_id=None, limit=5))
    (run_id,) = await quiet.fill()

    grant = await quiet.dispatch.claim(wish(tenant_id=None, limit=5))

    assert run_id in ids(grant.leases)


async def test_a_tenant_that_was_idle_gets_no_more_than_its_credit_back(database):
    busy, idle = await tenants_at_one_queue(database, 1, 1, backlog=0)
    await busy.set_lane(virtual_time=1_000_000.0)
    await busy.fill(20)
    await idle.fill(20)
    await busy.dispatch.claim(wish(tenant_id=None, limit=2))

    ((caught_up,),) = await idle.rows("select virtual_time from everwhen.lanes where tenant_id = %s", idle.tenant.id)
    assert caught_up >= 1_000_000.0 - CREDIT_CLAIMS * 2


async def test_lanes_that_are_full_do_not_stand_in_the_way_of_others(database):
    full = [await make_line(database) for _ in range(MOST_LANES + 1)]
    for line in full:
        await line.fill()
        await line.set_lane(max_in_flight=0)
    last = await make_line(database)
    await last.set_lane(virtual_time=5.0)
    (run_id,) = await last.fill()

    assert ids((await last.dispatch.claim(wish(tenant_id=None))).leases) == [run_id]


async def test_lines_of_tasks_that_a_worker_does_not_know_keep_it_from_no_other_line(database, monkeypatch):
    monkeypatch.setattr(sharing, "MOST_LANES", 2)
    for _ in range(3):
        foreign = await make_line(database, name="unknown")
        await foreign.fill(task="unknown")
    known = await make_line(database)
    await known.fill()
    await known.set_lane(virtual_time=5.0)

    grant = await known.dispatch.claim(wish(tenant_id=None, tasks=("report",)))
    assert [lease.tenant_id for lease in grant.leases] == [known.tenant.id]


async def test_where_there_are_more_lanes_than_one_claim_looks_at_each_has_its_turn(database, monkeypatch):
    monkeypatch.setattr(sharing, "MOST_SEEN", 3)
    lines = [await make_line(database) for _ in range(8)]
    for line in lines:
        await line.fill(2, due_in=HOUR)  # planned ahead: there, and not due
    for line in lines[5:]:
        await line.fill()

    claims = [await lines[0].dispatch.claim(wish(tenant_id=None)) for _ in range(4)]

    assert sum(len(grant.leases) for grant in claims) == 3
    assert all(len(grant.leases) <= 3 for grant in claims)


async def test_a_claim_fills_up_with_what_there_is_when_a_lane_has_less_than_its_share(database):
    short, long = await tenants_at_one_queue(database, 1, 1, backlog=0)
    await short.fill(1)
    await long.fill(20)

    grant = await long.dispatch.claim(wish(tenant_id=None, limit=10))

    assert Counter(lease.tenant_id for lease in grant.leases) == {short.tenant.id: 1, long.tenant.id: 9}


async def test_two_claimers_of_a_shared_queue_serve_different_tenants(database):
    lines = await tenants_at_one_queue(database, 1, 1, 1, backlog=30)

    grants = await asyncio.gather(*(lines[0].dispatch.claim(wish(tenant_id=None)) for _ in range(CLAIMERS)))

    handed_out = [run_id for grant in grants for run_id in ids(grant.leases)]
    assert len(handed_out) == len(set(handed_out))
    assert handed_out
