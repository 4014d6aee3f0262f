"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.claim_limits.model import (
    CandidateRow,
    FittingTask,
    FullLine,
    KeyRate,
    LaneOf,
    LineLimits,
    LineRate,
    Load,
    OfferedRun,
    ParkedRun,
    TaskKey,
    TaskLimit,
    TaskOf,
)
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.claim_limits")

Conn = AsyncConnection[Any]


async def lock_candidates(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    depths: Sequence[int],
    tasks: Sequence[str] | None,
    passed: Sequence[UUID],
    now: datetime,
) -> list[CandidateRow]:
    """Lock due runs of these lines, up to the depth of each, but for those that were `passed` over."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "depths": list(depths),
        "tasks": None if tasks is None else list(tasks),
        "passed": list(passed),
        "now": now,
    }
    return await fetch_all(conn, _SQL["lock_candidates"], params, CandidateRow)


async def lock_named(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_ids: Sequence[UUID],
    queues: Sequence[str],
    tasks: Sequence[str] | None,
    now: datetime,
) -> list[CandidateRow]:
    """Lock those of these runs that are due in these lines, but for those that somebody else has in hand."""
    params = {
        "tenant_id": tenant_id,
        "run_ids": list(run_ids),
        "queues": list(queues),
        "tasks": None if tasks is None else list(tasks),
        "now": now,
    }
    return await fetch_all(conn, _SQL["lock_named"], params, CandidateRow)


async def lock_limits(conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str]) -> list[TaskLimit]:
    """Lock the limits of these tasks, as far as they have any."""
    params = {"tenant_ids": list(tenant_ids), "tasks": list(tasks)}
    return await fetch_all(conn, _SQL["lock_limits"], params, TaskLimit)


async def lock_free_limits(conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str]) -> list[TaskLimit]:
    """Lock those of these that nobody else holds."""
    params = {"tenant_ids": list(tenant_ids), "tasks": list(tasks)}
    return await fetch_all(conn, _SQL["lock_free_limits"], params, TaskLimit)


async def lock_parked_limits(conn: Conn, *, after_tenant_id: UUID, after_task: str, limit: int) -> list[TaskLimit]:
    """Lock the next tasks of which some runs are parked, and that nobody else holds."""
    params = {"after_tenant_id": after_tenant_id, "after_task": after_task, "limit": limit}
    return await fetch_all(conn, _SQL["lock_parked_limits"], params, TaskLimit)


async def find_due_releases(
    conn: Conn, *, tenant_ids: Sequence[UUID], queues: Sequence[str], now: datetime, limit: int
) -> list[TaskOf]:
    """Return tasks of these lines of which a run waits for a token that is there."""
    params = {"tenant_ids": list(tenant_ids), "queues": list(queues), "now": now, "limit": limit}
    return await fetch_all(conn, _SQL["find_due_releases"], params, TaskOf)


async def find_fitting(
    conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str] | None, labels: str, free: str, limit: int
) -> list[FittingTask]:
    """Return tasks of these tenants of which runs are parked that fit a worker with this, as JSON texts."""
    params = {
        "tenant_ids": list(tenant_ids),
        "tasks": None if tasks is None else list(tasks),
        "labels": labels,
        "free": free,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["find_fitting"], params, FittingTask)


async def offer_fitting(
    conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str], rooms: Sequence[int], queues: Sequence[str]
) -> int:
    """Put up to the room of each of these tasks back into their lines at these queues; return how many runs."""
    params = {"tenant_ids": list(tenant_ids), "tasks": list(tasks), "rooms": list(rooms), "queues": list(queues)}
    return await execute_count(conn, _SQL["offer_fitting"], params)


async def mark_unfit(conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str], has_unfit: Sequence[bool]) -> int:
    """Note whether runs of these tasks are parked that did not fit."""
    params = {"tenant_ids": list(tenant_ids), "tasks": list(tasks), "has_unfit": list(has_unfit)}
    return await execute_count(conn, _SQL["mark_unfit"], params)


async def count_in_flight(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    tasks: Sequence[str],
    limit_keys: Sequence[str | None],
    with_offered: bool,
) -> list[Load]:
    """Count what is in flight of these tasks (key None) and keys, and what is offered if that is asked for."""
    params = {
        "tenant_ids": list(tenant_ids),
        "tasks": list(tasks),
        "limit_keys": list(limit_keys),
        "with_offered": with_offered,
    }
    return await fetch_all(conn, _SQL["count_in_flight"], params, Load)


async def adopt_leases(conn: Conn, *, tenant_id: UUID, task: str, prefix: str) -> int:
    """Have the leases of a task say what they count for; return how many did not."""
    return await execute_count(conn, _SQL["adopt_leases"], {"tenant_id": tenant_id, "task": task, "prefix": prefix})


async def count_unadopted(conn: Conn, *, tenant_id: UUID, task: str, prefix: str) -> int:
    """Return how many still do not."""
    params = {"tenant_id": tenant_id, "task": task, "prefix": prefix}
    return await fetch_one(conn, _SQL["count_unadopted"], params, int)


async def end_adoption(conn: Conn, *, tenant_id: UUID, task: str) -> int:
    """No lease can come to light any more that does not."""
    return await execute_count(conn, _SQL["end_adoption"], {"tenant_id": tenant_id, "task": task})


async def read_key_rates(
    conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str], limit_keys: Sequence[str]
) -> list[KeyRate]:
    """Return the buckets of these keys that are not full."""
    params = {"tenant_ids": list(tenant_ids), "tasks": list(tasks), "limit_keys": list(limit_keys)}
    return await fetch_all(conn, _SQL["read_key_rates"], params, KeyRate)


async def park_runs(conn: Conn, *, places: Sequence[str], resources: Sequence[str], now: datetime) -> int:
    """Park the runs at these places, which the caller holds, each for what it waits for."""
    params = {"places": list(places), "resources": list(resources), "now": now}
    return await execute_count(conn, _SQL["park_runs"], params)


async def park_behind(
    conn: Conn,
    *,
    lane_tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    tenant_ids: Sequence[UUID],
    tasks: Sequence[str],
    resources: Sequence[str],
    most: int,
    now: datetime,
) -> int:
    """Park what stands next in these lines and is of one of these tasks, for what it waits for; look at so many."""
    params = {
        "lane_tenant_ids": list(lane_tenant_ids),
        "queues": list(queues),
        "tenant_ids": list(tenant_ids),
        "tasks": list(tasks),
        "resources": list(resources),
        "most": most,
        "now": now,
    }
    return await execute_count(conn, _SQL["park_behind"], params)


async def offer_runs(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    tasks: Sequence[str],
    resources: Sequence[str],
    rooms: Sequence[int],
    now: datetime,
) -> list[OfferedRun]:
    """Let up to so many runs go that were parked for these, the old ones first."""
    params = {
        "tenant_ids": list(tenant_ids),
        "tasks": list(tasks),
        "resources": list(resources),
        "rooms": list(rooms),
        "now": now,
    }
    return await fetch_all(conn, _SQL["offer_runs"], params, OfferedRun)


async def list_groups(conn: Conn, *, tenant_id: UUID, task: str, after: str, limit: int) -> list[str]:
    """Return what runs of this task are parked for, after one of them."""
    params = {"tenant_id": tenant_id, "task": task, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_groups"], params, str)


async def mark_parked(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    tasks: Sequence[str],
    has_parked: Sequence[bool],
    release_ats: Sequence[datetime | None],
) -> int:
    """Note whether some of their runs are parked, and when the next token is there for one."""
    params = {
        "tenant_ids": list(tenant_ids),
        "tasks": list(tasks),
        "has_parked": list(has_parked),
        "release_ats": list(release_ats),
    }
    return await execute_count(conn, _SQL["mark_parked"], params)


async def charge_rates(
    conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str], full_ats: Sequence[datetime]
) -> int:
    """Write when the buckets of these tasks are full again."""
    params = {"tenant_ids": list(tenant_ids), "tasks": list(tasks), "full_ats": list(full_ats)}
    return await execute_count(conn, _SQL["charge_rates"], params)


async def charge_key_rates(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    tasks: Sequence[str],
    limit_keys: Sequence[str],
    full_ats: Sequence[datetime],
) -> int:
    """Write when the buckets of these keys are full again."""
    params = {
        "tenant_ids": list(tenant_ids),
        "tasks": list(tasks),
        "limit_keys": list(limit_keys),
        "full_ats": list(full_ats),
    }
    return await execute_count(conn, _SQL["charge_key_rates"], params)


async def sweep_key_rates(conn: Conn, *, before: datetime, limit: int) -> int:
    """Forget up to `limit` buckets that were full by then."""
    return await execute_count(conn, _SQL["sweep_key_rates"], {"before": before, "limit": limit})


async def lock_lanes(conn: Conn, *, tenant_ids: Collection[UUID], tasks: Collection[str]) -> list[LaneOf]:
    """Lock the lines of these tasks, and those that they had."""
    params = {"tenant_ids": sorted(tenant_ids), "tasks": sorted(tasks)}
    return await fetch_all(conn, _SQL["lock_lanes"], params, LaneOf)


async def mark_lanes(conn: Conn, *, tenant_ids: Collection[UUID], queues: Collection[str]) -> int:
    """Note in which of these lines runs of limited tasks may wait."""
    return await execute_count(conn, _SQL["mark_lanes"], {"tenant_ids": sorted(tenant_ids), "queues": sorted(queues)})


async def mark_lane(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Note that runs of limited tasks wait in this line."""
    return await execute_count(conn, _SQL["mark_lane"], {"tenant_id": tenant_id, "queue": queue})


