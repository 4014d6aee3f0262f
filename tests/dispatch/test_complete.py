"""Reports: what each outcome makes of a run, and that a stale, foreign or poisoned one harms nobody else."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from everwhen.core.lifecycle import RunState
from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.dispatch import reports
from everwhen.runs import service as runs
from everwhen.worker.protocol import RunError
from tests.dispatch.scene import make_line, report_on, spoil_retry
from tests.factories import WORKER

SECOND = timedelta(seconds=1)
STEADY = RetryPolicy(max_attempts=3, base=4 * SECOND, factor=3.0, cap=20 * SECOND, jitter=Jitter.NONE)
POISON = {
    "nul": rb'"a\u0000b"',
    "lone surrogate": rb'"\ud800"',
    "endless number": b"1e999999",
    "deep": b"[" * 30_000 + b"]" * 30_000,
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a little too deep": b"[" * 101 + b"]" * 101,
    "too large a number": b"[1e400]",
    "too many digits": b"[" + b"7" * 5_000 + b"]",
    "nul in a key": rb'{"\u0000": 1}',
}
NOBODY = uuid.UUID("01a22915-06ff-70da-a75e-79f816daceb5")


@pytest.fixture
async def steady(database):
    return await make_line(database, retry=STEADY)


async def one_lease(line):
    await line.fill()
    (lease,) = await line.claim()
    return lease


async def state_of(line, run_id):
    return (await runs.get_run(line.db, tenant_id=line.tenant.id, ref=str(run_id))).state


async def attempts(line):
    return await line.rows("select outcome, reason from everwhen.attempts order by attempt")


async def waiting(line):
    return await line.rows("select available_at, attempts, failures from everwhen.waiting")


async def test_a_success_ends_the_run(line):
    lease = await one_lease(line)
    began = lease.claimed_at + SECOND
    report = report_on(lease, result=b'{"rows": 12345678901234567890}', started_at=began)

    assert await line.complete(report) == [(True, "succeeded", None)]
    assert await line.rows("select state, reason, attempts from everwhen.run_ends") == [("succeeded", None, 1)]
    assert await line.rows("select result::text, started_at from everwhen.attempts") == [
        ('{"rows": 12345678901234567890}', began)
    ]
    assert await line.rows("select count(*) from everwhen.leases") == [(0,)]


async def test_failures_are_retried_later_and_later_until_the_run_is_dead(steady):
    lease = await one_lease(steady)
    for number, wait in enumerate((4 * SECOND, 12 * SECOND), start=1):
        at = lease.claimed_at + SECOND
        assert await steady.complete(report_on(lease, "failed"), now=at) == [(True, "retrying", None)]
        assert await waiting(steady) == [(at + wait, number, number)]
        assert await steady.claim(now=at + wait - timedelta(microseconds=1)) == []
        (again,) = await steady.claim(now=at + wait)
        assert (again.attempt, again.lease_token > lease.lease_token) == (number + 1, True)
        lease = again

    assert await steady.complete(report_on(lease, "failed"), now=lease.claimed_at) == [(True, "dead", None)]
    assert await steady.rows("select state, reason, attempts from everwhen.run_ends") == [
        ("dead", "retry.exhausted", 3)
    ]
    assert await attempts(steady) == [("failed", "attempt.failed")] * 2 + [("failed", "retry.exhausted")]


async def test_an_error_that_no_retry_mends_ends_the_run_at_once(steady):
    lease = await one_lease(steady)
    error = RunError(type="ValueError", message="no such table", traceback="…")

    assert await steady.complete(report_on(lease, "failed", error=error, retryable=False)) == [(True, "dead", None)]
    assert await steady.rows("select reason from everwhen.run_ends") == [("attempt.not_retryable",)]
    assert await steady.rows("select error from everwhen.attempts") == [
        ({"type": "ValueError", "message": "no such table", "traceback": "…"},)
    ]


@pytest.mark.parametrize(("asked", "waits"), [(0.0, 4), (11.5, 11.5), (604_800.0, 20)])
async def test_a_worker_may_ask_for_a_later_retry_within_the_cap(steady, asked, waits):
    lease = await one_lease(steady)
    await steady.complete(report_on(lease, "failed", retry_after_seconds=asked), now=lease.claimed_at)

    assert await waiting(steady) == [(lease.claimed_at + waits * SECOND, 1, 1)]


async def test_a_released_run_waits_again_and_has_lost_no_retry(steady):
    for number in range(1, 6):
        lease = (await steady.claim() if number > 1 else [await one_lease(steady)])[0]
        assert await steady.complete(report_on(lease, "released")) == [(True, "waiting", None)]
        assert [row[1:] for row in await waiting(steady)] == [(number, 0)]


async def test_a_run_is_not_handed_out_for_ever(steady, monkeypatch):
    monkeypatch.setattr(reports, "MOST_ATTEMPTS", 3)
    lease = await one_lease(steady)
    for _ in range(2):
        assert await steady.complete(report_on(lease, "released")) == [(True, "waiting", None)]
        (lease,) = await steady.claim()

    assert await steady.complete(report_on(lease, "released")) == [(True, "dead", None)]
    assert await steady.rows("select state, reason, attempts from everwhen.run_ends") == [
        ("dead", "retry.exhausted", 3)
    ]


async def test_a_confirmed_cancellation_ends_the_run(line):
    lease = await one_lease(line)
    await runs.cancel_run(line.db, tenant_id=line.tenant.id, ref=str(lease.run_id), by="tester", reason=None)

    assert await line.complete(report_on(lease, "cancelled")) == [(True, "cancelled", None)]
    assert await attempts(line) == [("cancelled", "cancel.requested")]


@pytest.mark.parametrize(
    ("outcome", "state"), [("succeeded", "succeeded"), ("failed", "cancelled"), ("released", "cancelled")]
)
async def test_a_wish_to_cancel_undoes_no_success_and_prevents_the_next_attempt(line, outcome, state):
    lease = await one_lease(line)
    await runs.cancel_run(line.db, tenant_id=line.tenant.id, ref=str(lease.run_id), by="tester", reason=None)

    assert await line.complete(report_on(lease, outcome)) == [(True, state, None)]


# Stale, twice, foreign, made up ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled", "released"])
async def test_a_stale_report_is_refused_and_recorded_and_moves_nothing(line, outcome):
    first = await one_lease(line)
    await line.complete(report_on(first, "released"))
    (second,) = await line.claim()
    before = await line.rows("select * from everwhen.leases")

    assert await line.complete(report_on(first, outcome)) == [(False, "running", "lease.lost")]
    assert await line.rows("select * from everwhen.leases") == before
    assert await line.rows("select reason, detail from everwhen.events where kind = 'refused'") == [
        ("lease.lost", {"worker": WORKER, "outcome": outcome, "lease_token": str(first.lease_token)})
    ]
    assert await line.complete(report_on(second)) == [(True, "succeeded", None)]


async def test_a_report_that_comes_twice_counts_once(line):
    lease = await one_lease(line)

    assert await line.complete(report_on(lease), report_on(lease, "failed")) == [
        (True, "succeeded", None),
        (False, "succeeded", "lease.lost"),
    ]
    assert await line.complete(report_on(lease)) == [(False, "succeeded", "lease.lost")]
    assert await line.rows("select count(*) from everwhen.events where kind = 'refused'") == [(1,)]


async def test_a_stale_report_before_the_valid_one_of_the_same_run_does_not_shadow_it(line):
    first = await one_lease(line)
    await line.complete(report_on(first, "released"))
    (second,) = await line.claim()

    assert await line.complete(report_on(first, "failed"), report_on(second)) == [
        (False, "succeeded", "lease.lost"),
        (True, "succeeded", None),
    ]


async def test_the_same_report_from_many_sides_at_once_counts_once(line):
    lease = await one_lease(line)

    answers = await asyncio.gather(*(line.complete(report_on(lease, "failed")) for _ in range(10)))

    assert sorted(accepted for ((accepted, _, _),) in answers) == [False] * 9 + [True]
    assert [row[1:] for row in await waiting(line)] == [(1, 1)]


async def test_a_batch_whose_request_is_cancelled_counts_whole_or_not_at_all(line):
    await line.fill(60)
    leases = await line.claim(limit=60)
    for turn in range(12):
        batch = [report_on(lease) for lease in leases[5 * turn : 5 * turn + 5]]
        reporting = asyncio.create_task(line.complete(*batch))
        await asyncio.wait({reporting}, timeout=turn / 1000)
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
        answers = await line.complete(*batch)
        assert answers in ([(True, "succeeded", None)] * 5, [(False, "succeeded", "lease.lost")] * 5)

    assert await line.rows("select state, count(*) from everwhen.run_ends group by 1") == [("succeeded", 60)]


async def test_batches_that_name_the_same_runs_in_other_orders_do_not_wait_for_each_other(line):
    await line.fill(40)
    leases = await line.claim(limit=40)
    orders = [leases, leases[::-1], leases[20:] + leases[:20], leases[::2] + leases[1::2]]

    answers = await asyncio.gather(*(line.complete(*map(report_on, order)) for order in orders))

    assert sum(accepted for answer in answers for accepted, _, _ in answer) == 40


async def test_a_report_on_a_run_that_never_was_leaves_no_trace(line):
    lease = await one_lease(line)

    assert await line.complete(report_on(lease, run_id=NOBODY)) == [(False, None, "lease.lost")]
    assert await line.rows("select count(*) from everwhen.events where kind = 'refused'") == [(0,)]


async def test_a_tenants_report_reaches_no_other_tenants_run(line):
    other = await make_line(line.db)
    lease = await one_lease(other)

    for tenant in (line.tenant, other.tenant):
        assert await line.complete(report_on(lease, tenant_id=tenant.id)) == [(False, None, "lease.lost")]
    assert await line.rows("select count(*) from everwhen.events where kind = 'refused'") == [(0,)]
    assert await state_of(other, lease.run_id) == RunState.RUNNING


@pytest.mark.parametrize("token", ["", "0", "-1", "x", "9" * 400, "a\x00b", "\x00" * 70_000, "١٢٣", " 1", "1e3"])
async def test_a_lease_token_that_is_none_is_refused_and_kept_out_of_the_history(line, token):
    lease = await one_lease(line)
    await line.fill()
    (other,) = await line.claim()

    assert await line.complete(report_on(lease, lease_token=token), report_on(other)) == [
        (False, "running", "lease.lost"),
        (True, "succeeded", None),
    ]
    ((size,),) = await line.rows("select length(detail::text) from everwhen.events where kind = 'refused'")
    assert size < 200


# Poison ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", POISON)
async def test_a_payload_that_cannot_be_stored_holds_nobody_up(line, poison):
    await line.fill(50)
    leases = await line.claim(limit=50)
    batch = [report_on(lease, result=f'{{"n": {n}}}'.encode()) for n, lease in enumerate(leases)]
    batch[17] = report_on(leases[17], result=POISON[poison])

    assert await line.complete(*batch) == [(True, "succeeded", None)] * 50
    assert await line.rows("select count(distinct result ->> 'n') from everwhen.attempts") == [(49,)]
    ((error,),) = await line.rows("select error from everwhen.attempts where run_id = %s", leases[17].run_id)
    assert error["type"] == "UnstorablePayload"


@pytest.mark.parametrize(
    "odd",
    [b"[" * 100 + b"]" * 100, b"[1e300]", b'"1e999 [[[[ ' + b"{" * 200 + b'"', b"[" + b"[]," * 300 + b"0]", b"7" * 300],
)
async def test_a_payload_that_only_looks_odd_is_kept(line, odd):
    lease = await one_lease(line)

    assert await line.complete(report_on(lease, result=odd)) == [(True, "succeeded", None)]
    assert await line.rows("select result = %s::jsonb, error from everwhen.attempts", odd.decode()) == [(True, None)]


async def test_a_batch_of_nothing_but_poison_is_taken(line):
    await line.fill(8)
    kinds = list(POISON.values())
    batch = [report_on(lease, result=kinds[n % len(kinds)]) for n, lease in enumerate(await line.claim(limit=8))]

    assert await line.complete(*batch) == [(True, "succeeded", None)] * 8


async def test_an_error_that_cannot_be_stored_still_fails_the_attempt(steady):
    lease = await one_lease(steady)
    error = RunError(type="Boom", message="before\x00after")

    assert await steady.complete(report_on(lease, "failed", error=error)) == [(True, "retrying", None)]


@pytest.mark.parametrize(
    "began",
    [
        datetime(2026, 11, 29),  # noqa: DTZ001  # a worker that knows no zones
        datetime(1, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        msgspec.convert("0001-01-01T00:00:00+23:59", datetime),
        msgspec.convert("9999-12-31T23:59:59-23:59", datetime),
    ],
)
async def test_a_start_that_is_no_instant_is_left_out_and_can_always_be_read(line, began):
    lease = await one_lease(line)
    await line.fill()
    (other,) = await line.claim()
    sound = report_on(other, started_at=other.claimed_at)

    assert await line.complete(report_on(lease, started_at=began), sound) == [(True, "succeeded", None)] * 2
    (attempt,) = await runs.list_attempts(line.db, tenant_id=line.tenant.id, ref=str(lease.run_id))
    assert attempt.started_at is None
    (attempt,) = await runs.list_attempts(line.db, tenant_id=line.tenant.id, ref=str(other.run_id))
    assert attempt.started_at == other.claimed_at


async def test_the_answers_keep_the_order_of_the_reports(line):
    await line.fill(30)
    leases = await line.claim(limit=30)
    batch = [
        report_on(lease, lease_token="1")
        if n % 3 == 0
        else report_on(lease, result=POISON["nul"] if n % 3 == 1 else None)
        for n, lease in enumerate(leases)
    ]

    answers = await line.complete(*batch)

    assert [accepted for accepted, _, _ in answers] == [n % 3 != 0 for n in range(30)]


async def test_an_empty_batch_is_answered(line):
    assert await line.complete() == []


# Policies that cannot be read -----------------------------------------------------------------------------------------


BROKEN = [
    "{}",
    "null",
    '{"max_attempts": 0, "base_seconds": 1, "factor": 2, "cap_seconds": 60, "jitter": "none"}',
    '{"max_attempts": 5, "base_seconds": 1e300, "factor": 2, "cap_seconds": 1e301, "jitter": "none"}',
    '{"max_attempts": 5, "base_seconds": 1, "factor": 2, "cap_seconds": 60, "jitter": "some"}',
]


@pytest.mark.parametrize("retry", BROKEN)
async def test_a_policy_that_cannot_be_read_ends_a_failed_run_and_says_so(line, retry):
    lease = await one_lease(line)
    await spoil_retry(line.db, line.tenant, retry)

    assert await line.complete(report_on(lease, "failed")) == [(True, "dead", None)]
    assert await line.rows("select reason from everwhen.run_ends") == [("retry.unreadable",)]


@pytest.mark.parametrize(("outcome", "state"), [("succeeded", "succeeded"), ("released", "waiting")])
async def test_a_policy_that_cannot_be_read_matters_to_nothing_but_a_retry(line, outcome, state):
    lease = await one_lease(line)
    await spoil_retry(line.db, line.tenant, "{}")

    assert await line.complete(report_on(lease, outcome)) == [(True, state, None)]
