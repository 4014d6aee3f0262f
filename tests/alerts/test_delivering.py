"""From messages that are due to what became of them: tries, leases, health, verification."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from everwhen.alerts import service
from everwhen.alerts.channels.protocol import Delivered, Refused, TryLater
from everwhen.alerts.delivering.courier import PER_CHANNEL, Times
from everwhen.alerts.model import MOST_REFUSALS
from everwhen.alerts.signing import Outlet, Signer
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.lifecycle import RunState
from everwhen.errors import Conflict, InvalidInput
from tests.alerts.scene import SIGNER, Scene
from tests.factories import make_run, make_tenant

DEAD = AlertKind.RUN_DEAD
BUSY = TryLater(response="503 away")


async def one_message(scene: Scene, **channel) -> None:
    """A message that gathers."""
    await scene.channel(**channel)
    await scene.subscribe(DEAD)
    await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.match()
    await scene.make_due()


async def test_a_try_that_fails_is_followed_by_another_with_the_same_id(scene: Scene):
    await one_message(scene)
    scene.hook.script.extend([BUSY, RuntimeError("a defect"), Delivered(response="204")])
    for _ in range(3):
        await scene.send()
        await scene.make_due()

    assert len({sent.delivery_id for sent in scene.hook.sent}) == 1
    assert await scene.rows("select state, tries, response from everwhen.alert_deliveries") == [("delivered", 3, "204")]
    assert await scene.rows("select try, outcome, response from everwhen.alert_tries order by try") == [
        (1, "failed", "503 away"),
        (2, "failed", "it could not be sent, by a defect: RuntimeError"),
        (3, "delivered", "204"),
    ]
    assert await scene.rows("select state, failures, last_error from everwhen.alert_channels") == [
        ("enabled", 0, "it could not be sent, by a defect: RuntimeError")
    ]


async def test_after_an_hour_it_is_dead_with_the_last_error(scene: Scene):
    await one_message(scene)
    scene.hook.script.extend([BUSY, BUSY])
    await scene.send()
    await scene.execute(
        "update everwhen.alert_deliveries set first_tried_at = now() - interval '1 hour', look_at = now()"
    )
    await scene.send()

    assert await scene.rows("select state, look_at, response from everwhen.alert_deliveries") == [
        ("dead", None, "503 away")
    ]


async def test_a_notifier_with_too_much_to_do_begins_nothing_and_uses_up_nobodys_hour(scene: Scene):
    await one_message(scene)
    courier = scene.notifier.courier
    courier.times = Times(lease=timedelta(0))  # whenever the message is written, it is too late to send it
    await scene.send()
    await scene.execute(
        "update everwhen.alert_deliveries set first_tried_at = now() - interval '2 hours', look_at = now()"
    )
    await scene.send()

    assert scene.hook.sent == []
    assert await scene.rows("select state, look_at > now(), response from everwhen.alert_deliveries") == [
        ("retrying", True, "not sent: the notifier had too much to do")
    ]
    assert await scene.rows("select failures, last_error from everwhen.alert_channels") == [(0, None)]


async def test_each_try_names_its_notifier(scene: Scene):
    await one_message(scene)
    for name in ("a-1", "b-2"):
        scene.hook.script.append(BUSY)
        scene.notifier.courier.name = name
        await scene.send()
        await scene.make_due()

    assert await scene.rows("select notifier from everwhen.alert_tries order by try") == [("a-1",), ("b-2",)]


async def test_a_receiver_says_when_to_come_again(scene: Scene):
    await one_message(scene)
    scene.hook.script.append(TryLater(response="429", after=timedelta(minutes=20)))
    await scene.send()

    [(pause,)] = await scene.rows("select look_at - now() from everwhen.alert_deliveries")
    assert timedelta(minutes=18) < pause <= timedelta(minutes=20)


async def test_a_lease_that_ran_out_is_taken_again_and_the_late_result_changes_nothing(scene: Scene):
    scene.hook.hangs = asyncio.Event()
    await one_message(scene, configuration={"url": "x", "hangs": True})
    async with scene.db.system() as conn:
        now = conn.now
    assert await scene.notifier.courier.begin(now) == 1
    while not scene.hook.sent:
        await scene.notifier.courier.wait(0.05)
    await scene.make_due()
    assert await scene.notifier.courier.begin(now + timedelta(seconds=1)) == 1
    scene.hook.script.extend([BUSY, Delivered(response="250")])
    scene.hook.hangs.set()
    while await scene.notifier.courier.wait(20):
        pass

    tries = await scene.rows("select try, outcome from everwhen.alert_tries order by try")
    assert tries[0] == (1, "abandoned")
    assert tries[1][1] in {"delivered", "failed"}
    assert len(scene.hook.sent) == 2  # the receiver has it twice, under one id
    assert len({sent.delivery_id for sent in scene.hook.sent}) == 1


async def test_a_receiver_that_hangs_holds_back_its_own_channel_only(scene: Scene):
    scene.hook.hangs = asyncio.Event()
    await scene.channel("slow", configuration={"url": "x", "hangs": True}, window_seconds=0.0)
    await scene.subscribe(DEAD, channels=("slow",))
    for _ in range(3 * PER_CHANNEL):
        await make_run(scene.db, scene.tenant, state=RunState.DEAD)
        await scene.match()
        await scene.execute("update everwhen.alert_outlets set gathering = null")  # each a message of its own
    other = await make_tenant(scene.db)
    await scene.channel("fast", tenant=other)
    await scene.subscribe(DEAD, channels=("fast",), tenant=other)
    await make_run(scene.db, other, state=RunState.DEAD)
    await scene.match()
    await scene.make_due()
    async with scene.db.system() as conn:
        now = conn.now
    begun = [await scene.notifier.courier.begin(now) for _ in range(3)]
    while not await scene.count("alert_deliveries where channel = 'fast' and state = 'delivered'"):
        await scene.notifier.courier.wait(0.05)

    assert begun == [PER_CHANNEL + 1, 0, 0]
    assert await scene.count("alert_deliveries where channel = 'slow' and state = 'sending'") == PER_CHANNEL
    scene.hook.hangs.set()
    while await scene.notifier.courier.wait(20):
        pass
    await scene.send()
    assert await scene.count("alert_deliveries where state = 'delivered'") == 3 * PER_CHANNEL + 1


async def test_a_channel_that_only_refuses_is_disabled_and_what_follows_is_dead_with_the_reason(scene: Scene):
    await scene.channel(window_seconds=0.0)
    await scene.subscribe(DEAD)
    scene.hook.script.extend([Refused(response="410 gone")] * MOST_REFUSALS)
    for _ in range(MOST_REFUSALS + 1):
        await make_run(scene.db, scene.tenant, state=RunState.DEAD)
        await scene.tell()

    found = await service.get_channel(scene.db, tenant_id=scene.tenant.id, name="ops")
    assert found.row.state == "disabled"
    assert found.row.state_reason == "it refused 3 messages in a row, the last with: 410 gone"
    assert len(scene.hook.sent) == MOST_REFUSALS
    [(last,)] = await scene.rows("select response from everwhen.alert_deliveries order by delivery_id desc limit 1")
    assert last == f"the channel is disabled: {found.row.state_reason}"
    await service.set_enabled(scene.db, tenant_id=scene.tenant.id, name="ops", enabled=True, reason=None)
    await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.tell()
    assert len(scene.hook.sent) == MOST_REFUSALS + 1


async def test_nothing_is_sent_before_the_channel_is_verified_but_its_test(scene: Scene):
    await one_message(scene, verify=False)
    await scene.send()
    assert scene.hook.sent == []
    [(state, why)] = await scene.rows("select state, response from everwhen.alert_deliveries")
    assert (state, why) == ("dead", "the receiver is not verified: test the channel, then confirm it")

    await service.send_tests(scene.db, tenant_id=scene.tenant.id, name="ops", recipient=None)
    await scene.send()

    [sent] = scene.hook.sent
    assert sent.message.shown[0].kind is AlertKind.CHANNEL_TEST
    [outlet] = (await service.get_channel(scene.db, tenant_id=scene.tenant.id, name="ops")).outlets
    assert outlet.verified_at is not None
    with pytest.raises(Conflict):
        await service.send_tests(scene.db, tenant_id=scene.tenant.id, name="ops", recipient=None)


async def test_an_address_is_verified_by_the_code_that_it_was_sent(scene: Scene):
    tenant_id = scene.tenant.id
    await scene.channel(kind="email", configuration={"to": ["a@x.test", "b@x.test"]}, verify=False)
    await service.send_tests(scene.db, tenant_id=tenant_id, name="ops", recipient=None)
    await scene.send()
    codes = {sent.recipient: sent.message.shown[0].remedy.split()[-1].rstrip(".") for sent in scene.mail.sent}

    with pytest.raises(InvalidInput):
        await service.verify_channel(scene.desk, tenant_id=tenant_id, name="ops", code="AAAA-AAAA")
    found = await service.verify_channel(scene.desk, tenant_id=tenant_id, name="ops", code=codes["b@x.test"].lower())
    assert [outlet.verified_at is not None for outlet in found.outlets] == [False, True]
    with pytest.raises(InvalidInput):  # a code holds once
        await service.verify_channel(scene.desk, tenant_id=tenant_id, name="ops", code=codes["b@x.test"])
    for _ in range(service.MOST_WRONG_CODES):
        with pytest.raises(InvalidInput):
            await service.verify_channel(scene.desk, tenant_id=tenant_id, name="ops", code="AAAA-AAAA")
    with pytest.raises(InvalidInput):  # who guesses spoils the codes
        await service.verify_channel(scene.desk, tenant_id=tenant_id, name="ops", code=codes["a@x.test"])


def test_tokens_and_codes_are_ours_or_nothing():
    outlet, other = (Outlet(tenant_id=_id(7), channel="ops", recipient=who) for who in ("a@x.test", "b@x.test"))
    token, stranger = SIGNER.token(outlet), Signer.derived_from("another secret")

    assert SIGNER.read_token(token) == outlet
    assert stranger.read_token(token) is None
    for broken in ("", "x", token[:-2], "A" + token[1:], "é", "A" * 5_000):
        assert SIGNER.read_token(broken) is None
    assert SIGNER.code(outlet, _id(1)) != SIGNER.code(other, _id(1)) != SIGNER.code(other, _id(2))
    assert not stranger.is_code(SIGNER.code(outlet, _id(1)), outlet, _id(1))


async def test_what_is_past_its_retention_goes_with_all_that_belongs_to_it(scene: Scene):
    await one_message(scene)
    await scene.send()
    await scene.execute("update everwhen.alert_deliveries set finished_at = now() - interval '91 days'")
    async with scene.db.system() as conn:
        now = conn.now
    await scene.notifier.tick(now)

    assert [await scene.count(f"alert_{name}") for name in ("deliveries", "told", "tries")] == [0, 0, 0]


def _id(number: int) -> UUID:
    return UUID(int=number)
