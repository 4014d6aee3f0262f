"""Workflows written in Python: the JSON that they make, and what a type checker says of a wrong one."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from everwhen.core.dag_json import EACH_KEYS, NODE_KEYS, parse_workflow
from everwhen.core.dag_values import TriggerRule
from everwhen.worker import Context
from everwhen.workflow import (
    Retry,
    Rule,
    Workflow,
    WorkflowError,
    all_of,
    any_of,
    default,
    each,
    equals,
    exists,
    is_in,
    length,
    literal,
    not_,
    run,
    text,
)
from everwhen.workflow.builder import Options

EXAMPLE = Path(__file__).parents[2] / "examples/nightly_workflow.py"


@dataclass
class Extracted:
    files: list[str]
    count: int


def extract(ctx: Context, day: str) -> Extracted:
    raise AssertionError("no function is called")


async def load(path: str, times: int = 1) -> dict[str, int]:
    raise AssertionError("no function is called")


def node(flow, name):
    return next(found for found in flow.to_json()["nodes"] if found["id"] == name)


@pytest.fixture
def flow():
    return Workflow("w")


def test_a_reference_is_an_edge_and_the_result_of_a_function(flow):
    extracted = flow.call("extract", extract)(day=run.nominal_at)
    flow.call("load", load, task="loader", max_parallel=2)(path=each(extracted.result.files))

    assert flow.to_json() == {
        "name": "w",
        "nodes": [
            {"id": "extract", "task": "extract", "input": {"day": {"$ref": "run.nominal_at"}}},
            {
                "id": "load",
                "task": "loader",
                "input": {"path": {"$ref": "item"}},
                "each": {"items": {"$ref": "extract.result.files"}, "max_parallel": 2},
                "needs": ["extract"],
            },
        ],
    }


def test_what_is_made_is_what_the_api_reads(flow):
    first = flow.task("a", input={"x": 1})
    flow.task(
        "b", after=[first], rule="all_done", retry=Retry(max_attempts=2), timeout=timedelta(minutes=1), priority=7
    )
    flow.workflow("c", "other", input=first.result, each=[1, 2], empty="succeed")
    flow.task("d", finally_=True, input=default(first.result, None))
    found = parse_workflow(flow.to_json())
    a, b, c, d = found.nodes

    assert (a.input, a.task) == ({"x": 1}, "a")
    assert (b.needs, b.rule, b.retry, b.timeout_seconds, b.priority) == (
        ("a",),
        TriggerRule.ALL_DONE,
        {"max_attempts": 2},
        60,
        7,
    )
    assert (c.workflow, c.needs, c.each.items) == ("other", ("a",), [1, 2])
    assert (d.is_finally, d.needs) == (True, ())


def test_the_whole_has_settings_and_defaults():
    flow = Workflow(
        "w",
        description="d",
        success="leaf",
        fail_fast=True,
        deadline=timedelta(hours=1),
        max_parallel=3,
        defaults={"queue": "q", "retry": Retry(jitter="full")},
    )
    flow.task("a")
    found = parse_workflow(flow.to_json())

    assert (found.description, found.success, found.fail_fast) == ("d", "leaf", True)
    assert (found.deadline_seconds, found.max_parallel) == (3600, 3)
    assert (found.nodes[0].queue, found.nodes[0].retry) == ("q", {"jitter": "full"})


def test_after_comes_first_and_nobody_is_needed_twice(flow):
    a, b = flow.task("a"), flow.task("b")
    flow.task("c", after=b, input=[a.result, b.state, a.result["x"]])

    assert node(flow, "c")["needs"] == ["b", "a"]


def test_a_finally_node_needs_another_that_it_refers_to(flow):
    a = flow.task("a")
    b = flow.task("b", finally_=True, input=a.result)
    flow.task("c", finally_=True, input=[a.result, b.result])

    assert "needs" not in node(flow, "b")
    assert node(flow, "c")["needs"] == ["b"]


def test_a_reference_written_by_hand_is_an_edge_too(flow):
    flow.task("a")
    flow.task("b", input={"x": [{"$ref": "a.result.x"}]})

    assert node(flow, "b")["needs"] == ["a"]


def test_every_way_to_write_a_value(flow):
    a = flow.task("a")
    flow.task(
        "b",
        input={
            "dots": a.result["x.y"][0]["7"],
            "deep": a.result.items.keys.count,
            "text": text("n-", a.result.n, 5),
            "length": length(a.result.files),
            "literal": literal({"$ref": "no.reference"}),
            "otherwise": default(a.result.n, 0),
            "dataclass": Extracted(files=[a.result.name], count=1),
            "tuple": (1, a.state),
        },
        concurrency_key=text("customer-", a.result.customer),
    )
    found = node(flow, "b")

    assert found["input"] == {
        "dots": {"$ref": ["a", "result", "x.y", 0, "7"]},
        "deep": {"$ref": "a.result.items.keys.count"},
        "text": {"$text": ["n-", {"$ref": "a.result.n"}, 5]},
        "length": {"$length": {"$ref": "a.result.files"}},
        "literal": {"$literal": {"$ref": "no.reference"}},
        "otherwise": {"$ref": "a.result.n", "default": 0},
        "dataclass": {"files": [{"$ref": "a.result.name"}], "count": 1},
        "tuple": [1, {"$ref": "a.state"}],
    }
    assert found["concurrency_key"] == {"$text": ["customer-", {"$ref": "a.result.customer"}]}


def test_every_way_to_write_a_condition(flow):
    a = flow.task("a")
    n = a.result.n
    flow.task(
        "b",
        when=all_of(
            n < 1,
            n <= 2,
            n > 3,
            n >= 4,
            n == 5,
            n != 6,
            any_of(is_in("x", a.result.list), not_(exists(a.result.x))),
            equals(length(a.result.list), 7),
        ),
    )
    flow.task("c", after=a, when=True)
    ref = {"$ref": "a.result.n"}

    assert node(flow, "b")["condition"] == {
        "and": [
            {"<": [ref, 1]},
            {"<=": [ref, 2]},
            {">": [ref, 3]},
            {">=": [ref, 4]},
            {"==": [ref, 5]},
            {"!=": [ref, 6]},
            {"or": [{"in": ["x", {"$ref": "a.result.list"}]}, {"not": {"exists": {"$ref": "a.result.x"}}}]},
            {"==": [{"$length": {"$ref": "a.result.list"}}, 7]},
        ]
    }
    assert node(flow, "b")["needs"] == ["a"]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (bool, "when"),
        (lambda value: bool(value > 1), "all_of"),
        (list, "each"),
        (lambda value: f"{value}", "text"),
        (lambda value: "x" in value, "is_in"),
        (len, "length"),
        (lambda value: {value}, "unhashable"),
        (lambda value: value[1.5], "key"),
        (lambda value: value[True], "key"),
        (lambda value: default(5, value), "reference"),
    ],
)
def test_what_would_need_the_value_now_says_what_to_do_instead(flow, use, said):
    value = flow.task("a").result.x

    with pytest.raises(TypeError, match=said):
        use(value)


def test_what_is_no_json_is_refused_where_it_is_written(flow):
    with pytest.raises(TypeError, match="timedelta is no JSON"):
        flow.task("a", input=timedelta(1))


def test_two_lists_or_none_make_no_fan_out(flow):
    with pytest.raises(ValueError, match="two lists"):
        flow.task("a", input=[each([1]), each([2])])
    with pytest.raises(ValueError, match="fans out over nothing"):
        flow.task("b", max_parallel=2)


def test_several_parts_of_one_item_are_one_fan_out(flow):
    item = each([{"x": 1, "y": 2}])
    flow.task("a", input={"x": item["x"], "y": item["y"]})

    assert node(flow, "a")["each"] == {"items": [{"x": 1, "y": 2}]}


def test_a_name_is_taken_once_and_input_goes_by_keyword(flow):
    flow.task("a")

    with pytest.raises(ValueError, match="already"):
        flow.task("a")
    with pytest.raises(TypeError, match="keyword"):
        flow.call("b", extract)("2027-01-01")
    with pytest.raises(AttributeError):
        _ = run.secret


def test_what_the_api_would_refuse_is_refused(flow):
    flow.task("a", priority=99)

    with pytest.raises(WorkflowError) as caught:
        flow.to_json()
    assert (caught.value.code, caught.value.pointer) == ("workflow.range", "/nodes/0/priority")


def test_the_rules_and_options_are_those_of_a_definition():
    words = {
        "after": "needs",
        "when": "condition",
        "finally_": "finally",
        "timeout": "timeout_seconds",
        "start_deadline": "start_deadline_seconds",
        "heartbeat_timeout": "heartbeat_timeout_seconds",
        "total_deadline": "total_deadline_seconds",
    }
    said = {words.get(name, name) for name in get_type_hints(Options)}

    assert set(get_args(Rule)) == set(TriggerRule)
    assert said == (NODE_KEYS | EACH_KEYS) - {"id", "task", "workflow", "input", "each", "items"}


def test_the_example_prints_a_definition():
    spec = importlib.util.spec_from_file_location("nightly_workflow", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["nightly_workflow"] = module
    spec.loader.exec_module(module)
    printed = subprocess.run([sys.executable, EXAMPLE], capture_output=True, check=True).stdout

    assert json.loads(printed) == module.flow.to_json()
    assert [found.id for found in parse_workflow(module.flow.to_json()).nodes][-1] == "clean"


WRONG = """
from examples_under_test import each, extract, extracted, flow, load, run

