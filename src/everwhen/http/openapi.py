"""The OpenAPI 3.1 document: the framework's, with our errors and our tokens in place of its defaults."""

# the tenant in the path is read by the dependency that grants access

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts

from everwhen.http.bodies import ControlRoute
from everwhen.http.deprecation import document_age
from everwhen.http.problems import MEDIA_TYPE
from everwhen.http.roles import Permission
from everwhen.http.sessions import COOKIE, CSRF_HEADER

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "An error (RFC 9457). `code` is stable; `retryable`: the same request may succeed later.",
    "required": ["type", "title", "status", "detail", "code", "errors", "request_id", "retryable", "docs"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "errors": {"type": "array", "items": {"$ref": "#/components/schemas/ProblemField"}},
        "request_id": {"type": "string"},
        "retryable": {"type": "boolean"},
        "docs": {"type": "string"},
    },
}
_PROBLEM_FIELD: Final[dict[str, Any]] = {
    "type": "object",
    "description": "One wrong field: a JSON pointer into the body, or `query:`, `path:` or `header:` and a name.",
    "required": ["code", "pointer", "detail"],
    "properties": {"code": {"type": "string"}, "pointer": {"type": "string"}, "detail": {"type": "string"}},
}
_ANSWER: Final[dict[str, Any]] = {
    "description": "An error",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_DRY_RUN: Final[dict[str, Any]] = {
    "name": "dry_run",
    "in": "query",
    "required": False,
    "schema": {"type": "boolean", "default": False},
    "description": "Answer as if it were done, with `Dry-Run: true`, and keep nothing of it.",
}
_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"},
    "description": "The same for a repeated request, which answers as the first one did, with `Idempotency-Replayed`.",
}
_SCHEMES: Final[dict[str, Any]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A JWT, or a service token."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": f"A session of the console; with `{CSRF_HEADER}` where something changes.",
    },
}
_ALWAYS: Final = ("401", "403", "404", "429", "503")
_WITH_INPUT: Final = ("422",)
_WITH_BODY: Final = ("413", "415")
_OF_CHANGES: Final = ("412", "428")
_TAG: Final[dict[str, Any]] = {
    "ETag": {"schema": {"type": "string"}, "description": 'The revision, such as `"rev-17"`; see `If-Match`.'}
}


def document(app: FastAPI, *, open_paths: frozenset[str], permissions: Mapping[str, Permission]) -> dict[str, Any]:
    """Build the document once; `x-permission` says what an operation needs, by `permissions`."""
    made = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, openapi_version="3.1.0"
    )
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas |= {"Problem": _PROBLEM, "ProblemField": _PROBLEM_FIELD}
    made["components"]["securitySchemes"] = _SCHEMES
    _add_manners(app, made["paths"])
    for path, operations in made["paths"].items():
        is_tagged = any(_takes(operation, "If-Match") for operation in operations.values())
        for operation in operations.values():
            _complete(operation, is_open=path in open_paths)
            if is_tagged:
                _tag(operation)
            if operation["operationId"] in permissions:
                operation["x-permission"] = permissions[operation["operationId"]]
    return made


def _add_manners(app: FastAPI, paths: dict[str, Any]) -> None:
    """Say which operations can be tried, and which can be repeated under a key."""
    for route in (each.original_route for each in iter_route_contexts(app.routes)):
        if not isinstance(route, ControlRoute):
            continue
        for method in route.methods or ():
            operation = paths[route.path_format][method.lower()]
            document_age(route.endpoint, operation)
            given: list[dict[str, Any]] = operation.setdefault("parameters", [])
            if route.manner.tries:
                given.append(_DRY_RUN)
            if route.manner.keyed:
                given.append({**_KEY, "required": route.manner.needs_key})
                operation["responses"].setdefault("409", {"description": "A request with this key is under way"})
            if not given:
                del operation["parameters"]


def _complete(operation: dict[str, Any], *, is_open: bool) -> None:
    responses: dict[str, Any] = operation["responses"]
    responses.pop("422", None)
    if not is_open:
        operation["security"] = [{"bearer": []}, {"session": []}]
    for status in () if is_open else _statuses(operation):
        responses.setdefault(status, _ANSWER)
    for status, response in responses.items():
        if int(status) >= 400:
            response.setdefault("content", _ANSWER["content"])


def _statuses(operation: dict[str, Any]) -> list[str]:
    statuses = [*_ALWAYS, *(_WITH_BODY if "requestBody" in operation else ())]
    statuses += _OF_CHANGES if _takes(operation, "If-Match") else ()
    return statuses + list(_WITH_INPUT if "requestBody" in operation or operation.get("parameters") else ())


def _tag(operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        if status in {"200", "201"}:
            response["headers"] = response.get("headers", {}) | _TAG


def _takes(operation: dict[str, Any], header: str) -> bool:
    return any(each["in"] == "header" and each["name"] == header for each in operation.get("parameters", ()))
