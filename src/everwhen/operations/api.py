"""Operations over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response

from everwhen.core.bulk import EDITING, OperationKind
from everwhen.http.access import Access, Operator, Reader, require
from everwhen.http.bodies import ControlRoute
from everwhen.http.manners import REPLAYED, reads
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_id, read_place
from everwhen.http.roles import Permission
from everwhen.lists import LAST_ID
from everwhen.operations import listing, service
from everwhen.operations.model import FIRST_SEQ, OperationRow
from everwhen.operations.service import Asked, PersonsOrder
from everwhen.operations.wire import (
    AbortIn,
    ItemOut,
    OperationIn,
    OperationOut,
    OrderIn,
    PlanIn,
    PlanOut,
    item_out,
    operation_out,
    plan_out,
)

router = APIRouter(route_class=ControlRoute, tags=["operations"])

_LIST: Final = "operations"
_ITEMS: Final = "operation-items"
_CHANGED: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The plan is too old, or has changed"}}
_STATE: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The operation's state does not allow it"}}

Where = Annotated[str, filter_query(listing.OPERATIONS)]
ItemsWhere = Annotated[str, filter_query(listing.ITEMS)]
OperationId = Annotated[UUID, Path(description="An operation's id.")]


@router.post("/v1/tenants/{tenant}/operations/plan", responses=_CHANGED)
@reads
async def plan_operation(*, access: Operator, body: PlanIn) -> PlanOut:
    """Say what an operation would be about, and write nothing: the dry run. Its token is needed to carry it out.

    What changes tags, or deletes, takes the permission to edit.
    """
    require(access.roles, _permission(body.kind))
    return plan_out(await service.plan(access.database, tenant_id=access.tenant_id, ask=body.ask()))


@router.post(
    "/v1/tenants/{tenant}/operations",
    status_code=202,
    responses=_CHANGED,
)
async def create_operation(*, tenant: str, access: Operator, body: OperationIn, response: Response) -> OperationOut:
    """Carry out a plan. The same token always answers with the same operation."""
    require(access.roles, _permission(body.kind))
    row, replayed = await service.start(
        access.database,
        tenant_id=access.tenant_id,
        ask=body.ask(),
        asked=Asked(by=access.principal.subject, reason=body.reason, token=body.plan_token),
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/operations/{row.id}"
    if replayed:
        response.headers[REPLAYED] = "true"
    return _out(row)


@router.get("/v1/tenants/{tenant}/operations")
async def list_operations(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[OperationOut]:
    """List operations, the newest first."""
    before = read_id(cursor, of=_LIST, default=LAST_ID)
    found = await listing.list_operations(
        access.database, tenant_id=access.tenant_id, before=before, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=_out)


@router.get("/v1/tenants/{tenant}/operations/{operation}")
async def get_operation(*, operation: OperationId, access: Reader) -> OperationOut:
    """Read one operation: how far it is, and how its runs have ended."""
    return _out(await service.get_operation(access.database, tenant_id=access.tenant_id, operation_id=operation))


@router.get("/v1/tenants/{tenant}/operations/{operation}/items")
async def list_operation_items(
    *,
    request: Request,
    operation: OperationId,
    access: Reader,
    where: ItemsWhere = "",
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> Page[ItemOut]:
    """List what an operation is about, in its order, and what has become of each: which were skipped, and why."""
    found = await listing.list_items(
        access.database,
        tenant_id=access.tenant_id,
        operation_id=operation,
        after=read_place(cursor, of=_ITEMS, default=FIRST_SEQ),
        limit=limit,
        where=where,
    )
    return page_of(request, found, of=_ITEMS, out=item_out)


@router.post("/v1/tenants/{tenant}/operations/{operation}/abort", responses=_STATE)
async def abort_operation(*, operation: OperationId, access: Operator, body: AbortIn) -> OperationOut:
    """Make nothing more from now on; once this is answered, nothing is made. Aborting twice changes nothing."""
    return _out(
        await service.abort(
            access.database,
            tenant_id=access.tenant_id,
            operation_id=operation,
            order=_order(access, body.reason),
            cancel_runs=body.cancel_runs,
        )
    )


@router.post("/v1/tenants/{tenant}/operations/{operation}/pause", responses=_STATE)
async def pause_operation(*, operation: OperationId, access: Operator, body: OrderIn | None = None) -> OperationOut:
    """Stop for a while."""
    order = _order(access, body and body.reason)
    return _out(await service.pause(access.database, tenant_id=access.tenant_id, operation_id=operation, order=order))


@router.post("/v1/tenants/{tenant}/operations/{operation}/resume", responses=_STATE)
async def resume_operation(*, operation: OperationId, access: Operator, body: OrderIn | None = None) -> OperationOut:
    """Go on where it stopped."""
    order = _order(access, body and body.reason)
    return _out(await service.resume(access.database, tenant_id=access.tenant_id, operation_id=operation, order=order))


def _permission(kind: OperationKind) -> Permission:
    return Permission.EDIT if kind in EDITING else Permission.OPERATE


def _order(access: Access, reason: str | None) -> PersonsOrder:
    return PersonsOrder(by=access.principal.subject, reason=reason)


def _out(row: OperationRow) -> OperationOut:
    return operation_out(row, now=row.read_at)
