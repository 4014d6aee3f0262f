"""`everwhen alert` against a live server: from a channel to what was sent through it, and once more."""

import asyncio

import pytest

from everwhen import clock
from everwhen.alerts.assembling import make_courier
from everwhen.alerts.channels.registry import Outside, make_kinds
from everwhen.alerts.notifier import Notifier
from everwhen.alerts.service import Kit
from everwhen.core.lifecycle import RunState
from everwhen.postgres.pool import Database
from everwhen.tenants.service import find_tenant
from tests.alerts.scene import SIGNER, URL, PlainSealer
from tests.alerts.servers import HttpsReceiver
from tests.egress.guarded import egress
from tests.factories import make_run

KEY = "whsec_" + "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5"


@pytest.fixture
def receiver():
    with HttpsReceiver(secrets=(KEY,)) as made:
        yield made


@pytest.fixture
def notify(server, work_database):
    """Let a run die, when asked for; then let everything be matched and sent, whatever its window."""

    async def work(*, dies: bool) -> None:
        async with await Database.open(server.app(work_database)) as db:
            if dies:
                await make_run(db, await find_tenant(db, name="acme", bound_to=None), state=RunState.DEAD)
            kit = Kit(kinds=make_kinds(Outside(egress=egress())), sealer=PlainSealer(), signer=SIGNER)
            courier = make_courier(db, kit, public_url=URL, jitter=clock.jitter)
            notifier = Notifier(database=db, courier=courier)
            for _ in range(3):
                async with db.system() as conn:
                    now = conn.now
                    await conn.execute("update everwhen.alert_deliveries set look_at = now() where look_at is not null")
                await notifier.tick(now)
                while await courier.wait(20):
                    pass

    return lambda *, dies=False: asyncio.run(work(dies=dies))


@pytest.fixture
def ops(shell, receiver):
    """The channel `ops` to the receiver."""
    config = f'{{"url": "{receiver.url}"}}'
    shell("alert", "channel", "create", "ops", "--kind", "webhook", "--config", config, "--secret", "secret", input=KEY)
    return receiver


def test_from_a_channel_to_its_deliveries(shell, ops, notify):
    made = shell.json("alert", "channel", "get", "ops")["items"][0]
    tested = shell("alert", "channel", "test", "ops", "-o", "name").stdout.split()
    notify()
    ready = shell.json("alert", "channel", "get", "ops")["items"][0]
    shell("alert", "subscription", "create", "dead", "--kind", "run.dead", "--channel", "ops")
    ops.script.append(404)
    notify(dies=True)
    dead = shell.json("alert", "delivery", "list", "--filter", "state:dead since:1d")["items"]
    shown = shell.json("alert", "delivery", "get", dead[0]["id"])["items"][0]
    sick = shell.json("alert", "channel", "get", "ops")["items"][0]["health"]
    shell("alert", "delivery", "resend", dead[0]["id"])
    notify()
    again = shell.json("alert", "delivery", "get", dead[0]["id"])["items"][0]

    assert (made["state"], made["secrets"], KEY in str(made)) == ("unverified", ["secret"], False)
    assert (ready["state"], ops.verified[tested[0]]) == ("ready", 1)
    assert [(each["channel"], each["total"], each["response"]) for each in dead] == [("ops", 1, "404 Not Found")]
    assert [each["outcome"] for each in shown["attempts"]] == ["refused"]
    assert (sick["failures"], sick["last_error"]) == (1, "404 Not Found")
    assert (again["state"], [each["outcome"] for each in again["attempts"]]) == ("delivered", ["refused", "delivered"])
    assert ops.by_id[dead[0]["id"]] == 2  # under its own id
    assert "ops" in shell("alert", "channel", "list").stdout
    shell("alert", "delivery", "resend", dead[0]["id"])
    assert len(shell.json("alert", "delivery", "list", "--filter", "channel:ops")["items"]) == 3  # as a new message


