"""What can be done with limits: look at them, with what is used, set a tenant's own, and read what was counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from everwhen.alerts import service as alerts
from everwhen.alerts import subscribing
from everwhen.calendars import service as calendars
from everwhen.claim_limits import fencing
from everwhen.claim_limits.telling import count_in_flight
from everwhen.core.quotas import KINDS, Limit, day_of
from everwhen.errors import InvalidInput
from everwhen.identity import service as identity
from everwhen.limits import quotas, store
from everwhen.limits.model import DayRow, LimitsRow
from everwhen.logs import service as logs
from everwhen.payloads.service import read_usage
from everwhen.postgres.pool import Connection, Database
from everwhen.queues import service as queues
from everwhen.revisions import ANY, Expected, refuse_stale, stale
from everwhen.schedules import service as schedules
from everwhen.tasks import service as tasks
from everwhen.workflows import definitions as workflows

COUNTS: Final[Mapping[Limit, quotas.Count]] = {
    Limit.CALENDARS: calendars.count_calendars,
    Limit.CHANNELS: alerts.count_channels,
    Limit.MEMBERS: identity.count_members,
    Limit.QUEUES: queues.count_queues,
    Limit.SCHEDULES: schedules.count_schedules,
    Limit.SUBSCRIPTIONS: subscribing.count_subscriptions,
    Limit.TASKS: tasks.count_tasks,
    Limit.TOKENS: identity.count_tokens,
    Limit.WORKFLOWS: workflows.count_workflows,
}
"""How what there may be so many of is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """A limit: what holds (None: nothing does), whether it is the tenant's own, and what is used, if it is counted."""

    limit: int | None
    is_own: bool
    used: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """All limits of a tenant. `revision` 0: it has none of its own."""

    revision: int
    limits: Mapping[Limit, Limited]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant has used on each of the last days, today (UTC) first, and what it has now."""

    days: list[DayRow]
    active_schedules: int
    payloads: int
    payload_bytes: int
    log_bytes: int


async def get_limits(db: Database, *, tenant_id: UUID, usual: Mapping[Limit, int]) -> TenantLimits:
    """Return the limits; `usual` has what holds by the settings."""
    async with db.tenant(tenant_id) as conn:
        row = await store.read_limits(conn, tenant_id=tenant_id)
        return _joined(row, await _used(conn, tenant_id), usual)


async def change_limits(  # what a change says
    db: Database,
    *,
    tenant_id: UUID,
    changes: Mapping[Limit, int | None],
    by: str,
    usual: Mapping[Limit, int],
    expected: Expected = ANY,
) -> TenantLimits:
    """Set limits of a tenant, or (None) let it have what is usual; those that are not named stay.

    What the tenant has already stays, whatever the limit is. Raises PreconditionFailed when it is not the revision that
    was expected, and InvalidInput for a number that cannot be.
    """
    for limit, value in changes.items():
        if value is not None and value < KINDS[limit].least:
            raise InvalidInput.at(f"/{limit.value}", f"The least is {KINDS[limit].least}.", code="field.invalid")
    async with db.system() as conn:
        if Limit.IN_FLIGHT in changes:
            await fencing.fence(conn, tenant_id)
        row = await store.read_limits(conn, tenant_id=tenant_id)
        revision = row.revision or 0
        refuse_stale(expected, revision)
        values = {limit.value: row.own(limit) for limit in Limit} | {k.value: v for k, v in changes.items()}
        made = await store.set_limits(conn, tenant_id=tenant_id, revision=revision, by=by, now=conn.now, **values)
        row = await store.read_limits(conn, tenant_id=tenant_id)
        if made is None:
            raise stale(expected, row.revision or 0)
        if Limit.IN_FLIGHT in changes:
            await fencing.limit_tenant(conn, tenant_id)
    async with db.tenant(tenant_id) as conn:
        return _joined(row, await _used(conn, tenant_id), usual)


async def get_usage(db: Database, *, tenant_id: UUID, days: int) -> Usage:
    """Return what was counted on the last `days`, today included."""
    async with db.tenant(tenant_id) as conn:
        kept = await read_usage(conn, tenant_id=tenant_id)
        return Usage(
            days=await store.list_days(conn, tenant_id=tenant_id, today=day_of(conn.now), days=days),
            active_schedules=await schedules.count_active(conn, tenant_id=tenant_id),
            payloads=kept.payloads,
            payload_bytes=kept.size_bytes,
            log_bytes=await logs.read_bytes(conn, tenant_id=tenant_id),
        )


async def _used(conn: Connection, tenant_id: UUID) -> dict[Limit, int]:
    used: dict[Limit, int] = {limit: await count(conn, tenant_id=tenant_id) for limit, count in COUNTS.items()}
    used[Limit.PAYLOAD_BYTES] = (await read_usage(conn, tenant_id=tenant_id)).size_bytes
    used[Limit.LOG_BYTES] = await logs.read_bytes(conn, tenant_id=tenant_id)
    today = await store.list_days(conn, tenant_id=tenant_id, today=day_of(conn.now), days=1)
    under_way = await count_in_flight(conn, tenant_id)
    return used | {Limit.IN_FLIGHT: under_way, Limit.RUNS: today[0].runs}


def _joined(row: LimitsRow, used: Mapping[Limit, int], usual: Mapping[Limit, int]) -> TenantLimits:
    limits: dict[Limit, Limited] = {}
    for limit in Limit:
        own, otherwise = row.own(limit), usual.get(limit, KINDS[limit].usual)
        limits[limit] = Limited(limit=otherwise if own is None else own, is_own=own is not None, used=used.get(limit))
    return TenantLimits(revision=row.revision or 0, limits=limits)