flow.call("a", extract)(day=5)
flow.call("b", extract)(night="x")
flow.call("c", load)(path=extracted.result.count)
flow.call("d", load)(path=each(extracted.result.filez))
flow.call("e", extract, rule="all_well")(day=run.nominal_at)
flow.task("f", priority="high")
flow.task("g", until=3)
"""
RIGHT = """
from examples_under_test import each, extract, extracted, flow, load, run

flow.call("a", extract, rule="all_done")(day=run.nominal_at)
flow.call("b", load, max_parallel=3, when=extracted.result.count > 3)(path=each(extracted.result.files))
"""
MODULE = """
from dataclasses import dataclass

from everwhen.worker import Context
from everwhen.workflow import Workflow, each, run

__all__ = ["each", "extract", "extracted", "flow", "load", "run"]


@dataclass
class Extracted:
    files: list[str]
    count: int


def extract(ctx: Context, day: str) -> Extracted:
    return Extracted([], 0)


async def load(path: str) -> int:
    return len(path)


flow = Workflow("w")
extracted = flow.call("extract", extract)(day=run.nominal_at)
"""


@pytest.mark.timeout(180)
def test_a_type_checker_finds_every_wrong_line_and_no_right_one(tmp_path):
    (tmp_path / "examples_under_test.py").write_text(MODULE)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["pyright", "--outputjson", "--project", str(tmp_path), "--pythonpath", sys.executable]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = {(Path(item["file"]).name, item["range"]["start"]["line"]) for item in found if item["severity"] == "error"}
    calls = [number for number, line in enumerate(WRONG.splitlines()) if line.startswith("flow.")]

    assert lines == {("wrong.py", number) for number in calls}
