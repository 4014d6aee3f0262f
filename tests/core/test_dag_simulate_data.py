"""Whole definitions through the simulator: data is played with scripted results."""

import json

import pytest

from everwhen.cli.workflow_simulate import answer
from tests.core.test_dag_json import FULL


def asked(nodes, **fields):
    return answer(json.dumps({"nodes": [{"task": "t", **node} for node in nodes], **fields}).encode())


def states(nodes, **fields):
    return {node: found["state"] for node, found in asked(nodes, **fields)["nodes"].items()}


EXTRACT = {"id": "extract", "result": {"count": 2, "files": ["a", "b", "c"]}}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"==": [{"$ref": "extract.result.count"}, 2]}, ("success", 1)),
        ({"==": [{"$ref": "extract.result.count"}, 3]}, ("skipped", 0)),
        ({"==": [{"$ref": "extract.result.missing"}, 3]}, ("failed", 0)),
        ({"==": [{"$ref": "run.input.region"}, "eu"]}, ("success", 1)),
    ],
)
def test_a_condition_is_looked_at(condition, expected):
    load = {"id": "load", "needs": ["extract"], "condition": condition}
    found = asked([EXTRACT, load], run={"input": {"region": "eu"}})["nodes"]["load"]

    assert (found["state"], found["attempts"]) == expected
    assert found["end"] == (2 if expected[1] else 1)


def test_a_node_that_is_skipped_by_its_condition_skips_what_follows():
    skipped = {"id": "a", "condition": False}
    after = [{"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"], "rule": "all_done"}]

    assert states([skipped, *after]) == {"a": "skipped", "b": "skipped", "c": "success"}


def test_an_input_that_lacks_its_data_fails_the_node():
    load = {"id": "load", "needs": ["extract"], "input": {"$ref": "extract.result.rows"}}

    assert states([EXTRACT, load]) == {"extract": "success", "load": "failed"}


def test_a_result_chooses_branches_and_skips_its_node():
    nodes = [
        {"id": "choose", "branch": True, "result": {"$branch": "left"}},
        {"id": "left", "needs": ["choose"], "result": {"$skip": "nothing new"}},
        {"id": "right", "needs": ["choose"]},
    ]

    assert states(nodes) == {"choose": "success", "left": "skipped", "right": "skipped"}
    nodes[0]["result"] = "nobody"
    assert states(nodes) == {"choose": "failed", "left": "upstream_failed", "right": "upstream_failed"}


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ({"items": {"$ref": "extract.result.files"}}, ("success", 1, 3)),
        ({"items": {"$ref": "extract.result.files"}, "max_parallel": 2}, ("success", 1, 5)),
        ({"items": []}, ("skipped", None, 1)),
        ({"items": [], "empty": "succeed"}, ("success", None, 1)),
        ({"items": {"$ref": "extract.result.count"}}, ("failed", None, 1)),
        ({"items": [1, 2, 3], "max_items": 2}, ("failed", None, 1)),
        ({"items": [{"x": 1}, {}]}, ("failed", 1, 3)),
    ],
)
def test_a_fan_out_is_one_node_that_takes_as_long_as_its_instances(each, expected):
    given = {"$ref": "item"} if each["items"] != [{"x": 1}, {}] else {"$ref": "item.x"}
    fan = {"id": "t", "needs": ["extract"], "each": each, "input": given, "duration": 2}
    found = asked([EXTRACT, fan])["nodes"]["t"]

    assert (found["state"], found["start"], found["end"]) == expected


def test_a_definition_is_played_as_it_stands():
    nodes = [{**node, "result": {"files": [{"path": "a", "customer": 1}]}} for node in FULL["nodes"]]
    nodes[0]["result"]["$branch"] = ["transform"]
    found = answer(json.dumps({**FULL, "nodes": nodes, "run": {"nominal_at": "2027-03-28", "input": 1}}).encode())

    assert {node: value["state"] for node, value in found["nodes"].items()} == {
        "extract": "success",
        "transform": "success",
        "report": "skipped",
        "load": "success",
        "clean": "success",
    }


def test_a_retry_policy_says_how_often_unless_the_script_does():
    retried = {"id": "a", "retry": {"max_attempts": 3}, "outcome": ["failed", "failed", "success"]}

    assert asked([retried])["nodes"]["a"]["attempts"] == 3
    assert states([{**retried, "max_attempts": 2}]) == {"a": "failed"}


@pytest.mark.parametrize(
    ("nodes", "fields", "code", "pointer"),
    [
        ([{"id": "a", "need": []}], {}, "workflow.unknown_field", "/nodes/0/need"),
        ([{"id": "a", "input": {"$ref": "b.result"}}], {}, "workflow.unknown_node", "/nodes/0/input/$ref"),
        ([{"id": "a", "outcome": "fine"}], {}, "workflow.outcome", "/nodes/0/outcome"),
        ([{"id": "a"}], {"run": "success"}, "workflow.type", "/run"),
        ([{"id": "a"}], {"run": {"secret": 1}}, "workflow.unknown_field", "/run/secret"),
    ],
)
def test_a_definition_is_checked_as_the_api_would(nodes, fields, code, pointer):
    error = asked(nodes, **fields)["error"]

    assert (error["code"], error["pointer"]) == (code, pointer)


def test_what_is_no_object_among_nodes_is_pointed_at():
    error = answer(b'{"nodes": [{"id": "a", "task": "t"}, 5]}')["error"]

    assert (error["code"], error["pointer"]) == ("workflow.type", "/nodes/1")
