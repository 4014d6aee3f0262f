"""Runs over HTTP: idempotency on the wire, references, filters, what is refused."""

from datetime import timedelta, timezone

import pytest

from everwhen.clock import process_now
from everwhen.core.lifecycle import RunState
from everwhen.schedules.planner import plan_due
from tests.factories import make_run, make_schedule, make_task, make_tenant
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/runs"


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def client(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ann")) as opened:
        yield opened


def keyed(key="k"):
    return {"Idempotency-Key": key}


async def test_a_repeated_request_answers_with_the_same_run_and_says_so(client):
    due_at = (process_now() + timedelta(days=30)).replace(microsecond=0)
    at = due_at.astimezone(timezone(timedelta(hours=1))).isoformat()
    first = await client.post(PATH, json={"task": "report", "at": at}, headers=keyed())
    second = await client.post(PATH, json={"at": at, "task": "report"}, headers=keyed())

    assert (first.status_code, second.status_code) == (201, 201)
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert first.json() == second.json()
    assert first.json()["due_at"] == due_at.strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_a_key_that_stands_for_another_request_is_refused(client):
    await client.post(PATH, json={"task": "report"}, headers=keyed())
    answer = await client.post(PATH, json={"task": "report", "priority": 0}, headers=keyed())

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency.key_reused")


@pytest.mark.parametrize("headers", [{}, keyed(""), keyed("a b"), keyed("x" * 256), keyed("\x7f")])
async def test_a_request_without_a_proper_key_is_refused(client, headers):
    answer = await client.post(PATH, json={"task": "report"}, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency.key_required")


WRONG = [
    ({}, "", "field.invalid"),
    ({"task": "report", "schedule": "x"}, "", "field.invalid"),
    ({"task": "nope"}, "/task", "task.unknown"),
    ({"schedule": "nope"}, "/schedule", "schedule.unknown"),
    ({"task": "report", "state": "succeeded"}, "/state", "field.unknown"),
    ({"task": "report", "run_id": "x"}, "/run_id", "field.unknown"),
    ({"task": "report", "priority": -1}, "/priority", "field.invalid"),
    ({"task": "report", "input": ["x" * 70_000]}, "/input", "field.invalid"),
    ({"task": "report", "at": "2026-12-01T00:00:00"}, "/at", "field.invalid"),
    ({"task": "report", "at": "tomorrow"}, "/at", "field.invalid"),
    ({"task": "report", "at": 1796083200}, "/at", "field.invalid"),
    ({"task": "report", "at": "1796083200"}, "/at", "field.invalid"),
    ({"task": "report", "at": "0001-01-01T00:00:00+23:59"}, "/at", "field.invalid"),
    ({"task": "report", "at": "9999-12-31T23:59:59-23:59"}, "/at", "field.invalid"),
    ({"task": "report", "at": "1969-12-31T00:00:00Z"}, "/at", "run.at_past"),
    ({"task": "report", "at": "9999-12-31T00:00:00Z"}, "/at", "run.at_too_far"),
]


@pytest.mark.parametrize(("body", "pointer", "code"), WRONG, ids=range(len(WRONG)))
async def test_a_wrong_request_is_refused_and_makes_nothing(client, body, pointer, code):
    answer = await client.post(PATH, json=body, headers=keyed())

    assert answer.status_code == 422
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert (await client.get(PATH)).json()["items"] == []


async def test_an_intended_run_goes_by_its_reference_too(client, database, tenant):
    await make_schedule(database, tenant, trigger={"kind": "cron", "expr": "* * * * *"}, timezone="Asia/Kathmandu")
    async with database.system() as conn:
        await plan_due(conn, now=conn.now, ahead=timedelta(minutes=2), batch=10)
    run = (await client.get(f"{PATH}?schedule=nightly&limit=1")).json()["items"][0]
    found = await client.get(f"{PATH}/{run['ref']}")
    events = await client.get(f"{PATH}/{run['ref']}/events")

    assert run["ref"].startswith("nightly@")
    assert run["ref"].endswith("+05:45")
    assert run["nominal_local"].endswith(":00+05:45")
    assert found.json() == run
    assert [event["kind"] for event in events.json()["items"]] == ["planned"]


@pytest.mark.parametrize(
    "query", ["state=lost", "schedule=a%20b", "task=%00", "limit=1000", "cursor=x", "tenant=x&limit=0"]
)
async def test_a_wrong_filter_is_refused(client, query):
    assert (await client.get(f"{PATH}?{query}")).status_code == 422


async def test_pages_keep_their_filter(client, database, tenant):
    for _ in range(3):
        await make_run(database, tenant, state=RunState.SUCCEEDED)
    await make_run(database, tenant)
    found, path = [], f"{PATH}?state=succeeded&limit=2"
    while path:
        page = (await client.get(path)).json()
        found.append(len(page["items"]))
        assert {run["state"] for run in page["items"]} == {"succeeded"}
        path = page["next"]

    assert found == [2, 1]


async def test_a_cancelled_run_says_by_whom_and_why(client, database, tenant):
    run = await make_run(database, tenant)
    answer = await client.post(f"{PATH}/{run.row.run_id}/cancel", json={"reason": "not needed"})
    events = (await client.get(f"{PATH}/{run.row.run_id}/events?limit=1")).json()
    rest = (await client.get(events["next"])).json()

    assert answer.json()["state"] == "cancelled"
    assert rest["items"][0]["detail"] == {"by": "ann", "reason": "not needed"}


@pytest.mark.parametrize("ref", ["x", "nightly@now", "nightly@2026-11-30T02:30", "%00", "a%2Fb", "x" * 300])
async def test_a_reference_that_means_nothing_finds_nothing(client, ref):
    for path in ("", "/events", "/attempts"):
        assert (await client.get(f"{PATH}/{ref}{path}")).status_code in {404, 422}
