"""Declarations over HTTP: what documents come to, and what is there in their form."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated

from fastapi import APIRouter, Query, Request

from everwhen.declarations import service
from everwhen.declarations.model import Key, Kind
from everwhen.declarations.wire import DeclarationOut, PlanOut, WishIn, declaration_out, plan_out, wish_of
from everwhen.http.access import Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import OWNER_PATTERN
from everwhen.http.manners import reads
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, next_page, read_cursor

router = APIRouter(route_class=ControlRoute, tags=["declarations"])

OfKind = Annotated[Kind | None, Query(description="Only things of this kind.")]
OfOwner = Annotated[str | None, Query(pattern=OWNER_PATTERN, description="Only what this owner declares.")]

_LIST = "declarations"


@router.post("/v1/tenants/{tenant}/declarations/plan")
@reads
async def plan_declarations(*, body: WishIn, access: Editor) -> PlanOut:
    """Say what would have to change so that the tenant has what documents declare; keep nothing.

    All of it is done in one transaction that is undone: what is refused here would be refused then. Each change can be
    carried out by its kind's `PUT` or `DELETE` with the `revision` as If-Match.
    """
    planned = await service.plan(
        access.database, tenant_id=access.tenant_id, wish=wish_of(body), by=access.principal.subject
    )
    return plan_out(planned)


@router.get("/v1/tenants/{tenant}/declarations")
async def list_declarations(  # what a list is asked
    *,
    request: Request,
    access: Reader,
    kind: OfKind = None,
    owner: OfOwner = None,
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> Page[DeclarationOut]:
    """List what there is as documents would declare it: calendars, tasks, workflows, then schedules, by name."""
    found = await service.list_declared(
        access.database,
        tenant_id=access.tenant_id,
        kinds=list(Kind) if kind is None else [kind],
        owner=owner,
        after=_after(cursor),
        limit=limit + 1,
    )
    following = next_page(request, found, limit=limit, of=_LIST, key=lambda each: f"{each.kind}/{each.name}")
    return Page(items=[declaration_out(each) for each in found[:limit]], next=following)


def _after(cursor: str | None) -> Key | None:
    """Return the thing that a cursor of ours names."""
    key = read_cursor(cursor, of=_LIST)
    if key is None:
        return None
    kind, _, name = key.partition("/")
    return Kind(kind), name
