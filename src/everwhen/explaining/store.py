"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.core.explaining import LeftBehind
from everwhen.explaining.model import (
    AheadRow,
    BlockedRow,
    Generation,
    LaneKey,
    LineState,
    ObservedRow,
    PauseChange,
    RevisionRow,
    SpanRow,
    StandingLine,
    TaskPolicy,
)
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.explaining")

Conn = AsyncConnection[Any]


async def record_sightings(
    conn: Conn,
    *,
    server_id: UUID,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    tasks: Sequence[str | None],
    now: datetime,
) -> int:
    """Note who has asked for runs; `tasks` are JSON arrays of names, None where somebody takes anything."""
    params = {
        "server_id": server_id,
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "tasks": list(tasks),
        "now": now,
    }
    return await execute_count(conn, _SQL["record_sightings"], params)


async def forget_sightings(conn: Conn, *, before: datetime, limit: int) -> int:
    """Delete up to `limit` sightings that are older; return how many went."""
    return await execute_count(conn, _SQL["forget_sightings"], {"before": before, "limit": limit})


async def forget_states(conn: Conn, *, before: datetime, limit: int) -> int:
    """Drop up to `limit` states that ended before then; return how many."""
    return await execute_count(conn, _SQL["forget_states"], {"before": before, "limit": limit})


async def forget_observations(conn: Conn, *, before: datetime, limit: int) -> int:
    """Drop up to `limit` stretches of watching that ended before then; return how many."""
    return await execute_count(conn, _SQL["forget_observations"], {"before": before, "limit": limit})


async def look_at_lines(
    conn: Conn, *, after_tenant_id: UUID, after_queue: str, standing: datetime, limit: int
) -> list[LaneKey]:
    """Return the next `limit` lines after this key."""
    params = {
        "after_tenant_id": after_tenant_id,
        "after_queue": after_queue,
        "standing": standing,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["look_at_lines"], params, LaneKey)


async def look_closer(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    oldest: Sequence[datetime],
    now: datetime,
    live: datetime,
    present: datetime,
    relayed: datetime,
    most: int,
) -> list[StandingLine]:
    """Return what is seen of these lines; counts stop at `most`. Who asked counts since `live`, who
    announced itself since `present`, a relay since `relayed`.
    """
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "oldest": list(oldest),
        "now": now,
        "live": live,
        "present": present,
        "relayed": relayed,
        "most": most,
    }
    return await fetch_all(conn, _SQL["look_closer"], params, StandingLine)


async def open_states(
    conn: Conn, *, after_tenant_id: UUID, after_queue: str, last_tenant_id: UUID, last_queue: str, limit: int
) -> list[LineState]:
    """Return what blocks the lines of this range of keys as far as it is known."""
    params = {
        "after_tenant_id": after_tenant_id,
        "after_queue": after_queue,
        "last_tenant_id": last_tenant_id,
        "last_queue": last_queue,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["open_states"], params, LineState)


async def close_states(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    tasks: Sequence[str],
    reasons: Sequence[str],
    now: datetime,
) -> int:
    """End what is over."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "tasks": list(tasks),
        "reasons": list(reasons),
        "now": now,
    }
    return await execute_count(conn, _SQL["close_states"], params)


async def insert_states(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    queues: Sequence[str],
    tasks: Sequence[str],
    reasons: Sequence[str],
    sinces: Sequence[datetime],
    facts: Sequence[str],
    now: datetime,
) -> int:
    """Note what has begun; `facts` are JSON texts."""
    params = {
        "tenant_ids": list(tenant_ids),
        "queues": list(queues),
        "tasks": list(tasks),
        "reasons": list(reasons),
        "sinces": list(sinces),
        "facts": list(facts),
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_states"], params)


async def extend_observation(
    conn: Conn, *, observer_id: UUID, since: datetime, unbroken: datetime, now: datetime
) -> int:
    """Say that the observer has watched from `since` until now; 0 when its last look was before `unbroken`."""
    params = {"observer_id": observer_id, "since": since, "unbroken": unbroken, "now": now}
    return await execute_count(conn, _SQL["extend_observation"], params)


async def begin_observation(conn: Conn, *, observer_id: UUID, now: datetime) -> int:
    """Begin a stretch of watching."""
    return await execute_count(conn, _SQL["begin_observation"], {"observer_id": observer_id, "now": now})


async def find_generations(conn: Conn, *, tenant_id: UUID, name: str, limit: int) -> list[Generation]:
    """Return the schedules that have had this name, the newest first."""
    params = {"tenant_id": tenant_id, "name": name, "limit": limit}
    return await fetch_all(conn, _SQL["find_generations"], params, Generation)


async def get_generation(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID) -> Generation | None:
    """Read one schedule, deleted or not."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    return await fetch_optional(conn, _SQL["get_generation"], params, Generation)


