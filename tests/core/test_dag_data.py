"""References, templates and conditions; and what a node's run is given, and what its result says."""

import pytest

from everwhen.core.dag_data import Context, DataError, holds, resolve
from everwhen.core.dag_graph import make_workflow
from everwhen.core.dag_json import parse_workflow
from everwhen.core.dag_opening import (
    NotOpened,
    Opened,
    OpenedEach,
    fan_out_state,
    instance_id,
    next_instances,
    open_instance,
    open_node,
    parse_instance,
    read_end,
)
from everwhen.core.dag_values import Each, EmptyItems, Node, NodeState

CONTEXT = Context(
    run={"id": "r1", "nominal_at": "2027-03-28T02:30:00+01:00", "input": {"region": "eu", "list": [1, 2]}},
    results={"extract": {"files": [{"path": "a.csv"}, {"path": "b.csv"}], "count": 2, "a.b": [7], "none": None}},
    states={"extract": NodeState.SUCCEEDED, "other": NodeState.FAILED},
)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        (None, None),
        ({"a": [1, True, "x"]}, {"a": [1, True, "x"]}),
        ({"$ref": "extract.result.files.1.path"}, "b.csv"),
        ({"$ref": "extract.result"}, CONTEXT.results["extract"]),
        ({"$ref": ["extract", "result", "a.b", 0]}, 7),
        ({"$ref": "extract.result.none"}, None),
        ({"$ref": "extract.state"}, "succeeded"),
        ({"$ref": "other.state"}, "failed"),
        ({"$ref": "run.nominal_at"}, "2027-03-28T02:30:00+01:00"),
        ({"$ref": "run.input.list.0"}, 1),
        ({"$ref": "extract.result.x", "default": {"$ref": "as it is"}}, {"$ref": "as it is"}),
        ({"$ref": "other.result", "default": None}, None),
        ({"deep": [{"$ref": "extract.result.count"}]}, {"deep": [2]}),
        ({"$text": ["eu-", {"$ref": "extract.result.count"}, "-", 1.5, True]}, "eu-2-1.5true"),
        ({"$length": {"$ref": "extract.result.files"}}, 2),
        ({"$length": "four"}, 4),
        ({"$literal": {"$ref": "x"}}, {"$ref": "x"}),
    ],
)
def test_a_template(template, value):
    assert resolve(template, CONTEXT) == value


@pytest.mark.parametrize(
    ("template", "code", "said"),
    [
        ({"$ref": "extract.result.missing"}, "workflow.reference_missing", "'extract.result' has no 'missing'"),
        ({"$ref": "extract.result.files.2"}, "workflow.reference_missing", "has no '2'"),
        ({"$ref": "extract.result.files.-1"}, "workflow.reference_missing", "has no '-1'"),
        ({"$ref": "extract.result.files." + "9" * 5_000}, "workflow.reference_missing", "has no '999"),
        ({"$ref": "extract.result.count.x"}, "workflow.reference_missing", "'extract.result.count' has no 'x'"),
        ({"$ref": "other.result.x"}, "workflow.reference_missing", "'other' is failed"),
        ({"$ref": "nobody.result"}, "workflow.reference_missing", "no 'nobody'"),
        ({"$ref": "run.schedule"}, "workflow.reference_missing", "'run' has no 'schedule'"),
        ({"$ref": "item"}, "workflow.reference_missing", "item"),
        ({"$text": ["x", None]}, "workflow.operand", "null"),
        ({"$text": ["x" * 40_000, "y" * 40_000]}, "workflow.text_too_long", "65,536"),
        ({"$length": 5}, "workflow.operand", "5"),
    ],
)
def test_a_template_that_cannot_be_resolved_says_what_is_missing(template, code, said):
    with pytest.raises(DataError) as caught:
        resolve(template, CONTEXT)

    assert caught.value.code == code
    assert said in caught.value.message
    assert len(caught.value.message) < 500


