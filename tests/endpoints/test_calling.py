"""Runs posted to a real HTTPS server: what each answer makes of them, and of the endpoint's queue."""

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from everwhen.core.endpoints import FAILURES
from everwhen.core.retry import RetryPolicy
from everwhen.dispatch.reaper import Reaper
from everwhen.endpoints import service
from everwhen.endpoints.calling import PER_ENDPOINT
from everwhen.errors import Unavailable
from everwhen.verify.service import verify
from everwhen.worker.protocol import Report
from tests.alerts.servers import CUT, HANG, Reply
from tests.alerts.servers import HttpsReceiver as Receiver
from tests.dispatch.scene import database_now, rows
from tests.endpoints.scene import OLD_SECRET, SECRET, TOKENS, make_caller, make_scene
from tests.factories import NEVER_AGAIN, SLOWLY, make_tenant

AGAIN_AT_ONCE = RetryPolicy(max_attempts=50, base=0 * SLOWLY.base, cap=0 * SLOWLY.cap)


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify(database) == {}


@pytest.fixture
def receiver():
    with Receiver() as running:
        yield running


async def test_a_run_is_posted_signed_and_succeeds(database, receiver):
    scene = await make_scene(
        database,
        url=receiver.url,
        headers={"X-Team": "ops"},
        secrets={"secret": SECRET, "secret_previous": OLD_SECRET, "authorization": "Bearer theirs"},
    )
    [run_id] = await scene.line.fill(input={"n": 1}, priority=7)
    await scene.turn()
    [request] = receiver.requests

    for secret in (SECRET, OLD_SECRET):
        body = Verifier(secret).verify(request.body, request.headers)
    data = body["data"]
    assert body["type"] == "run.attempt"
    assert {key: data[key] for key in ("run_id", "task", "queue", "attempt", "priority", "input", "tenant")} == {
        "run_id": str(run_id),
        "task": "report",
        "queue": "line",
        "attempt": 1,
        "priority": 7,
        "input": {"n": 1},
        "tenant": scene.line.tenant.name,
    }
    assert request.headers["webhook-id"] == f"{run_id}-1"
    assert request.headers["idempotency-key"] == request.headers["everwhen-run-id"] == str(run_id)
    assert (request.headers["x-team"], request.headers["authorization"]) == ("ops", "Bearer theirs")
    assert await scene.ends() == [("succeeded", None)]
    assert await rows(database, "select worker from everwhen.attempts") == [("everwhen:caller",)]


async def test_what_is_not_due_is_not_posted_and_the_caller_sleeps_until_then(database, receiver):
    scene = await make_scene(database, url=receiver.url)
    await scene.line.fill(due_in=timedelta(hours=1))
    tick = await scene.caller.tick(await database_now(database))

    assert receiver.requests == []
    assert [(tick.next_at,)] == await rows(database, "select due_at from everwhen.runs")


async def test_a_retried_run_keeps_its_idempotency_key_and_has_another_message(database, receiver):
    scene = await make_scene(database, url=receiver.url, task={"retry": AGAIN_AT_ONCE})
    [run_id] = await scene.line.fill()
    receiver.script.extend([500, CUT, 408])
    await scene.turn(count=4)

    assert [request.headers["webhook-id"] for request in receiver.requests] == [f"{run_id}-{n}" for n in (1, 2, 3, 4)]
    assert {request.headers["idempotency-key"] for request in receiver.requests} == {str(run_id)}
    assert await scene.outcomes() == ["failed", "failed", "failed", "succeeded"]
    assert [error["message"] for error in await scene.errors()] == [
        "the endpoint: 500 Internal Server Error",
        "the endpoint: it does not speak HTTP as it should",
        "the endpoint: 408 Request Timeout",
    ]


