"""What each policy makes of a schedule's runs, by the real store, from planning to the end."""

import uuid
from datetime import timedelta

import pytest

from everwhen.core.overlap import OverlapWish
from everwhen.errors import NotFound
from everwhen.runs import service as runs
from everwhen.schedules import service as schedules
from everwhen.verify.service import verify
from tests.dispatch.scene import report_on
from tests.factories import TESTER, WORKER
from tests.overlap.scene import MINUTE, Scene, make_scene


@pytest.fixture
async def scene(database) -> Scene:
    return await make_scene(database)


async def test_a_run_is_planned_behind_the_gate_and_let_in_at_its_instant(scene: Scene) -> None:
    await scene.create(policy="skip")
    await scene.minute(0, seconds=-1)
    held = await scene.rows("select reason, look_at = due_at from everwhen.held where due_at = %s", scene.start)
    early = await scene.claim()

    await scene.minute(0)

    assert (held, early) == ([(None, True)], [])
    assert await scene.states() == ["line"]
    (lease,) = await scene.claim()
    assert await scene.end(lease)
    assert await scene.states() == ["succeeded"]
    assert await scene.rows("select 1 from everwhen.admitted") == []
    assert await scene.is_sound()


async def test_skip_skips_while_the_previous_run_has_not_ended_and_names_it(scene: Scene) -> None:
    await scene.create(policy="skip")
    await scene.minute(0)
    (lease,) = await scene.claim()

    await scene.minute(1)
    await scene.end(lease)
    await scene.minute(2)

    assert await scene.states() == ["succeeded", "skipped overlap.previous_running", "line"]
    named = await scene.rows("select detail ->> 'blocked_by' from everwhen.events where kind = 'skipped'")
    assert named == [(f'["{lease.run_id}"]',)]
    assert await scene.is_sound()


async def test_a_run_that_waits_for_a_worker_has_not_ended(scene: Scene) -> None:
    await scene.create(policy="skip")
    await scene.minute(0)

    await scene.minute(1)  # nobody has claimed the first

    assert await scene.states() == ["line", "skipped overlap.previous_running"]


async def test_buffer_one_keeps_one_and_the_end_of_a_run_lets_it_in_at_once(scene: Scene) -> None:
    await scene.create(policy="buffer_one")
    await scene.minute(0)
    (lease,) = await scene.claim()
    await scene.minute(1)
    await scene.minute(2)
    before = await scene.states()

    await scene.end(lease)  # in the same transaction the next one is let in: no gatekeeper comes by

    assert before == ["running", "held overlap.buffered", "skipped overlap.buffer_full"]
    assert (await scene.states())[1] == "line"
    (following,) = await scene.claim()
    assert (following.nominal_at, following.attempt) == (scene.start + MINUTE, 1)
    assert await scene.is_sound()


async def test_buffer_latest_keeps_the_latest(scene: Scene) -> None:
    await scene.create(policy="buffer_latest")
    await scene.minute(0)
    (lease,) = await scene.claim()
    for minute in (1, 2, 3):
        await scene.minute(minute)
    before = await scene.states()
    await scene.end(lease)

    assert before == ["running", *2 * ["coalesced overlap.superseded"], "held overlap.buffered"]
    assert (await scene.states())[3] == "line"
    assert await scene.is_sound()


async def test_buffer_all_keeps_them_in_order_up_to_its_most(scene: Scene) -> None:
    await scene.create(policy="buffer_all", max_buffered=2)
    await scene.minute(0)
    for minute in (1, 2, 3):
        await scene.minute(minute)
    assert (await scene.states())[1:] == [*2 * ["held overlap.buffered"], "skipped overlap.buffer_full"]

    order = []
    for _ in range(3):
        (lease,) = await scene.claim()
        order.append(lease.nominal_at)
        await scene.end(lease)

    assert order == [scene.start + n * MINUTE for n in range(3)]
    assert await scene.is_sound()


