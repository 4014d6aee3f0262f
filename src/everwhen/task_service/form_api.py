"""The task service over HTTP: posting and changing tasks, by forms that may have an executable in them.

A form is read as it arrives, in any order of its parts: the executable goes to the depot while it comes in, and becomes
a payload in the transaction that makes or changes the task. If that fails, nothing of it stays.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from everwhen.errors import InvalidInput
from everwhen.http.access import Access, OwnEditor
from everwhen.http.uploads import FORM, Form, UploadRoute
from everwhen.payloads.model import Staged
from everwhen.payloads.receiving import Announced, Arrivals
from everwhen.payloads.wire import BINARY, kept_name
from everwhen.task_service.api import ServiceTaskDetail, detail_out, service_of
from everwhen.task_service.model import Wish

router = APIRouter(route_class=UploadRoute, tags=["task service"])

MOST_DEDUP: Final = 200
MOST_DELAY: Final = timedelta(days=3_650)
PAYLOAD: Final = "payload"

_FIELDS: Final = frozenset({"id", "dedup_id", "schedule", "delay", "timestamp", "priority"})
_NUMBER: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _property(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


_PROPERTIES: Final[dict[str, Any]] = {
    "dedup_id": _property("The user's own name for the task: the same one is the same task."),
    "schedule": _property("A cron expression, read in UTC; empty or left out: once."),
    "delay": _property("Once, after so many seconds."),
    "timestamp": _property("Once, at this instant: RFC 3339 with its offset, or seconds since 1970."),
    "priority": _property("0 to 9, 9 goes first; 5 if left out."),
    PAYLOAD: BINARY | {"description": "The executable."},
}


def _body(required: list[str], **more: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": _PROPERTIES | more,
    }
    return {"requestBody": {"required": True, "content": {FORM: {"schema": schema}}}}


class PostedTask(ServiceTaskDetail):
    """The task, and whether it was there already: then it is as it was, and `ignored` names what was said otherwise."""

    deduplicated: bool
    ignored: list[str] = Field(description="Fields of the form that differ from the task; change them with PUT.")


@dataclass(slots=True)
class _Read:
    """What a form said."""

    fields: dict[str, str] = field(default_factory=dict[str, str])
    staged: Staged | None = None
    name: str | None = None


@router.post(
    "/task",
    status_code=201,
    responses={
        200: {"model": PostedTask, "description": "The user has this task already"},
        409: {"description": "The quota of payloads is used up"},
    },
    openapi_extra=_body(["dedup_id", PAYLOAD]),
)
async def post_service_task(*, request: Request, access: OwnEditor, response: Response) -> PostedTask:
    """Make a task, or find the one that this dedup_id stands for."""
    async with _reading(request, access) as form:
        dedup_id = _dedup_id(form.fields)
        if "id" in form.fields:
            raise InvalidInput.at("/id", "The id is given by the server.", code="field.unknown")
        if form.staged is None:
            raise InvalidInput.at(f"/{PAYLOAD}", "The form has no executable.", code="field.missing")
        posted = await service_of(access).post(
            access.tenant_id,
            owner=access.principal.subject,
            dedup_id=dedup_id,
            wish=_wish(form.fields),
            staged=form.staged,
            name=form.name,
        )
    if access.recorder is not None and not posted.is_new:
        access.recorder.nothing_changed()
    response.status_code = 201 if posted.is_new else 200
    response.headers["Location"] = f"/task?id={posted.view.task.id}"
    detail = detail_out(posted.view)
    return PostedTask(**detail.model_dump(), deduplicated=not posted.is_new, ignored=posted.ignored)


@router.put(
    "/task",
    responses={409: {"description": "The quota of payloads is used up"}},
    openapi_extra=_body([], id=_property("The task's id, unless the query has it, or dedup_id names it.")),
)
async def change_service_task(
    *, request: Request, access: OwnEditor, task_id: Annotated[UUID | None, Query(alias="id")] = None
) -> ServiceTaskDetail:
    """Change a task's schedule, payload or priority; what is left out stays. What waits is replaced, what runs ends."""
    async with _reading(request, access) as form:
        service = service_of(access)
        chosen = task_id or _id(form.fields.get("id"))
        if chosen is None:
            owner, dedup_id = access.principal.subject, _dedup_id(form.fields)
            chosen = await service.find(access.tenant_id, owner=owner, dedup_id=dedup_id)
        view = await service.change(
            access.tenant_id,
            chosen,
            by=access.principal.subject,
            wish=_wish(form.fields),
            staged=form.staged,
            name=form.name,
        )
    return detail_out(view)


@asynccontextmanager
async def _reading(request: Request, access: Access) -> AsyncGenerator[_Read]:
    """Read the form; what has arrived of an executable and is nobody's payload in the end is abandoned."""
    receiver = service_of(access).payloads.receiver
    async with receiver.arrivals(access.tenant_id) as arrivals:
        yield await _read(request, arrivals, by=access.principal.subject)


async def _read(request: Request, arrivals: Arrivals, *, by: str) -> _Read:
    found = _Read()
    async for part in Form(request):
        name = part.head.field
        if name == PAYLOAD and found.staged is None:
            found.name = kept_name(part.head.filename)
            found.staged = await arrivals.receive(part.chunks(), Announced(by=by))
        elif name in _FIELDS and name not in found.fields:
            found.fields[name] = (await part.text()).strip()
        else:
            known = ", ".join(sorted(_FIELDS | {PAYLOAD}))
            detail = f"A form has each of these fields once at most: {known}."
            raise InvalidInput.at(f"/{name}", detail, code="field.unknown")
    return found


def _wish(fields: dict[str, str]) -> Wish:
    """Read what is said of the time and the priority; an empty field is one that was left out, but for the schedule."""
    return Wish(
        cron=fields.get("schedule"),
        delay=_delay(fields.get("delay")),
        timestamp=_timestamp(fields.get("timestamp")),
        priority=_priority(fields.get("priority")),
    )


def _dedup_id(fields: dict[str, str]) -> str:
    text = fields.get("dedup_id", "")
    if not 1 <= len(text) <= MOST_DEDUP or not text.isprintable():
        detail = f"A dedup_id has 1 to {MOST_DEDUP} printable characters."
        raise InvalidInput.at("/dedup_id", detail, code="field.invalid" if text else "field.missing")
    return text


def _id(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise InvalidInput.at("/id", "This is no id of a task.", code="field.invalid") from error


def _delay(text: str | None) -> timedelta | None:
    if not text:
        return None
    seconds = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0 <= seconds <= MOST_DELAY.total_seconds():
        detail = f"A delay is a number of seconds, at most {MOST_DELAY.total_seconds():.0f}."
        raise InvalidInput.at("/delay", detail, code="field.invalid")
    return timedelta(seconds=seconds)


def _timestamp(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        if _NUMBER.fullmatch(text):
            return datetime.fromtimestamp(float(text), UTC)
        if _INSTANT.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    detail = "A timestamp is like 2026-11-30T02:30:00+01:00, or seconds since 1970."
    raise InvalidInput.at("/timestamp", detail, code="field.invalid")


def _priority(text: str | None) -> int | None:
    if not text:
        return None
    if not (len(text) == 1 and text.isascii() and text.isdigit()):
        raise InvalidInput.at("/priority", "A priority is a digit, 0 to 9; 9 goes first.", code="field.invalid")
    return int(text)