@pytest.mark.parametrize("status", [301, 400, 404, 410, 422])
async def test_what_would_be_refused_again_is_not_tried_again(database, receiver, status):
    scene = await make_scene(database, url=receiver.url, task={"retry": AGAIN_AT_ONCE})
    await scene.line.fill()
    receiver.ordinary = Reply(status=status, headers={"Location": "https://localhost:1/"}, body=b"a secret of theirs")
    await scene.turn(count=2)

    assert len(receiver.requests) == 1
    assert await scene.ends() == [("dead", "attempt.not_retryable")]
    assert "secret of theirs" not in json.dumps(await scene.errors())
    assert (await scene.endpoint()).row.failures == 0


async def test_an_answer_that_does_not_come_is_a_failure(database, receiver):
    scene = await make_scene(database, url=receiver.url, task={"retry": NEVER_AGAIN}, answer_seconds=1.0)
    await scene.line.fill()
    receiver.ordinary = HANG
    await scene.turn()

    assert [error["message"] for error in await scene.errors()] == ["the endpoint: no answer within 1 s"]
    assert (await scene.endpoint()).row.failures == 1


async def test_an_accepted_run_runs_on_until_its_token_reports(database, receiver):
    scene = await make_scene(database, url=receiver.url, accept_seconds=5000)
    [run_id] = await scene.line.fill()
    receiver.ordinary = 202
    await scene.turn()
    held = "select lease_until > now() + interval '4900 s', started_at is not null from everwhen.leases"

    assert await rows(database, held) == [(True, True)]
    token = receiver.requests[0].json["data"]["lease_token"]
    report = Report(
        tenant_id=scene.line.tenant.id,
        run_id=run_id,
        lease_token=TOKENS.open(run_id, token),
        outcome="succeeded",
    )
    assert await scene.line.complete(report) == [(True, "succeeded", None)]
    assert await scene.ends() == [("succeeded", None)]


async def test_an_accepted_run_that_is_not_heard_of_is_tried_again(database, receiver):
    scene = await make_scene(database, url=receiver.url, task={"retry": AGAIN_AT_ONCE})
    await scene.line.fill()
    receiver.script.append(202)
    await scene.turn()
    async with database.system() as conn:
        await conn.execute("update everwhen.leases set lease_until = now() - interval '1 s'")
    await Reaper(database=database, jitter=lambda: 0.0).tick(await database_now(database))
    await scene.turn()

    assert await scene.outcomes() == ["lost", "succeeded"]


@pytest.mark.parametrize("status", [429, 503])
async def test_an_endpoint_that_asks_for_time_gets_it_and_its_runs_lose_no_retry(database, receiver, status):
    scene = await make_scene(database, url=receiver.url, task={"retry": NEVER_AGAIN})
    await scene.line.fill()
    receiver.script.append(Reply(status=status, headers={"Retry-After": "100"}))
    await scene.turn(count=3)

    assert len(receiver.requests) == 1
    row = (await scene.endpoint()).row
    assert row.rests_until is not None
    assert row.rests_until - await database_now(database) > timedelta(seconds=90)
    await scene.rest_is_over()
    await scene.turn()
    assert await scene.outcomes() == ["released", "succeeded"]


async def test_the_breaker_opens_for_all_copies_probes_with_one_run_and_closes(database, receiver):
    scene = await make_scene(database, url=receiver.url, task={"retry": AGAIN_AT_ONCE})
    await scene.line.fill(3)
    receiver.ordinary = 500
    while (await scene.endpoint()).row.rests_until is None:
        await scene.turn()
    until_open = len(receiver.requests)
    assert FAILURES <= until_open <= FAILURES + 2  # the three of a turn are under way together

    others = [make_caller(database) for _ in range(3)]
    for caller in others:
        await caller.tick(await database_now(database))
        await caller.calls.settle()
    assert len(receiver.requests) == until_open

    await scene.rest_is_over()
    now = await database_now(database)
    for caller in (scene.caller, *others):  # each has seen that the rest is over; one probes
        await caller.tick(now)
    for caller in (scene.caller, *others):
        await caller.calls.settle()
    assert len(receiver.requests) == until_open + 1

    receiver.ordinary = 200
    await scene.rest_is_over()
    await scene.turn(count=3)
    row = (await scene.endpoint()).row
    assert (row.failures, row.rests_until, row.failing_since, row.last_error) == (
        0,
        None,
        None,
        "500 Internal Server Error",
    )
    assert [state for state, _ in await scene.ends()] == ["succeeded"] * 3


