"""Tasks over HTTP: defaults, partial changes, what is refused."""

import asyncio

import pytest

from tests.factories import make_tenant
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/tasks"


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        yield opened


async def test_requirements_are_set_replaced_and_taken_away(client):
    requires = {"labels": {"zone": "a"}, "resources": {"gpu": 1}}
    made = await client.post(PATH, json={"name": "train", "requires": requires})
    assert made.json()["requires"] == requires
    changed = await client.patch(f"{PATH}/train", json={"requires": {"resources": {"gpu": 2.5}}})
    assert changed.json()["requires"] == {"labels": {}, "resources": {"gpu": 2.5}}
    changed = await client.patch(f"{PATH}/train", json={"requires": None})

    assert changed.json()["requires"] is None


async def test_a_task_has_defaults_that_its_answer_tells(client):
    made = (await client.post(PATH, json={"name": "report"})).json()

    assert {key: made[key] for key in made if not key.endswith("_at")} == {
        "name": "report",
        "queue": "default",
        "priority": 5,
        "retry": {
            "max_attempts": 5,
            "base_seconds": 5.0,
            "factor": 2.0,
            "cap_seconds": 3600.0,
            "jitter": "equal",
            "max_age_seconds": None,
            "non_retryable": [],
        },
        "timeout_seconds": None,
        "start_deadline_seconds": None,
        "total_deadline_seconds": None,
        "heartbeat_timeout_seconds": None,
        "max_in_flight": None,
        "rate": None,
        "concurrency": None,
        "requires": None,
        "tags": [],
        "owner": None,
        "revision": 1,
    }


async def test_limits_are_said_changed_and_taken_away(client):
    limits = {"rate": {"tokens": 10, "seconds": 60}, "concurrency": {"key": ["/customer"], "max_in_flight": 1}}
    await client.post(PATH, json={"name": "report", "max_in_flight": 5, **limits})
    changed = await client.patch(
        f"{PATH}/report", json={"max_in_flight": None, "rate": {"tokens": 1, "seconds": 1, "burst": 3}}
    )

    assert changed.json()["max_in_flight"] is None
    assert changed.json()["rate"] == {"tokens": 1, "seconds": 1.0, "burst": 3}
    assert changed.json()["concurrency"] == {"key": ["/customer"], "max_in_flight": 1, "rate": None}
    changed = await client.patch(f"{PATH}/report", json={"rate": limits["rate"], "concurrency": None})
    assert changed.json()["rate"] == {"tokens": 10, "seconds": 60.0, "burst": 10}
    assert changed.json()["concurrency"] is None


async def test_a_change_merges_the_retry_policy_and_clears_what_is_null(client):
    await client.post(PATH, json={"name": "report", "timeout_seconds": 5, "retry": {"base_seconds": 1}})
    changed = await client.patch(f"{PATH}/report", json={"retry": {"factor": 3}, "timeout_seconds": None})

    assert changed.json()["retry"] == {
        "max_attempts": 5,
        "base_seconds": 1.0,
        "factor": 3.0,
        "cap_seconds": 3600.0,
        "jitter": "equal",
        "max_age_seconds": None,
        "non_retryable": [],
    }
    assert changed.json()["timeout_seconds"] is None


