"""Every error as one problem (RFC 9457), in one table.

A problem says what is wrong, where, and whether the same request may succeed later. It never carries what the database
said: a constraint's name or a DETAIL line can show a neighbour's rows. What we did not foresee is logged with the
request's id, and the caller gets the id.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import psycopg
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, compile_path

from everwhen.core.errors import TriggerError
from everwhen.errors import (
    EverwhenError,
    FieldError,
    InvalidInput,
    PreconditionFailed,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from everwhen.http.hints import hint
from everwhen.postgres.errors import IndeterminateCommitError
from everwhen.roles import OUTAGE

MEDIA_TYPE: Final = "application/problem+json"
DOCS: Final = "docs/reference/http.md"
MOST_ERRORS: Final = 20
REFUSED_BY: Final = "everwhen.refused_by"
"""The key in a request's scope of the error that was its answer."""

MOST_TEXT: Final = 500
"""What was sent may come back in an answer, but never all of it."""

_SPEC_FIELDS: Final = frozenset({"timezone", "gap", "fold", "trigger", "preset", "calendars", "effective_from"})
_CALENDAR: Final = "calendar."
_CALENDAR_FIELDS: Final = frozenset({"calendars", "effective_from"})
_CODES: Final = {400: "request.bad", 404: "route.unknown", 405: "method.not_allowed"}
_FIELD_CODES: Final = {"missing": "field.missing", "extra_forbidden": "field.unknown"}
_PARAMETER: Final = re.compile(r"\{[^}]*\}")


def etag(revision: int) -> str:
    """Return the strong entity tag of a revision."""
    return f'"rev-{revision}"'


def problem_response(request: Request, error: EverwhenError) -> Response:
    """Return the answer for an error of ours; the edge is left what it was, for the audit."""
    request.scope[REFUSED_BY] = error
    headers: dict[str, str] = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="everwhen"'
    if error.retryable:
        headers["Retry-After"] = str(error.retry_after)
    body: dict[str, Any] = {
        "type": f"urn:everwhen:problem:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": _cut(error.detail),
        "code": error.code,
        "errors": [
            {"code": e.code, "pointer": _cut(e.pointer), "detail": _cut(e.detail)} for e in error.errors[:MOST_ERRORS]
        ],
        "request_id": request_id_of(request),
        "retryable": error.retryable,
        "docs": f"{DOCS}#{error.code.partition('.')[0]}",
    }
    body = {**error.told, **body}
    if isinstance(error, PreconditionFailed) and "revision" in error.told:
        headers["ETag"] = etag(error.told["revision"])
    return Response(json.dumps(body), status_code=error.status, headers=headers, media_type=MEDIA_TYPE)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


def request_id_of(request: Request) -> str:
    """Return the id that the edge gave this request."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def install(app: FastAPI) -> None:
    """Answer every kind of exception with a problem."""
    app.add_exception_handler(EverwhenError, _on_everwhen_error)
    app.add_exception_handler(TriggerError, _on_trigger_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    for kind in (kind for kind in OUTAGE if issubclass(kind, psycopg.Error)):
        app.add_exception_handler(kind, _on_database_error)


def trigger_problem(error: TriggerError) -> InvalidInput:
    """Blame the field of the body that a trigger's error names."""
    if error.code.startswith(_CALENDAR) and error.field not in _CALENDAR_FIELDS:
        pointer = f"/definition/{error.field}".rstrip("/")
        return InvalidInput.at(pointer, error.message, code=error.code)
    pointer = f"/{error.field}" if error.field in _SPEC_FIELDS else f"/trigger/{error.field.replace('~', '~0')}"
    return InvalidInput.at(pointer, error.message, code=error.code)


async def _on_everwhen_error(request: Request, error: Exception) -> Response:
    return problem_response(request, cast("EverwhenError", error))


async def _on_trigger_error(request: Request, error: Exception) -> Response:
    return problem_response(request, trigger_problem(cast("TriggerError", error)))