async def test_cancel_other_asks_the_running_one_to_stop_and_waits_for_its_end(scene: Scene) -> None:
    await scene.create(policy="cancel_other")
    await scene.minute(0)
    (lease,) = await scene.claim()

    await scene.minute(1)

    assert await scene.states() == ["running", "held overlap.stopping"]
    asked = await scene.get(lease.run_id)
    assert asked.row.cancel_requested_at == scene.now
    await scene.end(lease, "cancelled")
    assert await scene.states() == ["cancelled cancel.requested", "line"]
    assert await scene.is_sound()


async def test_cancel_other_ends_one_that_no_worker_holds_and_starts_at_once(scene: Scene) -> None:
    await scene.create(policy="cancel_other")
    await scene.minute(0)

    await scene.minute(1)

    assert await scene.states() == ["cancelled overlap.cancelled_other", "line"]
    assert await scene.is_sound()


async def test_terminate_other_revokes_the_lease_and_a_late_report_is_refused(scene: Scene) -> None:
    await scene.create(policy="terminate_other")
    await scene.minute(0)
    (stale,) = await scene.claim()

    await scene.minute(1)

    assert await scene.states() == ["cancelled overlap.cancelled_other", "line"]
    assert not await scene.end(stale)
    (fresh,) = await scene.claim()
    assert fresh.run_id != stale.run_id
    outcomes = await scene.rows("select outcome from everwhen.attempts where run_id = %s", stale.run_id)
    assert outcomes == [("cancelled",)]
    assert await scene.is_sound()


async def test_terminate_other_tries_again_when_the_lease_is_locked(scene: Scene, database) -> None:
    await scene.create(policy="terminate_other")
    await scene.minute(0)
    (stale,) = await scene.claim()
    async with database.system() as conn:  # a heartbeat, or a report, is under way
        await conn.execute("select from everwhen.leases where run_id = %s for update", (stale.run_id,))
        await scene.minute(1)
        meanwhile = await scene.states()

    scene.now += timedelta(seconds=1)
    await scene.decide()

    assert meanwhile == ["running", "held overlap.stopping"]
    assert await scene.states() == ["cancelled overlap.cancelled_other", "line"]
    assert await scene.is_sound()


async def test_allow_with_a_most_lets_so_many_in_and_the_others_wait(scene: Scene) -> None:
    await scene.create(policy="allow", max_running=2)
    for minute in range(4):
        await scene.minute(minute)
    before = await scene.states()
    first, _ = await scene.claim()

    await scene.end(first)

    assert before == ["line", "line", "held limit.schedule", "held limit.schedule"]
    assert (await scene.states())[2:] == ["line", "held limit.schedule"]
    ((run_id, blocked_by, since),) = await scene.rows(
        "select run_id, blocked_by, waits_since from everwhen.held where reason is not null"
    )
    row = (await scene.get(run_id)).row
    assert (row.reason, row.blocked_by, row.waits_since) == ("limit.schedule", blocked_by, since)
    assert await scene.is_sound()


async def test_strict_sequential_runs_in_order_and_skips_none(scene: Scene) -> None:
    await scene.create(policy="strict_sequential")
    for minute in range(4):
        await scene.minute(minute)

    order = []
    for outcome in ("succeeded", "failed", "cancelled", "succeeded"):
        (lease,) = await scene.claim()
        order.append(lease.nominal_at)
        await scene.end(lease, outcome)

    assert order == [scene.start + n * MINUTE for n in range(4)]
    assert await scene.is_sound()


async def test_a_dead_run_holds_a_strict_line_up_until_somebody_releases_it(scene: Scene) -> None:
    await scene.create(policy="strict_sequential", on_failure="hold")
    await scene.minute(0)
    (lease,) = await scene.claim()
    await scene.end(lease, "failed")
    await scene.minute(1)
    held_up = await scene.states()

    changed = await schedules.release_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)
    again = await schedules.release_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)
    await scene.decide()

    assert held_up[1] == "held overlap.line_held"
    assert changed.revision == again.revision == 2
    assert (await scene.states())[1] == "line"
    assert await scene.is_sound()


