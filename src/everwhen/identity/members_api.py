"""Members over HTTP, and who one is oneself.

A member is a person whose tokens come from a configured issuer. The tokens say who it is; what the person may do in
which tenant is written here.
"""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from everwhen.http.access import Admin, Anybody
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor
from everwhen.http.plane import plane_of
from everwhen.http.preconditions import Change, Put, tag
from everwhen.http.principal import Principal
from everwhen.http.roles import Permission, Role, allowed
from everwhen.identity import service
from everwhen.identity.model import Member
from everwhen.tenants import service as tenants

router = APIRouter(route_class=ControlRoute, tags=["members"])

SUBJECT_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,31}:[A-Za-z0-9._:@|+=~-]{1,200}$"
_LIST: Final = "members"
_TOO_MANY: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The tenant has too many members"}}

MemberRole = Literal["viewer", "operator", "editor", "admin", "payloads"]
Where = Annotated[str, filter_query(service.MEMBERS)]
Subject = Annotated[str, Path(pattern=SUBJECT_PATTERN, description="The issuer's name, `:`, and its subject.")]


class MemberIn(Wire):
    """What a member may do."""

    roles: Annotated[list[MemberRole], Field(min_length=1, max_length=5)]


class MemberOut(BaseModel):
    """A member of a tenant."""

    subject: str
    roles: list[Role | str]
    revision: int
    added_by: str
    added_at: Utc
    changed_by: str
    changed_at: Utc


class PlaceOut(BaseModel):
    """A tenant, and what one may do there."""

    id: UUID
    name: str
    roles: list[Role]
    permissions: list[Permission]


class MeOut(BaseModel):
    """Who the caller is, where it may go, and what it may do there."""

    subject: str
    kind: Literal["token", "service", "session"]
    token_id: str = Field(description="By which the token is revoked.")
    issued_at: Utc | None
    expires_at: Utc | None
    is_platform: bool = Field(description="Acts for the whole installation.")
    roles: list[Role] = Field(description="Of the token itself; of a person whose rights are memberships: none.")
    permissions: list[Permission]
    queues: list[str] | None = Field(description="The queues that a worker may claim from; null: all of its tenant's.")
    tasks: list[str] | None
    tenants: list[PlaceOut]


_PUT: Final = {**_TOO_MANY, 201: {"model": MemberOut, "description": "Somebody new was let in"}}


@router.get("/v1/me")
async def get_me(*, request: Request, principal: Anybody) -> MeOut:
    """Say who the caller is, and where it may do what."""
    return MeOut(
        subject=principal.subject,
        kind=principal.kind,
        token_id=principal.token_id,
        issued_at=principal.issued_at,
        expires_at=principal.expires_at,
        is_platform=principal.tenant_id is None and Role.PLATFORM in principal.roles,
        roles=sorted(principal.roles),
        permissions=sorted(allowed(principal.roles)),
        queues=None if principal.queues is None else sorted(principal.queues),
        tasks=None if principal.tasks is None else sorted(principal.tasks),
        tenants=await _places(request, principal),
    )


@router.get("/v1/tenants/{tenant}/members")
async def list_members(
    *, request: Request, access: Admin, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[MemberOut]:
    """List a tenant's members by their subjects."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_members(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=_out)


@router.get("/v1/tenants/{tenant}/members/{subject}")
async def get_member(*, subject: Subject, access: Admin, response: Response) -> MemberOut:
    """Read one member."""
    found = await service.get_member(access.database, tenant_id=access.tenant_id, subject=subject)
    tag(response, found.revision)
    return _out(found)


@router.put("/v1/tenants/{tenant}/members/{subject}", responses=_PUT)
async def put_member(
    *, subject: Subject, body: MemberIn, access: Admin, expected: Put, response: Response
) -> MemberOut:
    """Let somebody in, or say anew what a member may do; within seconds."""
    member = await service.put_member(
        access.database,
        tenant_id=access.tenant_id,
        subject=subject,
        roles=sorted(set(body.roles)),
        by=access.principal.subject,
        expected=expected,
    )
    if expected.absent:
        response.status_code = 201
    tag(response, member.revision)
    return _out(member)


@router.delete("/v1/tenants/{tenant}/members/{subject}", status_code=204)
async def remove_member(*, subject: Subject, access: Admin, expected: Change) -> None:
    """Let a member in no longer; within seconds."""
    await service.remove_member(access.database, tenant_id=access.tenant_id, subject=subject, expected=expected)


async def _places(request: Request, principal: Principal) -> list[PlaceOut]:
    if principal.memberships is not None:
        return [_place(each.tenant_id, each.tenant, each.roles) for _, each in sorted(principal.memberships.items())]
    if principal.tenant_id is None:
        return []
    found = await tenants.find_bound(plane_of(request).database, tenant_id=principal.tenant_id)
    return [] if found is None else [_place(found.id, found.name, principal.roles)]


def _place(tenant_id: UUID, name: str, roles: frozenset[Role]) -> PlaceOut:
    return PlaceOut(id=tenant_id, name=name, roles=sorted(roles), permissions=sorted(allowed(roles)))


def _out(member: Member) -> MemberOut:
    return MemberOut(
        subject=member.subject,
        roles=[*member.roles],
        revision=member.revision,
        added_by=member.added_by,
        added_at=member.added_at,
        changed_by=member.changed_by,
        changed_at=member.changed_at,
    )
