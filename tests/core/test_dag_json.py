"""Definitions as JSON: what is read is written back equal, and what is wrong has a code and a pointer."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everwhen
from everwhen.core.dag_json import parse_workflow, workflow_to_json
from everwhen.core.dag_values import (
    MOST_DEPTH,
    MOST_FAULTS,
    MOST_NODES,
    EmptyItems,
    Fault,
    Limits,
    Success,
    TriggerRule,
    WorkflowError,
)

DOCS = Path(everwhen.__file__).parents[2] / "docs"

FULL = {
    "name": "nightly-load",
    "description": "Loads\nwhat came in.",
    "success": "leaf",
    "fail_fast": True,
    "deadline_seconds": 3600,
    "max_parallel": 50,
    "defaults": {"queue": "etl", "retry": {"max_attempts": 3, "base_seconds": 1}, "rule": "none_failed"},
    "nodes": [
        {"id": "extract", "task": "extract", "input": {"day": {"$ref": "run.nominal_at"}}, "branch": True},
        {
            "id": "transform",
            "task": "transform",
            "needs": ["extract"],
            "each": {
                "items": {"$ref": "extract.result.files"},
                "max_items": 50,
                "max_parallel": 8,
                "empty": "succeed",
            },
            "input": {"file": {"$ref": "item.path"}, "number": {"$ref": "index"}},
            "concurrency_key": {"$text": ["customer-", {"$ref": "item.customer"}]},
            "retry": {"max_attempts": 7, "jitter": "full", "max_age_seconds": 3600, "non_retryable": ["KeyError"]},
            "total_deadline_seconds": 7200,
            "heartbeat_timeout_seconds": 30,
        },
        {
            "id": "report",
            "workflow": "reporting",
            "needs": ["extract"],
            "condition": {"==": [{"$ref": "run.input"}, 1]},
        },
        {
            "id": "load",
            "task": "load",
            "needs": ["transform", "report"],
            "rule": "none_failed_min_one_success",
            "queue": "slow",
            "priority": 9,
            "timeout_seconds": 60,
            "start_deadline_seconds": 5.5,
            "input": [{"$ref": "extract.state"}, {"$ref": "transform.result", "default": []}],
        },
        {"id": "clean", "task": "clean", "finally": True, "input": {"$ref": "extract.result.dir", "default": None}},
    ],
}


def definition(*nodes, **fields):
    return {"nodes": [{"task": "t", **node} for node in nodes], **fields}


def faults(data, **options):
    with pytest.raises(WorkflowError) as caught:
        parse_workflow(data, **options)
    assert all(fault.message for fault in caught.value.faults)
    return [(fault.code, fault.pointer) for fault in caught.value.faults]


def test_everything_that_can_be_said_is_read():
    found = parse_workflow(FULL)
    extract, transform, report, load, clean = found.nodes

    assert (found.name, found.success, found.fail_fast, found.max_parallel) == ("nightly-load", Success.LEAF, True, 50)
    assert (extract.queue, extract.rule, extract.is_branch) == ("etl", TriggerRule.NONE_FAILED, True)
    assert extract.retry == {"max_attempts": 3, "base_seconds": 1}
    assert transform.retry == {
        "max_attempts": 7,
        "base_seconds": 1,
        "jitter": "full",
        "max_age_seconds": 3600,
        "non_retryable": ["KeyError"],
    }
    assert (transform.total_deadline_seconds, transform.heartbeat_timeout_seconds) == (7200, 30)
    assert transform.each is not None
    assert (transform.each.max_items, transform.each.empty) == (50, EmptyItems.SUCCEED)
    assert (report.workflow, report.task, report.queue, report.retry) == ("reporting", None, None, None)
    assert report.rule is TriggerRule.NONE_FAILED
    assert (load.queue, load.priority, load.timeout_seconds, load.start_deadline_seconds) == ("slow", 9, 60, 5.5)
    assert (clean.is_finally, clean.rule, clean.queue) == (True, TriggerRule.ALL_DONE, "etl")
    assert found.graph.leaves == {"load"}


def test_what_is_written_is_read_back_equal_and_has_no_defaults_left():
    found = parse_workflow(FULL)
    written = workflow_to_json(found)

    assert "defaults" not in written
    assert parse_workflow(written) == found
    assert workflow_to_json(parse_workflow(written)) == written


def test_what_is_as_it_would_be_anyway_is_left_out():
    smallest = {"nodes": [{"id": "a", "task": "t"}]}

    assert workflow_to_json(parse_workflow({**smallest, "fail_fast": False, "success": "strict"})) == smallest


def test_null_is_the_same_as_leaving_a_field_out():
    fields = [*FULL, "defaults"]
    nulls = {key: None for key in fields if key not in {"nodes", "defaults"}}
    node_nulls = dict.fromkeys(
        ["needs", "rule", "workflow", "input", "condition", "each", "finally", "branch", "queue", "priority", "retry"]
    )

    assert parse_workflow({**nulls, "nodes": [{"id": "a", "task": "t", **node_nulls}]}) == parse_workflow(
        definition({"id": "a"})
    )


A = {"id": "a"}
B = {"id": "b", "needs": ["a"]}


@pytest.mark.parametrize(
    ("data", "code", "pointer"),
    [
        (None, "workflow.type", ""),
        ([], "workflow.type", ""),
        ({"nodes": []}, "workflow.nodes", "/nodes"),
        ({"nodes": [1]}, "workflow.type", "/nodes/0"),
        (definition(A, extra=1), "workflow.unknown_field", "/extra"),
        (definition({**A, "need": []}), "workflow.unknown_field", "/nodes/0/need"),
        (definition({"id": "a.b"}), "workflow.id", "/nodes/0/id"),
        (definition({"id": "run"}), "workflow.id", "/nodes/0/id"),
        (definition({"id": "a[0]"}), "workflow.id", "/nodes/0/id"),
        (definition({**A, "needs": "b"}), "workflow.needs", "/nodes/0/needs"),
        (definition({**A, "needs": [1]}), "workflow.needs", "/nodes/0/needs/0"),
        (definition({**A, "task": "no name"}), "workflow.name", "/nodes/0/task"),
        (definition({**A, "task": None}), "workflow.task", "/nodes/0/task"),
        (definition({**A, "workflow": "w"}), "workflow.task", "/nodes/0/task"),
        (
            definition({**A, "task": None, "workflow": "w", "queue": "q"}),
            "workflow.sub_workflow",
            "/nodes/0/queue",
        ),
        (definition({**A, "rule": "any"}), "workflow.rule", "/nodes/0/rule"),
        (definition(A, defaults={"rule": "any"}), "workflow.rule", "/defaults/rule"),
        (definition(A, defaults={"id": "x"}), "workflow.unknown_field", "/defaults/id"),
        (definition({**A, "priority": 10}), "workflow.range", "/nodes/0/priority"),
        (definition({**A, "priority": True}), "workflow.range", "/nodes/0/priority"),
        (definition({**A, "timeout_seconds": 0}), "workflow.range", "/nodes/0/timeout_seconds"),
        (definition({**A, "timeout_seconds": float("nan")}), "workflow.range", "/nodes/0/timeout_seconds"),
        (definition(A, deadline_seconds=-1), "workflow.range", "/deadline_seconds"),
        (definition(A, max_parallel=0), "workflow.range", "/max_parallel"),
        (definition(A, fail_fast=1), "workflow.type", "/fail_fast"),
        (definition(A, success="all"), "workflow.success", "/success"),
        (definition(A, name="a b"), "workflow.name", "/name"),
        (definition(A, description="\0"), "workflow.description", "/description"),
        (definition({**A, "retry": 3}), "workflow.type", "/nodes/0/retry"),
        (definition({**A, "retry": {"times": 3}}), "workflow.unknown_field", "/nodes/0/retry/times"),
        (definition({**A, "retry": {"max_attempts": 0}}), "workflow.range", "/nodes/0/retry/max_attempts"),
        (definition({**A, "retry": {"jitter": "some"}}), "workflow.jitter", "/nodes/0/retry/jitter"),
        (definition({**A, "retry": {"max_age_seconds": 0}}), "workflow.range", "/nodes/0/retry/max_age_seconds"),
        (definition({**A, "retry": {"max_age_seconds": 1e9}}), "workflow.range", "/nodes/0/retry/max_age_seconds"),
        (
            definition({**A, "retry": {"non_retryable": "KeyError"}}),
            "workflow.non_retryable",
            "/nodes/0/retry/non_retryable",
        ),
        (
            definition({**A, "retry": {"non_retryable": ["KeyError", "a b"]}}),
            "workflow.non_retryable",
            "/nodes/0/retry/non_retryable/1",
        ),
        (
            definition({**A, "retry": {"non_retryable": [7]}}),
            "workflow.non_retryable",
            "/nodes/0/retry/non_retryable/0",
        ),
        (definition({**A, "total_deadline_seconds": 0}), "workflow.range", "/nodes/0/total_deadline_seconds"),
        (definition({**A, "heartbeat_timeout_seconds": 0.5}), "workflow.range", "/nodes/0/heartbeat_timeout_seconds"),
        (
            definition({**A, "retry": {"base_seconds": 9, "cap_seconds": 3}}),
            "workflow.range",
            "/nodes/0/retry/base_seconds",
        ),
        (definition({**A, "each": []}), "workflow.type", "/nodes/0/each"),
        (definition({**A, "each": {}}), "workflow.items", "/nodes/0/each/items"),
        (definition({**A, "each": {"items": [], "max_items": 0}}), "workflow.range", "/nodes/0/each/max_items"),
        (definition({**A, "each": {"items": [], "empty": "fail"}}), "workflow.empty", "/nodes/0/each/empty"),
        (definition({**A, "each": {"items": []}, "branch": True}), "workflow.branch", "/nodes/0/branch"),
        (definition({**A, "concurrency_key": []}), "workflow.concurrency_key", "/nodes/0/concurrency_key"),
        (definition({**A, "input": "x" * 70_000}), "workflow.input_too_large", "/nodes/0/input"),
        (definition(A, A), "workflow.duplicate_node", "/nodes/1/id"),
        (definition(B), "workflow.unknown_node", "/nodes/0/needs/0"),
        (definition(B, {"id": "a", "needs": ["b"]}), "workflow.cycle", "/nodes/0/needs/0"),
        (definition({**A, "finally": True}, B, {"id": "c"}), "workflow.needs_finally", "/nodes/1/needs/0"),
        (definition(A, {**B, "input": {"$ref": "c.result"}}), "workflow.unknown_node", "/nodes/1/input/$ref"),
        (definition({**A, "input": {"$ref": "a.result"}}), "workflow.not_upstream", "/nodes/0/input/$ref"),
        (definition({**A, "input": [{"$ref": "b.result"}]}, B), "workflow.not_upstream", "/nodes/0/input/0/$ref"),
        (definition(A, {**B, "input": {"$ref": "a"}}), "workflow.reference", "/nodes/1/input/$ref"),
        (definition(A, {**B, "input": {"$ref": "a.output"}}), "workflow.reference", "/nodes/1/input/$ref"),
        (definition({**A, "input": {"$ref": "run.secret"}}), "workflow.reference", "/nodes/0/input/$ref"),
        (definition({**A, "input": {"$ref": "item"}}), "workflow.reference", "/nodes/0/input/$ref"),
        (definition({**A, "input": {"$ref": ""}}), "workflow.reference", "/nodes/0/input/$ref"),
        (definition({**A, "input": {"$ref": 5}}), "workflow.reference", "/nodes/0/input/$ref"),
        (
            definition({**A, "each": {"items": {"$ref": "item"}}}),
            "workflow.reference",
            "/nodes/0/each/items/$ref",
        ),
        (
            definition({**A, "each": {"items": []}, "condition": {"$ref": "item"}}),
            "workflow.reference",
            "/nodes/0/condition/$ref",
        ),
        (definition({**A, "input": {"a/b": {"$eval": "1"}}}), "workflow.template", "/nodes/0/input/a~1b/$eval"),
        (definition({**A, "input": {"$ref": "run.id", "x": 1}}), "workflow.template", "/nodes/0/input/$ref"),
        (definition({**A, "input": {"$text": "x"}}), "workflow.template", "/nodes/0/input/$text"),
        (definition({**A, "condition": 1}), "workflow.condition", "/nodes/0/condition"),
        (definition({**A, "condition": {}}), "workflow.condition", "/nodes/0/condition"),
        (definition({**A, "condition": {"=": [1, 1]}}), "workflow.condition", "/nodes/0/condition/="),
        (definition({**A, "condition": {"==": [1]}}), "workflow.condition", "/nodes/0/condition/=="),
        (definition({**A, "condition": {"and": []}}), "workflow.condition", "/nodes/0/condition/and"),
        (definition({**A, "condition": {"not": "x"}}), "workflow.condition", "/nodes/0/condition/not"),
        (definition({**A, "condition": {"exists": "x"}}), "workflow.condition", "/nodes/0/condition/exists"),
    ],
)
def test_what_is_wrong_is_named_and_pointed_at(data, code, pointer):
    assert faults(data)[0] == (code, pointer)


def test_a_reference_may_go_further_up_than_the_needs():
    parse_workflow(definition(A, B, {"id": "c", "needs": ["b"], "input": {"$ref": "a.result"}}))


def test_a_finally_node_may_refer_to_every_ordinary_node():
    parse_workflow(definition(A, B, {"id": "c", "finally": True, "input": {"$ref": "b.result"}}))


def test_several_faults_are_told_together_and_not_too_many():
    assert len(faults(definition({"id": "a b", "rule": "x", "priority": 99}))) == 3
    assert len(faults(definition(*({"id": "a b"} for _ in range(100))))) == MOST_FAULTS


def nested(depth, inner, wrap):
    for _ in range(depth):
        inner = wrap(inner)
    return inner


@pytest.mark.parametrize(
    "node",
    [
        {"input": nested(40, 1, lambda inner: [inner])},
        {"condition": nested(40, True, lambda inner: {"not": inner})},
        {"condition": {"and": [{"not": True}] * 300}},
        {"input": [{"$ref": "run.id"}] * 501},
    ],
)
def test_templates_and_conditions_are_bounded(node):
    assert faults(definition({**A, **node}))


def test_limits_on_nodes_edges_depth_and_size():
    chain = [{"id": "n0"}, *({"id": f"n{index}", "needs": [f"n{index - 1}"]} for index in range(1, MOST_DEPTH + 1))]
    wide = definition(*({"id": f"n{index}"} for index in range(MOST_NODES + 1)))
    mesh = [
        *({"id": f"a{i}"} for i in range(9)),
        *({"id": f"b{i}", "needs": [f"a{j}" for j in range(9)]} for i in range(9)),
    ]

    assert faults(definition(*chain)) == [("workflow.too_deep", "/nodes")]
    assert faults(wide) == [("workflow.too_many_nodes", "/nodes")]
    assert faults(definition(*mesh), limits=Limits(edges=80)) == [("workflow.too_many_edges", "/nodes")]
    assert faults(definition(*({"id": f"n{i}", "input": "x" * 60_000} for i in range(20)))) == [
        ("workflow.too_large", "")
    ]
    assert parse_workflow(definition(*chain[:-1])).graph.depth == MOST_DEPTH


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["a", "b", "run.id"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$ref", "$text", "==", "and", "x", "default", "items"]) | st.text(max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
NODE = st.dictionaries(
    st.sampled_from(["needs", "rule", "condition", "input", "each", "retry", "priority", "finally", "branch", "queue"]),
    JSON,
    max_size=3,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(NODE, min_size=1, max_size=3), st.dictionaries(st.sampled_from(list(FULL)), JSON, max_size=2))
def test_whatever_comes_in_is_read_and_written_back_or_refused_with_codes(nodes, fields):
    data = {"nodes": [{"id": f"n{index}", "task": "t", **node} for index, node in enumerate(nodes)], **fields}
    try:
        found = parse_workflow(data)
    except WorkflowError as error:
        refused = error.faults
    else:
        refused = ()
        assert parse_workflow(workflow_to_json(found)) == found
    assert all(re.fullmatch(r"workflow\.[a-z_]+", fault.code) for fault in refused)
    assert all(isinstance(fault, Fault) and fault.message.isprintable() for fault in refused)


def test_every_code_is_on_the_page_of_workflows():
    text = (DOCS / "concepts/workflows.md").read_text("utf-8")
    source = "".join(path.read_text("utf-8") for path in Path(everwhen.__file__).parent.glob("core/dag*.py"))
    codes = set(re.findall(r'"(workflow\.[a-z_]+)"', source))
    codes |= {f"workflow.{code}" for code in re.findall(r'(?:blame|refuse)\(\s*"([a-z_]+)"', source)}

    assert len(codes) > 30
    assert {code for code in codes if f"`{code}`" not in text} == set()
