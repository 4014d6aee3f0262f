"""What limits a run over all its attempts: age, total deadline, heartbeat time-out, errors for good. On real rows."""

from datetime import timedelta

import pytest

from everwhen.core.fingerprints import likeness, likeness_without_error
from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS
from everwhen.dispatch.reaper import Reaper
from everwhen.runs import service as runs
from everwhen.tasks import service as tasks
from everwhen.worker.protocol import RunError
from tests.dispatch.scene import hold, make_line, report_on, spoil_retry

SECOND = timedelta(seconds=1)
GRACE = DEADLINE_GRACE_SECONDS * SECOND
STEADY = RetryPolicy(max_attempts=9, base=10 * SECOND, factor=1.0, cap=60 * SECOND, jitter=Jitter.NONE)
AGING = RetryPolicy(
    max_attempts=9, base=10 * SECOND, factor=1.0, cap=60 * SECOND, jitter=Jitter.NONE, max_age=60 * SECOND
)
BOOM = RunError(type="ConnectionError", message="no answer from 10.0.0.7 after 3 tries")
ALIKE = RunError(type="ConnectionError", message="no answer from 10.0.0.9 after 12 tries")


async def claimed(line, **changes):
    await line.fill()
    (lease,) = await line.claim(**changes)
    return lease


async def end(line):
    return await line.rows("select state, reason, attempts, fingerprint from everwhen.run_ends")


async def reap(line, at):
    return (await Reaper(database=line.db, jitter=lambda: 0.0).tick(at)).done


def fingerprint_of(error):
    return likeness(kind=error.type, message=error.message).fingerprint


async def test_a_retry_that_would_begin_too_old_ends_the_run_at_once(database):
    line = await make_line(database, retry=AGING)
    lease = await claimed(line)
    at = lease.due_at + 50 * SECOND

    assert await line.complete(report_on(lease, "failed", error=BOOM), now=at) == [(True, "dead", None)]
    assert await end(line) == [("dead", "retry.max_age", 1, fingerprint_of(BOOM))]
    assert await line.rows("select count(*) from everwhen.waiting") == [(0,)]


async def test_a_retry_that_nobody_claims_before_the_maximum_age_ends_with_the_error_that_it_had(database):
    line = await make_line(database, retry=AGING)
    lease = await claimed(line)
    await line.complete(report_on(lease, "failed", error=BOOM), now=lease.due_at + 49 * SECOND)

    over = lease.due_at + 60 * SECOND
    assert await line.claim(now=over) == []
    assert (await reap(line, over - timedelta(microseconds=1)), await reap(line, over)) == (0, 1)
    assert await end(line) == [("dead", "retry.max_age", 1, fingerprint_of(BOOM))]


async def test_a_start_deadline_that_comes_first_still_expires_a_retry(database):
    line = await make_line(database, retry=AGING, start_deadline_seconds=30.0)
    lease = await claimed(line)
    await line.complete(report_on(lease, "failed"), now=lease.due_at + SECOND)

    assert await reap(line, lease.due_at + 120 * SECOND) == 1
    assert [row[:3] for row in await end(line)] == [("expired", "start.deadline", 1)]


async def test_an_attempt_that_runs_at_the_total_deadline_is_told_and_closed_there(database):
    line = await make_line(database, retry=STEADY, timeout_seconds=3600.0, total_deadline_seconds=20.0)
    lease = await claimed(line, lease_seconds=60.0)
    over = lease.due_at + 20 * SECOND

    assert (lease.deadline_at, lease.total_deadline_at, lease.lease_until) == (over, over, over + GRACE)
    renewed = await line.dispatch.renew(line.tenant.id, [hold(lease)], lease_seconds=300.0, now=over - SECOND)
    assert renewed[lease.lease_token].lease_until == over + GRACE
    assert await reap(line, over + GRACE) == 1
    assert await end(line) == [("dead", "deadline.total", 1, likeness_without_error("timed_out").fingerprint)]
    assert await line.rows("select outcome, reason from everwhen.attempts") == [("timed_out", "deadline.total")]