async def test_a_start_deadline_ends_a_held_run(database) -> None:
    scene = await make_scene(database, start_deadline_seconds=30.0)
    await scene.create(policy="buffer_one")
    await scene.minute(0)
    await scene.claim()
    await scene.minute(1)
    assert (await scene.states())[1] == "held overlap.buffered"

    await scene.minute(1, seconds=30)

    assert (await scene.states())[1] == "expired start.deadline"
    assert await scene.is_sound()


async def test_a_run_asked_for_by_hand_meets_the_policy_unless_it_says_otherwise(scene: Scene) -> None:
    await scene.create(policy="skip", every="PT1H")
    first = await scene.request()
    second = await scene.request()
    third = await scene.request("wait")
    fourth = await scene.request("ignore")

    assert (first.state, first.row.is_held) == ("waiting", False)
    assert (second.state, second.row.reason) == ("skipped", "overlap.previous_running")
    assert (third.state, third.row.is_held, third.row.reason) == ("waiting", True, "limit.schedule")
    assert third.row.blocked_by == [first.row.run_id]
    assert (fourth.state, fourth.row.is_held) == ("waiting", False)
    for lease in await scene.claim():
        await scene.end(lease)
    assert not (await scene.get(third.row.run_id)).row.is_held
    assert await scene.is_sound()


async def test_a_run_asked_for_at_an_instant_is_held_until_then(scene: Scene) -> None:
    await scene.create(policy="skip", every="PT1H")
    at = scene.start + 3 * MINUTE
    run = await scene.request(at=at)
    assert (run.state, run.row.is_held) == ("planned", True)

    scene.now = at
    await scene.decide()

    (lease,) = await scene.claim()
    assert lease.run_id == run.row.run_id


async def test_a_held_run_can_be_cancelled_due_or_not(scene: Scene) -> None:
    await scene.create(policy="buffer_one", every="PT1H")
    running = await scene.request()
    due = await scene.request()
    ahead = await scene.request(at=scene.start + MINUTE)

    for view in (due, ahead):
        assert (await scene.cancel(view.row.run_id)).state == "cancelled"

    assert [lease.run_id for lease in await scene.claim()] == [running.row.run_id]
    assert await scene.is_sound()


async def test_a_cancelled_run_gives_its_slot_to_the_next(scene: Scene) -> None:
    await scene.create(policy="buffer_one", every="PT1H")
    first = await scene.request()
    second = await scene.request()

    await scene.cancel(first.row.run_id)

    assert not (await scene.get(second.row.run_id)).row.is_held
    assert await scene.is_sound()


async def test_the_lists_know_held_runs(scene: Scene) -> None:
    await scene.create(policy="buffer_one", every="PT1H")
    await scene.request()
    due = await scene.request()
    ahead = await scene.request(at=scene.start + 30 * MINUTE)

    async def ids(state: str) -> set[uuid.UUID]:
        where = runs.RunFilter(schedule="minutely", state=runs.RunState(state))
        found = (await runs.list_runs(scene.db, tenant_id=scene.tenant.id, where=where, limit=10)).rows
        return {each.row.run_id for each in found}

    assert due.row.run_id in await ids("waiting")
    assert ahead.row.run_id in await ids("planned")
    assert await ids("retrying") == set()


async def test_a_changed_policy_decides_about_what_is_held(scene: Scene) -> None:
    await scene.create(policy="buffer_all", every="PT1H")
    for _ in range(4):
        await scene.request()
    (lease,) = await scene.claim()

    await scene.change(policy="skip")
    await scene.decide()

    assert sorted(await scene.states()) == ["running"] + 3 * ["skipped overlap.previous_running"]
    await scene.end(lease)
    assert await scene.is_sound()


async def test_a_policy_that_allows_everything_again_lets_in_what_is_held(scene: Scene) -> None:
    await scene.create(policy="buffer_all", every="PT1H")
    for _ in range(3):
        await scene.request()

    await scene.change()
    await scene.decide()

    assert await scene.states() == 3 * ["line"]
    for lease in await scene.claim():
        await scene.end(lease)
    assert await scene.is_sound()


