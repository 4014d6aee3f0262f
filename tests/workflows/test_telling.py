"""Why a node stands where it stands: by name and state of what it waits for, or what kept it from running."""

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from everwhen.core.reasons import Reason
from everwhen.explaining.observer import Observer
from everwhen.explaining.service import explain
from everwhen.workflows.telling import tell
from tests.people import app_on, client_of, token_of
from tests.workflows.scene import Scene


async def told(scene: Scene, run: str, node: str):
    view = await scene.look(run)
    assert view.workflow is not None
    return tell(view.workflow, view.nodes, node)


async def test_a_blocked_node_names_what_it_waits_for(scene: Scene):
    await scene.define(
        {"id": "a"},
        {"id": "b"},
        {"id": "c"},
        {"id": "join", "needs": ["a", "b", "c"]},
        {"id": "clean", "finally": True},
    )
    run = await scene.run()
    await scene.conduct()
    leases = await scene.claim(limit=2)
    first, second = sorted(leases)
    await scene.report(leases[first])
    (third,) = {"a", "b", "c"} - leases.keys()

    join = await told(scene, run, "join")
    assert join.view.reason == Reason.DEPENDENCY_UNMET
    states = {second: "running", third: "waiting"}
    named = ", ".join(f"{name} ({states[name]})" for name in sorted(states))
    assert join.headline == f"Blocked: it waits for 2 of its 3 upstreams: {named}; its rule is all_success."
    assert [each.node.id for each in join.waits_for] == sorted(states)
    clean = await told(scene, run, "clean")
    assert clean.headline.startswith("Blocked: it waits for 3 of 4 ordinary nodes: ")


async def test_a_node_that_could_not_run_names_who_failed(scene: Scene):
    await scene.define({"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["a", "b"]}, {"id": "d", "needs": ["c"]})
    run = await scene.run()
    await scene.work({"b": {"outcome": "failed", "retryable": False}})

    c = await told(scene, run, "c")
    assert c.view.reason == Reason.WORKFLOW_UPSTREAM_FAILED
    assert c.headline == "Upstream failed. A node that this one depends on did not succeed. b (failed)."
    assert (await told(scene, run, "d")).headline.endswith(" c (upstream failed).")
    assert (await told(scene, run, "a")).headline.startswith("Succeeded. More: everwhen why ")


async def test_a_node_whose_rule_was_not_met_names_the_rule(scene: Scene):
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"], "rule": "all_failed"})
    run = await scene.run()
    await scene.work()

    b = await told(scene, run, "b")
    assert b.view.reason == Reason.WORKFLOW_RULE
    assert b.headline.endswith("a (succeeded). Its rule is all_failed.")


async def test_a_node_that_waits_for_a_key_names_it(scene: Scene):
    await scene.define({"id": "a", "concurrency_key": "stock"})
    first, second = await scene.run(), await scene.run()
    await scene.conduct()

    told_of = [(await told(scene, run, "a")).headline for run in (first, second)]
    assert sum("The key is stock." in headline for headline in told_of) == 1


async def test_over_http_with_a_problem_for_what_is_not_there(scene: Scene):
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]})
    run = await scene.run()
    path = f"/v1/tenants/{scene.tenant.name}/workflow-runs/{run}/nodes"
    async with client_of(app_on(scene.db), token_of("viewer", tenant_id=scene.tenant.id)) as client:
        early = await client.get(f"{path}/b/explain")
        await scene.conduct()
        found = (await client.get(f"{path}/b/explain")).json()
        unknown = await client.get(f"{path}/c/explain")

    assert (early.status_code, early.json()["code"]) == (409, "workflow.not_started")
    assert found["headline"] == "Blocked: it waits for its upstream: a (waiting); its rule is all_success."
    assert found["waits_for"] == ["a"]
    assert [(each["id"], each["state"], each["run"] is not None) for each in found["upstreams"]] == [
        ("a", "waiting", True)
    ]
    assert (unknown.status_code, unknown.json()["code"]) == (404, "workflow.unknown_node")


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_due_run_that_no_conductor_takes_up_says_so(scene: Scene, server, work_database, *, is_there: bool):
    await scene.define({"id": "a"})
    run = await scene.run()
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:  # a run's own row never changes
        conn.execute("update everwhen.waiting set available_at = available_at - interval '1 minute'")
        conn.execute("update everwhen.runs set due_at = due_at - interval '1 minute'")
    if is_there:
        await scene.conduct()
    await Observer(database=scene.db, observer_id=UUID(int=1)).tick(await scene.now())

    said = await explain(scene.db, tenant_id=scene.tenant.id, tenant=scene.tenant.name, ref=run)

    reasons = {each.segment.reason for each in said.segments}
    assert (Reason.WORKFLOW_NO_CONDUCTOR in reasons) is not is_there
    assert not reasons & {Reason.WORKER_NONE_REGISTERED, Reason.WORKER_NONE_LIVE}
    if not is_there:
        assert "without a conductor" in said.headline
        assert sum((each.segment.duration for each in said.segments), timedelta()) == said.until - said.intended_at
        assert "Run a server with the role conductor." in {remedy.text for remedy in said.remedies}