async def test_an_execution_time_out_before_the_total_deadline_is_retried(database):
    line = await make_line(database, retry=STEADY, timeout_seconds=5.0, total_deadline_seconds=3600.0)
    lease = await claimed(line)

    assert lease.deadline_at == lease.claimed_at + 5 * SECOND
    await reap(line, lease.lease_until)
    assert await line.rows("select outcome, reason from everwhen.attempts") == [("timed_out", "attempt.timed_out")]


async def test_the_total_deadline_counts_from_due_over_all_attempts(database):
    line = await make_line(database, retry=STEADY, total_deadline_seconds=35.0)
    lease = await claimed(line)
    await line.complete(report_on(lease, "failed", error=BOOM), now=lease.due_at + SECOND)
    (again,) = await line.claim(now=lease.due_at + 11 * SECOND)
    assert again.deadline_at == lease.due_at + 35 * SECOND

    at = again.due_at + 26 * SECOND
    assert await line.complete(report_on(again, "failed", error=ALIKE), now=at) == [(True, "dead", None)]
    assert await end(line) == [("dead", "deadline.total", 2, fingerprint_of(BOOM))]


@pytest.mark.parametrize(("failed", "ends_as"), [(False, "expired"), (True, "dead")])
async def test_a_run_that_still_waits_at_its_total_deadline_ends(database, failed, ends_as):
    line = await make_line(database, retry=STEADY, start_deadline_seconds=300.0, total_deadline_seconds=60.0)
    lease = await claimed(line)
    await line.complete(report_on(lease, "failed" if failed else "released", error=BOOM), now=lease.claimed_at)

    over = lease.due_at + 60 * SECOND
    assert await line.claim(now=over) == []
    assert (await reap(line, over - timedelta(milliseconds=1)), await reap(line, over)) == (0, 1)
    ((state, reason, attempts, fingerprint),) = await end(line)
    assert (state, reason, attempts) == (ends_as, "deadline.total", 1)
    assert fingerprint == (fingerprint_of(BOOM) if failed else None)


async def test_what_is_given_back_past_the_total_deadline_ends(database):
    line = await make_line(database, retry=STEADY, total_deadline_seconds=10.0)
    lease = await claimed(line)

    at = lease.due_at + 11 * SECOND
    assert await line.complete(report_on(lease, "released"), now=at) == [(True, "waiting", None)]
    assert await line.claim(now=at) == []
    assert await reap(line, at) == 1
    assert await end(line) == [("expired", "deadline.total", 1, None)]


async def test_a_task_that_gets_a_total_deadline_later_limits_the_retries_that_follow(database):
    line = await make_line(database, retry=STEADY)
    lease = await claimed(line)
    await tasks.update_task(database, tenant_id=line.tenant.id, name="report", changes={"total_deadline_seconds": 30.0})
    await line.complete(report_on(lease, "failed"), now=lease.due_at + SECOND)

    assert await line.rows("select expires_at from everwhen.waiting") == [(lease.due_at + 30 * SECOND,)]
    assert await reap(line, lease.due_at + 30 * SECOND) == 1
    assert [row[:2] for row in await end(line)] == [("dead", "deadline.total")]


@pytest.mark.parametrize(("asked", "granted"), [(300.0, 7.0), (7.0, 7.0), (2.0, 2.0)])
async def test_no_lease_is_longer_than_the_tasks_heartbeat_time_out(database, asked, granted):
    line = await make_line(database, heartbeat_timeout_seconds=7.0)
    lease = await claimed(line, lease_seconds=asked)
    assert lease.lease_until == lease.claimed_at + granted * SECOND

    at = lease.claimed_at + SECOND
    renewed = await line.dispatch.renew(line.tenant.id, [hold(lease)], lease_seconds=asked, now=at)
    assert renewed[lease.lease_token].lease_until == at + granted * SECOND


