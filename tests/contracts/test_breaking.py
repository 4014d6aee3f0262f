"""The document keeps what the latest release said, and whatever would break it is named, each kind of it."""

import copy
from datetime import date

import pytest

from everwhen import clock
from tests.contracts.breaking import breaking
from tests.contracts.openapi_released import bare, released
from tests.contracts.openapi_snapshot import app_for_its_document

DAY = date(2031, 5, 1)
TASK = {
    "type": "object",
    "required": ["name", "state"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "maxLength": 200},
        "state": {"enum": ["active", "paused"]},
        "priority": {"anyOf": [{"type": "integer", "maximum": 9}, {"type": "null"}], "default": 5},
        "tags": {"type": "array", "items": {"type": "string"}},
        "parent": {"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "null"}]},
        "trigger": {
            "oneOf": [{"$ref": "#/components/schemas/Cron"}, {"$ref": "#/components/schemas/Every"}],
            "discriminator": {
                "propertyName": "kind",
                "mapping": {"cron": "#/components/schemas/Cron", "every": "#/components/schemas/Every"},
            },
        },
    },
}
CRON = {"type": "object", "properties": {"kind": {"const": "cron"}, "expr": {"type": "string"}}}
EVERY = {
    "type": "object",
    "properties": {"kind": {"const": "every"}, "labels": {"additionalProperties": {"type": "string"}}},
}
OUT = copy.deepcopy({**TASK, "additionalProperties": True})
OUT["properties"]["parent"]["anyOf"][0]["$ref"] = "#/components/schemas/TaskOut"
del OUT["properties"]["trigger"]
JSON = "application/json"
DOCUMENT = {
    "paths": {
        "/tasks": {
            "get": {
                "operationId": "list_tasks",
                "parameters": [{"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 100}}],
                "responses": {
                    "200": {
                        "headers": {"ETag": {}},
                        "content": {JSON: {"schema": {"$ref": "#/components/schemas/TaskOut"}}},
                    },
                    "404": {},
                },
            },
            "put": {
                "operationId": "put_task",
                "requestBody": {"content": {JSON: {"schema": {"$ref": "#/components/schemas/Task"}}}},
                "responses": {"200": {}},
            },
        }
    },
    "components": {"schemas": {"Task": TASK, "TaskOut": OUT, "Cron": CRON, "Every": EVERY}},
}


def changed(change):
    document = copy.deepcopy(DOCUMENT)
    schemas = document["components"]["schemas"]
    change(document["paths"]["/tasks"], schemas["Task"], schemas["TaskOut"], schemas)
    return document


def kinds(old, new, today=DAY):
    return {each.kind for each in breaking(old, new, today=today)}


def drop(holder, key):
    del holder[key]


BREAKS = {
    "an operation": ("operation gone", lambda ops, *_: drop(ops, "put")),
    "its id": ("operation renamed", lambda ops, *_: ops["put"].update(operationId="set_task")),
    "a parameter": ("parameter gone", lambda ops, *_: ops["get"]["parameters"].pop()),
    "a parameter becomes required": (
        "parameter required",
        lambda ops, *_: ops["get"]["parameters"][0].update(required=True),
    ),
    "a required one comes": (
        "parameter required",
        lambda ops, *_: ops["get"]["parameters"].append({"in": "query", "name": "new", "required": True}),
    ),
    "a bound of a parameter": (
        "type narrowed",
        lambda ops, *_: ops["get"]["parameters"][0]["schema"].update(maximum=50),
    ),
    "a lower bound comes": ("type narrowed", lambda ops, *_: ops["get"]["parameters"][0]["schema"].update(minimum=1)),
    "a pattern comes": ("type narrowed", lambda _, task, *__: task["properties"]["name"].update(pattern="^a")),
    "the type of a parameter": (
        "type gone",
        lambda ops, *_: ops["get"]["parameters"][0].update(schema={"type": "boolean"}),
    ),
    "a body": ("body gone", lambda ops, *_: drop(ops["put"], "requestBody")),
    "a body becomes required": ("body required", lambda ops, *_: ops["put"]["requestBody"].update(required=True)),
    "a type of content": (
        "type of content gone",
        lambda ops, *_: ops["put"]["requestBody"].update(content={"text/plain": {}}),
    ),
    "a status": ("status gone", lambda ops, *_: drop(ops["get"]["responses"], "404")),
    "a status of success comes": ("status new", lambda ops, *_: ops["get"]["responses"].update({"202": {}})),
    "a header of an answer": ("header gone", lambda ops, *_: drop(ops["get"]["responses"]["200"], "headers")),
    "a field of a request": ("field gone", lambda _, task, *__: drop(task["properties"], "tags")),
    "a field of a request becomes required": ("field required", lambda _, task, *__: task["required"].append("tags")),
    "a value of a request": ("value gone", lambda _, task, *__: task["properties"]["state"]["enum"].remove("paused")),
    "values of a request come": ("type narrowed", lambda _, task, *__: task["properties"]["name"].update(enum=["a"])),
    "null of a request": ("type gone", lambda _, task, *__: task["properties"]["priority"]["anyOf"].pop()),
    "a bound inside a union": (
        "type narrowed",
        lambda _, task, *__: task["properties"]["priority"]["anyOf"][0].update(maximum=5),
    ),
    "the items of a request": (
        "type gone",
        lambda _, task, *__: task["properties"]["tags"]["items"].update(type="integer"),
    ),
    "a default": ("default changed", lambda _, task, *__: task["properties"]["priority"].update(default=6)),
    "a kind of a union": (
        "value gone",
        lambda _, task, *__: drop(task["properties"]["trigger"]["discriminator"]["mapping"], "every"),
    ),
    "a field of a kind": ("field gone", lambda _, __, ___, schemas: drop(schemas["Cron"]["properties"], "expr")),
    "values of fields without names": (
        "type gone",
        lambda _, __, ___, schemas: schemas["Every"]["properties"]["labels"]["additionalProperties"].update(
            type="null"
        ),
    ),
    "fields of any name": (
        "type narrowed",
        lambda _, __, ___, schemas: schemas["Cron"].update(additionalProperties=False),
    ),
    "a field of an answer": ("field gone", lambda _, __, out, ___: drop(out["properties"], "tags")),
    "a field of an answer may be left out": (
        "field not always there",
        lambda _, __, out, ___: out["required"].remove("name"),
    ),
    "a value of an answer": ("value gone", lambda _, __, out, ___: out["properties"]["state"]["enum"].remove("paused")),
    "any value in an answer": (
        "type widened",
        lambda _, __, out, ___: out["properties"].update(state={"type": "string"}),
    ),
    "null in an answer": (
        "type new",
        lambda _, __, out, ___: out["properties"]["name"].update(type=["string", "null"]),
    ),
    "items of an answer": ("type widened", lambda _, __, out, ___: drop(out["properties"]["tags"], "items")),
}
HARMLESS = {
    "an operation comes": lambda ops, *_: ops.update(post=ops["put"]),
    "a parameter comes": lambda ops, *_: ops["get"]["parameters"].append({"in": "query", "name": "new", "schema": {}}),
    "a bound is raised": lambda ops, *_: ops["get"]["parameters"][0]["schema"].update(maximum=200),
    "a bound goes": lambda _, task, *__: drop(task["properties"]["name"], "maxLength"),
    "an error comes": lambda ops, *_: ops["get"]["responses"].update({"409": {}}),
    "a field of a request comes": lambda _, task, *__: task["properties"].update(new={"type": "string"}),
    "a field is no longer required": lambda _, task, *__: task["required"].remove("name"),
    "a number where an integer was": lambda _, task, *__: task["properties"]["priority"]["anyOf"][0].update(
        type="number"
    ),
    "a field of an answer comes": lambda _, __, out, ___: out["properties"].update(new={"type": "string"}),
    "a value of an answer comes": lambda _, __, out, ___: out["properties"]["state"]["enum"].append("archived"),
    "an answer is never null": lambda _, __, out, ___: out["properties"]["priority"]["anyOf"].pop(),
    "words change": lambda ops, task, *_: (ops["get"].update(description="other"), task.update(title="other")),
}


def test_the_document_breaks_nothing_that_the_latest_release_said():
    found = breaking(released(), app_for_its_document().openapi(), today=clock.process_now().date())

    assert [str(each) for each in found] == [], "deprecate first: docs/concepts/deprecation.md"


def test_the_copy_of_the_release_says_all_that_is_compared():
    document = app_for_its_document().openapi()

    assert breaking(document, bare(document), today=DAY) == breaking(bare(document), document, today=DAY) == []
    assert bare(bare(document)) == bare(document)
    assert released()["paths"]


@pytest.mark.parametrize("what", BREAKS)
def test_what_breaks_a_client_is_named(what):
    kind, change = BREAKS[what]

    assert kinds(DOCUMENT, changed(change)) == {kind}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_may_change_is_passed(what):
    assert breaking(DOCUMENT, changed(HARMLESS[what]), today=DAY) == []


def test_a_break_says_where_it_is():
    new = changed(lambda _, task, *__: drop(task["properties"], "tags"))

    assert {str(each) for each in breaking(DOCUMENT, new, today=DAY)} >= {"PUT /tasks body: field gone: tags"}


def sunsetting(sunset, since="2030-04-01"):
    going = {"deprecated": True, "x-deprecated-since": since, "x-sunset": sunset}
    return changed(lambda ops, *_: ops["put"].update(going))


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        (DOCUMENT, {"operation gone"}),
        (sunsetting("2031-05-02"), {"operation gone"}),
        (sunsetting("2031-05-01"), set()),
    ],
    ids=["never deprecated", "a day before its sunset", "on its sunset"],
)
def test_only_what_was_deprecated_and_has_had_its_sunset_may_go(old, expected):
    assert kinds(old, changed(lambda ops, *_: drop(ops, "put"))) == expected


@pytest.mark.parametrize(
    ("sunset", "since", "expected"),
    [
        ("2031-04-01", "2030-04-01", set()),
        ("2031-03-31", "2030-04-01", {"sunset too early"}),
        ("2031-04-01", None, {"deprecated without its days"}),
        (None, "2030-04-01", {"deprecated without its days"}),
    ],
)
def test_a_deprecation_leaves_a_year(sunset, since, expected):
    new = sunsetting(sunset, since)
    put = new["paths"]["/tasks"]["put"]
    new["paths"]["/tasks"]["put"] = {key: value for key, value in put.items() if value is not None}

    assert kinds(DOCUMENT, new) == expected


def test_a_sunset_is_not_brought_forward():
    assert kinds(sunsetting("2032-01-01"), sunsetting("2031-12-31")) == {"sunset brought forward"}
