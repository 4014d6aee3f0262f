"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.core.punctuality import DayCounts
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.sentinel.model import (
    Fact,
    Finding,
    Lags,
    MeasuredSchedule,
    MissedSpan,
    Objective,
    OpenCount,
    Start,
    WaitingLine,
)

_SQL = load("everwhen.sentinel")

Conn = AsyncConnection[Any]


async def lock_sentinel(conn: Conn) -> bool | None:
    """Return True when nobody else is at it, until the transaction ends; None: somebody is."""
    return await fetch_optional(conn, _SQL["lock_sentinel"], {}, bool)


async def overdue_schedules(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return schedules that had to be looked at before then."""
    return await fetch_all(conn, _SQL["overdue_schedules"], {"before": before, "limit": limit}, Fact)


async def schedules_put_off(conn: Conn, *, limit: int) -> list[Fact]:
    """Return schedules that cannot be planned."""
    return await fetch_all(conn, _SQL["schedules_put_off"], {"limit": limit}, Fact)


async def lines_that_wait(conn: Conn, *, before: datetime, limit: int) -> list[WaitingLine]:
    """Return lines whose oldest run was due before then."""
    return await fetch_all(conn, _SQL["lines_that_wait"], {"before": before, "limit": limit}, WaitingLine)


async def leases_unreaped(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return lines with leases that ran out before then."""
    return await fetch_all(conn, _SQL["leases_unreaped"], {"before": before, "limit": limit}, Fact)


async def runs_unexpired(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return lines with runs whose start deadline was before then."""
    return await fetch_all(conn, _SQL["runs_unexpired"], {"before": before, "limit": limit}, Fact)


async def alerts_standing_still(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return channels with alerts that were due before then, and what nobody has matched since."""
    return await fetch_all(conn, _SQL["alerts_standing_still"], {"before": before, "limit": limit}, Fact)


async def channels_disabled(conn: Conn, *, limit: int) -> list[Fact]:
    """Return channels that were disabled by what they refused."""
    return await fetch_all(conn, _SQL["channels_disabled"], {"limit": limit}, Fact)


async def gates_standing_still(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return schedules with runs behind their gates that had to be looked at before then."""
    return await fetch_all(conn, _SQL["gates_standing_still"], {"before": before, "limit": limit}, Fact)


async def arrears_standing_still(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return schedules whose catching up had to go on before then, or cannot."""
    return await fetch_all(conn, _SQL["arrears_standing_still"], {"before": before, "limit": limit}, Fact)


async def operations_standing_still(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return operations that had to be looked at before then."""
    return await fetch_all(conn, _SQL["operations_standing_still"], {"before": before, "limit": limit}, Fact)


async def workflows_standing_still(conn: Conn, *, before: datetime, limit: int) -> list[Fact]:
    """Return workflows with runs that nobody has moved on since before then, though it was time to."""
    return await fetch_all(conn, _SQL["workflows_standing_still"], {"before": before, "limit": limit}, Fact)


async def record_facts(
    conn: Conn,
    *,
    kind: str,
    tenant_ids: Sequence[UUID],
    subjects: Sequence[str],
    sinces: Sequence[datetime],
    details: Sequence[str],
    now: datetime,
) -> int:
    """See open findings again and open others; return how many were opened."""
    parameters = {
        "kind": kind,
        "tenant_ids": list(tenant_ids),
        "subjects": list(subjects),
        "sinces": list(sinces),
        "details": list(details),
        "now": now,
    }
    return await execute_count(conn, _SQL["record_facts"], parameters)


async def close_unseen(conn: Conn, *, kind: str, now: datetime, limit: int) -> int:
    """Close the findings of a kind that were not seen now; return how many."""
    return await execute_count(conn, _SQL["close_unseen"], {"kind": kind, "now": now, "limit": limit})


async def list_findings(conn: Conn, *, tenant_id: UUID, is_open: bool, before: int, limit: int) -> list[Finding]:
    """Return findings numbered below `before`, the newest first."""
    parameters = {"tenant_id": tenant_id, "is_open": is_open, "before": before, "limit": limit}
    return await fetch_all(conn, _SQL["list_findings"], parameters, Finding)


async def list_all_findings(conn: Conn, *, is_open: bool, before: int, limit: int) -> list[Finding]:
    """Return findings of all tenants, numbered below `before`, the newest first."""
    parameters = {"is_open": is_open, "before": before, "limit": limit}
    return await fetch_all(conn, _SQL["list_all_findings"], parameters, Finding)


async def look_at_lags(conn: Conn, *, now: datetime) -> Lags:
    """Return since when planning and claiming are late."""
    return await fetch_one(conn, _SQL["look_at_lags"], {"now": now}, Lags)


async def count_open(conn: Conn) -> list[OpenCount]:
    """Return how many findings are open, by kind."""
    return await fetch_all(conn, _SQL["count_open"], {}, OpenCount)


async def page_measured(
    conn: Conn, *, after_tenant_id: UUID, after_uid: UUID, default_objective: float, limit: int
) -> list[MeasuredSchedule]:
    """Return a page of schedules, by key."""
    parameters = {
        "after_tenant_id": after_tenant_id,
        "after_uid": after_uid,
        "default_objective": default_objective,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["page_measured"], parameters, MeasuredSchedule)


async def read_starts(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    uids: Sequence[UUID],
    afters: Sequence[datetime],
    untils: Sequence[datetime],
    limit: int,
) -> list[Start]:
    """Return runs that became due in (after, until], by schedule, at most `limit` of each."""
    parameters = _stretches(tenant_ids, uids, afters, untils) | {"limit": limit}
    return await fetch_all(conn, _SQL["read_starts"], parameters, Start)


async def read_missed(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    uids: Sequence[UUID],
    afters: Sequence[datetime],
    untils: Sequence[datetime],
) -> list[MissedSpan]:
    """Return spans of missed instants that began in (after, until]."""
    return await fetch_all(conn, _SQL["read_missed"], _stretches(tenant_ids, uids, afters, untils), MissedSpan)


async def add_days(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    uids: Sequence[UUID],
    days: Sequence[date],
    on_times: Sequence[int],
    lates: Sequence[int],
    bucket_lists: Sequence[str],
) -> int:
    """Add counts to the days of schedules; each list of buckets is a JSON array."""
    parameters = {
        "tenant_ids": list(tenant_ids),
        "uids": list(uids),
        "days": list(days),
        "on_times": list(on_times),
        "lates": list(lates),
        "bucket_lists": list(bucket_lists),
    }
    return await execute_count(conn, _SQL["add_days"], parameters)


async def set_measured(
    conn: Conn, *, tenant_ids: Sequence[UUID], uids: Sequence[UUID], untils: Sequence[datetime]
) -> int:
    """Note how far schedules are counted."""
    parameters = {"tenant_ids": list(tenant_ids), "uids": list(uids), "untils": list(untils)}
    return await execute_count(conn, _SQL["set_measured"], parameters)


async def set_objective(
    conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, objective_seconds: float, among: Sequence[int] | None
) -> int:
    """Say how late the starts of a schedule may be; 0 when its revision is not among these (None: any)."""
    parameters = {
        "tenant_id": tenant_id,
        "schedule_uid": schedule_uid,
        "objective_seconds": objective_seconds,
        "among": None if among is None else list(among),
    }
    return await execute_count(conn, _SQL["set_objective"], parameters)


async def get_objective(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID) -> Objective | None:
    """Return a schedule's objective and how far it is counted; None: not yet."""
    parameters = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    return await fetch_optional(conn, _SQL["get_objective"], parameters, Objective)


async def read_punctuality(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, after: date) -> list[DayCounts]:
    """Return the counted days of a schedule after this one."""
    parameters = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "after": after}
    return await fetch_all(conn, _SQL["read_punctuality"], parameters, DayCounts)


def _stretches(
    tenant_ids: Sequence[UUID], uids: Sequence[UUID], afters: Sequence[datetime], untils: Sequence[datetime]
) -> dict[str, Any]:
    return {"tenant_ids": list(tenant_ids), "uids": list(uids), "afters": list(afters), "untils": list(untils)}
