"""The life of a workflow's run, from its start to its end, over the real dispatch."""

import asyncio
from datetime import timedelta

from tests.workflows.scene import Scene


async def test_a_chain_runs_one_after_the_other(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]})
    run = await scene.run()

    order = await scene.work()

    assert order == ["a", "b", "c"]
    assert await scene.states(run) == {"a": "succeeded", "b": "succeeded", "c": "succeeded", "run": "succeeded"}


async def test_a_failure_travels_along_the_edges(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}, {"id": "d"})
    run = await scene.run()

    await scene.work({"a": "failed"})

    assert await scene.states(run) == {
        "a": "failed",
        "b": "upstream_failed",
        "c": "upstream_failed",
        "d": "succeeded",
        "run": "dead",
    }


async def test_two_upstreams_that_end_at_once_release_their_join_once(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b"}, {"id": "join", "needs": ["a", "b"]})
    await scene.run()
    await scene.conduct()
    leases = await scene.claim()

    await asyncio.gather(*(scene.report(lease) for lease in leases.values()))

    assert list(await scene.claim()) == ["join"]


async def test_a_finally_node_runs_whatever_happened(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "clean", "finally": True})
    run = await scene.run()

    order = await scene.work({"a": "failed"})

    assert order == ["a", "clean"]
    assert await scene.states(run) == {"a": "failed", "clean": "succeeded", "run": "dead"}


async def test_a_cancel_stops_what_waits_and_what_runs_and_lets_the_finally_nodes_run(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["a"]}, {"id": "clean", "finally": True})
    run = await scene.run()
    await scene.conduct()
    leases = await scene.claim(limit=1)
    running, waiting = ("a", "b") if "a" in leases else ("b", "a")

    await scene.cancel(run)
    await scene.conduct()

    states = await scene.states(run)
    assert states[waiting] == "cancelled"
    assert states["c"] == "cancelled"
    assert states[running] == "running"
    assert await scene.report(leases[running], "cancelled")
    assert await scene.work() == ["clean"]
    assert (await scene.states(run))["run"] == "cancelled"


async def test_a_run_that_has_not_started_is_cancelled_as_any_run(scene: Scene) -> None:
    await scene.define({"id": "a"})
    run = await scene.run()

    view = await scene.cancel(run)
    await scene.conduct()

    assert view.run.state == "cancelled"
    assert view.nodes == ()


async def test_a_deadline_of_the_whole_stops_it(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]}, deadline_seconds=60)
    run = await scene.run()
    await scene.conduct()

    await scene.conduct(later=timedelta(seconds=61))

    assert await scene.states(run) == {"a": "cancelled", "b": "cancelled", "run": "dead"}
    assert (await scene.look(run)).run.row.reason == "deadline.total"


async def test_data_goes_from_node_to_node(scene: Scene) -> None:
    await scene.define(
        {"id": "extract", "input": {"day": {"$ref": "run.input.day"}}},
        {"id": "load", "needs": ["extract"], "input": {"rows": {"$ref": "extract.result.rows"}}},
    )
    await scene.run(input={"day": "monday"})
    seen = {}

    def extract(lease):
        seen["extract"] = lease.input
        return {"result": {"rows": [1, 2]}}

    def load(lease):
        seen["load"] = lease.input
        return {}

    await scene.work({"extract": extract, "load": load})

    assert seen == {"extract": '{"day": "monday"}', "load": '{"rows": [1, 2]}'}


async def test_data_that_is_missing_fails_the_node_and_says_where(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"], "input": {"x": {"$ref": "a.result.x"}}})
    run = await scene.run()

    await scene.work()

    view = await scene.look(run)
    assert await scene.states(run) == {"a": "succeeded", "b": "failed", "run": "dead"}
    assert view.nodes[1].reason == "workflow.data"
    assert "a.result.x" in (view.nodes[1].row.detail or "")


async def test_a_condition_decides(scene: Scene) -> None:
    condition = {"==": [{"$ref": "a.result"}, "go"]}
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"], "condition": condition})
    run = await scene.run()

    await scene.work({"a": {"result": "stay"}})

    assert await scene.states(run) == {"a": "succeeded", "b": "skipped", "run": "succeeded"}


async def test_a_node_skips_itself(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]})
    run = await scene.run()

    await scene.work({"a": {"result": {"$skip": "nothing new"}}})

    assert await scene.states(run) == {"a": "skipped", "b": "skipped", "run": "succeeded"}


async def test_a_branch_chooses(scene: Scene) -> None:
    await scene.define(
        {"id": "choose", "branch": True},
        {"id": "left", "needs": ["choose"]},
        {"id": "right", "needs": ["choose"]},
        {"id": "join", "needs": ["left", "right"], "rule": "none_failed"},
    )
    run = await scene.run()

    await scene.work({"choose": {"result": ["right"]}})

    assert await scene.states(run) == {
        "choose": "succeeded",
        "left": "skipped",
        "right": "succeeded",
        "join": "succeeded",
        "run": "succeeded",
    }