def test_a_channel_is_changed_disabled_enabled_and_deleted(shell, ops):
    other = '{"url": "https://elsewhere.test/x"}'
    changed = shell.json("alert", "channel", "update", "ops", "--window", "5", "--messages-an-hour", "20")["items"][0]
    kept = shell.json("alert", "channel", "update", "ops", "--messages-an-hour", "0")["items"][0]
    rotated = shell.json("alert", "channel", "update", "ops", "--secret", "secret_previous", input=KEY)["items"][0]
    moved = shell.json("alert", "channel", "update", "ops", "--config", other)["items"][0]
    disabled = shell.json("alert", "channel", "disable", "ops", "--reason", "noise")["items"][0]
    enabled = shell.json("alert", "channel", "enable", "ops")["items"][0]
    shell("alert", "channel", "delete", "ops", exit_code=2)  # it asks, and nobody answers
    shell("alert", "channel", "delete", "ops", "--yes")

    assert (changed["window_seconds"], changed["messages_an_hour"], changed["revision"]) == (5.0, 20, 2)
    assert (kept["window_seconds"], kept["messages_an_hour"]) == (5.0, None)
    assert rotated["secrets"] == ["secret", "secret_previous"]
    assert moved["configuration"]["url"] == "https://elsewhere.test/x"
    assert (disabled["state"], disabled["state_reason"]) == ("disabled", "noise")
    assert enabled["state"] == "unverified"
    assert shell.json("alert", "channel", "list")["items"] == []


def test_a_subscription_is_changed_previewed_and_deleted(shell, ops, notify):
    about = ("--schedule", "nightly", "--after", "3", "--pierce")
    shell("alert", "subscription", "create", "billing", "--kind", "run.dead", "--channel", "ops", *about)
    made = shell.json("alert", "subscription", "get", "billing")["items"][0]
    tagged = shell.json("alert", "subscription", "update", "billing", "--tag", "finance", "--no-pierce")["items"][0]
    wide = shell.json("alert", "subscription", "update", "billing", "--of-the-tenant", "--disable")["items"][0]
    notify(dies=True)
    preview = shell("alert", "subscription", "preview", "--kind", "run.dead", "--channel", "ops")
    shell("alert", "subscription", "delete", "billing", "--yes")

    assert (made["scope"], made["target"], made["after_failures"], made["pierces"]) == ("schedule", "nightly", 3, True)
    assert (tagged["scope"], tagged["target"], tagged["pierces"]) == ("tag", "finance", False)
    assert (tagged["after_failures"], tagged["kinds"]) == (3, ["run.dead"])
    assert (wide["scope"], wide["target"], wide["enabled"]) == ("tenant", None, False)
    assert "1 of 1 would have been told" in preview.stderr
    assert "run.dead" in preview.stdout
    assert shell.json("alert", "subscription", "list")["items"] == []


def test_what_is_wrong_is_said_in_one_line(shell, ops):
    two = ("--schedule", "a", "--tag", "b")
    wrong = [
        (
            ("alert", "subscription", "create", "x", "--kind", "run.dead", "--channel", "ops", *two),
            2,
            "only one of --schedule",
        ),
        (("alert", "subscription", "create", "x", "--kind", "run.odd", "--channel", "ops"), 2, "a kind is one of"),
        (("alert", "subscription", "create", "x", "--kind", "run.dead", "--channel", "no"), 2, "no channel 'no'"),
        (
            ("alert", "channel", "create", "y", "--kind", "webhook", "--config", "{}", "--secret", "secret"),
            2,
            "missing",
        ),
        (("alert", "channel", "update", "no", "--window", "5"), 3, "no channel 'no'"),
        (("alert", "channel", "verify", "ops", "--code", "AAAA-AAAA"), 2, "send a new one"),
        (("alert", "delivery", "get", "01a2cc13-3f80-7d7e-8c11-1f1f4f7f9a10"), 3, "no"),
    ]
    for arguments, code, said in wrong:
        answer = shell(*arguments, exit_code=code, input="")
        assert said in answer.stderr, (arguments, answer.stderr)
        assert len(answer.stderr.strip().splitlines()) <= 4
