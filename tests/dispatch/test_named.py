"""Claims that name runs: granted under the same guards as any, and of each that is not it is said why."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from everwhen.core.named import Asked, Named, Place, why_not
from everwhen.pauses.service import Wish, pause
from everwhen.worker.protocol import ClaimRequest, ClaimResponse
from tests.dispatch.brokers.scene import MemoryBroker, deliver_by, make_relay, outbox
from tests.dispatch.scene import LINE, fill, make_line, report_on
from tests.dispatch.test_api import app, app_on, asking, post, problem  # noqa: F401  # fixtures
from tests.factories import make_task, make_tenant
from tests.people import client_of, token_of

MINUTE = timedelta(minutes=1)


async def named(line, *run_ids, **changes):
    """Name these; return what became of each, and the leases."""
    grant = await line.grant(run_ids=tuple(run_ids), **changes)
    assert {lease.run_id for lease in grant.leases} == {key for key, what in grant.named.items() if what == "granted"}
    return [grant.named[run_id].value for run_id in run_ids], grant.leases


async def test_named_runs_are_granted_and_no_others(line):
    first, second, other = await line.fill(3)

    told, leases = await named(line, first, second)

    assert told == ["granted", "granted"]
    assert {lease.run_id for lease in leases} == {first, second}
    assert [lease.attempt for lease in leases] == [1, 1]
    assert [lease.run_id for lease in await line.claim()] == [other]
    events = await line.rows("select count(*) from everwhen.events where kind = 'claimed'")
    assert events == [(3,)]


async def test_a_run_that_is_named_twice_or_held_or_over_is_granted_once(line):
    (run_id,) = await line.fill()
    told, (lease,) = await named(line, run_id)
    assert told == ["granted"]

    assert (await named(line, run_id))[0] == ["elsewhere"]
    await line.complete(report_on(lease))
    assert (await named(line, run_id))[0] == ["gone"]


async def test_a_notice_of_an_earlier_attempt_gets_the_one_that_waits(line):
    (run_id,) = await line.fill()
    _, (lease,) = await named(line, run_id)
    await line.complete(report_on(lease, "released"))

    told, (again,) = await named(line, run_id)

    assert (told, again.attempt) == (["granted"], 2)
    assert again.lease_token > lease.lease_token
    assert [accepted for accepted, *_ in await line.complete(report_on(lease))] == [False]


async def test_what_cannot_be_had_now_is_said_by_name(line):
    await make_task(line.db, line.tenant, name="print", queue="print")
    (later,) = await line.fill(due_in=MINUTE)
    (elsewhere,) = await line.fill(task="print")
    (due,) = await line.fill()
    other = await make_tenant(line.db, name="other")
    await make_task(line.db, other, queue=LINE)
    (theirs,) = await fill(line.db, other)

    assert (await named(line, later, elsewhere, theirs))[0] == ["not_due", "gone", "gone"]
    assert (await named(line, due, tasks=("another",)))[0] == ["unfit"]
    await line.set_lane(max_in_flight=0)
    assert (await named(line, due))[0] == ["limited"]
    await line.set_lane(max_in_flight=None)
    await pause(line.db, tenant_id=line.tenant.id, queue=LINE, wish=Wish(by="alice"))
    assert (await named(line, due))[0] == ["paused"]
    await line.rows("delete from everwhen.pauses returning 1")
    async with line.db.tenant(line.tenant.id) as conn:
        await conn.execute("select from everwhen.waiting where run_id = %s for update", (due,))
        assert (await named(line, due))[0] == ["busy"]
    assert (await named(line, due))[0] == ["granted"]


async def test_an_expired_run_is_gone(line):
    (run_id,) = await line.fill()
    await line.rows("update everwhen.waiting set expires_at = now() - interval '1 s' returning 1")

    assert (await named(line, run_id))[0] == ["gone"]
    await line.rows("update everwhen.waiting set expires_at = null returning 1")


async def test_the_limit_of_a_line_is_exact_and_goes_to_what_is_urgent(line):
    await line.set_lane(max_in_flight=2)
    low, high, middle = [(await line.fill(priority=priority))[0] for priority in (1, 9, 5)]

    told, leases = await named(line, low, high, middle)

    assert told[1:] == ["granted", "granted"]
    assert {lease.run_id for lease in leases} == {high, middle}
    assert (await named(line, low))[0] == ["limited"]


async def test_limits_of_tasks_hold_and_what_is_behind_one_is_limited(database):
    line = await make_line(database, max_in_flight=1)
    first, second = await line.fill(2)

    told, (lease,) = await named(line, first, second)

    assert sorted(told) == ["granted", "limited"]
    await line.complete(report_on(lease))
    (waits,) = {first, second} - {lease.run_id}
    assert (await named(line, waits))[0] == ["granted"]


async def test_many_claims_that_name_the_same_runs_grant_each_once(line):
    run_ids = await line.fill(20)

    answers = await asyncio.gather(*(line.grant(run_ids=tuple(run_ids), limit=20) for _ in range(12)))

    granted = [lease.run_id for answer in answers for lease in answer.leases]
    assert sorted(granted) == sorted(run_ids)
    assert {what for answer in answers for what in answer.named.values()} <= {"granted", "elsewhere", "busy"}


async def test_what_was_told_of_is_settled_by_the_claim(line):
    await deliver_by(line)
    broker = MemoryBroker()
    relay = make_relay(line.db, broker)
    first, second = await line.fill(2)
    await relay.tick(await line.now())
    assert set(await outbox(line.db)) == {first, second}

    await named(line, first)
    assert set(await outbox(line.db)) == {second}
    await line.set_lane(max_in_flight=0)
    await named(line, second)
    (look_in,) = await line.rows("select look_at - now() from everwhen.outbox")
    assert look_in[0] <= timedelta(seconds=5)
    await line.set_lane(max_in_flight=None)
    await pause(line.db, tenant_id=line.tenant.id, queue=LINE, wish=Wish(by="alice"))
    await named(line, second)
    assert await outbox(line.db) == {}
    await line.rows("delete from everwhen.pauses returning 1")
    await relay.tick(await line.now())
    assert broker.told()[-1] == second
    assert len({each.message_id for each in broker.messages}) == 3


async def test_a_worker_settles_nothing_of_queues_that_it_did_not_name(line):
    await deliver_by(line)
    (run_id,) = await line.fill()
    await make_relay(line.db, MemoryBroker()).tick(await line.now())

    assert (await named(line, run_id, queues=("print",)))[0] == ["gone"]
    assert set(await outbox(line.db)) == {run_id}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Named.BUSY),
        ({"queue": "print"}, Named.GONE),
        ({"task": "other"}, Named.UNFIT),
        ({"is_parked": True}, Named.LIMITED),
        ({"is_paused": True, "is_parked": True, "task": "other"}, Named.PAUSED),
    ],
)
async def test_one_answer_is_given_the_one_that_ends_last(line, changes, expected):
    now = await line.now()
    place = {"queue": LINE, "task": "report", "available_at": now, "expires_at": None}
    made = Place(**({**place, "is_parked": False, "is_paused": False} | changes))
    asked = Asked(queues=(LINE,), tasks=("report",), open_queues={LINE})

    assert why_not(made, asked, is_held=False, now=now) == expected
    assert why_not(made, asked, is_held=True, now=now) == Named.ELSEWHERE
    assert why_not(None, asked, is_held=False, now=now) == Named.GONE


# As it is spoken ------------------------------------------------------------------------------------------------------


async def test_a_claim_by_http_names_runs_and_hears_of_each(app, line):  # noqa: F811
    run_ids = [str(each) for each in await line.fill(2)]
    async with client_of(app, token_of("worker", tenant_id=line.tenant.id)) as client:
        answer = await post(client, "claim", asking(run_ids=[*run_ids, run_ids[0]], wait_seconds=30, limit=1))
        found = msgspec.json.decode(answer.content, type=ClaimResponse)
        assert len(found.runs) == 1
        assert [str(each.run_id) for each in found.named] == [*run_ids, run_ids[0]]
        plain = (await post(client, "claim", asking())).json()
    assert "named" not in plain
    assert len(plain["runs"]) == 1


@pytest.mark.parametrize("run_ids", [[], ["x"], [1], "x", ["00000000-0000-0000-0000-000000000000"] * 1001])
async def test_what_cannot_be_named_is_refused(app, line, run_ids):  # noqa: F811
    async with client_of(app, token_of("worker", tenant_id=line.tenant.id)) as client:
        status, code, _ = problem(await post(client, "claim", asking(run_ids=run_ids)))
    assert (status, code) in {(422, "body.invalid"), (422, "input.invalid")}


async def test_another_tenants_runs_are_gone_and_a_platforms_worker_says_whose_they_are(app, line):  # noqa: F811
    (run_id,) = await line.fill()
    other = await make_tenant(line.db, name="other")
    body = asking(run_ids=[str(run_id)], tenant_id=str(line.tenant.id))
    async with client_of(app, token_of("worker", tenant_id=other.id)) as client:
        assert (await post(client, "claim", body)).json()["named"] == [{"run_id": str(run_id), "outcome": "gone"}]
    async with client_of(app, token_of("worker", queues=[LINE])) as client:
        status, _, pointers = problem(await post(client, "claim", asking(run_ids=[str(run_id)])))
        assert (status, pointers) == (422, ["/tenant_id"])
        assert (await post(client, "claim", body)).json()["named"] == [{"run_id": str(run_id), "outcome": "granted"}]


def test_a_claim_that_names_nothing_is_what_it_was():
    request = ClaimRequest(worker="w", queues=["q"], tasks=None, limit=1, wait_seconds=0.0, lease_seconds=30.0)
    assert set(msgspec.to_builtins(request)) == {"worker", "queues", "tasks", "limit", "wait_seconds", "lease_seconds"}