WRONG = [
    ({}, "/name"),
    ({"name": "x", "queue": ""}, "/queue"),
    ({"name": "x", "queue": None}, "/queue"),
    ({"name": "x", "priority": 1.5}, "/priority"),
    ({"name": "x", "timeout_seconds": 0}, "/timeout_seconds"),
    ({"name": "x", "timeout_seconds": "PT5S"}, "/timeout_seconds"),
    ({"name": "x", "timeout_seconds": 1e12}, "/timeout_seconds"),
    ({"name": "x", "start_deadline_seconds": -1}, "/start_deadline_seconds"),
    ({"name": "x", "retry": {"max_attempts": 0}}, "/retry/max_attempts"),
    ({"name": "x", "retry": {"max_attempts": 1001}}, "/retry/max_attempts"),
    ({"name": "x", "retry": {"factor": 0.5}}, "/retry/factor"),
    ({"name": "x", "retry": {"jitter": "some"}}, "/retry/jitter"),
    ({"name": "x", "retry": {"base_seconds": 7200, "cap_seconds": 10}}, "/retry"),
    ({"name": "x", "retry": {"delay": 1}}, "/retry/delay"),
    ({"name": "x", "retry": {"max_age_seconds": 0}}, "/retry/max_age_seconds"),
    ({"name": "x", "retry": {"max_age_seconds": 1e9}}, "/retry/max_age_seconds"),
    ({"name": "x", "retry": {"non_retryable": "ValueError"}}, "/retry/non_retryable"),
    ({"name": "x", "retry": {"non_retryable": ["a b"]}}, "/retry/non_retryable/0"),
    ({"name": "x", "retry": {"non_retryable": [""]}}, "/retry/non_retryable/0"),
    ({"name": "x", "retry": {"non_retryable": ["x" * 201]}}, "/retry/non_retryable/0"),
    ({"name": "x", "retry": {"non_retryable": ["x"] * 51}}, "/retry/non_retryable"),
    ({"name": "x", "total_deadline_seconds": 0}, "/total_deadline_seconds"),
    ({"name": "x", "heartbeat_timeout_seconds": 0.5}, "/heartbeat_timeout_seconds"),
    ({"name": "x", "max_in_flight": 0}, "/max_in_flight"),
    ({"name": "x", "max_in_flight": 100_001}, "/max_in_flight"),
    ({"name": "x", "rate": {"tokens": 0, "seconds": 1}}, "/rate/tokens"),
    ({"name": "x", "rate": {"tokens": 1, "seconds": 0}}, "/rate/seconds"),
    ({"name": "x", "rate": {"tokens": 1, "seconds": 90_000}}, "/rate/seconds"),
    ({"name": "x", "requires": {}}, "/requires"),
    ({"name": "x", "requires": {"labels": {"zone": ""}}}, "/requires/labels/zone"),
    ({"name": "x", "requires": {"labels": {"zone": "a\u2028b"}}}, "/requires/labels/zone"),
    ({"name": "x", "requires": {"resources": {"gpu": 0}}}, "/requires/resources/gpu"),
    ({"name": "x", "requires": {"resources": {"gpu": "1"}}}, "/requires/resources/gpu"),
    ({"name": "x", "requires": {"resources": {f"r{n}": 1 for n in range(17)}}}, "/requires/resources"),
    ({"name": "x", "concurrency": {"key": ["/a"]}}, "/concurrency"),
    ({"name": "x", "concurrency": {"key": [], "max_in_flight": 1}}, "/concurrency/key"),
    ({"name": "x", "concurrency": {"key": ["a"], "max_in_flight": 1}}, "/concurrency/key/0"),
    ({"name": "x", "concurrency": {"key": ["/a//b"], "max_in_flight": 1}}, "/concurrency/key/0"),
    ({"name": "x", "concurrency": {"key": ["/a~2"], "max_in_flight": 1}}, "/concurrency/key/0"),
    ({"name": "x", "weight": 3}, "/weight"),
]


@pytest.mark.parametrize(("body", "pointer"), WRONG, ids=range(len(WRONG)))
async def test_a_wrong_task_is_refused_where_it_is_wrong(client, body, pointer):
    answer = await client.post(PATH, json=body)

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("body", [{"name": "y"}, {"priority": None}, {"queue": None}, {"retry": None}])
async def test_a_wrong_change_is_refused(client, body):
    await client.post(PATH, json={"name": "report"})

    assert (await client.patch(f"{PATH}/report", json=body)).status_code == 422


async def test_a_change_that_only_fits_together_with_the_rest_is_judged_with_it(client):
    await client.post(PATH, json={"name": "report"})
    answer = await client.patch(f"{PATH}/report", json={"retry": {"base_seconds": 7200}})

    assert (answer.status_code, answer.json()["code"]) == (422, "task.retry.invalid")


CRON = {"kind": "cron", "expr": "30 2 * * *"}
ANY = {"If-Match": "*"}


