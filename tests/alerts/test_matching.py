"""From what happened to messages that gather: signals, rules, digests."""

from datetime import time, timedelta
from uuid import UUID

from everwhen.clock import process_now
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.alerting import Scope
from everwhen.core.lifecycle import RunState
from everwhen.core.quiet_hours import QuietHours
from tests.alerts.scene import URL, Scene
from tests.factories import make_run, make_tenant

DEAD, SUCCEEDED, FAILED = AlertKind.RUN_DEAD, AlertKind.RUN_SUCCEEDED, AlertKind.RUN_ATTEMPT_FAILED


async def test_a_dead_run_is_told_with_what_people_need(scene: Scene):
    await scene.channel(secrets={"key": "hush"})
    await scene.subscribe(DEAD)
    run = await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.tell()

    [sent] = scene.hook.sent
    message, [occasion] = sent.message, sent.message.shown
    assert sent.secrets == {"key": "hush"}
    assert (message.tenant, message.channel, message.subscriptions) == (scene.tenant.name, "ops", ("all",))
    assert (message.total, message.counts, message.unsubscribe_link) == (1, (), None)
    assert (occasion.kind, occasion.run_id, occasion.task) == (DEAD, run.row.run_id, run.row.task)
    assert occasion.subject == run.row.task
    assert (occasion.reason, occasion.in_a_row, occasion.attempts) == ("retry.exhausted", 1, 1)
    assert occasion.sentence
    assert occasion.remedy
    assert occasion.link == f"{URL}/v1/tenants/{scene.tenant.name}/runs/{run.row.run_id}"
    assert await scene.rows("select state, tries from everwhen.alert_deliveries") == [("delivered", 1)]


async def test_without_anybody_who_listens_nothing_is_signalled(scene: Scene):
    await scene.channel()
    await scene.subscribe(DEAD, name="off", is_enabled=False)
    await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.subscribe(DEAD)
    await make_run(scene.db, scene.tenant, state=RunState.SUCCEEDED)
    await make_run(scene.db, scene.tenant, state=RunState.RETRYING)

    assert await scene.count("alert_signals") == 0


async def test_attempts_and_ends_are_told_apart(scene: Scene):
    await scene.channel()
    await scene.subscribe(SUCCEEDED, FAILED, DEAD)
    for state in (RunState.SUCCEEDED, RunState.RETRYING, RunState.DEAD):
        await make_run(scene.db, scene.tenant, state=state)
    await scene.match()

    [(total, counts, state)] = await scene.rows("select total, counts, state from everwhen.alert_deliveries")
    assert (total, counts, state) == (4, {SUCCEEDED: 1, FAILED: 2, DEAD: 1}, "gathering")


async def test_what_follows_is_folded_and_the_next_message_leaves_a_window_later(scene: Scene):
    await scene.channel(window_seconds=30.0)
    await scene.subscribe(DEAD)
    for _ in range(3):
        await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.tell()
    for _ in range(22):
        await make_run(scene.db, scene.tenant, state=RunState.DEAD)
        await scene.match()

    first, second = await scene.rows(
        "select total, due_at, jsonb_array_length(shown) from everwhen.alert_deliveries order by due_at"
    )
    assert (first[0], second[0]) == (3, 22)
    assert second[1] - first[1] == timedelta(seconds=30)
    assert (first[2], second[2]) == (3, 20)  # the first are told whole, the others are counted
    assert len(scene.hook.sent) == 1


async def test_matching_again_tells_nothing_twice(scene: Scene):
    await scene.channel()
    await scene.channel("other")
    await scene.subscribe(DEAD, channels=("ops", "other"))
    await scene.subscribe(DEAD, name="too")
    run = await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    for _ in range(3):
        await scene.execute(
            "insert into everwhen.alert_signals (tenant_id, kind, at, run_id)"
            " select tenant_id, 'run.dead', finished_at, run_id from everwhen.run_ends"
        )
        await scene.tell()

    assert run.row.run_id
    assert await scene.count("alert_told") == 2
    assert {sent.message.channel: sent.message.subscriptions for sent in scene.hook.sent} == {
        "ops": ("all", "too"),
        "other": ("all",),
    }


async def test_nothing_of_one_tenant_reaches_another(scene: Scene):
    other = await make_tenant(scene.db)
    for tenant in (scene.tenant, other):
        await scene.channel(tenant=tenant)
        await scene.subscribe(DEAD, SUCCEEDED, tenant=tenant)
    mine = await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    theirs = await make_run(scene.db, other, state=RunState.SUCCEEDED)
    await scene.tell()

    told = {sent.message.tenant: [each.run_id for each in sent.message.shown] for sent in scene.hook.sent}
    assert told == {scene.tenant.name: [mine.row.run_id], other.name: [theirs.row.run_id]}


async def test_scope_and_filter(scene: Scene):
    await scene.channel()
    run = await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.subscribe(DEAD, name="task", scope=Scope.TASK, target="another")
    await scene.subscribe(DEAD, name="filter", filter=f"queue:{run.row.queue} severity:info")
    await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.match()

    assert await scene.count("alert_deliveries") == 0
    assert await scene.count("alert_signals") == 0


async def test_quiet_hours_hold_back_and_errors_pierce_them(scene: Scene):
    today = process_now().weekday()
    days = frozenset((today + n) % 7 for n in (-1, 0, 1))  # it is quiet now, and some day it ends
    await scene.channel(quiet=QuietHours(zone="UTC", begins=time(0), ends=time(0), days=days))
    await scene.subscribe(DEAD, name="errors", pierces=True)
    await scene.subscribe(SUCCEEDED, name="fine", pierces=True)
    for state in (RunState.DEAD, RunState.SUCCEEDED, RunState.SUCCEEDED):
        await make_run(scene.db, scene.tenant, state=state)
    await scene.match()

    held, urgent = await scene.rows(
        "select total, due_at > now() + interval '1 minute', subscriptions from everwhen.alert_deliveries"
        " order by due_at desc"
    )
    assert held == (2, True, ["fine"])
    assert urgent == (1, False, ["errors"])


async def test_who_unsubscribed_is_told_nothing(scene: Scene):
    await scene.channel(kind="email", configuration={"to": ["a@x.test", "b@x.test"]})
    await scene.subscribe(DEAD)
    await scene.execute("update everwhen.alert_outlets set unsubscribed_at = now() where recipient = 'a@x.test'")
    await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.tell()

    [sent] = scene.mail.sent
    assert sent.recipient == "b@x.test"
    assert sent.link is not None
    assert sent.link.startswith(f"{URL}/v1/alerts/unsubscribe/")


async def test_a_signal_that_cannot_be_read_stops_no_other(scene: Scene):
    await scene.channel()
    await scene.subscribe(DEAD, AlertKind.SCHEDULE_PAUSED)
    await scene.execute(
        "insert into everwhen.alert_signals (tenant_id, kind, at, subject)"
        " values (%s, 'schedule.paused', now(), 'no id')",
        scene.tenant.id,
    )
    await scene.execute(
        "insert into everwhen.alert_signals (tenant_id, kind, at, run_id) values (%s, 'run.dead', now(), %s)",
        scene.tenant.id,
        UUID(int=1),
    )
    await make_run(scene.db, scene.tenant, state=RunState.DEAD)
    await scene.match()

    assert await scene.rows("select total from everwhen.alert_deliveries") == [(1,)]
