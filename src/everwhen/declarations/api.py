"""Declarations over HTTP: what documents come to, and what is there in their form."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated

from fastapi import APIRouter, Request

from everwhen.declarations import service
from everwhen.declarations.model import Key, Kind
from everwhen.declarations.wire import DeclarationOut, DeclarationsPlanOut, WishIn, declaration_out, plan_out, wish_of
from everwhen.http.access import Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.manners import reads
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor

router = APIRouter(route_class=ControlRoute, tags=["declarations"])

Where = Annotated[str, filter_query(service.DECLARATIONS)]

_LIST = "declarations"


@router.post("/v1/tenants/{tenant}/declarations/plan")
@reads
async def plan_declarations(*, body: WishIn, access: Editor) -> DeclarationsPlanOut:
    """Say what would have to change so that the tenant has what documents declare; keep nothing.

    All of it is done in one transaction that is undone: what is refused here would be refused then. Each change can be
    carried out by its kind's `PUT` or `DELETE` with the `revision` as If-Match.
    """
    planned = await service.plan(
        access.database, tenant_id=access.tenant_id, wish=wish_of(body), by=access.principal.subject
    )
    return plan_out(planned)


@router.get("/v1/tenants/{tenant}/declarations")
async def list_declarations(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[DeclarationOut]:
    """List what there is as documents would declare it: calendars, tasks, workflows, then schedules, by name."""
    found = await service.list_declared(
        access.database, tenant_id=access.tenant_id, after=_after(cursor), limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=declaration_out)


def _after(cursor: str | None) -> Key | None:
    """Return the thing that a cursor of ours names."""
    key = read_cursor(cursor, of=_LIST)
    if key is None:
        return None
    kind, _, name = key.partition("/")
    return Kind(kind), name
