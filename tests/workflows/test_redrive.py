"""A dead node is not redriven: what waits for it would not hear of it. Its workflow's run is run again from there."""

from uuid import UUID

import pytest

from everwhen.core.bulk import OperationState
from everwhen.dead_letters import service as dead_letters
from everwhen.dead_letters.model import RedriveRequest
from everwhen.errors import Conflict
from everwhen.explaining.service import explain
from everwhen.operations.operator import Operator
from tests.operations.scene import begin, drain, read, redrive
from tests.people import app_on, client_of, token_of
from tests.workflows.scene import Scene

CODE = "workflow.rerun_instead"


async def dead_node(scene: Scene) -> tuple[str, UUID]:
    """Return a workflow's run and its dead node's."""
    await scene.define({"id": "load"}, {"id": "publish", "needs": ["load"]})
    run = await scene.run()
    await scene.work({"load": {"outcome": "failed", "retryable": False}})
    node = (await scene.look(run)).nodes[0].row.node_run_id
    assert node is not None
    return run, node


async def test_one_node_is_refused_with_what_to_do_instead(scene: Scene):
    run, node = await dead_node(scene)

    with pytest.raises(Conflict) as refused:
        await dead_letters.redrive_run(
            scene.db, tenant_id=scene.tenant.id, ref=str(node), request=RedriveRequest(by="tester", again=True)
        )

    assert refused.value.code == CODE
    assert refused.value.errors[0].pointer == "path:run"
    assert f"everwhen workflow rerun {run} --from load" in refused.value.detail


async def test_over_http_it_is_a_conflict_and_why_says_the_same(scene: Scene):
    run, node = await dead_node(scene)
    async with client_of(app_on(scene.db), token_of("operator", tenant_id=scene.tenant.id)) as client:
        answer = await client.post(f"/v1/tenants/{scene.tenant.name}/runs/{node}/redrive", json={})
    why = await explain(scene.db, tenant_id=scene.tenant.id, tenant=scene.tenant.name, ref=str(node))

    assert (answer.status_code, answer.json()["code"]) == (409, CODE)
    assert answer.json()["errors"][0]["pointer"] == "path:run"
    assert f"everwhen workflow rerun {run} --from load" in {remedy.action for remedy in why.remedies}


async def test_in_bulk_nodes_are_counted_as_skipped_and_the_workflows_own_run_is_redriven(scene: Scene):
    run, node = await dead_node(scene)
    row = await begin(scene.db, scene.tenant, redrive())
    assert row.total == 2  # the node, and the workflow's run, which is dead for it

    await drain(Operator(database=scene.db, on_ended=scene.on_ended))

    after = await read(scene.db, scene.tenant, row.id)
    items = dict(await scene.rows("select run_id, reason from everwhen.operation_items"))
    assert (after.done, after.skipped) == (1, 1)
    assert items == {node: CODE, UUID(run): None}
    assert await scene.rows("select count(*) from everwhen.dead_letters where run_id = %s", node) == [(0,)]
    await scene.work()
    await scene.rows("update everwhen.operations set next_at = now() returning 1")
    await drain(Operator(database=scene.db))
    finished = await read(scene.db, scene.tenant, row.id)
    assert (finished.state, finished.succeeded) == (OperationState.SUCCEEDED, 1)


async def test_what_is_told_instead_helps(scene: Scene):
    run, _ = await dead_node(scene)

    again = await scene.rerun(run, "load")
    assert await scene.work() == ["load", "publish"]
    assert (await scene.states(again))["run"] == "succeeded"
