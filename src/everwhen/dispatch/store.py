"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.dispatch.model import (
    ClosedAttempt,
    ExpiredLease,
    HeldLease,
    InFlight,
    LaneOf,
    LaneRow,
    Lease,
    LockedTenant,
    Moved,
    NamedRow,
    OverdueRun,
    Renewal,
    SharedLaneRow,
    StateNow,
    TenantLoad,
)
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.dispatch")

Conn = AsyncConnection[Any]


async def lock_limited_lanes(
    conn: Conn, *, tenant_id: UUID, queues: Sequence[str], instance: UUID | None, now: datetime
) -> list[LaneRow]:
    """Lock this tenant's lanes that have a limit, or that are paused at `now`; all, for a worker that is held back."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "instance": instance, "now": now}
    return await fetch_all(conn, _SQL["lock_limited_lanes"], params, LaneRow)


async def lock_lanes_with_work(
    conn: Conn,
    *,
    queues: Sequence[str],
    tasks: Sequence[str] | None,
    instance: UUID | None,
    after: UUID,
    most: int,
    labels: str,
    free: str,
    limit: int,
    now: datetime,
) -> list[SharedLaneRow]:
    """Lock up to `limit` lanes of any tenant that have something due of these tasks, the one furthest behind first.

    Of the lanes with anything in them `most` are looked at, from the tenant behind `after` on.
    """
    params = {
        "queues": list(queues),
        "tasks": None if tasks is None else list(tasks),
        "instance": instance,
        "after": after,
        "most": most,
        "labels": labels,
        "free": free,
        "limit": limit,
        "now": now,
    }
    return await fetch_all(conn, _SQL["lock_lanes_with_work"], params, SharedLaneRow)


async def is_held_back(conn: Conn, *, tenant_id: UUID, instance: UUID) -> bool:
    """Say whether a worker is drained, cordoned or about to stop, and is given nothing."""
    return await fetch_one(conn, _SQL["is_held_back"], {"tenant_id": tenant_id, "instance": instance}, bool)


async def count_in_flight(conn: Conn, *, tenant_ids: Sequence[UUID], queues: Sequence[str]) -> list[InFlight]:
    """Count the open leases of these lanes; a lane without any is not returned."""
    params = {"tenant_ids": list(tenant_ids), "queues": list(queues)}
    return await fetch_all(conn, _SQL["count_in_flight"], params, InFlight)


async def lock_tenants(conn: Conn, *, tenant_ids: Sequence[UUID], waits: bool) -> list[LockedTenant]:
    """Keep other claims of these tenants from counting; or leave out those that are counted just now."""
    params = {"tenant_ids": list(tenant_ids), "waits": waits}
    return await fetch_all(conn, _SQL["lock_tenants"], params, LockedTenant)


async def count_in_flight_of_tenants(conn: Conn, *, tenant_ids: Sequence[UUID]) -> list[TenantLoad]:
    """Count what these tenants have in flight, beside their limits."""
    return await fetch_all(conn, _SQL["count_in_flight_of_tenants"], {"tenant_ids": list(tenant_ids)}, TenantLoad)


async def find_lines_in_want(conn: Conn, *, tenant_ids: Sequence[UUID], now: datetime, limit: int) -> list[LaneOf]:
    """Return lines of these tenants in which something is due, where the tenant has a limit."""
    params = {"tenant_ids": list(tenant_ids), "now": now, "limit": limit}
    return await fetch_all(conn, _SQL["find_lines_in_want"], params, LaneOf)


async def claim_runs(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    quotas: Sequence[int],
    tasks: Sequence[str] | None,
    capped: Collection[str],
    limit: int,
    worker: str,
    lease_seconds: float,
    deadline_grace_seconds: float,
    now: datetime,
    open_tenants: Collection[UUID] = (),
    open_queues: Collection[str] = (),
    free_tenants: Collection[UUID] = (),
) -> list[Lease]:
    """Lease up to `limit` due runs to `worker`, at most the quota from each lane, as if nothing had grown old.

    Of the queues that are `capped` the end of each lease wakes whoever waits for room. The lines of `open_tenants` at
    `open_queues` are not held, and are believed to have no limit, and `free_tenants` to have none over all of their
    lines; the leases say if they do.
    """
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "quotas": list(quotas),
        "tasks": None if tasks is None else list(tasks),
        "capped": sorted(capped),
        "limit": limit,
        "worker": worker,
        "lease_seconds": lease_seconds,
        "deadline_grace_seconds": deadline_grace_seconds,
        "now": now,
        "open_tenants": sorted(open_tenants),
        "open_queues": sorted(open_queues),
        "free_tenants": sorted(free_tenants),
    }
    return await fetch_all(conn, _SQL["claim_runs"], params, Lease)


async def claim_aged(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    quotas: Sequence[int],
    tasks: Sequence[str] | None,
    capped: Collection[str],
    limit: int,
    worker: str,
    lease_seconds: float,
    deadline_grace_seconds: float,
    now: datetime,
    open_tenants: Collection[UUID] = (),
    open_queues: Collection[str] = (),
    free_tenants: Collection[UUID] = (),
) -> list[Lease]:
    """Do the same, and take what has grown old first."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "quotas": list(quotas),
        "tasks": None if tasks is None else list(tasks),
        "capped": sorted(capped),
        "limit": limit,
        "worker": worker,
        "lease_seconds": lease_seconds,
        "deadline_grace_seconds": deadline_grace_seconds,
        "now": now,
        "open_tenants": sorted(open_tenants),
        "open_queues": sorted(open_queues),
        "free_tenants": sorted(free_tenants),
    }
    return await fetch_all(conn, _SQL["claim_aged"], params, Lease)


