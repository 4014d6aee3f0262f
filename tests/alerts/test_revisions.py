"""Channels, subscriptions, templates and members name the revision that they change, as everything else does."""

import asyncio

import pytest

from tests.alerts.scene import Scene
from tests.people import app_on, client_of, token_of

CHANNEL = {"kind": "webhook", "configuration": {"url": "https://a.test"}}
SUBSCRIPTION = {"kinds": ["run.dead"], "channels": ["there"]}

# where it is; how it is made, by which body; what changes it
THINGS = {
    "channel": ("alerts/channels", "POST", CHANNEL, {**CHANNEL, "window_seconds": 5.0}),
    "subscription": ("alerts/subscriptions", "POST", SUBSCRIPTION, {**SUBSCRIPTION, "after_failures": 3}),
    "template": ("alert-templates/run.dead", "PUT", {"source": "a {{ occasion.name }}"}, {"source": "b"}),
    "member": ("members", "PUT", {"roles": ["viewer"]}, {"roles": ["editor"]}),
}
NAMES = {"channel": "x", "subscription": "x", "template": "subject", "member": "login:ada"}


@pytest.fixture
async def client(scene: Scene):
    await scene.channel("there")
    app = app_on(scene.db)
    app.state.alerts = scene.desk.kit
    async with client_of(app, token_of("admin", tenant_id=scene.tenant.id)) as opened:
        del opened.headers["If-Match"]
        opened.base_url = f"http://everwhen.test/v1/tenants/{scene.tenant.name}/"
        yield opened


async def made(client, thing):
    where, method, body, change = THINGS[thing]
    path = f"{where}/{NAMES[thing]}"
    if method == "POST":
        answer = await client.post(where, json={**body, "name": NAMES[thing]})
    else:
        answer = await client.put(path, json=body, headers={"If-None-Match": "*"})
    assert answer.status_code == 201, answer.text
    assert answer.headers["ETag"] == '"rev-1"'
    return path, change


@pytest.mark.parametrize("thing", THINGS)
async def test_a_change_names_what_it_changes(client, thing):
    path, change = await made(client, thing)

    nameless = await client.put(path, json=change)
    first = await client.put(path, json=change, headers={"If-Match": '"rev-1"'})
    stale = await client.put(path, json=change, headers={"If-Match": '"rev-1"'})
    read = await client.get(path)
    anyhow = await client.put(path, json=change, headers={"If-Match": "*"})

    assert (nameless.status_code, nameless.json()["code"]) == (428, "precondition.required")
    assert first.status_code == 200, first.text
    assert first.headers["ETag"] == read.headers["ETag"] == '"rev-2"'
    assert read.json()["revision"] == 2
    assert (stale.status_code, stale.json()["code"], stale.json()["revision"]) == (412, "precondition.failed", 2)
    assert (anyhow.status_code, anyhow.headers["ETag"]) == (200, '"rev-3"')


@pytest.mark.parametrize("thing", THINGS)
async def test_of_two_changes_of_one_revision_one_wins(client, thing):
    path, change = await made(client, thing)
    answers = await asyncio.gather(*(client.put(path, json=change, headers={"If-Match": '"rev-1"'}) for _ in range(2)))

    assert sorted(answer.status_code for answer in answers) == [200, 412]
    assert (await client.get(path)).headers["ETag"] == '"rev-2"'


@pytest.mark.parametrize("thing", THINGS)
async def test_a_deletion_names_what_it_deletes(client, thing):
    path, change = await made(client, thing)
    await client.put(path, json=change, headers={"If-Match": '"rev-1"'})

    nameless = await client.delete(path)
    stale = await client.delete(path, headers={"If-Match": '"rev-1"'})
    gone = await client.delete(path, headers={"If-Match": '"rev-2"'})
    again = await client.delete(path, headers={"If-Match": "*"})

    assert [each.status_code for each in (nameless, stale, gone, again)] == [428, 412, 204, 404]
    assert stale.json()["revision"] == 2


@pytest.mark.parametrize("thing", ["template", "member"])
async def test_a_put_may_insist_that_there_is_nothing(client, thing):
    where, _, body, _ = THINGS[thing]
    path = f"{where}/{NAMES[thing]}"
    answers = await asyncio.gather(*(client.put(path, json=body, headers={"If-None-Match": "*"}) for _ in range(2)))
    late = await client.put(path, json=body, headers={"If-None-Match": "*"})

    assert sorted(answer.status_code for answer in answers) == [201, 412]
    assert (late.status_code, late.json()["revision"]) == (412, 1)


async def test_the_built_in_template_is_revision_0_and_can_be_meant(client):
    path = "alert-templates/run.dead/subject"
    read = await client.get(path)
    first = await client.put(path, json={"source": "a"}, headers={"If-Match": read.headers["ETag"]})
    stale = await client.put(path, json={"source": "b"}, headers={"If-Match": read.headers["ETag"]})

    assert (read.headers["ETag"], read.json()["revision"]) == ('"rev-0"', 0)
    assert (first.status_code, stale.status_code) == (200, 412)


async def test_a_member_that_is_not_there_has_no_revision(client):
    answer = await client.put("members/login:ada", json={"roles": ["viewer"]}, headers={"If-Match": '"rev-1"'})
    assert (answer.status_code, answer.json()["code"]) == (404, "member.unknown")


async def test_an_action_on_a_channel_heeds_the_revision_that_it_is_given(client):
    path, _ = await made(client, "channel")
    stale = await client.post(f"{path}/disable", headers={"If-Match": '"rev-9"'})
    meant = await client.post(f"{path}/disable", headers={"If-Match": '"rev-1"'})
    plain = await client.post(f"{path}/enable")

    assert [answer.status_code for answer in (stale, meant, plain)] == [412, 200, 200]
    assert plain.headers["ETag"] == '"rev-3"'


async def test_a_message_that_is_delivered_or_fails_is_no_revision(client, scene: Scene):
    path, _ = await made(client, "channel")
    await client.post(f"{path}/test")
    await scene.send()

    assert (await client.get(path)).headers["ETag"] == '"rev-1"'
