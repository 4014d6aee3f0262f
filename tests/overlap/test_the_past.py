"""What is made for the past, such as a redrive, waits behind the gate for room; the gate never skips it."""

import pytest

from everwhen.dead_letters import service as dead_letters
from everwhen.dead_letters.model import RedriveRequest
from everwhen.schedules import service as schedules
from tests.factories import TESTER
from tests.overlap.scene import MINUTE, Scene, make_scene


@pytest.fixture
async def scene(database) -> Scene:
    return await make_scene(database)


async def redrive(scene: Scene, run_id):
    request = RedriveRequest(by="ann")
    return await dead_letters.redrive_run(scene.db, tenant_id=scene.tenant.id, ref=str(run_id), request=request)


async def test_a_redrive_waits_for_room_whatever_the_policy_does(scene: Scene) -> None:
    await scene.create(policy="skip", every="PT24H")
    first = await scene.request()
    (lease,) = await scene.claim()
    await scene.end(lease, "failed")
    await scene.request()
    (busy,) = await scene.claim()

    made = await redrive(scene, first.row.run_id)
    scene.now += MINUTE
    await scene.decide()

    held = await scene.get(made.row.run_id)
    assert (held.row.is_held, held.row.reason, held.row.blocked_by) == (True, "limit.schedule", [busy.run_id])
    await scene.end(busy)
    (again,) = await scene.claim()
    assert again.run_id == made.row.run_id
    await scene.end(again)
    assert await scene.is_sound()


async def test_a_redrive_that_succeeds_lets_a_held_up_line_go_on(scene: Scene) -> None:
    await scene.create(policy="strict_sequential", on_failure="hold", every="PT24H")
    first, second = await scene.request(), await scene.request()
    (lease,) = await scene.claim()
    await scene.end(lease, "failed")
    waiting = await scene.get(second.row.run_id)

    await redrive(scene, first.row.run_id)
    scene.now += MINUTE
    await scene.decide()
    (again,) = await scene.claim()
    await scene.end(again)

    assert (waiting.row.reason, waiting.row.blocked_by) == ("overlap.line_held", [first.row.run_id])
    assert not (await scene.get(second.row.run_id)).row.is_held


async def test_what_was_missed_in_a_pause_is_held_like_any_other_run(scene: Scene, database) -> None:
    await scene.create(policy="skip")
    await schedules.pause_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)
    await schedules.resume_schedule(scene.db, tenant_id=scene.tenant.id, name="minutely", change=TESTER)

    await scene.minute(0)
    await scene.minute(1)

    assert (await scene.states())[:2] == ["line", "skipped overlap.previous_running"]
