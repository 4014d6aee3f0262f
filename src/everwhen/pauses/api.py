"""Pauses of queues and tenants over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from everwhen.http.access import NAME_PATTERN, Access, Operator, Reader
from everwhen.http.auditing import audited
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Instant, Sentence, Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor, read_number
from everwhen.pauses import service
from everwhen.pauses.model import WHOLE_TENANT, Pause, PauseChange

router = APIRouter(route_class=ControlRoute, tags=["pauses"])

QueueName = Annotated[str, Path(pattern=NAME_PATTERN, description="The queue's name.")]
Where = Annotated[str, filter_query(service.PAUSES)]
ChangedWhere = Annotated[str, filter_query(service.CHANGES)]

_LIST: Final = "pauses"
_CHANGES: Final = "pause-changes"
_PAUSED: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "It is paused already"}}
_RUNNING: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "It is not paused"}}


class QueuePauseIn(Wire):
    """Why nothing is to be handed out, and until when."""

    reason: Sentence
    until: Instant | None = Field(default=None, description="When it ends by itself; null: when somebody ends it.")


class QueueResumeIn(Wire):
    """Why it goes on."""

    reason: Sentence | None = None


class PauseOut(BaseModel):
    """A pause in force."""

    queue: str | None = Field(description="Null: all of the tenant's queues.")
    reason: str
    paused_by: str
    paused_at: Utc
    paused_until: Utc | None


class PauseChangeOut(BaseModel):
    """Who paused or resumed what, and why."""

    id: int
    queue: str | None = Field(description="Null: all of the tenant's queues.")
    action: Literal["paused", "resumed"]
    changed_by: str
    reason: str | None
    paused_until: Utc | None
    changed_at: Utc


@router.post("/v1/tenants/{tenant}/queues/{queue}/pause", responses=_PAUSED)
@audited(seen_by="list_pauses")
async def pause_queue(*, queue: QueueName, body: QueuePauseIn, access: Operator) -> PauseOut:
    """Hand out nothing from a queue; runs go on becoming due, and wait."""
    return await _pause(access, queue, body)


@router.post("/v1/tenants/{tenant}/queues/{queue}/resume", status_code=204, responses=_RUNNING)
@audited(seen_by="list_pauses")
async def resume_queue(*, queue: QueueName, access: Operator, body: QueueResumeIn | None = None) -> None:
    """Hand out from a queue again."""
    await _resume(access, queue, body)


@router.post("/v1/tenants/{tenant}/pause", responses=_PAUSED)
@audited(seen_by="list_pauses")
async def pause_tenant(*, body: QueuePauseIn, access: Operator) -> PauseOut:
    """Hand out nothing of the tenant's; runs go on becoming due, and wait."""
    return await _pause(access, WHOLE_TENANT, body)


@router.post("/v1/tenants/{tenant}/resume", status_code=204, responses=_RUNNING)
@audited(seen_by="list_pauses")
async def resume_tenant(*, access: Operator, body: QueueResumeIn | None = None) -> None:
    """Hand out the tenant's runs again; a queue that is paused by itself stays so."""
    await _resume(access, WHOLE_TENANT, body)


@router.get("/v1/tenants/{tenant}/pauses")
async def list_pauses(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[PauseOut]:
    """List the pauses in force: the whole tenant's, then by queue."""
    after = read_cursor(cursor, of=_LIST)
    found = await service.list_pauses(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=_out)


@router.get("/v1/tenants/{tenant}/pauses/changes")
async def list_pause_changes(
    *, request: Request, access: Reader, where: ChangedWhere = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[PauseChangeOut]:
    """List who paused and resumed queues and the tenant, and why, oldest first."""
    after = read_number(cursor, of=_CHANGES)
    found = await service.list_changes(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_CHANGES, out=_change_out)


async def _pause(access: Access, queue: str, body: QueuePauseIn) -> PauseOut:
    wish = service.Wish(by=access.principal.subject, reason=body.reason, until=body.until)
    return _out(await service.pause(access.database, tenant_id=access.tenant_id, queue=queue, wish=wish))


async def _resume(access: Access, queue: str, body: QueueResumeIn | None) -> None:
    wish = service.Wish(by=access.principal.subject, reason=body and body.reason)
    await service.resume(access.database, tenant_id=access.tenant_id, queue=queue, wish=wish)


def _out(pause: Pause) -> PauseOut:
    return PauseOut(
        queue=pause.queue or None,
        reason=pause.reason,
        paused_by=pause.paused_by,
        paused_at=pause.paused_at,
        paused_until=pause.paused_until,
    )


def _change_out(change: PauseChange) -> PauseChangeOut:
    return PauseChangeOut(
        id=change.change_id,
        queue=change.queue or None,
        action="paused" if change.action == "paused" else "resumed",
        changed_by=change.changed_by,
        reason=change.reason,
        paused_until=change.paused_until,
        changed_at=change.changed_at,
    )
