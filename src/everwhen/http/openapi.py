"""The OpenAPI 3.1 document: the framework's, with our errors and our tokens in place of its defaults.

Its examples are a conversation that was had with a server (`examples.json`, which a test has again): each operation's
parameters, body and answer. An error's example says what its status says of every operation.
"""

# the tenant in the path is read by the dependency that grants access

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts

from everwhen.http.bodies import ControlRoute
from everwhen.http.deprecation import document_age
from everwhen.http.problems import DOCS, MEDIA_TYPE
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
PROBLEMS: Final[dict[str, tuple[str, str, str, str | None]]] = {
    "401": ("auth.required", "Authentication required", "A valid bearer token is needed.", None),
    "403": ("auth.role", "Forbidden", "This needs one of the roles operator, editor, admin.", None),
    "404": ("not_found", "Not found", "There is no such thing.", None),
    "409": ("conflict", "Conflict", "The state of the thing does not allow it.", None),
    "412": ("precondition.failed", "Precondition failed", "It is at revision 18 by now.", None),
    "413": ("body.too_large", "Body too large", "The body is larger than 1048576 bytes.", None),
    "415": ("body.media_type", "Unsupported media type", "Send the body as application/json.", None),
    "422": ("field.invalid", "Invalid input", "Input should be a valid string", "/name"),
    "428": ("precondition.required", "Precondition required", "Say in If-Match which revision you mean.", None),
    "429": ("rate.exceeded", "Too many requests", "More than 5000 in 10 s by the tenant: come back in 1 s.", None),
    "503": ("database.unavailable", "Service unavailable", "The database is away; try again.", None),
}
"""What an error of each status says: code, title, detail, and where the fault is."""

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
    made["components"]["examples"] = {f"Problem{status}": {"value": problem_example(status)} for status in PROBLEMS}
    _add_manners(app, made["paths"])
    examples: dict[str, Any] = json.loads((resources.files("everwhen.http") / "examples.json").read_text("utf-8"))
    for path, operations in made["paths"].items():
        is_tagged = any(_takes(operation, "If-Match") for operation in operations.values())
        for operation in operations.values():
            _complete(operation, is_open=path in open_paths)
            if is_tagged:
                _tag(operation)
            _exemplify(operation, examples.get(operation["operationId"]))
            if operation["operationId"] in permissions:
                operation["x-permission"] = permissions[operation["operationId"]]
    return made


def _exemplify(operation: dict[str, Any], example: dict[str, Any] | None) -> None:
    """Put an example into an operation's parameters, body, answer and errors."""
    for status, response in operation["responses"].items():
        if status in PROBLEMS:  # the framework's and ours are shared by operations
            shown = {"problem": {"$ref": f"#/components/examples/Problem{status}"}}
            content = {**response["content"][MEDIA_TYPE], "examples": shown}
            operation["responses"][status] = {**response, "content": {MEDIA_TYPE: content}}
    if example is None:
        return
    for parameter in operation.get("parameters", ()):
        given = example.get(parameter["in"], {})
        if parameter["name"] in given:
            parameter["example"] = given[parameter["name"]]
    bodies: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    for content in bodies.values():
        if "request" in example:
            content["example"] = example["request"]
    contents: dict[str, Any] = operation["responses"].get(str(example["status"]), {}).get("content", {})
    for content in contents.values():
        if "response" in example and "example" not in content:
            content["example"] = example["response"]


def problem_example(status: str) -> dict[str, Any]:
    """Return what an error of this status looks like."""
    code, title, detail, pointer = PROBLEMS[status]
    found = [] if pointer is None else [{"code": code, "pointer": pointer, "detail": detail}]
    return {
        "type": f"urn:everwhen:problem:{code}",
        "title": title,
        "status": int(status),
        "detail": detail,
        "code": code,
        "errors": found,
        "request_id": "req_01a2291506ff70daa75e79f816daceb5",
        "retryable": status in {"429", "503"},
        "docs": f"{DOCS}#{code.partition('.')[0]}",
    }


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