async def test_an_endpoint_that_hangs_holds_back_its_own_queue_only(database, receiver):
    slow = await make_scene(database, url=receiver.url)
    await slow.line.fill(PER_ENDPOINT + 10)
    receiver.ordinary = HANG
    await slow.caller.tick(await database_now(database))
    with Receiver() as quick:
        other = await make_scene(database, url=quick.url)
        await other.line.fill()
        await slow.caller.tick(await database_now(database))
        while not quick.requests:
            await slow.caller.tick(await database_now(database))

        assert len(slow.caller.calls.in_flight) <= PER_ENDPOINT + 1
        assert await rows(database, "select count(*) from everwhen.leases") <= [(PER_ENDPOINT + 1,)]
    for task in list(slow.caller.calls.in_flight):
        task.cancel()


async def test_a_target_that_may_not_be_reached_is_never_connected_to(database, receiver):
    scene = await make_scene(database, url=receiver.url, task={"retry": AGAIN_AT_ONCE})
    await scene.line.fill()
    strict = make_caller(database, allowed=())
    await strict.tick(await database_now(database))
    await strict.calls.settle()

    assert receiver.requests == []
    assert await scene.ends() == [("dead", "attempt.not_retryable")]


async def test_secrets_that_cannot_be_opened_cost_no_run_anything(database, receiver):
    scene = await make_scene(database, url=receiver.url)
    await scene.line.fill()

    class Closed:
        async def open(self, conn, tenant_id, sealed, *, version=1):
            raise Unavailable("no key", code="sealing.no_key")

    await replace(scene.caller, sealer=Closed()).tick(await database_now(database))

    row = (await scene.endpoint()).row
    assert (receiver.requests, row.last_error) == ([], "its secrets cannot be opened: no key")
    assert await rows(database, "select attempts from everwhen.waiting") == [(0,)]


async def test_a_test_is_posted_once_by_whichever_copy_comes_first(database, receiver):
    scene = await make_scene(database, url=receiver.url)
    await service.ask_for_test(database, tenant_id=scene.line.tenant.id, queue="line")
    for caller in (scene.caller, make_caller(database)):
        await caller.tick(await database_now(database))
        await caller.calls.settle()

    assert [request.json["type"] for request in receiver.requests] == ["endpoint.test"]
    row = (await scene.endpoint()).row
    assert (row.test_answer, row.test_wanted_at) == ("200 OK", None)


async def test_a_round_goes_over_all_endpoints_however_small_the_batch(database, receiver):
    scenes = [await make_scene(database, url=receiver.url) for _ in range(5)]
    for scene in scenes:
        await scene.line.fill()
    caller = replace(scenes[0].caller, batch=2)
    for _ in range(4):
        await caller.tick(await database_now(database))
    await caller.calls.settle()

    assert len(receiver.requests) == 5


async def test_what_a_caller_left_under_way_when_it_died_is_posted_again(database, receiver):
    scene = await make_scene(database, url=receiver.url, task={"retry": AGAIN_AT_ONCE})
    await scene.line.fill()
    receiver.script.append(HANG)
    await scene.caller.tick(await database_now(database))
    await scene.caller.calls.close(seconds=0.1)
    async with database.system() as conn:
        await conn.execute("update everwhen.leases set lease_until = now() - interval '1 s'")
    await Reaper(database=database, jitter=lambda: 0.0).tick(await database_now(database))
    await scene.turn()

    assert await scene.outcomes() == ["lost", "succeeded"]


async def test_workers_may_take_from_the_queue_too_and_another_tenants_queue_of_that_name_is_another(
    database, receiver
):
    scene = await make_scene(database, url=receiver.url)
    other = await make_tenant(database)
    [run_id] = await scene.line.fill()
    [lease] = await scene.line.claim()
    await scene.turn()

    assert (lease.run_id, receiver.requests) == (run_id, [])
    assert other.id != UUID(int=0)