async def claim_chosen(
    conn: Conn,
    *,
    places: Sequence[str],
    limit_keys: Sequence[str | None],
    capped: Collection[str],
    limit: int,
    worker: str,
    lease_seconds: float,
    deadline_grace_seconds: float,
    now: datetime,
    open_tenants: Collection[UUID] = (),
    open_queues: Collection[str] = (),
    free_tenants: Collection[UUID] = (),
) -> list[Lease]:
    """Lease those at `places`, which the same transaction has locked, each counted for its limit key."""
    params = {
        "places": list(places),
        "limit_keys": list(limit_keys),
        "capped": sorted(capped),
        "limit": limit,
        "worker": worker,
        "lease_seconds": lease_seconds,
        "deadline_grace_seconds": deadline_grace_seconds,
        "now": now,
        "open_tenants": sorted(open_tenants),
        "open_queues": sorted(open_queues),
        "free_tenants": sorted(free_tenants),
    }
    return await fetch_all(conn, _SQL["claim_chosen"], params, Lease)


async def look_at_named(
    conn: Conn, *, tenant_id: UUID, queues: Collection[str], run_ids: Sequence[UUID], now: datetime
) -> list[NamedRow]:
    """Say where these runs stand, each of them; whether they are held is said for these queues."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "run_ids": list(run_ids), "now": now}
    return await fetch_all(conn, _SQL["look_at_named"], params, NamedRow)


async def forget_told(conn: Conn, *, tenant_id: UUID, queues: Collection[str], run_ids: Sequence[UUID]) -> int:
    """Forget that these were announced, as far as they are of these queues."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "run_ids": list(run_ids)}
    return await execute_count(conn, _SQL["forget_told"], params)


async def tell_later(
    conn: Conn, *, tenant_id: UUID, queues: Collection[str], run_ids: Sequence[UUID], look_at: datetime
) -> int:
    """Let these be announced again from then on, if they still wait, as far as they are of these queues."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "run_ids": list(run_ids), "look_at": look_at}
    return await execute_count(conn, _SQL["tell_later"], params)


async def charge_lanes(
    conn: Conn, *, tenant_ids: Sequence[UUID], queues: Sequence[str], virtual_times: Sequence[float]
) -> int:
    """Move the lanes' virtual time."""
    params = {"tenant_ids": list(tenant_ids), "queues": list(queues), "virtual_times": list(virtual_times)}
    return await execute_count(conn, _SQL["charge_lanes"], params)


async def next_due(conn: Conn, *, tenant_id: UUID, queues: Sequence[str], now: datetime) -> datetime | None:
    """Return when the next run of these lines becomes due, or None."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "now": now}
    return await fetch_optional(conn, _SQL["next_due"], params, datetime)


async def renew_leases(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    tokens: Sequence[int],
    details: Sequence[str | None],
    started_ats: Sequence[datetime | None],
    allowed: Collection[str] | None,
    lease_seconds: float,
    deadline_grace_seconds: float,
    now: datetime,
) -> list[Renewal]:
    """Renew the leases whose token is still the run's; the others are not returned."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "allowed": _names(allowed),
        "tokens": list(tokens),
        "details": list(details),
        "started_ats": list(started_ats),
        "lease_seconds": lease_seconds,
        "deadline_grace_seconds": deadline_grace_seconds,
        "now": now,
    }
    return await fetch_all(conn, _SQL["renew_leases"], params, Renewal)