async def _on_database_error(request: Request, error: Exception) -> Response:
    if isinstance(error, IndeterminateCommitError):
        detail = "The outcome is unknown: look, or repeat the request with the same idempotency key."
        return problem_response(request, Unavailable(detail, code="commit.unknown"))
    return problem_response(request, Unavailable("The database is away; try again.", code="database.unavailable"))


def field_errors(
    errors: Sequence[Mapping[str, Any]], body: object, *, model: type[BaseModel] | None
) -> tuple[FieldError, ...]:
    """Return what is wrong with a body of a model; `errors` as the model's validation tells them."""
    return tuple(_field_error({**found, "loc": ("body", *found["loc"])}, body, model) for found in errors)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    invalid = cast("RequestValidationError", error)
    model = _model_of(request)
    fields = tuple(_field_error(found, invalid.body, model) for found in invalid.errors())
    first = fields[0]
    return problem_response(request, InvalidInput(f"{first.pointer or 'body'}: {first.detail}", errors=fields))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    raised = cast("HTTPException", error)
    if raised.status_code == TooLarge.status:
        return problem_response(request, TooLarge())
    problem = EverwhenError(str(raised.detail), code=_CODES.get(raised.status_code, "request.refused"))
    problem.status, problem.title = raised.status_code, str(raised.detail)
    response = problem_response(request, problem)
    response.headers.update(raised.headers or {})
    if raised.status_code == 405:
        response.headers["Allow"] = ", ".join(allowed_methods(request.app, request.url.path))
    return response


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """Return every method that the document names for this path; the framework names the first route's only.

    Where several patterns fit, the one with the fewest parameters is meant, as OpenAPI has it.
    """
    fitting = [
        (len(_PARAMETER.findall(template)), methods)
        for template, methods in routes_of(app).items()
        if compile_path(_PARAMETER.sub(_plain_parameter, template))[0].match(path)
    ]
    fewest = min((parameters for parameters, _ in fitting), default=0)
    return sorted({method for parameters, methods in fitting if parameters == fewest for method in methods})


def routes_of(app: FastAPI) -> dict[str, set[str]]:
    """Return path template -> methods, of documented routes and of plain ones."""
    found: dict[str, set[str]] = {
        path: {method.upper() for method in operations} for path, operations in app.openapi()["paths"].items()
    }
    for route in app.routes:
        if isinstance(route, Route):
            found.setdefault(route.path, set()).update(route.methods or ())
    return found


def _plain_parameter(found: re.Match[str]) -> str:
    return found[0].split(":")[0].rstrip("}") + "}"


def _field_error(found: Mapping[str, Any], body: object, model: type[BaseModel] | None) -> FieldError:
    kind, location = str(found["type"]), tuple(found["loc"])
    detail = str(found["msg"]).removeprefix("Value error, ")
    if kind == "extra_forbidden" and model is not None and (near := hint(model, location[1:])):
        detail = f"There is no such field: {near}"
    return FieldError(code=_FIELD_CODES.get(kind, "field.invalid"), pointer=_pointer(location, body), detail=detail)


def _model_of(request: Request) -> type[BaseModel] | None:
    """Return the model of the body that the request's route takes."""
    field = getattr(request.scope.get("route"), "body_field", None)
    found = getattr(getattr(field, "field_info", None), "annotation", None)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _pointer(location: Sequence[str | int], body: object) -> str:
    """Return an RFC 6901 pointer into the body, or `query:name`, `path:name`, `header:name`."""
    where, *steps = location
    if where != "body":
        return f"{where}:{'.'.join(map(str, steps))}"
    pointer, at = "", body
    for index, step in enumerate(steps):
        if isinstance(at, dict) and index < len(steps) - 1 and (step not in at or _inside(at, "kind") == step):
            continue  # the tag of a union, which is no level of the body
        pointer += f"/{_escaped(str(step))}"
        at = _inside(cast("Any", at), step)
    return pointer


def _inside(at: Any, step: str | int) -> object:
    if isinstance(at, dict):
        return cast("dict[object, object]", at).get(step)
    if isinstance(at, list) and isinstance(step, int) and step < len(cast("list[object]", at)):
        return cast("list[object]", at)[step]
    return None


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