async def save_limits(
    conn: Conn, *, tenant_ids: Collection[UUID], tasks: Collection[str], version: int, adopts_until: datetime
) -> int:
    """Write what these tasks say of limits as claims read it."""
    params = {
        "tenant_ids": sorted(tenant_ids),
        "tasks": sorted(tasks),
        "version": version,
        "adopts_until": adopts_until,
    }
    return await execute_count(conn, _SQL["save_limits"], params)


async def forget_limits(conn: Conn, *, tenant_ids: Sequence[UUID], tasks: Sequence[str]) -> int:
    """Remove those of these that limit nothing any more."""
    return await execute_count(conn, _SQL["forget_limits"], {"tenant_ids": list(tenant_ids), "tasks": list(tasks)})


async def read_line_rates(conn: Conn, *, tenant_ids: Sequence[UUID], queues: Sequence[str]) -> list[LineRate]:
    """Return how fast runs of these lines may begin, of those whose queues say so."""
    params = {"tenant_ids": list(tenant_ids), "queues": list(queues)}
    return await fetch_all(conn, _SQL["read_line_rates"], params, LineRate)


async def find_parked(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> ParkedRun | None:
    """Return what a run is parked for; None: it is not."""
    return await fetch_optional(conn, _SQL["find_parked"], {"tenant_id": tenant_id, "run_id": run_id}, ParkedRun)


async def fence(conn: Conn, *, tenant_id: UUID) -> bool:
    """Wait until every claim of the tenant's workers has ended, and keep others from beginning until the commit."""
    return await fetch_one(conn, _SQL["fence"], {"tenant_id": tenant_id}, bool)


async def mark_tenant_lanes(conn: Conn, *, tenant_id: UUID) -> int:
    """Note in all lines of a tenant whether it has a limit over all of them."""
    return await execute_count(conn, _SQL["mark_tenant_lanes"], {"tenant_id": tenant_id})


async def mark_new_lane(conn: Conn, *, tenant_id: UUID, queue: str) -> int:
    """Note in a line that its tenant has a limit over all of them, if it has."""
    return await execute_count(conn, _SQL["mark_new_lane"], {"tenant_id": tenant_id, "queue": queue})


async def cap_leases(conn: Conn, *, tenant_id: UUID, queues: Sequence[str], limit: int) -> int:
    """Have leases at these queues wake whoever waits for room when they end, but for those that somebody holds."""
    params = {"tenant_id": tenant_id, "queues": list(queues), "limit": limit}
    return await execute_count(conn, _SQL["cap_leases"], params)


async def list_lanes(conn: Conn, *, tenant_id: UUID) -> list[str]:
    """Return the queues at which a tenant has lines, but for those of the server itself."""
    return await fetch_all(conn, _SQL["list_lanes"], {"tenant_id": tenant_id}, str)


async def count_tenant(conn: Conn, *, tenant_id: UUID) -> int:
    """Return how many runs of a tenant are in flight, but for what the server itself has under way."""
    return await fetch_one(conn, _SQL["count_tenant"], {"tenant_id": tenant_id}, int)


async def read_line_limits(conn: Conn, *, tenant_id: UUID, queues: Sequence[str]) -> list[LineLimits]:
    """Return what limits these lines of a tenant, and how much of it is used."""
    params = {"tenant_id": tenant_id, "queues": list(queues)}
    return await fetch_all(conn, _SQL["read_line_limits"], params, LineLimits)


async def find_full_lines(
    conn: Conn, *, tenant_ids: Sequence[UUID], queues: Sequence[str], now: datetime
) -> list[FullLine]:
    """Return which of these lines a limit shuts, and which one."""
    params = {"tenant_ids": list(tenant_ids), "queues": list(queues), "now": now}
    return await fetch_all(conn, _SQL["find_full_lines"], params, FullLine)


def columns(keys: Sequence[TaskKey]) -> dict[str, Any]:
    """Return tenants and tasks as two arrays."""
    return {"tenant_ids": [tenant for tenant, _ in keys], "tasks": [task for _, task in keys]}
