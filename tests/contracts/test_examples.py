"""The examples of the OpenAPI document: each operation has them, and they are what a server is asked and answers."""

import copy
import json

import jsonschema_rs
import pytest

from everwhen.http.edge import OPEN_PATHS
from everwhen.http.openapi import PROBLEMS, problem_example
from tests.contracts import openapi_examples
from tests.contracts.openapi_examples import FILE, JSON, converse, likeness, paths_of, unlike
from tests.contracts.openapi_snapshot import app_for_its_document
from tests.contracts.test_isolation import app_with_payloads
from tests.people import client_of

pytestmark = pytest.mark.timeout(300)

APP = app_for_its_document()
DOCUMENT = APP.openapi()
OPERATIONS = {each["operationId"]: each for methods in DOCUMENT["paths"].values() for each in methods.values()}
KEPT = json.loads(FILE.read_text("utf-8"))
RECORD = "run `python -m tests.contracts.openapi_examples`"


def test_every_operation_has_an_example_and_no_other_has_one():
    assert set(KEPT) == set(OPERATIONS), RECORD


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_document_shows_what_is_asked_and_answered(name):
    operation, kept = OPERATIONS[name], KEPT[name]
    shown = {each["name"] for each in operation.get("parameters", ()) if "example" in each}
    bodies = [content.get("example") for content in operation.get("requestBody", {}).get("content", {}).values()]
    answer = operation["responses"][str(kept["status"])].get("content", {})

    assert kept["status"] < 300
    assert shown >= {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
    assert all(body == kept.get("request") for body in bodies)
    for kind, content in answer.items():
        assert "example" in content
        assert content["example"] == kept.get("response") or kind == "text/event-stream"  # it shows one message
    for status, response in operation["responses"].items():
        if status >= "400":
            shown = response["content"]["application/problem+json"]["examples"]["problem"]["$ref"].rpartition("/")[2]
            assert DOCUMENT["components"]["examples"][shown]["value"]["status"] == int(status)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_example_is_as_its_schemas_say(name):
    operation, kept = OPERATIONS[name], KEPT[name]
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)

    assert unlike(DOCUMENT, operation, kept["status"], kept.get("response")) == []
    if body is not None and "request" in kept:
        schema = {**body["schema"], "components": DOCUMENT["components"]}
        assert jsonschema_rs.Draft202012Validator(schema).is_valid(kept["request"])


@pytest.mark.parametrize("status", PROBLEMS)
def test_the_example_of_an_error_is_a_problem(status):
    schema = {"$ref": "#/components/schemas/Problem", "components": DOCUMENT["components"]}

    assert jsonschema_rs.Draft202012Validator(schema).is_valid(problem_example(status))


async def test_a_server_is_asked_the_examples_and_answers_as_it_says(database):
    said = await converse(database)
    wrong = []
    for name, exchange in said.items():
        kept = KEPT[name]
        if exchange.status != kept["status"]:
            wrong.append(f"{name}: {exchange.status} and not {kept['status']}: {exchange.response}")
        if likeness(exchange.request) != likeness(kept.get("request")):
            wrong.append(f"{name} is asked something else: {exchange.request}")
        wrong += [f"{name}: {text}" for text in unlike(DOCUMENT, OPERATIONS[name], exchange.status, exchange.response)]

    assert wrong == [], RECORD
    assert set(said) == set(OPERATIONS)


async def test_every_operation_refuses_a_stranger_as_its_example_says(database):
    app, wrong = app_with_payloads(database), []
    async with client_of(app) as stranger:
        for name, (method, path) in paths_of(app).items():
            if path in OPEN_PATHS:
                continue
            answer = await stranger.request(method, path.format(**KEPT[name].get("path", {})))
            told = answer.json() | {"request_id": problem_example("401")["request_id"]}
            wrong += [] if told == problem_example("401") else [f"{name}: {told}"]

    assert wrong == []


def test_an_answer_that_is_not_as_it_is_documented_is_found():
    kept = copy.deepcopy(KEPT["get_task"])
    kept["response"]["priority"] = "high"
    del kept["response"]["name"]

    assert len(unlike(DOCUMENT, OPERATIONS["get_task"], 200, kept["response"])) == 2
    assert unlike(DOCUMENT, OPERATIONS["get_task"], 299, kept["response"]) == ["the status 299 is not declared"]


def test_an_example_that_does_not_hold_is_recorded_again():
    operation, kept = OPERATIONS["create_task"], KEPT["create_task"]
    said = openapi_examples.Exchange(
        path=kept["path"], query={}, request=kept["request"], status=201, response=kept["response"]
    )

    assert openapi_examples.holds(DOCUMENT, operation, kept, said)
    for change in ({"status": 200}, {"request": {"name": "y"}}, {"response": {}}, {"path": {}}):
        assert not openapi_examples.holds(DOCUMENT, operation, kept | change, said), change