async def test_a_worker_that_is_silent_for_the_heartbeat_time_out_loses_the_run(database):
    line = await make_line(database, retry=STEADY, heartbeat_timeout_seconds=7.0)
    lease = await claimed(line, lease_seconds=300.0)

    assert (await reap(line, lease.claimed_at + 6.9 * SECOND), await reap(line, lease.claimed_at + 7 * SECOND)) == (
        0,
        1,
    )
    assert await line.complete(report_on(lease)) == [(False, "waiting", "lease.lost")]


@pytest.mark.parametrize("began", [False, True])
async def test_a_lost_attempt_tells_whether_its_worker_ever_said_that_it_began(database, began):
    line = await make_line(database, retry=STEADY)
    lease = await claimed(line)
    at = lease.claimed_at + SECOND
    beats = [hold(lease, started_at=at if began else None), hold(lease), hold(lease, started_at=at + SECOND)]
    for beat in beats[: 3 if began else 2]:
        await line.dispatch.renew(line.tenant.id, [beat], lease_seconds=10.0, now=at)

    await reap(line, at + 10 * SECOND)

    assert await line.rows("select outcome, started_at from everwhen.attempts") == [("lost", at if began else None)]
    ((reason, detail),) = await line.rows("select reason, detail from everwhen.events where kind = 'retrying'")
    assert (reason, detail["started"]) == ("lease.expired", began)


async def test_an_error_of_a_class_that_the_policy_names_or_of_one_below_it_is_final(database):
    for_good = RetryPolicy(max_attempts=9, non_retryable=("LookupError",))
    line = await make_line(database, retry=for_good)
    errors = [
        RunError(type="LookupError", message="x"),
        RunError(type="KeyError", message="x", bases=("builtins.KeyError", "LookupError", "Exception")),
        RunError(type="KeyError", message="x"),
    ]
    await line.fill(3)
    leases = await line.claim()

    answers = await line.complete(
        *(report_on(lease, "failed", error=error) for lease, error in zip(leases, errors, strict=True))
    )

    assert [state for _, state, _ in answers] == ["dead", "dead", "retrying"]
    assert {row[1] for row in await end(line)} == {"attempt.not_retryable"}


async def test_a_dead_run_shows_its_last_error_its_fingerprint_and_every_attempt(database):
    line = await make_line(database, retry=RetryPolicy(max_attempts=2, base=SECOND, cap=SECOND, jitter=Jitter.NONE))
    lease = await claimed(line)
    await line.complete(report_on(lease, "failed", error=BOOM), now=lease.claimed_at)
    (again,) = await line.claim(now=lease.claimed_at + SECOND)
    await line.complete(report_on(again, "failed", error=ALIKE), now=lease.claimed_at + 2 * SECOND)

    view = await runs.get_run(database, tenant_id=line.tenant.id, ref=str(lease.run_id))
    tried = await runs.list_attempts(database, tenant_id=line.tenant.id, ref=str(lease.run_id))

    assert view.last_error is not None
    assert (view.last_error.attempt, view.last_error.kind) == (2, "ConnectionError")
    assert view.last_error.fingerprint == fingerprint_of(BOOM)
    assert [(each.attempt, each.outcome, each.fingerprint) for each in tried] == [
        (1, "failed", fingerprint_of(BOOM)),
        (2, "failed", fingerprint_of(BOOM)),
    ]


async def test_a_success_has_no_fingerprint(line):
    lease = await claimed(line)
    await line.complete(report_on(lease, error=BOOM))

    assert await line.rows("select fingerprint from everwhen.attempts") == [(None,)]


async def test_a_policy_stored_before_there_was_a_maximum_age_is_still_read(line):
    old = '{"max_attempts": 3, "base_seconds": 4, "factor": 2, "cap_seconds": 60, "jitter": "none"}'
    await spoil_retry(line.db, line.tenant, old)
    lease = await claimed(line)
    task = await tasks.get_task(line.db, tenant_id=line.tenant.id, name="report")

    assert (task.retry.max_age, task.retry.non_retryable) == (None, ())
    assert await line.complete(report_on(lease, "failed"), now=lease.claimed_at) == [(True, "retrying", None)]
    assert await line.rows("select available_at, expires_at from everwhen.waiting") == [
        (lease.claimed_at + 4 * SECOND, None)
    ]