COUNT = {"$ref": "extract.result.count"}
MISSING = {"$ref": "extract.result.missing"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (True, True),
        ({"==": [COUNT, 2]}, True),
        ({"==": [COUNT, 2.0]}, True),
        ({"==": [1, True]}, False),
        ({"==": [[1, {"a": True}], [1.0, {"a": True}]]}, True),
        ({"==": [[1], [True]]}, False),
        ({"==": [{"a": 1}, {"b": 1}]}, False),
        ({"==": [None, None]}, True),
        ({"==": ["1", 1]}, False),
        ({"!=": [COUNT, 2]}, False),
        ({"<": [COUNT, 3]}, True),
        ({"<=": [2, COUNT]}, True),
        ({">": ["b", "a"]}, True),
        ({">=": [1, 2]}, False),
        ({"in": ["eu", ["us", "eu"]]}, True),
        ({"in": [True, [1]]}, False),
        ({"in": ["b", "abc"]}, True),
        ({"in": ["region", {"$ref": "run.input"}]}, True),
        ({"and": [True, {"not": False}]}, True),
        ({"or": [False, {"==": [1, 2]}]}, False),
        ({"or": [True, MISSING]}, True),
        ({"exists": COUNT}, True),
        ({"exists": MISSING}, False),
        ({"exists": {**MISSING, "default": 1}}, False),
        ({"and": [{"exists": MISSING}, {"==": [MISSING, 1]}]}, False),
        ({"$ref": "extract.result.missing", "default": True}, True),
    ],
)
def test_a_condition(condition, expected):
    assert holds(condition, CONTEXT) is expected


@pytest.mark.parametrize(
    "condition",
    [{"<": [1, "2"]}, {"<": [True, 2]}, {">": [None, 1]}, {"in": [1, 5]}, {"in": [1, "abc"]}, COUNT, {"not": COUNT}],
)
def test_a_condition_over_other_kinds_is_an_error_and_not_false(condition):
    with pytest.raises(DataError) as caught:
        holds(condition, CONTEXT)

    assert caught.value.code == "workflow.operand"


def test_a_node_is_given_its_input_and_its_key():
    node = Node(id="load", input={"files": {"$ref": "extract.result.files"}}, concurrency_key=COUNT)

    assert open_node(node, CONTEXT) == Opened(
        input={"files": [{"path": "a.csv"}, {"path": "b.csv"}]}, concurrency_key="2"
    )


@pytest.mark.parametrize(
    ("node", "state", "code"),
    [
        (Node(id="n", condition={"==": [COUNT, 0]}), NodeState.SKIPPED, "workflow.condition"),
        (Node(id="n", condition={"==": [MISSING, 0]}), NodeState.FAILED, "workflow.reference_missing"),
        (Node(id="n", input=MISSING), NodeState.FAILED, "workflow.reference_missing"),
        (Node(id="n", input=[{"$text": ["x" * 60_000]}] * 2), NodeState.FAILED, "workflow.input_too_large"),
        (Node(id="n", concurrency_key={"$ref": "extract.result"}), NodeState.FAILED, "workflow.concurrency_key"),
        (Node(id="n", concurrency_key=""), NodeState.FAILED, "workflow.concurrency_key"),
        (Node(id="n", each=Each(items=COUNT)), NodeState.FAILED, "workflow.items"),
        (Node(id="n", each=Each(items=[1, 2, 3], max_items=2)), NodeState.FAILED, "workflow.too_many_items"),
        (Node(id="n", each=Each(items=[])), NodeState.SKIPPED, "workflow.no_items"),
        (Node(id="n", each=Each(items=[], empty=EmptyItems.SUCCEED)), NodeState.SUCCEEDED, "workflow.no_items"),
    ],
)
def test_a_node_that_does_not_run_after_all(node, state, code):
    found = open_node(node, CONTEXT)

    assert isinstance(found, NotOpened)
    assert (found.state, found.code) == (state, code)
    assert found.message


def test_a_fan_out_gives_each_instance_its_item():
    node = Node(
        id="t",
        each=Each(items={"$ref": "extract.result.files"}),
        input={"path": {"$ref": "item.path"}, "number": {"$ref": "index"}},
    )
    opened = open_node(node, CONTEXT)

    assert isinstance(opened, OpenedEach)
    assert [open_instance(node, CONTEXT, index=i, item=item) for i, item in enumerate(opened.items)] == [
        Opened(input={"path": "a.csv", "number": 0}),
        Opened(input={"path": "b.csv", "number": 1}),
    ]
    broken = open_instance(node, CONTEXT, index=0, item={})
    assert isinstance(broken, NotOpened)
    assert broken.state is NodeState.FAILED


