"""A schedule whose target is a workflow: what its overlap policy does to a workflow's run that goes on."""

import pytest

from everwhen.core.lifecycle import RunState
from everwhen.core.overlap import Overlap, OverlapPolicy
from everwhen.core.targets import WORKFLOW_QUEUE, workflow_task
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.dispatch.service import Dispatch
from everwhen.postgres.wakeups import Wakeups, line_topic
from everwhen.runs import service as runs
from everwhen.runs.model import RunRequest
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.services import followers
from everwhen.workflows.conductor import Conductor
from tests.factories import TESTER
from tests.workflows.scene import Scene

YEARLY = Timing(parse_trigger({"kind": "cron", "expr": "0 0 1 1 *"}), "UTC")
PARENT = ({"id": "load"}, {"id": "publish", "needs": ["load"]}, {"id": "clean", "finally": True})


@pytest.fixture
def gated(scene: Scene) -> Scene:
    """The scene with everything that follows an end, as the server has it."""
    scene.on_ended = followers()
    scene.dispatch = Dispatch(scene.db, jitter=lambda: 0.0, on_ended=scene.on_ended)
    scene.conductor = Conductor(database=scene.db, on_ready=scene._wake, on_ended=scene.on_ended)
    return scene


async def schedule(scene: Scene, policy: OverlapPolicy, *, workflow: str = "etl") -> None:
    spec = Spec(timing=YEARLY, overlap=Overlap(policy=policy))
    draft = ScheduleDraft(name="nightly", task=workflow_task(workflow), spec=spec)
    await schedules.create_schedule(scene.db, tenant_id=scene.tenant.id, draft=draft, change=TESTER)


async def fire(scene: Scene) -> str:
    view = await runs.request_run(scene.db, tenant_id=scene.tenant.id, request=RunRequest(schedule="nightly"))
    return str(view.row.run_id)


async def test_terminate_other_takes_the_leases_of_what_runs_and_lets_the_next_start(gated: Scene):
    await gated.define(*PARENT)
    await schedule(gated, OverlapPolicy.TERMINATE_OTHER)
    first = await fire(gated)
    await gated.conduct()
    held = (await gated.claim())["load"]
    second = await fire(gated)
    await gated.conduct()

    assert await gated.states(first) == {
        "load": "cancelled",
        "publish": "cancelled",
        "clean": "waiting",  # a finally-node runs, whatever happened
        "run": "running",
    }
    assert not await gated.report(held)  # its holder was not asked
    assert await gated.work() == ["clean", "load", "publish", "clean"]
    assert (await gated.states(first))["run"] == "cancelled"
    assert (await gated.states(second))["run"] == "succeeded"


async def test_terminate_other_reaches_into_sub_workflows(gated: Scene):
    await gated.define({"id": "deep"}, name="inner")
    await gated.define({"id": "part", "workflow": "inner"})
    await schedule(gated, OverlapPolicy.TERMINATE_OTHER)
    first = await fire(gated)
    await gated.conduct()
    held = (await gated.claim())["deep"]
    second = await fire(gated)
    await gated.conduct()
    await gated.conduct()

    assert not await gated.report(held)
    assert await gated.work() == ["deep"]
    assert await gated.states(first) == {"part": "cancelled", "run": "cancelled"}
    assert (await gated.states(second))["run"] == "succeeded"


async def test_cancel_other_asks_what_runs_to_stop_and_the_next_waits_for_it(gated: Scene):
    await gated.define(*PARENT[:2])
    await schedule(gated, OverlapPolicy.CANCEL_OTHER)
    first = await fire(gated)
    await gated.conduct()
    held = (await gated.claim())["load"]
    second = await fire(gated)
    await gated.conduct()

    assert await gated.states(first) == {"load": "running", "publish": "cancelled", "run": "running"}
    assert await gated.claim() == {}
    assert await gated.report(held, "cancelled")
    await gated.conduct()
    assert (await gated.states(first))["run"] == "cancelled"
    assert await gated.work() == ["load", "publish"]
    assert (await gated.states(second))["run"] == "succeeded"


@pytest.mark.parametrize("policy", [OverlapPolicy.SKIP, OverlapPolicy.BUFFER_ONE])
async def test_a_workflow_is_one_run_to_its_schedule_until_its_last_node_has_ended(gated: Scene, policy: OverlapPolicy):
    await gated.define(*PARENT[:2])
    await schedule(gated, policy)
    first = await fire(gated)
    await gated.conduct()
    await gated.report((await gated.claim())["load"])
    second = await fire(gated)
    await gated.conduct()
    assert list(await gated.claim(limit=1)) == ["publish"]

    states = {(await runs.get_run(gated.db, tenant_id=gated.tenant.id, ref=each)).state for each in (first, second)}
    expected = RunState.SKIPPED if policy is OverlapPolicy.SKIP else RunState.WAITING
    assert states == {RunState.RUNNING, expected}


async def test_whoever_cancels_a_workflows_run_wakes_the_conductor_at_once(scene: Scene, wakeups: Wakeups):
    await scene.define(*PARENT)
    run = await scene.run()
    await scene.conduct()
    with wakeups.subscribe(line_topic(scene.tenant.id, WORKFLOW_QUEUE)) as conductor:
        await runs.cancel_run(scene.db, tenant_id=scene.tenant.id, ref=run, by="tester", reason=None)

        assert await conductor.wait(20)
