"""Workflows over HTTP: what is refused and where, and what a run's nodes look like."""

import httpx2
import pytest

from everwhen.postgres.pool import Database
from tests.people import app_on, client_of, token_of
from tests.workflows.scene import Scene

CHAIN = {"nodes": [{"id": "a", "task": "work"}, {"id": "b", "task": "work", "needs": ["a"]}]}


@pytest.fixture
async def api(database: Database, scene: Scene):
    async with client_of(app_on(database), token_of("admin", tenant_id=scene.tenant.id)) as client:
        client.base_url = f"http://everwhen.test/v1/tenants/{scene.tenant.name}/"
        yield client


async def made(api: httpx2.AsyncClient, definition=CHAIN, name: str = "etl"):
    answer = await api.post("workflows", json={"name": name, "definition": definition, "reason": "first"})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_definition_is_kept_in_versions(api) -> None:
    await made(api)
    same = await api.put("workflows/etl", json={"definition": CHAIN})
    other = await api.put("workflows/etl", json={"definition": {"nodes": CHAIN["nodes"][:1]}, "reason": "shorter"})

    assert (same.json()["version"], other.json()["version"]) == (1, 2)
    versions = (await api.get("workflows/etl/versions")).json()["items"]
    assert [(each["version"], each["changed_by"], each["reason"]) for each in versions] == [
        (1, "tester", "first"),
        (2, "tester", "shorter"),
    ]
    assert (await api.get("workflows/etl/versions/1")).json()["definition"]["nodes"] == CHAIN["nodes"]
    assert [each["name"] for each in (await api.get("workflows")).json()["items"]] == ["etl"]
    assert (await api.post("workflows", json={"name": "etl", "definition": CHAIN})).status_code == 409


@pytest.mark.parametrize(
    ("nodes", "code", "pointer"),
    [
        ([{"id": "a", "task": "nothing"}], "task.unknown", "/definition/nodes/0/task"),
        ([{"id": "a", "workflow": "nothing"}], "workflow.unknown", "/definition/nodes/0/workflow"),
        ([{"id": "a", "task": "work", "needs": ["a"]}], "workflow.self_edge", "/definition/nodes/0/needs/0"),
        ([{"id": "a", "task": "work"}] * 2, "workflow.duplicate_node", "/definition/nodes/1/id"),
        (
            [{"id": "a", "task": "work", "needs": ["b"]}, {"id": "b", "task": "work", "needs": ["a"]}],
            "workflow.cycle",
            "/definition/nodes/0/needs/0",
        ),
        (
            [{"id": "a", "task": "work", "retry": {"base_seconds": 9_000}}],
            "workflow.retry",
            "/definition/nodes/0/retry",
        ),
    ],
)
async def test_a_fault_is_named_with_its_place_and_nothing_is_kept(api, nodes, code, pointer) -> None:
    body = {"name": "etl", "definition": {"nodes": nodes}}
    answers = [await api.post("workflows", json=body), await api.post("workflows/validate", json=body)]

    for answer in answers:
        assert answer.status_code == 422
        assert (answer.json()["code"], answer.json()["errors"][0]["pointer"]) == (code, pointer)
    assert (await api.get("workflows")).json()["items"] == []


async def test_a_workflow_is_no_part_of_itself(api) -> None:
    await made(api)
    answer = await api.put("workflows/etl", json={"definition": {"nodes": [{"id": "a", "workflow": "etl"}]}})

    assert answer.json()["code"] == "workflow.nested"


async def test_a_definition_that_holds_is_measured(api) -> None:
    answer = await api.post("workflows/validate", json={"definition": CHAIN})

    assert answer.json() == {"nodes": 2, "edges": 1, "depth": 2}


async def test_a_workflow_is_asked_for_like_a_task_and_stands_among_none(api) -> None:
    await made(api)
    answer = await api.post("runs", json={"workflow": "etl"}, headers={"Idempotency-Key": "k"})
    unknown = await api.post("runs", json={"workflow": "nothing"}, headers={"Idempotency-Key": "l"})

    assert answer.json()["workflow"] == "etl"
    assert answer.json()["state"] == "waiting"
    assert unknown.json()["errors"][0]["pointer"] == "/workflow"
    assert [task["name"] for task in (await api.get("tasks")).json()["items"]] == ["work"]
    assert (await api.get("tasks/workflow:etl")).status_code in {404, 422}


