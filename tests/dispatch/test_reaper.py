"""The reaper: what ran out is put back or ended, once, by any number of copies, whatever a row holds."""

import asyncio
from datetime import timedelta

import psycopg
import pytest

from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.dispatch import store
from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS
from everwhen.dispatch.reaper import Reaper
from everwhen.runs import service as runs
from tests.dispatch.scene import ids, make_line, report_on, spoil_retry
from tests.factories import make_task

SECOND, TICK = timedelta(seconds=1), timedelta(microseconds=1)
STEADY = RetryPolicy(max_attempts=2, base=5 * SECOND, cap=5 * SECOND, jitter=Jitter.NONE)


@pytest.fixture
async def line(database):
    return await make_line(database, retry=STEADY)


@pytest.fixture
def reaper(database):
    return Reaper(database=database, jitter=lambda: 0.0)


async def leased(line, count=1, **changes):
    """Lease runs; return the leases and the instant at which they run out."""
    await line.fill(count)
    leases = await line.claim(limit=count, **changes)
    return leases, max(lease.lease_until for lease in leases)


async def ends(line):
    return await line.rows("select state, reason from everwhen.run_ends order by run_id")


async def outcomes(line):
    return await line.rows("select outcome, reason from everwhen.attempts order by run_id, attempt")


async def test_a_lease_is_left_alone_until_it_has_run_out(line, reaper):
    _, over = await leased(line)

    assert (await reaper.tick(over - TICK)).done == 0
    assert (await reaper.tick(over)).done == 1


async def test_a_lost_run_is_retried_after_its_back_off_under_a_larger_token(line, reaper):
    (lost,), over = await leased(line)
    await reaper.tick(over)

    assert await outcomes(line) == [("lost", "lease.expired")]
    assert await line.claim(now=over + 5 * SECOND - TICK) == []
    (again,) = await line.claim(now=over + 5 * SECOND)
    assert (again.run_id, again.attempt, again.lease_token > lost.lease_token) == (lost.run_id, 2, True)
    assert await line.complete(report_on(lost)) == [(False, "running", "lease.lost")]
    assert await line.complete(report_on(again), now=over + 6 * SECOND) == [(True, "succeeded", None)]


async def test_a_run_that_is_lost_as_often_as_its_policy_allows_is_dead(line, reaper):
    _, over = await leased(line)
    await reaper.tick(over)
    (again,) = await line.claim(now=over + 5 * SECOND)
    await reaper.tick(again.lease_until)

    assert await ends(line) == [("dead", "retry.exhausted")]


async def test_an_attempt_past_its_time_out_is_told_apart_from_a_lost_one(database, reaper):
    line = await make_line(database, timeout_seconds=10.0, retry=STEADY)
    (lease,), over = await leased(line, lease_seconds=60.0)

    assert over == lease.claimed_at + (10.0 + DEADLINE_GRACE_SECONDS) * SECOND
    assert (await reaper.tick(over - TICK)).done == 0
    await reaper.tick(over)
    assert await outcomes(line) == [("timed_out", "attempt.timed_out")]


async def test_a_lease_that_is_lost_before_the_time_out_is_no_time_out(database, reaper):
    line = await make_line(database, timeout_seconds=600.0)
    _, over = await leased(line, lease_seconds=10.0)
    await reaper.tick(over)

    assert await outcomes(line) == [("lost", "lease.expired")]


async def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(line, reaper):
    (lease,), over = await leased(line)
    await runs.cancel_run(line.db, tenant_id=line.tenant.id, ref=str(lease.run_id), by="tester", reason=None)
    await reaper.tick(over)

    assert (await ends(line), await outcomes(line)) == (
        [("cancelled", "cancel.requested")],
        [("lost", "cancel.requested")],
    )


async def test_a_run_that_nobody_started_in_time_expires(database, reaper):
    line = await make_line(database, start_deadline_seconds=60.0)
    await line.fill(3)
    ((expires_at,),) = await line.rows("select distinct expires_at from everwhen.waiting")

    assert (await reaper.tick(expires_at - TICK)).done == 0
    assert (await reaper.tick(expires_at)).done == 3
    assert await ends(line) == [("expired", "start.deadline")] * 3
    assert await line.rows("select count(*) from everwhen.attempts") == [(0,)]


async def test_a_start_deadline_holds_for_a_retry_too_and_counts_the_attempts(database, reaper):
    line = await make_line(database, start_deadline_seconds=60.0, retry=STEADY)
    (lease,), _ = await leased(line)
    await line.complete(report_on(lease, "failed"))
    await reaper.tick(lease.due_at + 61 * SECOND)

    assert await line.rows("select state, attempts from everwhen.run_ends") == [("expired", 1)]


