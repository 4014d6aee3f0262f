"""Queues over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response

from everwhen.http.access import NAME_PATTERN, Editor, Platform, Reader, TenantName
from everwhen.http.auditing import audited, looking_for
from everwhen.http.bodies import ControlRoute
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor
from everwhen.http.preconditions import Change, Put, tag
from everwhen.queues import service
from everwhen.queues.model import QUEUES
from everwhen.queues.service import Queue, Share
from everwhen.queues.wire import QueueOut, QueueReplacement, ShareIn, ShareOut, draft_of, queue_out, share_out

router = APIRouter(route_class=ControlRoute, tags=["queues"])

QueueName = Annotated[str, Path(pattern=NAME_PATTERN, description="The queue's name.")]
Where = Annotated[str, filter_query(QUEUES)]

_LIST: Final = "queues"


@router.get("/v1/tenants/{tenant}/queues")
async def list_queues(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[QueueOut]:
    """List queues by name, with what stands in each: waiting, in flight, how long it takes to drain."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_queues(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=queue_out)


@router.get("/v1/tenants/{tenant}/queues/{queue}")
async def get_queue(*, request: Request, queue: QueueName, access: Reader, response: Response) -> QueueOut:
    """Read one queue, and what stands in it."""
    for_the_audit = looking_for(request) is not None  # which tells what was changed, and not what passes
    found = await service.get_queue(
        access.database, tenant_id=access.tenant_id, name=queue, with_line=not for_the_audit
    )
    tag(response, found.row.revision)
    return queue_out(found)


@router.put(
    "/v1/tenants/{tenant}/queues/{queue}",
    responses={201: {"model": QueueOut, "description": "It was not defined, and is now"}},
)
async def replace_queue(
    *, queue: QueueName, body: QueueReplacement, access: Editor, expected: Put, response: Response
) -> QueueOut:
    """Say all that a queue is; with `If-None-Match: *`, define one that is not. Holds for the next claim."""
    key: dict[str, Any] = {"tenant_id": access.tenant_id, "name": queue, "draft": draft_of(body)}
    if expected.absent:
        response.status_code = 201
        made = await service.put_new_queue(access.database, **key)
    else:
        made = await service.replace_queue(access.database, **key, expected=expected)
    tag(response, made.revision)
    return queue_out(Queue(row=made))


@router.delete("/v1/tenants/{tenant}/queues/{queue}", status_code=204)
async def delete_queue(*, queue: QueueName, access: Editor, expected: Change) -> None:
    """Let everything about a queue be as by default; what waits in it goes on waiting."""
    await service.delete_queue(access.database, tenant_id=access.tenant_id, name=queue, expected=expected)


@router.get("/v1/tenants/{tenant}/queues/{queue}/share")
async def get_queue_share(*, queue: QueueName, access: Reader, response: Response) -> ShareOut:
    """Read the tenant's place at a queue that tenants share, as the platform says."""
    found = await service.get_share(access.database, tenant_id=access.tenant_id, name=queue)
    tag(response, found.revision)
    return share_out(found)


@router.put("/v1/tenants/{tenant}/queues/{queue}/share")
@audited(tells_answer=True)
async def set_queue_share(
    *, tenant: TenantName, queue: QueueName, body: ShareIn, access: Platform, expected: Change, response: Response
) -> ShareOut:
    """Set a tenant's place at a queue that tenants share. Needs the role platform. Holds for the next claim."""
    plane = access.plane
    found = await plane.find_tenant(plane.database, name=tenant, bound_to=None)
    share = Share(weight=body.weight, max_in_flight=body.max_in_flight, by=access.principal.subject)
    made = await service.set_share(plane.database, tenant_id=found.id, name=queue, share=share, expected=expected)
    tag(response, made.revision)
    return share_out(made)
