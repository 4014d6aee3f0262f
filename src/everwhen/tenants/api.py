"""Tenants over HTTP."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from everwhen.http.access import TENANT_PATTERN, Platform, Reader, TenantName
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor
from everwhen.tenants import service
from everwhen.tenants.model import Tenant

router = APIRouter(route_class=ControlRoute, tags=["tenants"])

Where = Annotated[str, filter_query(service.TENANTS)]

_LIST = "tenants"


class TenantIn(Wire):
    """A tenant to make."""

    name: Annotated[str, Field(pattern=TENANT_PATTERN, description="Lower-case letters, digits and `-`; for ever.")]


class TenantOut(BaseModel):
    """A tenant."""

    id: UUID
    name: str
    created_at: Utc


@router.post("/v1/tenants", status_code=201, responses={409: {"description": "The name is taken"}})
async def create_tenant(*, body: TenantIn, access: Platform, response: Response) -> TenantOut:
    """Make a tenant. Needs the role platform."""
    made = await service.create_tenant(access.plane.database, name=body.name)
    response.headers["Location"] = f"/v1/tenants/{made.name}"
    return _out(made)


@router.get("/v1/tenants")
async def list_tenants(
    *, request: Request, access: Platform, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[TenantOut]:
    """List tenants by name. Needs the role platform."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_tenants(access.plane.database, after=after, limit=limit, where=where)
    return page_of(request, found, of=_LIST, out=_out)


@router.get("/v1/tenants/{tenant}")
async def get_tenant(*, tenant: TenantName, access: Reader) -> TenantOut:
    """Read one tenant; a tenant's own token reads its own."""
    found = await service.find_tenant(access.database, name=tenant, bound_to=access.tenant_id)
    return _out(found)


def _out(tenant: Tenant) -> TenantOut:
    return TenantOut(id=tenant.id, name=tenant.name, created_at=tenant.created_at)