async def record_zombies(
    conn: Conn, *, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID], tokens: Sequence[int], now: datetime
) -> int:
    """Note in the histories of these runs that their attempts do nothing, unless that was noted."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids), "tokens": list(tokens), "now": now}
    return await execute_count(conn, _SQL["record_zombies"], params)


async def find_held_input(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, token: int, allowed: Collection[str] | None, now: datetime
) -> str | None:
    """Return the input of a run as JSON text for whoever holds it by this token; None: it is not held so."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "token": token, "allowed": _names(allowed), "now": now}
    return await fetch_optional(conn, _SQL["find_held_input"], params, str)


async def find_held_attempt(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, token: int, allowed: Collection[str] | None, now: datetime
) -> int | None:
    """Return which attempt of a run it is that is held by this token; None: it is not held so."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "token": token, "allowed": _names(allowed), "now": now}
    return await fetch_optional(conn, _SQL["find_held_attempt"], params, int)


async def lock_leases(
    conn: Conn,
    *,
    tenant_ids: Collection[UUID],
    run_ids: Sequence[UUID],
    judged: Sequence[UUID],
    allowed: Collection[str] | None,
) -> list[HeldLease]:
    """Lock the leases of these runs, as far as they are leased; those that are `judged` come with their policy."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "judged": list(judged),
        "allowed": _names(allowed),
    }
    return await fetch_all(conn, _SQL["lock_leases"], params, HeldLease)


async def lock_expired_leases(conn: Conn, *, now: datetime, limit: int) -> list[ExpiredLease]:
    """Lock up to `limit` leases that ran out, passing over those that another reaper holds."""
    return await fetch_all(conn, _SQL["lock_expired_leases"], {"now": now, "limit": limit}, ExpiredLease)


async def close_attempts(
    conn: Conn,
    *,
    tenant_ids: Collection[UUID],
    run_ids: Sequence[UUID],
    tokens: Sequence[int],
    verdicts: Sequence[int],
    states: Sequence[str],
    kinds: Sequence[str],
    reasons: Sequence[str | None],
    outcomes: Sequence[str | None],
    available_ats: Sequence[datetime | None] | None,
    failures: Sequence[int | None] | None,
    errors: Sequence[str | None] | None,
    results: Sequence[str | None] | None,
    started_ats: Sequence[datetime | None] | None,
    expires_ats: Sequence[datetime | None] | None,
    fingerprints: Sequence[str | None] | None,
    details: Sequence[str | None] | None,
    now: datetime,
) -> list[ClosedAttempt]:
    """Close attempts and move their runs; return those whose token still held. `run_ids` ascend."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "tokens": list(tokens),
        "verdicts": list(verdicts),
        "states": list(states),
        "kinds": list(kinds),
        "reasons": list(reasons),
        "outcomes": list(outcomes),
        "available_ats": available_ats,
        "failures": failures,
        "errors": errors,
        "results": results,
        "started_ats": started_ats,
        "expires_ats": expires_ats,
        "fingerprints": fingerprints,
        "details": details,
        "now": now,
    }
    return await fetch_all(conn, _SQL["close_attempts"], params, ClosedAttempt)


async def record_refusals(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    reasons: Sequence[str],
    details: Sequence[str],
    allowed: Collection[str] | None,
    now: datetime,
) -> int:
    """Append an event for each refused report of a run that exists."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "allowed": _names(allowed),
        "reasons": list(reasons),
        "details": list(details),
        "now": now,
    }
    return await execute_count(conn, _SQL["record_refusals"], params)


async def find_states(
    conn: Conn, *, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID], allowed: Collection[str] | None
) -> list[StateNow]:
    """Return what state these runs are in; an unknown run is not returned."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids), "allowed": _names(allowed)}
    return await fetch_all(conn, _SQL["find_states"], params, StateNow)


async def lock_overdue(conn: Conn, *, now: datetime, limit: int) -> list[OverdueRun]:
    """Lock up to `limit` waiting runs that may not begin any more, passing over those that another reaper holds."""
    return await fetch_all(conn, _SQL["lock_overdue"], {"now": now, "limit": limit}, OverdueRun)


async def end_overdue(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    states: Sequence[str],
    reasons: Sequence[str],
    now: datetime,
) -> list[Moved]:
    """End waiting runs; return them."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "states": list(states),
        "reasons": list(reasons),
        "now": now,
    }
    return await fetch_all(conn, _SQL["end_overdue"], params, Moved)


async def put_off_lease(conn: Conn, *, tenant_id: UUID, run_id: UUID, until: datetime) -> int:
    """Move a lease out of the reaper's way until then."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "until": until}
    return await execute_count(conn, _SQL["put_off_lease"], params)


def _names(allowed: Collection[str] | None) -> list[str] | None:
    return None if allowed is None else sorted(allowed)
