"""How a request gets at what it is for: each operation names one permission of the table in `http/roles.py`.

A token is bound to one tenant, or it is the platform's and may look at any, or it is a person's, who may go where lists
of members say. What is refused for want of a role answers 403; what lies in another tenant does not exist (404), by the
same words as what nobody has.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Path, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from everwhen.audit.model import PLATFORM
from everwhen.errors import Forbidden, unknown_tenant
from everwhen.http.auditing import Recorder, looking_for, recorder_of
from everwhen.http.edge import principal_of
from everwhen.http.payloads import show_payloads
from everwhen.http.plane import ControlPlane, acting_plane, plane_of
from everwhen.http.principal import Principal
from everwhen.http.roles import Permission, Role, allowed, roles_with
from everwhen.postgres.pool import Database

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
TENANT_PATTERN: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"

TenantName = Annotated[str, Path(pattern=TENANT_PATTERN, description="The tenant's name.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A caller who may do what the route is for, in one tenant."""

    principal: Principal
    tenant_id: UUID
    roles: frozenset[Role]
    plane: ControlPlane
    recorder: Recorder | None = None
    """What tells of the change in the audit; None: nothing is changed, or it is only tried."""

    @property
    def database(self) -> Database:
        """Where the tenant's rows are."""
        return self.plane.database


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformAccess:
    """A caller who may act for the whole installation."""

    principal: Principal
    plane: ControlPlane


class InTenant:
    """The dependency that lets a request into the tenant of its path, for one permission."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    async def __call__(self, request: Request, tenant: TenantName) -> Access:
        """Raise NotFound for another's tenant, Forbidden for want of a role."""
        plane, principal = plane_of(request), principal_of(request)
        if (looked_into := looking_for(request)) is not None:
            return _looking(request, looked_into)
        if principal.memberships is not None:
            member = principal.memberships.get(tenant)
            if member is None:
                raise unknown_tenant()
            tenant_id, roles = member.tenant_id, member.roles
        else:
            if principal.tenant_id is None and Role.PLATFORM not in principal.roles:
                raise Forbidden("A token without a tenant needs the role platform.")
            found = await plane.find_tenant(plane.database, name=tenant, bound_to=principal.tenant_id)
            tenant_id, roles = found.id, principal.roles
        require(roles, self.permission)
        await _begin(request, tenant_id, roles)
        show_payloads(Permission.PAYLOADS in allowed(roles))
        return Access(
            principal=principal,
            tenant_id=tenant_id,
            roles=roles,
            plane=acting_plane(request),
            recorder=recorder_of(request),
        )


class InOwnTenant:
    """The dependency that lets a request into the tenant that its token is bound to, where no path names one."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    async def __call__(self, request: Request) -> Access:
        """Raise Forbidden for want of a role, or of a tenant."""
        principal = principal_of(request)
        require(principal.roles, self.permission)
        if principal.tenant_id is None:
            raise Forbidden("This needs a token that is bound to a tenant.")
        await _begin(request, principal.tenant_id, principal.roles)
        show_payloads(Permission.PAYLOADS in allowed(principal.roles))
        return Access(
            principal=principal,
            tenant_id=principal.tenant_id,
            roles=principal.roles,
            plane=acting_plane(request),
            recorder=recorder_of(request),
        )


class ForPlatform:
    """The dependency that lets a request act for the whole installation."""

    permission = Permission.PLATFORM

    async def __call__(self, request: Request) -> PlatformAccess:
        """Raise Forbidden for whoever is not the platform."""
        principal = principal_of(request)
        require(principal.roles, self.permission)
        if principal.tenant_id is not None:
            raise Forbidden("A token that is bound to a tenant cannot act for the platform.")
        await _begin(request, PLATFORM, principal.roles, in_system=True)
        return PlatformAccess(principal=principal, plane=acting_plane(request))


class ForAnybody:
    """The dependency of what every valid token may do, whatever its roles."""

    permission = Permission.ANY

    async def __call__(self, request: Request) -> Principal:
        """Return who asks."""
        principal = principal_of(request)
        await _begin(request, principal.tenant_id or PLATFORM, principal.roles, in_system=True)
        return principal


Reader = Annotated[Access, Depends(InTenant(Permission.READ))]
PayloadReader = Annotated[Access, Depends(InTenant(Permission.PAYLOADS))]
Operator = Annotated[Access, Depends(InTenant(Permission.OPERATE))]
Editor = Annotated[Access, Depends(InTenant(Permission.EDIT))]
Admin = Annotated[Access, Depends(InTenant(Permission.ADMINISTER))]
Auditor = Annotated[Access, Depends(InTenant(Permission.AUDIT))]
OwnReader = Annotated[Access, Depends(InOwnTenant(Permission.READ))]
OwnOperator = Annotated[Access, Depends(InOwnTenant(Permission.OPERATE))]
OwnEditor = Annotated[Access, Depends(InOwnTenant(Permission.EDIT))]
Platform = Annotated[PlatformAccess, Depends(ForPlatform())]
Anybody = Annotated[Principal, Depends(ForAnybody())]

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


class PermittedRoute(Route):
    """A plain route, and the permission that it needs."""

    def __init__(self, path: str, endpoint: Endpoint, *, permission: Permission, methods: list[str], name: str) -> None:
        self.permission = permission

        async def permitted(request: Request) -> Response:
            require(principal_of(request).roles, permission)
            return await endpoint(request)

        super().__init__(path, permitted, methods=methods, name=name)


def permission_of(route: BaseRoute) -> Permission | None:
    """Return the permission that a route asks for; None when it asks for none, or for more than one."""
    if isinstance(route, PermittedRoute):
        return route.permission
    if not isinstance(route, APIRoute):
        return None
    calls = [dependency.call for dependency in route.dependant.dependencies]
    found = [call.permission for call in calls if isinstance(call, InTenant | InOwnTenant | ForPlatform | ForAnybody)]
    return found[0] if len(found) == 1 else None


async def _begin(request: Request, tenant_id: UUID, roles: frozenset[Role], *, in_system: bool = False) -> None:
    recorder = recorder_of(request)
    if recorder is not None:
        await recorder.begin(tenant_id, roles, in_system=in_system)


def _looking(request: Request, tenant_id: UUID) -> Access:
    """Let the audit look, for a request that was let in before: at everything but payloads."""
    show_payloads(False)
    return Access(principal=principal_of(request), tenant_id=tenant_id, roles=frozenset(), plane=acting_plane(request))


def require(roles: Iterable[Role], permission: Permission) -> None:
    """Raise Forbidden unless one of the roles allows it."""
    if permission not in allowed(roles):
        wanted = ", ".join(roles_with(permission))
        raise Forbidden(f"This needs one of the roles {wanted}.", code="auth.role")
