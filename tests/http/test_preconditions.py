"""A change names the revision that it changes: over every thing that can be changed, with two that race."""

import asyncio

import pytest

from tests.factories import make_schedule, make_task, make_tenant
from tests.people import app_on, client_of, token_of

BASE = "/v1/tenants/acme"
WEEK = {"definition": {"week": ["mon"]}}
GRAPH = {"definition": {"nodes": [{"id": "a", "task": "report"}]}}
OTHER_GRAPH = {"definition": {"nodes": [{"id": "b", "task": "report"}]}}

# what is made, by which body; how it is changed, by which body
THINGS = {
    "task": ("tasks", {"name": "x"}, "PATCH", {"priority": 7}),
    "calendar": ("calendars", {"name": "x", **WEEK}, "PUT", {"definition": {"week": ["tue"]}}),
    "workflow": ("workflows", {"name": "x", **GRAPH}, "PUT", OTHER_GRAPH),
    "schedule": (
        "schedules",
        {"name": "x", "task": "report", "trigger": {"kind": "every", "every": "PT1H"}},
        "PATCH",
        {"priority": 7},
    ),
    "task as a whole": ("tasks", {"name": "x"}, "PUT", {"priority": 7}),
    "schedule as a whole": (
        "schedules",
        {"name": "x", "task": "report", "trigger": {"kind": "every", "every": "PT1H"}},
        "PUT",
        {"task": "report", "trigger": {"kind": "every", "every": "PT1H"}, "priority": 7},
    ),
}
NONSENSE = ["rev-1", '"rev-1" "rev-2"', "", ",", '"rev-1",', "**", '"' * 3, ", ".join(['"a"'] * 21), '"rev-1"\x7f']


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        del opened.headers["If-Match"]
        yield opened


async def made(client, thing):
    kind, body, method, change = THINGS[thing]
    answer = await client.post(f"{BASE}/{kind}", json=body)
    assert answer.status_code == 201, answer.text
    return f"{BASE}/{kind}/x", answer.headers["ETag"], method, change


@pytest.mark.parametrize("thing", THINGS)
async def test_a_change_names_what_it_changes(client, thing):
    path, etag, method, change = await made(client, thing)

    nameless = await client.request(method, path, json=change)
    first = await client.request(method, path, json=change, headers={"If-Match": etag})
    stale = await client.request(method, path, json=change, headers={"If-Match": etag})
    read = await client.get(path)

    assert (nameless.status_code, nameless.json()["code"]) == (428, "precondition.required")
    assert first.status_code == 200, first.text
    assert first.headers["ETag"] == read.headers["ETag"] == '"rev-2"'
    assert (stale.status_code, stale.json()["code"], stale.json()["revision"]) == (412, "precondition.failed", 2)
    assert stale.headers["ETag"] == '"rev-2"'


@pytest.mark.parametrize("thing", THINGS)
async def test_of_two_changes_of_one_revision_one_wins(client, thing):
    path, etag, method, change = await made(client, thing)

    answers = await asyncio.gather(
        *(client.request(method, path, json=change, headers={"If-Match": etag}) for _ in range(2))
    )

    assert sorted(answer.status_code for answer in answers) == [200, 412]
    assert (await client.get(path)).headers["ETag"] == '"rev-2"'


@pytest.mark.parametrize("thing", THINGS)
async def test_whoever_applies_files_takes_whatever_is_there(client, thing):
    path, _, method, change = await made(client, thing)

    answer = await client.request(method, path, json=change, headers={"If-Match": "*"})

    assert (answer.status_code, answer.headers["ETag"]) == (200, '"rev-2"')


