"""One function for each statement of `queries.sql`: a page of ids of runs, the newest first.

All take ids below `before` and from `since` on, and look at up to `walk` rows. `any_run` says that nothing is asked of
the run's own row.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import fetch_all
from everwhen.postgres.sql import load

_SQL = load("everwhen.runs.listing")

Conn = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A run that fits, or the one at which the walk ended."""

    run_id: UUID
    fits: bool


async def page_runs(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    task: str | None,
    source: str | None,
) -> list[Place]:
    """Return ids of runs below `before`, from `since` on, the newest first."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "task": task,
        "source": source,
    }
    return await fetch_all(conn, _SQL["page_runs"], params, Place)


async def page_schedule_runs(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    schedule_uid: UUID,
    task: str | None,
    source: str | None,
) -> list[Place]:
    """Return ids of a schedule's runs, the newest first."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "schedule_uid": schedule_uid,
        "task": task,
        "source": source,
    }
    return await fetch_all(conn, _SQL["page_schedule_runs"], params, Place)


async def page_operation_runs(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    operation_id: UUID,
    state: str | None,
) -> list[Place]:
    """Return ids of the runs that an operation made, or those of them that ended in `state`."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "operation_id": operation_id,
        "state": state,
    }
    return await fetch_all(conn, _SQL["page_operation_runs"], params, Place)


async def page_origin_runs(
    conn: Conn, *, tenant_id: UUID, before: UUID, since: UUID, limit: int, origin_run_id: UUID
) -> list[Place]:
    """Return ids of the runs that were made from one run."""
    params = {"tenant_id": tenant_id, "before": before, "since": since, "limit": limit, "origin_run_id": origin_run_id}
    return await fetch_all(conn, _SQL["page_origin_runs"], params, Place)


async def page_ended(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    state: str,
    any_run: bool,
    schedule_uid: UUID | None,
    task: str | None,
    source: str | None,
    ended_from: datetime | None,
    ended_before: datetime | None,
    letter: str | None,
    reason: str | None,
) -> list[Place]:
    """Return ids of runs that ended in a state that is no success."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "state": state,
        "any_run": any_run,
        "schedule_uid": schedule_uid,
        "task": task,
        "source": source,
        "ended_from": ended_from,
        "ended_before": ended_before,
        "letter": letter,
        "reason": reason,
    }
    return await fetch_all(conn, _SQL["page_ended"], params, Place)


async def page_dead(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    fingerprint: str,
    any_run: bool,
    schedule_uid: UUID | None,
    task: str | None,
    source: str | None,
    ended_from: datetime | None,
    ended_before: datetime | None,
    letter: str | None,
    reason: str | None,
) -> list[Place]:
    """Return ids of dead runs with this fingerprint."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "fingerprint": fingerprint,
        "any_run": any_run,
        "schedule_uid": schedule_uid,
        "task": task,
        "source": source,
        "ended_from": ended_from,
        "ended_before": ended_before,
        "letter": letter,
        "reason": reason,
    }
    return await fetch_all(conn, _SQL["page_dead"], params, Place)


async def page_dead_nameless(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    any_run: bool,
    schedule_uid: UUID | None,
    task: str | None,
    source: str | None,
    ended_from: datetime | None,
    ended_before: datetime | None,
    letter: str | None,
    reason: str | None,
) -> list[Place]:
    """Return ids of dead runs without a fingerprint."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "any_run": any_run,
        "schedule_uid": schedule_uid,
        "task": task,
        "source": source,
        "ended_from": ended_from,
        "ended_before": ended_before,
        "letter": letter,
        "reason": reason,
    }
    return await fetch_all(conn, _SQL["page_dead_nameless"], params, Place)


async def page_succeeded(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    any_run: bool,
    schedule_uid: UUID | None,
    task: str | None,
    source: str | None,
) -> list[Place]:
    """Return ids of runs that succeeded."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "any_run": any_run,
        "schedule_uid": schedule_uid,
        "task": task,
        "source": source,
    }
    return await fetch_all(conn, _SQL["page_succeeded"], params, Place)


async def page_running(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    any_run: bool,
    schedule_uid: UUID | None,
    task: str | None,
    source: str | None,
    planned_before: datetime | None,
) -> list[Place]:
    """Return ids of runs that a worker holds."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "any_run": any_run,
        "schedule_uid": schedule_uid,
        "task": task,
        "source": source,
        "planned_before": planned_before,
    }
    return await fetch_all(conn, _SQL["page_running"], params, Place)


async def page_resting(
    conn: Conn,
    *,
    tenant_id: UUID,
    before: UUID,
    since: UUID,
    limit: int,
    walk: int,
    any_run: bool,
    schedule_uid: UUID | None,
    task: str | None,
    source: str | None,
    planned_before: datetime | None,
    due: bool,
    failed: bool,
    now: datetime,
) -> list[Place]:
    """Return ids of runs in the line: due, or not yet with a failure behind them or without one."""
    params = {
        "tenant_id": tenant_id,
        "before": before,
        "since": since,
        "limit": limit,
        "walk": walk,
        "any_run": any_run,
        "schedule_uid": schedule_uid,
        "task": task,
        "source": source,
        "planned_before": planned_before,
        "due": due,
        "failed": failed,
        "now": now,
    }
    return await fetch_all(conn, _SQL["page_resting"], params, Place)
