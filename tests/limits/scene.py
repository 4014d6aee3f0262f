"""Limits of a tenant, set as the platform sets them."""

from everwhen.core.quotas import Limit
from everwhen.limits import service
from everwhen.limits.service import TenantLimits
from everwhen.postgres.pool import Database
from everwhen.tenants.model import Tenant

USUAL = {Limit.PAYLOAD_BYTES: 1_000_000, Limit.REQUESTS: 30_000}


async def set_limits(db: Database, tenant: Tenant, **limits: int | None) -> TenantLimits:
    """Set these limits, by their names."""
    changes = {Limit(name): value for name, value in limits.items()}
    return await service.change_limits(db, tenant_id=tenant.id, changes=changes, by="platform", usual=USUAL)


async def used(db: Database, tenant: Tenant, limit: Limit) -> int | None:
    """What the tenant uses of a limit."""
    return (await service.get_limits(db, tenant_id=tenant.id, usual=USUAL)).limits[limit].used