@pytest.mark.parametrize("thing", ["calendar", "schedule"])
async def test_a_deletion_names_what_it_deletes(client, thing):
    path, etag, method, change = await made(client, thing)
    await client.request(method, path, json=change, headers={"If-Match": etag})

    nameless = await client.delete(path)
    stale = await client.delete(path, headers={"If-Match": etag})
    gone = await client.delete(path, headers={"If-Match": f'"other", {etag}, "rev-2"'})

    assert [each.status_code for each in (nameless, stale, gone)] == [428, 412, 204]
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("thing", THINGS)
async def test_a_put_may_insist_that_there_is_nothing(client, thing):
    kind, body, _, _ = THINGS[thing]
    path, body = f"{BASE}/{kind}/y", {key: value for key, value in body.items() if key != "name"}

    answers = await asyncio.gather(*(client.put(path, json=body, headers={"If-None-Match": "*"}) for _ in range(2)))
    late = await client.put(path, json=body, headers={"If-None-Match": "*"})

    assert sorted(answer.status_code for answer in answers) == [201, 412]
    assert (late.status_code, late.json()["revision"]) == (412, 1)
    assert (await client.get(path)).headers["ETag"] == '"rev-1"'


async def test_the_objective_of_a_schedule_has_revisions_of_its_own(client):
    path, _, _, _ = await made(client, "schedule")
    path += "/punctuality"
    before = await client.get(path)

    answers = [
        await client.put(path, json={"objective_seconds": seconds}, headers={"If-Match": tag})
        for seconds, tag in [(5, before.headers["ETag"]), (6, before.headers["ETag"]), (7, '"rev-1"'), (8, "*")]
    ]

    assert before.headers["ETag"] == '"rev-0"'
    assert [answer.status_code for answer in answers] == [200, 412, 200, 200]
    assert (await client.get(path)).headers["ETag"] == '"rev-3"'


async def test_an_action_heeds_the_revision_that_it_is_given(client):
    path, etag, _, _ = await made(client, "schedule")

    stale = await client.post(f"{path}/pause", json={"reason": "why"}, headers={"If-Match": '"rev-9"'})
    meant = await client.post(f"{path}/pause", json={"reason": "why"}, headers={"If-Match": etag})
    plain = await client.post(f"{path}/resume")

    assert [answer.status_code for answer in (stale, meant, plain)] == [412, 200, 200]
    assert plain.headers["ETag"] == '"rev-3"'


async def test_a_weak_tag_and_one_of_somebody_else_never_match(client):
    path, etag, method, change = await made(client, "task")

    answers = [
        await client.request(method, path, json=change, headers={"If-Match": tag})
        for tag in (f"W/{etag}", '"17"', '"rev-01"', '"rev-99999999999"', '""')
    ]

    assert {answer.status_code for answer in answers} == {412}


@pytest.mark.parametrize("value", NONSENSE)
async def test_what_is_no_tag_is_refused(client, value):
    path, _, method, change = await made(client, "task")

    answer = await client.request(method, path, json=change, headers={"If-Match": value})

    assert (answer.status_code, answer.json()["code"]) == (422, "precondition.syntax")


async def test_it_is_there_or_it_is_not(client):
    path, etag, method, change = await made(client, "calendar")

    for headers in ({"If-None-Match": "*", "If-Match": etag}, {"If-None-Match": etag}):
        answer = await client.request(method, path, json=change, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "precondition.syntax")


async def test_a_dry_run_may_leave_the_revision_open(client):
    path, _, method, change = await made(client, "schedule")

    answer = await client.request(method, f"{path}?dry_run=true", json=change)

    assert (answer.status_code, answer.json()["revision"]) == (200, 2)


async def test_a_change_of_the_schedule_itself_makes_what_was_read_stale(database, client):
    """What the server does by itself counts, too: a pause that ends is a revision."""
    path, etag, method, change = await made(client, "schedule")
    await client.post(f"{path}/pause", json={"reason": "why"})

    answer = await client.request(method, path, json=change, headers={"If-Match": etag})

    assert (answer.status_code, answer.json()["revision"]) == (412, 2)


async def test_other_schedules_are_not_in_the_way(database, client):
    tenant = await make_tenant(database, name="other")
    await make_task(database, tenant)
    await make_schedule(database, tenant, name="x")
    path, etag, method, change = await made(client, "schedule")

    assert (await client.request(method, path, json=change, headers={"If-Match": etag})).status_code == 200