async def test_a_start_deadline_does_not_end_a_run_that_has_started(database, reaper):
    line = await make_line(database, start_deadline_seconds=1.0)
    (lease,), _ = await leased(line, lease_seconds=300.0)

    assert (await reaper.tick(lease.due_at + 2 * SECOND)).done == 0


async def test_reaping_twice_burns_no_retry(line, reaper):
    _, over = await leased(line, 5)

    assert [(await reaper.tick(over)).done for _ in range(3)] == [5, 0, 0]
    assert await line.rows("select distinct attempts, failures from everwhen.waiting") == [(1, 1)]


async def test_two_reapers_at_once_share_and_never_meet(line, database):
    await leased(line, 60)
    _, over = await leased(line, 60)
    copies = [Reaper(database=database, jitter=lambda: 0.0, batch=20) for _ in range(4)]

    async def reap(copy):
        done = 0
        while (tick := await copy.tick(over)).more:
            done += tick.done
        return done + tick.done

    done = await asyncio.gather(*map(reap, copies))
    left = await Reaper(database=database, jitter=lambda: 0.0).tick(over)

    assert sum(done) + left.done == 120
    assert await line.rows("select count(*), count(distinct run_id) from everwhen.attempts") == [(120, 120)]


async def test_what_another_copy_is_closing_is_passed_over(line, database, reaper):
    _, over = await leased(line, 3)
    async with database.system() as conn:
        assert len(await store.lock_expired_leases(conn, now=over, limit=2)) == 2
        assert (await reaper.tick(over)).done == 1


async def test_a_tick_says_that_there_is_more(line, database):
    _, over = await leased(line, 5)
    small = Reaper(database=database, jitter=lambda: 0.0, batch=2)

    assert [(tick.done, tick.more) for tick in [await small.tick(over) for _ in range(3)]] == [
        (2, True),
        (2, True),
        (1, False),
    ]


async def test_a_report_and_the_reaper_at_once_close_the_attempt_once(line, reaper):
    leases, over = await leased(line, 40)

    _, answers = await asyncio.gather(reaper.tick(over), line.complete(*map(report_on, leases)))

    accepted = sum(accepted for accepted, _, _ in answers)
    assert await line.rows("select count(*) from everwhen.attempts") == [(40,)]
    assert await line.rows("select count(*) from everwhen.run_ends where state = 'succeeded'") == [(accepted,)]


@pytest.mark.parametrize(
    "retry", ["{}", "null", "[]", '{"max_attempts": "many"}', '{"max_attempts": 3, "base_seconds": -1}', '"\\u00e9"']
)
async def test_a_task_with_a_broken_policy_does_not_stop_the_reaper(line, reaper, retry):
    await make_task(line.db, line.tenant, name="broken", queue="line")
    sound = await line.fill(2)
    (broken,) = await line.fill(task="broken")
    leases = await line.claim()
    assert sorted(ids(leases)) == sorted([*sound, broken])
    await spoil_retry(line.db, line.tenant, retry, task="broken")

    assert (await reaper.tick(leases[0].lease_until)).done == 3
    assert await line.rows("select run_id, state, reason from everwhen.run_ends") == [
        (broken, "dead", "retry.unreadable")
    ]
    assert await line.rows("select count(*) from everwhen.waiting") == [(2,)]


async def test_a_lease_that_cannot_be_closed_is_put_off_and_holds_nobody_up(line, reaper, server, work_database):
    leases, over = await leased(line, 5)
    spoilt = min(lease.run_id for lease in leases)

    def as_superuser(sql):  # nothing of ours could write such a row, or take it away
        with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
            conn.execute(sql, (spoilt,))

    as_superuser(
        "insert into everwhen.attempts"
        " (tenant_id, run_id, attempt, lease_token, worker, claimed_at, finished_at, outcome)"
        " select tenant_id, run_id, attempt, 1, 'nobody', claimed_at, claimed_at, 'lost' from everwhen.leases"
        " where run_id = %s"
    )
    tick = await reaper.tick(over)
    left = await line.rows("select run_id, lease_until > claimed_at + interval '9 minutes' from everwhen.leases")
    as_superuser("delete from everwhen.attempts where run_id = %s and worker = 'nobody'")

    assert tick.done == 4
    assert left == [(spoilt, True)]
    assert (await reaper.tick(over + timedelta(minutes=11))).done == 1