def test_an_instance_has_a_name_that_leads_back():
    assert instance_id("t", 12) == "t[12]"
    assert parse_instance("t[12]") == ("t", 12)
    assert [parse_instance(name) for name in ("t", "t[]", "t[01]", "t[-1]", "[1]", "t[1]x")] == [None] * 6


@pytest.mark.parametrize(
    ("released", "in_flight", "max_parallel", "expected"),
    [
        (0, 0, None, range(5)),
        (0, 0, 2, range(2)),
        (2, 1, 2, range(2, 3)),
        (4, 0, 9, range(4, 5)),
        (2, 3, 2, range(2, 2)),
    ],
)
def test_instances_are_released_in_order_and_no_more_than_allowed(released, in_flight, max_parallel, expected):
    assert list(next_instances(total=5, released=released, in_flight=in_flight, max_parallel=max_parallel)) == list(
        expected
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({NodeState.SUCCEEDED: 2}, None),
        ({NodeState.SUCCEEDED: 2, NodeState.RUNNING: 1}, None),
        ({NodeState.SUCCEEDED: 3}, NodeState.SUCCEEDED),
        ({NodeState.SUCCEEDED: 2, NodeState.SKIPPED: 1}, NodeState.SUCCEEDED),
        ({NodeState.SKIPPED: 3}, NodeState.SKIPPED),
        ({NodeState.SUCCEEDED: 2, NodeState.FAILED: 1}, NodeState.FAILED),
        ({NodeState.CANCELLED: 2, NodeState.FAILED: 1}, NodeState.FAILED),
        ({NodeState.CANCELLED: 2, NodeState.EXPIRED: 1}, NodeState.FAILED),
        ({NodeState.CANCELLED: 1, NodeState.SUCCEEDED: 2}, NodeState.CANCELLED),
    ],
)
def test_a_fan_out_is_one_node_to_its_downstream(counts, expected):
    assert fan_out_state(counts, total=3) is expected


BRANCHED = make_workflow(
    [Node(id="a", is_branch=True), Node(id="b", needs=("a",)), Node(id="c", needs=("a",)), Node(id="d", needs=("b",))]
)


@pytest.mark.parametrize(
    ("result", "taken"),
    [
        ("b", {"b"}),
        (["b", "c"], {"b", "c"}),
        ([], set()),
        ({"$branch": "c", "rows": 5}, {"c"}),
        ({"$branch": ["b"]}, {"b"}),
    ],
)
def test_a_branch_names_what_to_take(result, taken):
    end, error = read_end(BRANCHED, "a", NodeState.SUCCEEDED, result)

    assert (end.state, end.taken, error) == (NodeState.SUCCEEDED, taken, None)


@pytest.mark.parametrize("result", [None, 5, {"rows": 5}, {"$branch": 1}, ["b", 1], "d", "a", ["nobody"]])
def test_a_branch_whose_result_names_nothing_has_failed(result):
    end, error = read_end(BRANCHED, "a", NodeState.SUCCEEDED, result)

    assert (end.state, end.taken) == (NodeState.FAILED, None)
    assert error is not None
    assert error.code == "workflow.branch"


def test_a_result_that_skips_makes_the_node_skipped_and_data_that_looks_like_it_does_not():
    def state(node, result, state=NodeState.SUCCEEDED):
        return read_end(BRANCHED, node, state, result)[0].state

    assert state("b", {"$skip": "nothing new"}) is NodeState.SKIPPED
    assert state("a", {"$skip": "nothing new"}) is NodeState.SKIPPED
    assert state("b", {"$skip": "nothing new", "rows": 0}) is NodeState.SUCCEEDED
    assert state("b", {"$branch": "d"}) is NodeState.SUCCEEDED
    assert state("b", {"$skip": "x"}, NodeState.FAILED) is NodeState.FAILED


def test_what_the_page_shows_is_a_definition():
    found = parse_workflow(
        {
            "nodes": [
                {"id": "extract", "task": "e"},
                {
                    "id": "load",
                    "task": "l",
                    "needs": ["extract"],
                    "condition": {
                        "and": [{"==": [{"$ref": "extract.state"}, "succeeded"]}, {">": [COUNT, 0]}],
                    },
                },
            ]
        }
    )

    assert holds(found.nodes[1].condition, CONTEXT)
