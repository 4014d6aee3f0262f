"""Operations over HTTP: plan, carry out, look, stop; and lists of runs by the same filter."""

from datetime import timedelta

import pytest

from everwhen.core.lifecycle import RunState
from tests.dispatch.scene import report_on
from tests.factories import make_run, make_schedule
from tests.operations.scene import drain, let_be_due, make_dead
from tests.people import app_on, client_of, token_of


@pytest.fixture
async def client(database, line):
    async with client_of(app_on(database), token_of("operator", "payloads", tenant_id=line.tenant.id)) as opened:
        yield opened


@pytest.fixture
def base(line):
    return f"/v1/tenants/{line.tenant.name}"


async def test_a_redrive_from_its_plan_to_its_end(*, line, database, operator, client, base):
    await make_dead(database, line.tenant, 7, fingerprints=["a"])
    body = {"kind": "redrive", "filter": "fingerprint:a since:2d", "rate_per_second": 100}

    plan = (await client.post(f"{base}/operations/plan", json=body)).json()
    made = await client.post(f"{base}/operations", json={**body, "plan_token": plan["plan_token"], "reason": "mended"})
    again = await client.post(f"{base}/operations", json={**body, "plan_token": plan["plan_token"], "reason": "mended"})
    left = 7
    for _ in range(1_000):  # the rate spreads them: the last may not be made at the first look
        await let_be_due(database)
        await drain(operator)
        for lease in await line.claim():
            await line.complete(report_on(lease))
            left -= 1
        if not left:
            break
    await let_be_due(database)
    await drain(operator)
    done = (await client.get(made.headers["Location"])).json()

    assert (plan["count"], plan["exact"], len(plan["sample"]), plan["seconds"]) == (7, True, 5, 0.07)
    assert plan["filter"].startswith("state:dead fingerprint:a letter:open due>=")
    assert (made.status_code, again.status_code) == (202, 202)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json()["id"] == made.json()["id"]
    assert (made.json()["requested_by"], made.json()["reason"], made.json()["state"]) == ("tester", "mended", "planned")
    assert done["counts"] == {
        "total": 7, "done": 7, "skipped": 0, "left": 0, "succeeded": 7, "dead": 0, "ended_otherwise": 0, "under_way": 0,
    }  # fmt: skip
    assert (done["state"], done["eta_seconds"]) == ("succeeded", None)
    runs = (await client.get(f"{base}/runs", params={"filter": f"operation:{done['id']} state:succeeded"})).json()
    assert len(runs["items"]) == 7
    assert [each["id"] for each in (await client.get(f"{base}/operations")).json()["items"]] == [done["id"]]


async def test_a_backfill_tells_its_range_and_its_instants(line, database, client, base):
    await make_schedule(database, line.tenant, timezone="Europe/Berlin")
    body = {
        "kind": "backfill",
        "backfill": {"schedule": "nightly", "from": "2026-03-28T00:00:00+01:00", "until": "2026-03-31T00:00:00+02:00"},
    }

    plan = (await client.post(f"{base}/operations/plan", json=body)).json()

    assert plan["count"] == 3
    assert [each["local"] for each in plan["sample"]] == [
        "2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00",
    ]  # fmt: skip
    assert (plan["backfill"]["from"], plan["backfill"]["include"]) == ("2026-03-27T23:00:00Z", "not_run")
    assert plan["sentences"] == ["3 instants would get a run."]


