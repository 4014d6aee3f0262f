"""Subscriptions to a tag: of the run's schedule, task or workflow, whichever has it."""

import pytest

from everwhen.core.alert_kinds import AlertKind
from everwhen.core.alerting import Scope
from everwhen.dispatch.service import Claim
from everwhen.runs import service as runs
from everwhen.runs.model import RunRequest
from tests.alerts.scene import Scene
from tests.factories import NEVER_AGAIN, WORKER, make_schedule, make_task, make_tenant
from tests.workflows.scene import Scene as Flows

KINDS = (AlertKind.RUN_DEAD, AlertKind.WORKFLOW_FAILED)
TAGS = {"schedule": "by-schedule", "task": "by-task", "workflow": "by-workflow"}


@pytest.fixture
async def flows(scene: Scene) -> Flows:
    """A task `work` of one attempt with a tag, a workflow with one, and a schedule of the task with one."""
    await scene.channel()
    await make_task(scene.db, scene.tenant, name="work", queue="line", tags=(TAGS["task"],), retry=NEVER_AGAIN)
    flows = Flows(scene.db, scene.tenant)
    await flows.define({"id": "a"}, tags=[TAGS["workflow"]])
    await make_schedule(scene.db, scene.tenant, task="work", tags=(TAGS["schedule"],))
    return flows


async def told(scene: Scene) -> dict[str, tuple[str, ...]]:
    """What was told, by its kind, with the tags that it shows."""
    await scene.tell()
    shown = [occasion for sent in scene.hook.sent for occasion in sent.message.shown]
    return {occasion.kind: occasion.tags for occasion in shown}


@pytest.mark.parametrize("tag", [*TAGS.values(), "of-nobody"])
async def test_a_workflow_and_its_nodes_are_told_by_the_tags_of_each(scene: Scene, flows: Flows, tag: str):
    await scene.subscribe(*KINDS, scope=Scope.TAG, target=tag)
    await flows.run()
    await flows.work({"a": "failed"})

    of_the_node = (AlertKind.RUN_DEAD, (TAGS["task"], TAGS["workflow"]))
    of_the_workflow = (AlertKind.WORKFLOW_FAILED, (TAGS["workflow"],))
    wanted = {TAGS["task"]: [of_the_node], TAGS["workflow"]: [of_the_node, of_the_workflow]}
    assert await told(scene) == dict(wanted.get(tag, []))


@pytest.mark.parametrize("tag", [*TAGS.values(), "of-nobody"])
async def test_a_scheduled_run_is_told_by_the_tags_of_its_schedule_and_its_task(scene: Scene, flows: Flows, tag: str):
    await scene.subscribe(*KINDS, filter=f"tag:{tag}")
    request = RunRequest(schedule="nightly", input={}, has_input=True)
    await runs.request_run(scene.db, tenant_id=scene.tenant.id, request=request)
    await fail_all(flows)

    shown = {AlertKind.RUN_DEAD: (TAGS["schedule"], TAGS["task"])}
    assert await told(scene) == (shown if tag in {TAGS["schedule"], TAGS["task"]} else {})


async def test_a_stretch_that_a_schedule_did_not_run_is_told_by_its_tags(scene: Scene, flows: Flows):
    await scene.subscribe(AlertKind.RUN_SKIPPED, scope=Scope.TAG, target=TAGS["schedule"])
    await scene.execute(
        """insert into everwhen.spans
             (tenant_id, schedule_uid, first_at, last_at, instants, verdict, reason, recorded_at)
           select tenant_id, uid, now(), now(), 1, 'skipped', 'schedule.paused', now() from everwhen.schedules"""
    )

    assert await told(scene) == {AlertKind.RUN_SKIPPED: (TAGS["schedule"], TAGS["task"])}


async def test_the_same_tag_of_another_tenant_tells_nothing(scene: Scene, flows: Flows):
    other = await make_tenant(scene.db)
    await scene.channel(tenant=other)
    await scene.subscribe(*KINDS, tenant=other, scope=Scope.TAG, target=TAGS["task"])
    await flows.run()
    await flows.work({"a": "failed"})

    assert await told(scene) == {}


async def fail_all(flows: Flows) -> None:
    claim = Claim(tenant_id=flows.tenant.id, queues=("line",), tasks=None, worker=WORKER, limit=10, lease_seconds=60.0)
    for lease in (await flows.dispatch.claim(claim)).leases:
        await flows.report(lease, "failed")