async def test_a_schedule_has_a_workflow_for_its_target(api) -> None:
    await made(api)
    trigger = {"kind": "cron", "expr": "30 2 * * *"}
    answer = await api.post("schedules", json={"name": "nightly", "workflow": "etl", "trigger": trigger})
    unknown = await api.post("schedules", json={"name": "other", "workflow": "nothing", "trigger": trigger})
    both = await api.post("schedules", json={"name": "other", "workflow": "etl", "task": "work", "trigger": trigger})
    turned = await api.patch("schedules/nightly", json={"task": "work"})
    back = await api.patch("schedules/nightly", json={"workflow": "etl"})

    assert answer.json()["workflow"] == "etl"
    assert unknown.json()["errors"][0]["pointer"] == "/workflow"
    assert both.status_code == 422
    assert turned.json()["workflow"] is None
    assert back.json()["workflow"] == "etl"


async def test_a_workflow_in_use_stays_and_a_deleted_one_is_read_in_what_has_run(api, scene: Scene) -> None:
    await made(api)
    await made(api, {"nodes": [{"id": "part", "workflow": "etl"}]}, name="outer")
    run = await scene.run("etl")
    any_version = {"If-Match": "*"}

    refused = await api.delete("workflows/etl", headers=any_version)
    assert (refused.status_code, refused.json()["code"]) == (409, "workflow.in_use")
    assert refused.json()["used_by"] == {"schedules": [], "workflows": ["outer"], "runs": 1}
    assert (await api.delete("workflows/outer", headers=any_version)).status_code == 204
    await scene.conduct()
    await api.post("tasks", json={"name": "other"})
    await api.put("workflows/etl", json={"definition": {"nodes": [{"id": "a", "task": "other"}]}})
    used = (await api.delete("tasks/work", headers=any_version)).json()["used_by"]  # by a run's version, not the latest
    assert used["workflows"] == ["etl"]
    await scene.work()
    assert (await api.delete("workflows/etl", headers={"If-Match": '"rev-1"'})).status_code == 412
    assert (await api.delete("workflows/etl", headers={"If-Match": '"rev-2"'})).status_code == 204
    assert (await api.delete("tasks/work", headers=any_version)).status_code == 204

    assert (await api.get("workflows/etl")).status_code == 404
    assert [each["name"] for each in (await api.get("workflows")).json()["items"]] == []
    found = (await api.get(f"workflow-runs/{run}")).json()
    assert (found["run"]["state"], found["workflow"], len(found["nodes"])) == ("succeeded", "etl", 2)
    asked = await api.post("runs", json={"workflow": "etl"}, headers={"Idempotency-Key": "again"})
    assert (asked.status_code, asked.json()["code"]) == (422, "workflow.unknown")
    again = await made(api, {"nodes": [{"id": "a", "task": "other"}]})
    assert again["version"] == 3


async def test_a_run_shows_its_nodes_and_what_blocks_each(api, scene: Scene) -> None:
    await made(api)
    run = await scene.run()
    unstarted = (await api.get(f"workflow-runs/{run}")).json()
    await scene.conduct()

    found = (await api.get(f"workflow-runs/{run}")).json()

    assert unstarted["nodes"] == []
    assert unstarted["estimate"] is None
    first, second = found["nodes"]
    assert (first["state"], first["reason"], first["blocked_by"]) == ("waiting", "queue.waiting", [])
    assert (second["state"], second["reason"], second["blocked_by"]) == ("blocked", "dependency.unmet", ["a"])
    assert second["blocked_at"] == "a"
    assert found["states"] == {"waiting": 1, "blocked": 1}
    assert found["estimate"]["unknown"] == ["a", "b"]
    node = (await api.get(f"runs/{first['run']}")).json()
    assert (node["source"], node["task"], node["state"]) == ("workflow", "work", "waiting")