async def test_runs_from_before_the_policy_count_as_running(scene: Scene) -> None:
    await scene.create(every="PT1H")
    waits = await scene.request()
    leased = await scene.request()
    scene.now += MINUTE
    held = {lease.run_id: lease for lease in await scene.claim(limit=1)}

    await scene.change(policy="skip", max_running=2)
    third = await scene.request()

    assert (third.state, third.row.reason) == ("skipped", "overlap.previous_running")
    for lease in [*held.values(), *await scene.claim()]:
        await scene.end(lease)
    assert {(await scene.get(view.row.run_id)).state for view in (waits, leased)} == {"succeeded"}
    fourth = await scene.request()
    assert (fourth.state, fourth.row.is_held) == ("waiting", False)
    assert await scene.rows("select count(*) from everwhen.admitted") == [(1,)]


async def test_the_histories_of_adopted_runs_say_so_and_those_beside_the_gate_count_for_nobody(scene: Scene) -> None:
    await scene.create(every="PT1H")
    adopted = await scene.request()
    (lease,) = await scene.claim()
    await scene.change(policy="skip")
    beside = await scene.request(overlap=OverlapWish.IGNORE)
    turned = await scene.request()

    assert (beside.state, turned.state) == ("waiting", "skipped")
    assert await scene.rows("select run_id from everwhen.events where kind = 'adopted'") == [(adopted.row.run_id,)]
    assert await verify(scene.db) == {}  # two are on their way, where one is allowed: one of them is not the gate's

    await scene.end(lease)
    let_in = await scene.request()
    assert (let_in.state, let_in.row.is_held) == ("waiting", False)  # the one beside holds no slot
    assert await verify(scene.db) == {}


async def test_a_pause_withdraws_what_is_not_due_keeps_what_is_and_lets_it_in_afterwards(scene: Scene) -> None:
    await scene.create(policy="buffer_all")
    await scene.minute(0)
    (lease,) = await scene.claim()
    await scene.minute(1)
    async with scene.db.system() as conn:  # the service's clock is the database's: have the second run be due by it
        await conn.execute("update everwhen.held set due_at = %s where reason is not null", (conn.now - MINUTE,))

    await schedules.pause_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)
    await scene.end(lease)
    await scene.decide()
    paused = await scene.rows("select reason from everwhen.held")
    by_hand = await scene.request()
    await schedules.resume_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)
    (manual,) = await scene.claim()
    await scene.end(manual)
    await scene.decide()

    assert paused == [("schedule.paused",)]
    assert manual.run_id == by_hand.row.run_id
    assert len(await scene.claim()) == 1


async def test_a_deleted_schedule_skips_what_it_planned_and_keeps_what_was_asked_for(scene: Scene) -> None:
    await scene.create(policy="buffer_all")
    await scene.minute(0)
    (lease,) = await scene.claim()
    await scene.minute(1)
    by_hand = await scene.request()
    async with scene.db.system() as conn:
        await conn.execute("update everwhen.held set due_at = %s where due_at <= %s", (conn.now - MINUTE, scene.now))

    await schedules.delete_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)

    ended = await scene.rows("select state, reason from everwhen.run_ends")
    assert ended == [("skipped", "schedule.deleted")]
    await scene.end(lease)
    (following,) = await scene.claim()
    assert following.run_id == by_hand.row.run_id
    await scene.end(following)
    with pytest.raises(NotFound):
        await schedules.get_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely")


async def test_one_batch_of_reports_may_end_runs_of_several_gates(scene: Scene) -> None:
    for name in ("one", "two"):
        await scene.create(name=name, policy="buffer_one", every="PT1H")
        await scene.request(schedule=name)
        await scene.request(schedule=name)
    leases = await scene.claim()

    results = await scene.dispatch.complete(
        scene.tenant.id, WORKER, [report_on(lease) for lease in leases], now=scene.now
    )

    assert all(result.accepted for result in results)
    assert len(await scene.claim()) == len(leases) == 2