async def test_an_operation_is_paused_resumed_and_aborted(line, database, client, base):
    await make_dead(database, line.tenant, 3)
    body = {"kind": "redrive"}
    plan = (await client.post(f"{base}/operations/plan", json=body)).json()
    made = (
        await client.post(f"{base}/operations", json={**body, "plan_token": plan["plan_token"], "reason": "x"})
    ).json()
    where = f"{base}/operations/{made['id']}"

    states = [
        (await client.post(f"{where}/{verb}", json=order)).json()["state"]
        for verb, order in (("pause", {"reason": "lunch"}), ("pause", {}), ("resume", {}), ("abort", {"reason": "no"}))
    ]
    late = await client.post(f"{where}/resume")

    assert states == ["paused", "paused", "planned", "aborted"]
    assert (late.status_code, late.json()["code"]) == (409, "operation.state")
    found = (await client.get(where)).json()
    assert (found["reason_code"], found["changed_reason"], found["counts"]["left"]) == ("operation.aborted", "no", 3)


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"kind": "redrive", "filter": "stat:dead"}, "filter.field", "/filter"),
        ({"kind": "redrive", "filter": "task:x state:waiting"}, "filter.unserved", "/filter"),
        ({"kind": "backfill"}, "operation.misfit", "/backfill"),
        ({"kind": "redrive", "rate_per_second": 0}, "input.invalid", "/rate_per_second"),
        ({"kind": "redrive", "plan_token": "x"}, "input.invalid", "/plan_token"),
    ],
)
async def test_what_is_wrong_is_named_with_its_place(*, client, base, body, code, pointer):
    answer = await client.post(f"{base}/operations/plan", json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert answer.json()["errors"][0]["pointer"] == pointer


async def test_a_list_of_runs_by_a_filter_echoes_it_and_keeps_it_over_pages(line, database, client, base):
    await make_dead(database, line.tenant, 5)
    await make_dead(database, line.tenant, 2, ago=timedelta(days=10))

    first = (await client.get(f"{base}/runs", params={"filter": "state:dead task:report", "limit": 3})).json()
    rest = (await client.get(first["next"])).json()
    everything = (await client.get(f"{base}/runs", params={"filter": "task:report state:dead due>=2020-01-01"})).json()

    assert first["filter"] == rest["filter"]
    assert first["filter"].startswith("state:dead task:report due>=")
    assert (len(first["items"]), len(rest["items"]), len(everything["items"])) == (3, 2, 7)


@pytest.mark.parametrize(
    "state", [state for state in RunState if state not in {"expired", "skipped", "missed", "coalesced"}]
)
async def test_a_filter_finds_runs_in_every_state(*, database, line, client, base, state):
    made = await make_run(database, line.tenant, state=state)
    await line.fill(1)

    found = (
        await client.get(f"{base}/runs", params={"filter": f"state:{state} task:{made.row.task} source:api"})
    ).json()

    assert [run["id"] for run in found["items"]] == [str(made.row.run_id)]


async def test_a_filter_is_served_by_schedule_by_reason_and_by_time(line, database, client, base):
    await make_schedule(database, line.tenant)
    await make_dead(database, line.tenant, 2, ago=timedelta(days=3))
    new = await make_dead(database, line.tenant, 1, ago=timedelta(hours=1))

    async def count(text):
        return len((await client.get(f"{base}/runs", params={"filter": text})).json()["items"])

    assert await count("schedule:nightly") == 0
    assert await count("state:dead reason:retry.exhausted") == 3
    assert await count("state:dead reason:attempt.failed") == 0
    assert await count("state:dead ended>=1d") == len(new) == 1
    assert await count("until:1d") == 2
    assert await count("since:1d") == 1
    assert await count("letter:redriven") == 0
    assert await count("fingerprint:none") == 3


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"filter": "reason:x"}, "filter.unserved"),
        ({"filter": "fingerprint:x state:missed"}, "filter.unserved"),
        ({"filter": "operation:01a2290b-f820-8c7f-a512-430466578e05 task:x"}, "filter.unserved"),
        ({"filter": "state:dead", "state": "dead"}, "filter.twice"),
        ({"filter": "schedule:nowhere"}, "schedule.unknown"),
    ],
)
async def test_a_filter_that_no_index_serves_is_refused(client, base, params, code):
    answer = await client.get(f"{base}/runs", params=params)

    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert "at character" in answer.json()["detail"] or code in {"filter.twice", "schedule.unknown"}
