"""The OpenAPI document and the routes are one thing, and the copy in the docs is current."""

import re

import pytest
from fastapi.routing import APIRoute

from everwhen.http.edge import OPEN_PATHS
from everwhen.http.uploads import UploadRoute
from tests.contracts.openapi_snapshot import FILE, app_for_its_document, rendered
from tests.people import ROUTERS, client_of, token_of

APP = app_for_its_document()
DOCUMENT = APP.openapi()
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
NAMES = [f"{method} {path}" for method, path, _ in OPERATIONS]


def test_the_copy_in_the_docs_is_current():
    assert FILE.read_text(encoding="utf-8") == rendered(), "run `python -m tests.contracts.openapi_snapshot`"


def test_every_route_is_documented_and_nothing_else():
    routed = {(method, route.path) for router in ROUTERS for route in router.routes for method in route.methods}

    assert all(isinstance(route, APIRoute) for router in ROUTERS for route in router.routes)
    assert routed == {(method, path) for method, path, _ in OPERATIONS if path not in OPEN_PATHS}


def test_every_router_reads_bodies_strictly():
    assert {router.route_class.__name__ for router in ROUTERS} == {"ControlRoute", "UploadRoute"}


def test_a_router_of_uploads_has_no_body_that_the_framework_would_read():
    uploads = [route for router in ROUTERS if router.route_class is UploadRoute for route in router.routes]

    assert uploads
    assert all(route.body_field is None for route in uploads)


def test_operation_ids_are_unique_and_every_operation_says_what_it_does():
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]

    assert len(ids) == len(set(ids))
    assert all(operation["description"] for _, _, operation in OPERATIONS)


def test_every_schema_has_a_name_of_its_own():
    """Two wire classes of one name would be told apart by their modules: no name for a generated client."""
    assert [name for name in DOCUMENT["components"]["schemas"] if "__" in name] == []


def test_the_version_is_3_1_and_every_reference_leads_somewhere():
    assert DOCUMENT["openapi"] == "3.1.0"
    for reference in set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', rendered())):
        assert reference in DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=NAMES)
def test_every_error_of_an_operation_is_a_problem(method, path, operation):
    errors = {status: response for status, response in operation["responses"].items() if status >= "400"}

    if path not in OPEN_PATHS:
        assert {"401", "403", "404", "503"} <= set(errors)
        assert operation["security"] == [{"bearer": []}, {"session": []}]
    if "requestBody" in operation:
        assert {"413", "415", "422"} <= set(errors)
    for response in errors.values():
        assert list(response["content"]) == ["application/problem+json"]


def test_requests_refuse_what_they_do_not_know():
    for _, _, operation in OPERATIONS:
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        for reference in re.findall(r"#/components/schemas/(\w+)", str(body)):
            assert DOCUMENT["components"]["schemas"][reference]["additionalProperties"] is False, reference


async def test_the_document_itself_needs_a_token():
    async with client_of(APP) as stranger, client_of(APP, token_of("viewer")) as known:
        assert (await stranger.get("/v1/openapi.json")).status_code == 401
        assert (await known.get("/v1/openapi.json")).json() == DOCUMENT


# What changes a thing without naming its revision: it never changes otherwise, or the last word is meant to hold.
WITHOUT_REVISIONS = {
    "end_session",
    "revoke_token",
    "delete_payload",
    "change_service_task",
    "set_service_task_status",
    "delete_service_task",
}


def test_whatever_changes_a_thing_names_its_revision():
    without = {
        operation["operationId"]
        for method, _, operation in OPERATIONS
        if method in {"PUT", "PATCH", "DELETE"}
        and not any(each["name"] == "If-Match" for each in operation.get("parameters", ()))
    }

    assert without == WITHOUT_REVISIONS
