"""What can be done with tenants. Creating and listing them is for the platform; a tenant may look at itself."""

from typing import Final
from uuid import UUID

from everwhen import clock
from everwhen.core.filters import Moment, Vocabulary, within
from everwhen.errors import Conflict, unknown_tenant
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Database
from everwhen.tenants import store
from everwhen.tenants.model import Tenant

TENANTS: Final = Vocabulary(fields={"created": Moment()}, short=within("created"))
"""What a filter of tenants says."""


async def create_tenant(db: Database, *, name: str) -> Tenant:
    """Make a tenant; raise Conflict when the name is taken."""
    async with db.system() as conn:
        made = await store.insert_tenant(conn, tenant_id=clock.new_id(conn.now), name=name, now=conn.now)
    if made is None:
        raise Conflict(f"A tenant named {name} exists already.", code="tenant.exists")
    return made


async def list_tenants(db: Database, *, after: str = "", limit: int, where: str = "") -> Listed[Tenant]:
    """Return up to `limit` tenants after `after` that the filter `where` finds, by name."""
    async with db.system() as conn:
        return await walk(
            lambda after, limit: store.list_tenants(conn, after=after, limit=limit),
            start=after,
            key=lambda row: row.name,
            limit=limit,
            asked=read_filter(where, TENANTS, now=conn.now),
            values=lambda row: {"created": row.created_at},
        )


async def find_tenant(db: Database, *, name: str, bound_to: UUID | None) -> Tenant:
    """Return the tenant of this name for a caller who is bound to one tenant (its id), or to none.

    Raises NotFound when there is no such tenant or the caller is bound to another. Only the caller's own row is ever
    looked at, so neither the answer nor its timing depends on what else exists.
    """
    if bound_to is None:
        async with db.system() as conn:
            found = await store.find_tenant(conn, name=name)
    else:
        async with db.tenant(bound_to) as conn:
            found = await store.get_tenant(conn, tenant_id=bound_to)
    if found is None or found.name != name:
        raise unknown_tenant()
    return found


async def find_bound(db: Database, *, tenant_id: UUID) -> Tenant | None:
    """Return the tenant that a caller is bound to; None when it is gone."""
    async with db.tenant(tenant_id) as conn:
        return await store.get_tenant(conn, tenant_id=tenant_id)