async def revision_in_force(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, at: datetime) -> RevisionRow | None:
    """Return what the schedule was at an instant."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "at": at}
    return await fetch_optional(conn, _SQL["revision_in_force"], params, RevisionRow)


async def get_revision(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, revision: int) -> RevisionRow | None:
    """Return one revision of a schedule."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "revision": revision}
    return await fetch_optional(conn, _SQL["get_revision"], params, RevisionRow)


async def get_task_policy(conn: Conn, *, tenant_id: UUID, task: str) -> TaskPolicy | None:
    """Return what a task says of its runs."""
    return await fetch_optional(conn, _SQL["get_task_policy"], {"tenant_id": tenant_id, "task": task}, TaskPolicy)


async def find_span(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, at: datetime) -> SpanRow | None:
    """Return the recorded span that an instant lies in."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "at": at}
    return await fetch_optional(conn, _SQL["find_span"], params, SpanRow)


async def list_spans_near(
    conn: Conn,
    *,
    tenant_id: UUID,
    schedule_uid: UUID,
    first_at: datetime,
    verdict: str,
    reason: str,
    limit: int,
) -> list[SpanRow]:
    """Return the span that begins at `first_at`, and up to `limit` on either side that say the same."""
    params = {
        "tenant_id": tenant_id,
        "schedule_uid": schedule_uid,
        "first_at": first_at,
        "verdict": verdict,
        "reason": reason,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["list_spans_near"], params, SpanRow)


async def find_arrears(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, at: datetime) -> LeftBehind | None:
    """Return the arrears that an instant was left in."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "at": at}
    return await fetch_optional(conn, _SQL["find_arrears"], params, LeftBehind)


async def decided_before(
    conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, at: datetime, before: datetime
) -> datetime | None:
    """Return when the schedule was looked at last before `before`, by its traces up to the instant `at`."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "at": at, "before": before}
    return await fetch_optional(conn, _SQL["decided_before"], params, datetime)


async def list_blocked(
    conn: Conn, *, tenant_id: UUID, queue: str, task: str, since: datetime, until: datetime, limit: int
) -> list[BlockedRow]:
    """Return what blocked a line, or this task of it, between two instants."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "task": task,
        "since": since,
        "until": until,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["list_blocked"], params, BlockedRow)


async def list_pause_changes(
    conn: Conn, *, tenant_id: UUID, queue: str, until: datetime, limit: int
) -> list[PauseChange]:
    """Return the latest pauses of a queue and of the tenant, and their ends, before an instant, oldest first."""
    params = {"tenant_id": tenant_id, "queue": queue, "until": until, "limit": limit}
    return await fetch_all(conn, _SQL["list_pause_changes"], params, PauseChange)


async def list_observed(conn: Conn, *, since: datetime, until: datetime, limit: int) -> list[ObservedRow]:
    """Return the stretches between two instants in which somebody watched."""
    return await fetch_all(conn, _SQL["list_observed"], {"since": since, "until": until, "limit": limit}, ObservedRow)


async def count_ahead(
    conn: Conn,
    *,
    tenant_id: UUID,
    queue: str,
    priority: int,
    available_at: datetime,
    run_id: UUID,
    now: datetime,
    most: int,
) -> list[AheadRow]:
    """Count the due runs ahead of one by priority, the highest first, at most `most` of each."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "priority": priority,
        "available_at": available_at,
        "run_id": run_id,
        "now": now,
        "most": most,
    }
    return await fetch_all(conn, _SQL["count_ahead"], params, AheadRow)


async def last_turn(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, at: datetime) -> str | None:
    """Return `created`, `paused` or `resumed`, whichever of them came last by an instant; None before all of them."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "at": at}
    return await fetch_optional(conn, _SQL["last_turn"], params, str)