async def test_a_fan_out_and_back(scene: Scene) -> None:
    await scene.define(
        {"id": "list"},
        {"id": "each", "needs": ["list"], "each": {"items": {"$ref": "list.result"}}, "input": {"x": {"$ref": "item"}}},
        {"id": "sum", "needs": ["each"], "input": {"all": {"$ref": "each.result"}}},
    )
    run = await scene.run()
    seen = []

    answers = {"list": {"result": [3, 4, 5]}, "sum": lambda lease: seen.append(lease.input) or {}}
    for index in range(3):
        answers[f"each[{index}]"] = lambda lease, index=index: {"result": index * 10}
    order = await scene.work(answers)

    assert order[0] == "list"
    assert sorted(order[1:4]) == ["each[0]", "each[1]", "each[2]"]
    assert seen == ['{"all": [0, 10, 20]}']
    assert (await scene.states(run))["run"] == "succeeded"


async def test_a_fan_out_is_as_wide_as_it_may_be(scene: Scene) -> None:
    await scene.define({"id": "each", "each": {"items": list(range(5)), "max_parallel": 2}})
    await scene.run()
    await scene.conduct()

    first = await scene.claim()
    assert sorted(first) == ["each[0]", "each[1]"]
    await scene.report(first["each[1]"])

    assert sorted(await scene.claim()) == ["each[2]"]


async def test_a_rerun_begins_again_from_what_failed_and_keeps_the_rest(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}, {"id": "d"})
    first = await scene.run()
    await scene.work({"b": "failed", "a": {"result": 7}})

    second = await scene.rerun(first)
    order = await scene.work()

    assert order == ["b", "c"]
    assert await scene.states(second) == {
        "a": "succeeded",
        "b": "succeeded",
        "c": "succeeded",
        "d": "succeeded",
        "run": "succeeded",
    }
    assert (await scene.states(first))["run"] == "dead"
    view = await scene.look(second)
    assert [each.generation for each in view.generations] == [1, 2]
    assert view.nodes[0].row.kept_run_id is not None


async def test_a_run_keeps_the_version_that_it_started_with(scene: Scene) -> None:
    await scene.define({"id": "a"}, {"id": "b", "needs": ["a"]})
    run = await scene.run()
    await scene.conduct()

    await scene.define({"id": "a"}, {"id": "z", "needs": ["a"]})
    order = await scene.work()

    assert order == ["a", "b"]
    assert (await scene.look(run)).row.version == 1


async def test_a_workflow_inside_of_another(scene: Scene) -> None:
    await scene.define({"id": "x"}, {"id": "y", "needs": ["x"]}, name="inner")
    await scene.define(
        {"id": "sub", "workflow": "inner"},
        {"id": "after", "needs": ["sub"], "input": {"y": {"$ref": "sub.result.y"}}},
        name="outer",
    )
    run = await scene.run("outer")
    seen = []

    answers = {"y": {"result": "deep"}, "after": lambda lease: seen.append(lease.input) or {}}
    order = await scene.work(answers)

    assert order == ["x", "y", "after"]
    assert seen == ['{"y": "deep"}']
    assert await scene.states(run) == {"sub": "succeeded", "after": "succeeded", "run": "succeeded"}


async def test_a_concurrency_key_lets_one_run_at_a_time(scene: Scene) -> None:
    await scene.define({"id": "a", "concurrency_key": "db"}, {"id": "b", "concurrency_key": "db"})
    await scene.run()
    await scene.run()
    seen = []
    while True:
        await scene.conduct()
        leases = await scene.claim()
        if not leases:
            break
        seen.append(list(leases))
        assert len(leases) == 1
        await scene.report(next(iter(leases.values())))

    assert len(seen) == 4


async def test_fail_fast_releases_nothing_more_and_awaits_what_runs(scene: Scene) -> None:
    await scene.define(
        {"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["b"]}, {"id": "clean", "finally": True}, fail_fast=True
    )
    run = await scene.run()
    await scene.conduct()
    leases = await scene.claim()

    await scene.report(leases["a"], "failed")
    await scene.report(leases["b"])

    assert await scene.work() == ["clean"]
    assert await scene.states(run) == {
        "a": "failed",
        "b": "succeeded",
        "c": "cancelled",
        "clean": "succeeded",
        "run": "dead",
    }
    assert (await scene.look(run)).run.row.reason == "workflow.fail_fast"


async def test_no_more_nodes_are_live_than_the_workflow_allows(scene: Scene) -> None:
    await scene.define(*({"id": f"n{index}"} for index in range(5)), max_parallel=2)
    run = await scene.run()
    await scene.conduct()
    seen = 0
    while leases := await scene.claim():
        assert len(leases) <= 2
        seen += len(leases)
        for lease in leases.values():
            await scene.report(lease)
    await scene.conduct()

    assert seen == 5
    assert (await scene.states(run))["run"] == "succeeded"
