"""Heartbeats: a lease is renewed by its token, never past the attempt's time-out, and carries the wish to cancel."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS
from everwhen.runs import service as runs
from tests.dispatch.scene import hold, make_line, report_on

SECOND = timedelta(seconds=1)


async def beat(line, *leases, seconds=120.0):
    return await line.dispatch.renew(line.tenant.id, leases, lease_seconds=seconds)


async def lease_rows(line, columns="lease_until"):
    return await line.rows(f"select {columns} from everwhen.leases order by run_id")


async def test_a_heartbeat_moves_the_end_of_the_lease_and_nothing_else(line):
    await line.fill(3)
    leases = await line.claim()
    others = "run_id, lease_token, attempt, claimed_at, deadline_at, worker"
    before = await lease_rows(line, others)

    renewed = await beat(line, *map(hold, leases))

    assert {token: each.run_id for token, each in renewed.items()} == {each.lease_token: each.run_id for each in leases}
    assert all(renewed[lease.lease_token].lease_until > lease.lease_until for lease in leases)
    assert not any(each.cancel_requested for each in renewed.values())
    assert await lease_rows(line, others) == before


async def test_a_lease_is_never_renewed_past_its_attempts_time_out(database):
    line = await make_line(database, timeout_seconds=30.0)
    await line.fill()
    (lease,) = await line.claim(lease_seconds=5.0)

    renewed = await beat(line, hold(lease), seconds=300.0)

    assert renewed[lease.lease_token].lease_until == lease.claimed_at + (30.0 + DEADLINE_GRACE_SECONDS) * SECOND


async def test_a_wish_to_cancel_comes_back_with_the_heartbeat(line):
    await line.fill(2)
    one, other = await line.claim()
    await runs.cancel_run(line.db, tenant_id=line.tenant.id, ref=str(one.run_id), by="tester", reason=None)

    renewed = await beat(line, hold(one), hold(other))

    assert [renewed[lease.lease_token].cancel_requested for lease in (one, other)] == [True, False]


async def test_a_zombie_is_noted_once_for_each_attempt_and_only_by_who_holds_it(line):
    await line.fill(2)
    one, other = await line.claim()
    zombie = replace(hold(one), is_zombie=True)

    for told in (replace(zombie, lease_token=one.lease_token + 999), zombie, zombie, hold(other)):
        await beat(line, told)

    query = "select run_id, attempt, reason from everwhen.events where kind = 'zombie'"
    assert await line.rows(query) == [(one.run_id, 1, "executor.zombie")]


@pytest.mark.parametrize("token", [-1, 0, 1, (1 << 63) - 1])
async def test_a_token_that_is_not_the_leases_renews_nothing(line, token):
    await line.fill()
    (lease,) = await line.claim()
    before = await lease_rows(line, "*")

    assert await beat(line, hold(lease, token=token)) == {}
    assert await lease_rows(line, "*") == before


@pytest.mark.parametrize("turned", [False, True])
async def test_a_worker_that_lost_a_run_and_got_it_again_keeps_the_new_lease_only(line, turned):
    await line.fill()
    (lost,) = await line.claim()
    await line.complete(report_on(lost, "released"))
    (again,) = await line.claim()
    batch = [hold(lost), hold(again)]

    renewed = await beat(line, *(reversed(batch) if turned else batch))

    assert list(renewed) == [again.lease_token]


async def test_the_token_of_one_run_does_not_renew_another(line):
    await line.fill(2)
    one, other = await line.claim()

    assert await beat(line, hold(one, token=other.lease_token), hold(other, token=one.lease_token)) == {}


async def test_an_ended_run_has_no_lease_to_renew(line):
    await line.fill()
    (lease,) = await line.claim()
    await line.complete(report_on(lease))

    assert await beat(line, hold(lease)) == {}


async def test_another_tenants_lease_is_not_renewed(line):
    other = await make_line(line.db)
    await other.fill()
    (lease,) = await other.claim()

    assert await beat(line, hold(lease)) == {}
    assert await beat(line, hold(lease, tenant_id=line.tenant.id)) == {}
    assert await lease_rows(other) == [(lease.lease_until,)]


async def test_details_are_kept_until_the_next_ones(line):
    await line.fill()
    (lease,) = await line.claim()

    await beat(line, hold(lease, details='{"done": 7}'))
    await beat(line, hold(lease))

    assert await lease_rows(line, "details") == [({"done": 7},)]


@pytest.mark.parametrize("details", ['"\\u0000"', '"\\ud800"', "1e999999", "[" * 30_000 + "]" * 30_000])
async def test_details_that_cannot_be_stored_cost_nobody_the_lease(line, details):
    await line.fill(3)
    leases = await line.claim()

    renewed = await beat(line, hold(leases[0]), hold(leases[1], details=details), hold(leases[2]))

    assert set(renewed) == {lease.lease_token for lease in leases}


async def test_heartbeats_and_reports_of_the_same_runs_at_once_all_end(line):
    await line.fill(30)
    leases = await line.claim(limit=30)

    *beats, answers = await asyncio.gather(
        beat(line, *map(hold, leases)),
        beat(line, *map(hold, leases[::-1])),
        line.complete(*map(report_on, leases)),
    )

    assert all(len(renewed) in range(31) for renewed in beats)
    assert answers == [(True, "succeeded", None)] * 30


async def test_an_empty_heartbeat_is_answered(line):
    assert await beat(line) == {}