async def test_a_task_that_nobody_uses_is_deleted_and_its_name_is_free(client):
    made = await client.post(PATH, json={"name": "report", "priority": 7, "tags": ["billing"], "owner": "git"})
    tag = made.headers["etag"]
    tried = await client.delete(f"{PATH}/report", params={"dry_run": "true"}, headers={"If-Match": tag})
    assert (tried.status_code, tried.headers["dry-run"]) == (204, "true")

    del client.headers["If-Match"]
    assert (await client.delete(f"{PATH}/report")).status_code == 428
    assert (await client.delete(f"{PATH}/report", headers={"If-Match": '"rev-9"'})).status_code == 412
    gone = await client.delete(f"{PATH}/report", params={"reason": "moved"}, headers={"If-Match": tag})

    assert gone.status_code == 204
    for answer in (
        await client.get(f"{PATH}/report"),
        await client.patch(f"{PATH}/report", json={"priority": 1}, headers=ANY),
        await client.delete(f"{PATH}/report", headers=ANY),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "task.unknown")
    for where in ("", "tag:billing"):
        assert (await client.get(PATH, params={"filter": where})).json()["items"] == []
    again = await client.post(PATH, json={"name": "report"})
    assert again.status_code == 201
    assert {key: again.json()[key] for key in ("priority", "tags", "owner", "revision")} == {
        "priority": 5, "tags": [], "owner": None, "revision": 2,
    }  # fmt: skip
    (told,) = (await client.get("/v1/tenants/acme/audit", params={"filter": "operation:delete_task"})).json()["items"]
    assert (told["reason"], told["resource"], told["before"]["priority"]) == ("moved", "tasks/report", 7)


async def test_a_task_in_use_stays_and_says_by_what(client):
    base = PATH.removesuffix("/tasks")
    await client.post(PATH, json={"name": "report"})
    await client.post(f"{base}/schedules", json={"name": "nightly", "task": "report", "trigger": CRON})
    await client.post(
        f"{base}/workflows", json={"name": "etl", "definition": {"nodes": [{"id": "a", "task": "report"}]}}
    )
    run = (await client.post(f"{base}/runs", json={"task": "report"}, headers={"Idempotency-Key": "1"})).json()

    refused = await client.delete(f"{PATH}/report", headers=ANY)

    assert (refused.status_code, refused.json()["code"]) == (409, "task.in_use")
    assert refused.json()["detail"] == "The task is in use: schedule nightly; workflow etl; 1 run waits or runs."
    assert refused.json()["used_by"] == {"schedules": ["nightly"], "workflows": ["etl"], "runs": 1}
    await client.delete(f"{base}/schedules/nightly", headers=ANY)
    await client.delete(f"{base}/workflows/etl", headers=ANY)
    assert (await client.delete(f"{PATH}/report", headers=ANY)).json()["used_by"]["runs"] == 1
    await client.post(f"{base}/runs/{run['id']}/cancel")
    assert (await client.delete(f"{PATH}/report", headers=ANY)).status_code == 204
    # What has run keeps its name, and nobody begins to use it any more.
    assert (await client.get(f"{base}/runs/{run['id']}")).json()["task"] == "report"
    for path, body in (
        ("runs", {"task": "report"}),
        ("schedules", {"name": "nightly", "task": "report", "trigger": CRON}),
        ("workflows", {"name": "etl", "definition": {"nodes": [{"id": "a", "task": "report"}]}}),
    ):
        answer = await client.post(f"{base}/{path}", json=body, headers={"Idempotency-Key": path})
        assert (answer.status_code, answer.json()["code"]) == (422, "task.unknown"), path


async def test_of_a_deletion_and_a_new_user_one_is_first_and_the_other_refused(client):
    base = PATH.removesuffix("/tasks")
    for number in range(12):
        name = f"t{number}"
        await client.post(PATH, json={"name": name})
        graph = {"nodes": [{"id": "a", "task": name}]}
        use = (
            client.post(f"{base}/schedules", json={"name": f"s{number}", "task": name, "trigger": CRON})
            if number % 2
            else client.post(f"{base}/workflows", json={"name": f"w{number}", "definition": graph})
        )
        deleted, used = await asyncio.gather(client.delete(f"{PATH}/{name}", headers=ANY), use)
        assert (deleted.status_code, used.status_code) in {(204, 422), (409, 201)}
