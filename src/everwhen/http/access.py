"""Who may do what: each operation of the control API names one permission, and each role has some.

A token is bound to one tenant, or it is the platform's and may look at any. What is refused for want of a role answers
403; what lies in another tenant does not exist (404), by the same words as what nobody has.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Path, Request

from everwhen.errors import Forbidden
from everwhen.http.auth import Principal, Role
from everwhen.http.edge import principal_of
from everwhen.http.plane import ControlPlane, acting_plane, plane_of
from everwhen.postgres.pool import Database

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
TENANT_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"

TenantName = Annotated[str, Path(pattern=TENANT_PATTERN, description="The tenant's name.")]


class Permission(StrEnum):
    """What an operation needs."""

    READ = "read"
    OPERATE = "operate"
    EDIT = "edit"
    PLATFORM = "platform"


ROLES: Final[dict[Permission, frozenset[Role]]] = {
    Permission.READ: frozenset({Role.VIEWER, Role.EDITOR, Role.OPERATOR, Role.ADMIN}),
    # Who may define a schedule for every second can make things run; keeping the editor from a button gains nothing.
    Permission.OPERATE: frozenset({Role.OPERATOR, Role.EDITOR, Role.ADMIN}),
    Permission.EDIT: frozenset({Role.EDITOR, Role.ADMIN}),
    Permission.PLATFORM: frozenset({Role.PLATFORM}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A caller who may do what the route is for, in one tenant."""

    principal: Principal
    tenant_id: UUID
    plane: ControlPlane

    @property
    def database(self) -> Database:
        """Where the tenant's rows are."""
        return self.plane.database


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformAccess:
    """A caller who may act for the whole installation."""

    principal: Principal
    plane: ControlPlane


async def _reader(request: Request, tenant: TenantName) -> Access:
    return await _access(request, tenant, Permission.READ)


async def _operator(request: Request, tenant: TenantName) -> Access:
    return await _access(request, tenant, Permission.OPERATE)


async def _editor(request: Request, tenant: TenantName) -> Access:
    return await _access(request, tenant, Permission.EDIT)


async def _platform(request: Request) -> PlatformAccess:
    principal = principal_of(request)
    _require(principal, Permission.PLATFORM)
    if principal.tenant_id is not None:
        raise Forbidden("A token that is bound to a tenant cannot act for the platform.")
    return PlatformAccess(principal=principal, plane=acting_plane(request))


async def _own_reader(request: Request) -> Access:
    return _own_access(request, Permission.READ)


async def _own_operator(request: Request) -> Access:
    return _own_access(request, Permission.OPERATE)


async def _own_editor(request: Request) -> Access:
    return _own_access(request, Permission.EDIT)


def _own_access(request: Request, permission: Permission) -> Access:
    """Grant access to the tenant that the token is bound to, where no path names one."""
    plane, principal = plane_of(request), principal_of(request)
    _require(principal, permission)
    if principal.tenant_id is None:
        raise Forbidden("This needs a token that is bound to a tenant.")
    return Access(principal=principal, tenant_id=principal.tenant_id, plane=plane)


Reader = Annotated[Access, Depends(_reader)]
Operator = Annotated[Access, Depends(_operator)]
Editor = Annotated[Access, Depends(_editor)]
OwnReader = Annotated[Access, Depends(_own_reader)]
OwnOperator = Annotated[Access, Depends(_own_operator)]
OwnEditor = Annotated[Access, Depends(_own_editor)]
Platform = Annotated[PlatformAccess, Depends(_platform)]


async def _access(request: Request, tenant: str, permission: Permission) -> Access:
    plane, principal = plane_of(request), principal_of(request)
    if principal.tenant_id is None and Role.PLATFORM not in principal.roles:
        raise Forbidden("A token without a tenant needs the role platform.")
    found = await plane.find_tenant(plane.database, name=tenant, bound_to=principal.tenant_id)
    _require(principal, permission)
    return Access(principal=principal, tenant_id=found.id, plane=acting_plane(request))


def _require(principal: Principal, permission: Permission) -> None:
    if not principal.roles & ROLES[permission]:
        wanted = ", ".join(sorted(ROLES[permission]))
        raise Forbidden(f"This needs one of the roles {wanted}.", code="auth.role")