async def test_runs_of_workflows_are_listed_the_newest_first_and_found_by_a_filter(api, scene: Scene) -> None:
    await made(api)
    await made(api, {"nodes": [{"id": "part", "workflow": "etl"}]}, name="outer")
    await scene.run("etl")
    await scene.work()
    outer = await scene.run("outer")
    await scene.conduct()
    last = await scene.run("etl")

    async def found(where: str = "") -> list[tuple[str, str, int | None]]:
        page = await api.get("workflow-runs", params={"filter": where})
        return [(each["workflow"], each["state"], each["version"]) for each in page.json()["items"]]

    whole = await found()
    assert sorted(whole) == [
        ("etl", "running", 1), ("etl", "succeeded", 1), ("etl", "waiting", None), ("outer", "running", 1),
    ]  # fmt: skip
    assert whole[0] == ("etl", "waiting", None)
    assert await found("workflow:outer") == [("outer", "running", 1)]
    assert await found("state:waiting") == [("etl", "waiting", None)]
    assert await found("source:workflow workflow:etl") == [("etl", "running", 1)]
    assert (await api.get("workflow-runs", params={"limit": 1})).json()["items"][0]["id"] == last
    assert (await api.get(f"workflow-runs/{outer}")).status_code == 200


async def test_the_end_is_estimated_from_earlier_runs(api, scene: Scene) -> None:
    await made(api)
    await scene.run()
    await scene.work()
    await scene.rows(
        "update everwhen.workflow_nodes set decided_at = ended_at - interval '1 hour' where node = 'b' returning 1"
    )
    run = await scene.run()
    await scene.conduct()

    estimate = (await api.get(f"workflow-runs/{run}")).json()["estimate"]

    assert estimate["unknown"] == []
    assert estimate["critical_path"] == ["a", "b"]
    assert estimate["ends_at"] > (await scene.now()).isoformat()


async def test_a_run_is_drawn(api, scene: Scene) -> None:
    await made(api)
    run = await scene.run()
    early = await api.get(f"workflow-runs/{run}/graph.svg")
    await scene.work()

    picture = await api.get(f"workflow-runs/{run}/graph.svg")

    assert early.json()["code"] == "workflow.not_started"
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "etl" in picture.text


async def test_a_rerun_is_refused_while_it_runs_and_by_an_older_generation(api, scene: Scene) -> None:
    await made(api)
    run = await scene.run()
    await scene.conduct()
    running = await api.post(f"workflow-runs/{run}/rerun", json={})
    await scene.work()
    well = await api.post(f"workflow-runs/{run}/rerun", json={})
    unknown = await api.post(f"workflow-runs/{run}/rerun", json={"nodes": ["z"]})
    again = await api.post(f"workflow-runs/{run}/rerun", json={"nodes": ["b"]})
    twice = await api.post(f"workflow-runs/{run}/rerun", json={"nodes": ["b"]})

    assert running.json()["code"] == "workflow.running"
    assert well.json()["code"] == "workflow.nothing_failed"
    assert unknown.json()["errors"][0]["pointer"] == "/nodes/0"
    assert again.status_code == 201
    assert again.json()["run"]["source"] == "rerun"
    assert twice.json()["code"] == "workflow.not_latest"


async def test_the_instances_of_a_fan_out_are_listed_in_pages(api, scene: Scene) -> None:
    await made(api, {"nodes": [{"id": "a", "task": "work", "each": {"items": ["x", "y", "z"]}}]})
    run = await scene.run()
    await scene.work()

    first = (await api.get(f"workflow-runs/{run}/nodes/a/instances", params={"limit": 2})).json()
    second = (await api.get(f"http://everwhen.test{first['next']}")).json()

    assert [(each["index"], each["item"]) for each in first["items"]] == [(0, "x"), (1, "y")]
    assert [each["index"] for each in second["items"]] == [2]
    assert second["next"] is None
    assert (await api.get(f"workflow-runs/{run}")).json()["nodes"][0]["instances"] == {"succeeded": 3}


async def test_no_worker_claims_a_workflow(scene: Scene) -> None:
    from everwhen.dispatch.api import _claim
    from everwhen.errors import InvalidInput
    from everwhen.http.auth import Principal
    from everwhen.worker.protocol import ClaimRequest

    wanted = ClaimRequest(
        worker="w", queues=["everwhen:workflows"], tasks=None, limit=1, wait_seconds=0, lease_seconds=60
    )
    principal = Principal(subject="w", roles=frozenset(), tenant_id=scene.tenant.id, queues=None)

    with pytest.raises(InvalidInput):
        _claim(wanted, principal, most_lease_seconds=300)
