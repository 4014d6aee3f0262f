"""Channels, subscriptions and deliveries over HTTP."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx2
import pytest

from everwhen.alerts import unsubscribing
from everwhen.alerts.channels.protocol import Refused
from everwhen.alerts.signing import Outlet
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.lifecycle import RunState
from tests.alerts.scene import SIGNER, Scene
from tests.factories import make_run, make_tenant
from tests.people import app_on, client_of, token_of

CHANNEL = {
    "name": "ops",
    "kind": "webhook",
    "configuration": {"url": "https://a.test"},
    "secrets": {"key": "hush-hush"},
}


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[httpx2.AsyncClient]:
    app = app_on(scene.db)
    app.state.alerts = scene.desk.kit
    async with client_of(app, token_of("editor", tenant_id=scene.tenant.id)) as opened:
        opened.base_url = httpx2.URL(f"http://everwhen.test/v1/tenants/{scene.tenant.name}/alerts/")
        yield opened


async def ok(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def test_a_channel_from_its_definition_to_its_end(client, scene: Scene):
    made = await ok(await client.post("channels", json=CHANNEL), 201)
    assert (made["state"], made["secrets"], made["receivers"][0]["verified_at"]) == ("unverified", ["key"], None)
    assert "hush-hush" not in str(made)
    assert "hush-hush" not in str(await scene.rows("select sealed from everwhen.alert_secrets"))
    assert (await client.post("channels", json=CHANNEL)).json()["code"] == "channel.exists"

    sent = await ok(await client.post("channels/ops/test"), 202)
    await scene.send()
    assert [str(each.delivery_id) for each in scene.hook.sent] == sent["deliveries"]
    assert (await ok(await client.get("channels/ops")))["state"] == "ready"

    quiet = {"zone": "Europe/Berlin", "begins": "22:00", "ends": "07:00", "days": ["mon"]}
    settings = {key: CHANNEL[key] for key in ("kind", "configuration")}
    changed = await ok(
        await client.put("channels/ops", json={**settings, "window_seconds": 60.0, "quiet_hours": quiet})
    )
    assert (changed["state"], changed["secrets"]) == ("ready", ["key"])  # a secret that is not named stays
    assert (changed["window_seconds"], changed["quiet_hours"]) == (60.0, quiet)
    moved = await ok(await client.put("channels/ops", json={**settings, "configuration": {"url": "https://b.test"}}))
    assert moved["state"] == "unverified"  # nobody knows any longer whom it reaches

    assert (await ok(await client.post("channels/ops/disable", json={"reason": "noise"})))["state_reason"] == "noise"
    assert (await ok(await client.post("channels/ops/enable")))["state"] == "unverified"
    assert [each["name"] for each in (await ok(await client.get("channels")))["items"]] == ["ops"]
    await ok(await client.delete("channels/ops"), 204)
    assert (await client.get("channels/ops")).json()["code"] == "channel.unknown"


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"kind": "pigeon"}, "channel.kind", "/kind"),
        ({"configuration": {}}, "channel.url", "/configuration/url"),
        ({"secrets": {"other": "x"}}, "channel.secret", "/secrets/other"),
        ({"configuration": []}, "field.invalid", "/configuration"),
        ({"window_seconds": -1.0}, "field.invalid", "/window_seconds"),
        ({"messages_an_hour": 0}, "field.invalid", "/messages_an_hour"),
        (
            {"quiet_hours": {"zone": "Mars/X", "begins": "22:00", "ends": "07:00"}},
            "quiet.zone",
            "/quiet_hours/zone",
        ),
        ({"quiet_hours": {"zone": "UTC", "begins": "later", "ends": "07:00"}}, "quiet.time", "/quiet_hours/begins"),
    ],
)
async def test_what_a_channel_cannot_be_is_refused_at_its_place(client, changes, code, pointer):
    answer = await client.post("channels", json={**CHANNEL, **changes})

    assert answer.status_code == 422
    assert [(each["code"], each["pointer"]) for each in answer.json()["errors"]] == [(code, pointer)]


async def test_a_subscription_from_its_definition_to_its_end(client, scene: Scene):
    await scene.channel()
    wish = {"name": "dead", "kinds": ["run.dead"], "channels": ["ops"], "filter": " reason:retry.exhausted  queue:q "}
    made = await ok(await client.post("subscriptions", json=wish), 201)
    assert made["filter"] == "queue:q reason:retry.exhausted"
    assert (await client.delete("channels/ops")).json()["code"] == "channel.in_use"
    changed = await ok(
        await client.put(
            "subscriptions/dead",
            json={
                "kinds": ["run.late"],
                "channels": ["ops"],
                "scope": "schedule",
                "target": "nightly",
                "after_failures": 3,
            },
        )
    )
    assert (changed["scope"], changed["target"], changed["after_failures"], changed["filter"]) == (
        "schedule",
        "nightly",
        3,
        "",
    )
    assert await scene.rows("select kind from everwhen.subscription_kinds") == [("run.late",)]
    assert [each["name"] for each in (await ok(await client.get("subscriptions")))["items"]] == ["dead"]
    await ok(await client.delete("subscriptions/dead"), 204)
    assert (await client.get("subscriptions/dead")).json()["code"] == "subscription.unknown"
    assert await scene.count("subscription_kinds") == 0


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"kinds": ["run.flapping"]}, "field.invalid", "/kinds/0"),
        ({"kinds": []}, "field.invalid", "/kinds"),
        ({"channels": ["nowhere"]}, "channel.unknown", "/channels"),
        ({"scope": "task"}, "subscription.target", "/target"),
        ({"target": "x"}, "subscription.target", "/target"),
        ({"filter": "colour:red"}, "filter.field", "/filter"),
        ({"after_failures": 51}, "field.invalid", "/after_failures"),
        ({"pierced": True}, "field.unknown", "/pierced"),
    ],
)
async def test_what_a_subscription_cannot_be_is_refused_at_its_place(client, changes, code, pointer):
    await client.post("channels", json=CHANNEL)
    answer = await client.post(
        "subscriptions", json={"name": "s", "kinds": ["run.dead"], "channels": ["ops"], **changes}
    )

    assert answer.status_code == 422, answer.text
    assert [(each["code"], each["pointer"]) for each in answer.json()["errors"]] == [(code, pointer)]


async def test_a_preview_is_what_would_have_been_told(client, scene: Scene):
    dead = await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await make_run(scene.db, scene.tenant, state=RunState.SUCCEEDED)
    await make_run(scene.db, await make_tenant(scene.db), state=RunState.DEAD)
    wish = {"kinds": ["run.dead", "run.attempt_failed", "run.succeeded"], "channels": ["any"]}

    everything = await ok(await client.post("subscriptions/preview", json=wish))
    nothing = await ok(await client.post("subscriptions/preview", json={**wish, "filter": "queue:elsewhere"}))
    one = await ok(
        await client.post(
            "subscriptions/preview", json={**wish, "kinds": ["run.dead"], "scope": "task", "target": dead.row.task}
        )
    )

    assert {each["kind"] for each in everything["items"]} == {"run.dead", "run.attempt_failed", "run.succeeded"}
    assert (everything["matched"], everything["looked_at"], everything["complete"]) == (3, 3, True)
    assert (nothing["matched"], nothing["looked_at"]) == (0, 3)
    assert [each["run_id"] for each in one["items"]] == [str(dead.row.run_id)]
    assert await scene.count("alert_deliveries") == 0


async def test_deliveries_are_listed_shown_and_sent_again(client, scene: Scene):
    await scene.channel(window_seconds=0.0)
    await scene.subscribe(AlertKind.RUN_DEAD)
    scene.hook.script.append(Refused(response="410 gone"))
    for _ in range(3):
        await make_run(scene.db, scene.tenant, state=RunState.DEAD)
        await scene.tell()

    dead = (await ok(await client.get("deliveries", params={"filter": "state:dead since:1d"})))["items"]
    page = await ok(await client.get("deliveries", params={"filter": "channel:ops", "limit": 2}))
    rest = await ok(await client.get(f"http://everwhen.test{page['next']}"))
    assert [each["response"] for each in dead] == ["410 gone"]
    assert (len(page["items"]), len(rest["items"]), page["filter"]) == (2, 1, "channel:ops")
    assert (await client.get("deliveries", params={"filter": "state:lost"})).json()["code"] == "filter.value"

    one = await ok(await client.get(f"deliveries/{dead[0]['id']}"))
    assert [(each["outcome"], each["response"]) for each in one["attempts"]] == [("refused", "410 gone")]
    assert one["shown"][0]["kind"] == "run.dead"
    again = await ok(await client.post(f"deliveries/{dead[0]['id']}/resend"), 202)
    assert (again["id"], again["state"]) == (dead[0]["id"], "retrying")
    copy = await ok(await client.post(f"deliveries/{rest['items'][0]['id']}/resend"), 409)
    assert copy["code"] == "delivery.state"
    await scene.send()
    copy = await ok(await client.post(f"deliveries/{dead[0]['id']}/resend"), 202)
    assert (copy["resend_of"], copy["state"]) == (dead[0]["id"], "retrying")
    assert (await client.get(f"deliveries/{UUID(int=1)}")).json()["code"] == "delivery.unknown"


async def test_the_link_of_a_mail_unsubscribes_by_post_only_and_an_editor_takes_it_back(client, scene: Scene):
    await scene.channel(kind="email", configuration={"to": ["a@x.test"]})
    token = SIGNER.token(Outlet(scene.tenant.id, "ops", "a@x.test"))
    app = app_on(scene.db)
    app.state.alerts = scene.desk.kit
    app.router.routes.extend(unsubscribing.router.routes)
    async with client_of(app) as anybody:
        asked = await anybody.get(f"/v1/alerts/unsubscribe/{token}")
        assert asked.status_code == 200
        assert "a@x.test" in asked.text
        assert await scene.count("alert_outlets where unsubscribed_at is not null") == 0
        body = {"List-Unsubscribe": "One-Click"}  # as a mail program's button sends it
        assert (await anybody.post(f"/v1/alerts/unsubscribe/{token}", data=body)).status_code == 200
        assert (await anybody.post(f"/v1/alerts/unsubscribe/{token}")).status_code == 200
        assert (await anybody.get("/v1/alerts/unsubscribe/nonsense")).status_code == 404
        assert (await anybody.get(f"/v1/tenants/{scene.tenant.name}/alerts/channels")).status_code == 401

    assert (await client.post("channels/ops/test")).json()["code"] == "channel.unsubscribed"
    again = await ok(await client.post("channels/ops/resubscribe", json={"recipient": "a@x.test"}))
    assert again["receivers"][0]["unsubscribed_at"] is None
    assert (await client.post("channels/ops/resubscribe", json={"recipient": "a@x.test"})).status_code == 404


async def test_who_may_only_look_changes_nothing(client, scene: Scene):
    await scene.channel()
    client.headers["Authorization"] = f"Bearer {token_of('viewer', tenant_id=scene.tenant.id)}"

    assert (await client.get("channels")).status_code == 200
    for method, path in (("POST", "channels"), ("DELETE", "channels/ops"), ("POST", "channels/ops/test")):
        answer = await client.request(method, path, json=CHANNEL if path == "channels" else None)
        assert answer.status_code == 403, path
