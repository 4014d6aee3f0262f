"""Graphs through the door that everybody uses: `everwhen workflow simulate`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.cli.workflow import workflow
from everwhen.cli.workflow_simulate import answer
from everwhen.core.dag_values import TriggerRule
from tests.core import naive_dag

BANK = Path(__file__).parents[1] / "cases/dag_cases.jsonl"
CASES = [json.loads(line) for line in BANK.read_text("utf-8").splitlines()]
GRAPHS = [case for case in CASES if case["kind"] == "graph"]


def asked(question):
    return answer(json.dumps(question).encode())


def states(question):
    return {node: found["state"] for node, found in asked(question)["nodes"].items()}


def error(question):
    return asked(question)["error"]


def node(name, *needs, **fields):
    return {"id": name, "needs": list(needs), **fields}


def graph(*nodes, **fields):
    return {"nodes": list(nodes), **fields}


@pytest.mark.parametrize("case", GRAPHS, ids=lambda case: case["id"])
def test_a_graph_of_the_bank(case):
    found = asked(case)
    nodes = found["nodes"]

    assert list(nodes) == [entry["id"] for entry in case["nodes"]]
    assert {key: value["state"] for key, value in nodes.items()} == case["expect"]
    assert {key: value["attempts"] for key, value in nodes.items()} == case["attempts"]
    assert {key: value["start"] for key, value in nodes.items() if value["start"] is not None} == case["start"]
    assert {key: value["end"] for key, value in nodes.items()} == case["end"]
    assert (found["run"], found["run_leaf"]) == (case["run"], case["run_leaf"])


TRUTHS = [case for case in CASES if case["kind"] == "truth"]


@pytest.mark.parametrize("case", TRUTHS, ids=lambda case: case["id"])
@pytest.mark.parametrize("rule", TriggerRule)
def test_a_truth_of_the_bank_as_a_graph(case, rule):
    upstreams = []
    for index, state in enumerate(case["upstreams"]):
        if state == "upstream_failed":
            upstreams += [node(f"f{index}", outcome="failed"), node(f"u{index}", f"f{index}")]
        else:
            upstreams.append(node(f"u{index}", outcome=state))
    needs = [f"u{index}" for index in range(len(case["upstreams"]))]
    found = states(graph(*upstreams, node("it", *needs, rule=rule)))

    expected = case["decide"][rule]
    assert found["it"] == ("success" if expected == "run" else expected)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 9))
    nodes = []
    for index in range(count):
        needs = draw(st.lists(st.sampled_from(range(index)), max_size=4, unique=True)) if index else []
        outcome = st.sampled_from(["success", "success", "failed", "skipped"])
        nodes.append(
            {
                "id": f"n{index}",
                "needs": [f"n{need}" for need in needs],
                "rule": draw(st.sampled_from([rule.value for rule in TriggerRule])),
                "outcome": draw(outcome | st.lists(outcome, min_size=1, max_size=4)),
                "duration": draw(st.integers(0, 4)),
                "max_attempts": draw(st.integers(1, 4)),
                "retry_delay": draw(st.integers(0, 3)),
            }
        )
    return draw(st.permutations(nodes)), draw(st.none() | st.integers(0, 14))


@pytest.mark.timeout(300)
@settings(max_examples=200, deadline=None)
@given(graphs())
def test_it_agrees_with_brute_force(drawn):
    nodes, cancel_at = drawn
    found = asked({"nodes": nodes, "cancel_at": cancel_at})
    expected = naive_dag.play(nodes, cancel_at)

    assert {
        key: (value["state"], value["attempts"], value["start"], value["end"]) for key, value in found["nodes"].items()
    } == expected
    assert found["run"] == naive_dag.run_state(nodes, expected)
    assert found["run_leaf"] == naive_dag.run_state(nodes, expected, leaves_only=True)


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_the_definition_changes_nothing_but_the_order_of_the_answer(drawn, shuffler):
    nodes, cancel_at = drawn
    other = list(nodes)
    shuffler.shuffle(other)

    assert asked({"nodes": nodes, "cancel_at": cancel_at}) == asked({"nodes": other, "cancel_at": cancel_at})


def test_defaults_are_success_after_one_at_the_first_attempt():
    assert asked({"nodes": [{"id": "a"}]}) == {
        "nodes": {"a": {"state": "success", "attempts": 1, "start": 0, "end": 1}},
        "run": "success",
        "run_leaf": "success",
    }


def test_no_nodes_make_a_run_that_has_nothing_to_do():
    assert asked({"nodes": []}) == {"nodes": {}, "run": "success", "run_leaf": "success"}


def test_an_impatient_rule_does_not_wait_and_the_others_do():
    slow_and_quick = [node("slow", duration=9), node("quick", outcome="failed")]
    found = asked(graph(*slow_and_quick, node("a", "slow", "quick", rule="one_failed"), node("b", "slow", "quick")))

    assert found["nodes"]["a"] == {"state": "success", "attempts": 1, "start": 1, "end": 2}
    assert found["nodes"]["b"] == {"state": "upstream_failed", "attempts": 0, "start": None, "end": 9}


@pytest.mark.parametrize(
    ("cancel_at", "expected"),
    [
        (0, {"a": ("cancelled", 0, None, 0), "b": ("cancelled", 0, None, 0)}),
        (1, {"a": ("cancelled", 1, 0, 1), "b": ("cancelled", 0, None, 1)}),
        (2, {"a": ("success", 1, 0, 2), "b": ("cancelled", 0, None, 2)}),
        (3, {"a": ("success", 1, 0, 2), "b": ("cancelled", 1, 2, 3)}),
        (4, {"a": ("success", 1, 0, 2), "b": ("success", 1, 2, 4)}),
        (5, {"a": ("success", 1, 0, 2), "b": ("success", 1, 2, 4)}),
    ],
)
def test_a_cancel_undoes_no_end_and_prevents_the_next_start(cancel_at, expected):
    found = asked(graph(node("a", duration=2), node("b", "a", duration=2), cancel_at=cancel_at))

    assert {key: tuple(value.values()) for key, value in found["nodes"].items()} == expected
    assert found["run"] == found["run_leaf"] == ("success" if cancel_at >= 4 else "cancelled")


@pytest.mark.parametrize(("cancel_at", "attempts"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_a_cancel_stops_a_node_that_retries(cancel_at, attempts):
    found = asked(graph(node("a", outcome="failed", max_attempts=3, retry_delay=2, duration=1), cancel_at=cancel_at))

    assert found["nodes"]["a"] == {"state": "cancelled", "attempts": attempts, "start": 0, "end": cancel_at}


def test_a_cancel_prevents_an_attempt_that_would_take_no_time():
    found = asked(graph(node("a", outcome="failed", max_attempts=2, retry_delay=1, duration=0), cancel_at=1))

    assert found["nodes"]["a"] == {"state": "cancelled", "attempts": 1, "start": 0, "end": 1}


def test_what_was_decided_by_ends_at_the_instant_of_the_cancel_stays_decided():
    found = states(graph(node("a", outcome="failed"), node("b", "a"), node("c", "a", rule="all_done"), cancel_at=1))

    assert found == {"a": "failed", "b": "upstream_failed", "c": "cancelled"}


def test_failing_fast_releases_nothing_more_and_awaits_what_runs():
    nodes = [node("a", outcome="failed"), node("b", duration=3), node("c", "b"), node("clean", finally_=True)]
    nodes[-1] = {"id": "clean", "finally": True}
    found = asked(graph(*nodes, fail_fast=True))

    assert {key: value["state"] for key, value in found["nodes"].items()} == {
        "a": "failed",
        "b": "success",
        "c": "cancelled",
        "clean": "success",
    }
    assert found["nodes"]["clean"]["start"] == 3
    assert found["run"] == found["run_leaf"] == "failed"


def test_failing_fast_releases_nothing_at_the_instant_of_the_failure_either():
    nodes = [node("a", outcome="failed"), node("b"), node("c", "b")]

    assert states(graph(*nodes, fail_fast=True)) == {"a": "failed", "b": "success", "c": "cancelled"}


def test_finally_nodes_run_after_everything_also_after_a_cancel():
    nodes = [
        node("a", duration=5),
        {"id": "clean", "finally": True},
        {"id": "then", "finally": True, "needs": ["clean"]},
    ]

    assert asked(graph(*nodes))["nodes"]["clean"]["start"] == 5
    found = asked(graph(*nodes, cancel_at=2))
    assert {key: value["state"] for key, value in found["nodes"].items()} == {
        "a": "cancelled",
        "clean": "success",
        "then": "success",
    }
    assert found["nodes"]["then"]["end"] == 4
    assert found["run"] == "cancelled"


def test_a_finally_node_without_needs_looks_at_all_ordinary_nodes():
    handler = {"id": "handler", "finally": True, "rule": "one_failed"}

    assert states(graph(node("a"), node("b", "a"), handler))["handler"] == "skipped"
    assert states(graph(node("a", outcome="failed"), node("b", "a"), handler))["handler"] == "success"


def test_a_branch_takes_what_it_names():
    nodes = [
        node("choose", take=["left"]),
        node("left", "choose"),
        node("right", "choose", rule="all_done"),
        node("join", "left", "right", "choose", rule="none_failed_min_one_success"),
        node("strict", "left", "right"),
    ]

    assert states(graph(*nodes)) == {
        "choose": "success",
        "left": "success",
        "right": "skipped",
        "join": "success",
        "strict": "skipped",
    }


def test_decimals_are_taken_as_they_are_written():
    found = asked(graph(node("a", duration=0.1), node("b", "a", duration=0.2), node("c", "b", duration=0.7)))

    assert [value["end"] for value in found["nodes"].values()] == [0.1, 0.3, 1]


def test_nothing_takes_no_time():
    nodes = [node("a", duration=0), node("b", "a", duration=0), node("c", "a", "b", duration=0, rule="one_done")]

    assert {value["end"] for value in asked(graph(*nodes))["nodes"].values()} == {0}


def test_a_case_may_carry_what_it_expects():
    assert "nodes" in asked({**graph(node("a")), "title": "x", "expect": {"a": "success"}})


@pytest.mark.parametrize(
    ("question", "code", "pointer"),
    [
        ([], "workflow.type", ""),
        ("text", "workflow.type", ""),
        ({}, "workflow.nodes", "/nodes"),
        ({"nodes": {}}, "workflow.nodes", "/nodes"),
        ({"nodes": None}, "workflow.nodes", "/nodes"),
        ({"nodes": ["a"]}, "workflow.type", "/nodes/0"),
        ({"nodes": [None]}, "workflow.type", "/nodes/0"),
        ({"nodes": [{}]}, "workflow.id", "/nodes/0/id"),
        ({"nodes": [{"id": 1}]}, "workflow.id", "/nodes/0/id"),
        ({"nodes": [{"id": ""}]}, "workflow.id", "/nodes/0/id"),
        ({"nodes": [{"id": "a\n"}]}, "workflow.id", "/nodes/0/id"),
        ({"nodes": [{"id": "\ud800"}]}, "workflow.id", "/nodes/0/id"),
        ({"nodes": [{"id": "x" * 201}]}, "workflow.id", "/nodes/0/id"),
        (graph(node("a"), node("a")), "workflow.duplicate_node", "/nodes/1/id"),
        (graph(node("a", "b")), "workflow.unknown_node", "/nodes/0/needs/0"),
        (graph(node("a", "a")), "workflow.self_edge", "/nodes/0/needs/0"),
        (graph(node("a"), node("b", "a", "a")), "workflow.duplicate_edge", "/nodes/1/needs/1"),
        (graph(node("a", rule="some")), "workflow.rule", "/nodes/0/rule"),
        (graph(node("a", rule=["all_done"])), "workflow.rule", "/nodes/0/rule"),
        (graph({"id": "a", "needs": "b"}), "workflow.needs", "/nodes/0/needs"),
        (graph({"id": "a", "needs": [1]}), "workflow.id", "/nodes/0/needs/0"),
        (graph({"id": "a", "need": ["b"]}), "workflow.unknown_field", "/nodes/0/need"),
        (graph({"id": "a", "a/b~c": 1}), "workflow.unknown_field", "/nodes/0/a~1b~0c"),
        (graph(node("a", outcome="succeeded")), "workflow.outcome", "/nodes/0/outcome"),
        (graph(node("a", outcome=[])), "workflow.outcome", "/nodes/0/outcome"),
        (graph(node("a", outcome=["success", 1])), "workflow.outcome", "/nodes/0/outcome/1"),
        (graph(node("a", duration=-1)), "workflow.range", "/nodes/0/duration"),
        (graph(node("a", duration="1")), "workflow.range", "/nodes/0/duration"),
        (graph(node("a", duration=True)), "workflow.range", "/nodes/0/duration"),
        (graph(node("a", duration=10**400)), "workflow.range", "/nodes/0/duration"),
        (graph(node("a", duration=1e300)), "workflow.range", "/nodes/0/duration"),
        (graph(node("a", max_attempts=0)), "workflow.range", "/nodes/0/max_attempts"),
        (graph(node("a", max_attempts=1.5)), "workflow.range", "/nodes/0/max_attempts"),
        (graph(node("a", retry_delay=-0.5)), "workflow.range", "/nodes/0/retry_delay"),
        (graph(node("a"), cancel_at=-1), "workflow.range", "/cancel_at"),
        (graph(node("a"), cancel_at="1"), "workflow.range", "/cancel_at"),
        (graph(node("a", **{"finally": True}), node("b", "a")), "workflow.needs_finally", "/nodes/1/needs/0"),
        (graph(node("a", **{"finally": True})), "workflow.only_finally", "/nodes/0/finally"),
        (graph(node("a", take=["b"]), node("b")), "workflow.branch", "/nodes/0/take/0"),
    ],
)
def test_what_is_wrong_is_named_and_pointed_at(question, code, pointer):
    found = error(question)

    assert (found["code"], found["pointer"]) == (code, pointer)
    assert found["message"]


@pytest.mark.parametrize(
    "text", [b"", b"[", b"NaN", b"{" * 100_000, b'{"nodes": [], "nodes": []}', b"\xff", b"1e", b"\x00"]
)
def test_what_is_no_json_is_said_to_be_none(text):
    assert answer(text)["error"]["code"] == "input.json"


def test_a_cycle_is_named_by_its_path():
    nodes = [node("before"), node("c", "b"), node("a", "before", "c"), node("b", "a"), node("after", "b")]
    found = error(graph(*nodes))

    assert found["code"] == "workflow.cycle"
    assert "c → a → b → c" in found["message"]
    assert found["pointer"] == "/nodes/1/needs/0"
    assert "before" not in found["message"]
    assert "after" not in found["message"]


def test_a_long_cycle_is_named_in_short():
    nodes = [node(f"n{index}", f"n{(index - 1) % 5_000}") for index in range(5_000)]
    found = error(graph(*nodes))

    assert found["code"] == "workflow.cycle"
    assert found["pointer"] == "/nodes/0/needs/0"
    assert len(found["message"]) < 500


def test_several_faults_are_told_together():
    found = error(graph(node("a", "x"), node("b", "b"), node("a")))

    assert [found["code"], *(other["code"] for other in found["others"])] == [
        "workflow.duplicate_node",
        "workflow.unknown_node",
        "workflow.self_edge",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["id", "needs", "rule", "outcome", "duration", "max_attempts", "retry_delay", "finally", "take", "other"]


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5) | JSON, max_size=3), JSON)
def test_whatever_comes_in_an_answer_goes_out(nodes, cancel_at):
    found = asked({"nodes": nodes, "cancel_at": cancel_at})

    assert json.loads(json.dumps(found)) == found
    assert ("error" in found) != ("nodes" in found)


def invoked(*arguments, stdin):
    return CliRunner().invoke(workflow, ["simulate", *arguments], input=stdin)


def test_one_object_may_span_lines_and_a_fault_is_exit_code_2():
    good, bad = (
        invoked(stdin=json.dumps(question, indent=2)) for question in (graph(node("a")), graph(node("a", "b")))
    )

    assert (good.exit_code, json.loads(good.stdout)["run"]) == (0, "success")
    assert (bad.exit_code, json.loads(bad.stdout)["error"]["code"]) == (2, "workflow.unknown_node")


def test_a_batch_answers_line_by_line_whatever_a_line_holds():
    lines = [json.dumps(graph(node("a"))), "[", "", json.dumps(graph(node("a", "a"))), json.dumps(graph(node("b")))]
    found = invoked("--batch", stdin="\n".join(lines))
    first, broken, wrong, last = map(json.loads, found.stdout.splitlines())

    assert found.exit_code == 0
    assert list(first["nodes"]) == ["a"]
    assert broken["error"]["code"] == "input.json"
    assert wrong["error"]["code"] == "workflow.self_edge"
    assert list(last["nodes"]) == ["b"]
