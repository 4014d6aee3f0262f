"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_optional
from everwhen.postgres.sql import load
from everwhen.schedules.arrears.model import ArrearsRow, RevisionSpec

_SQL = load("everwhen.schedules.arrears")

Conn = AsyncConnection[Any]


async def insert_arrears(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    causes: Sequence[str],
    revisions: Sequence[int],
    rules: Sequence[str | None],
    skip_reasons: Sequence[str],
    sinces: Sequence[datetime],
    untils: Sequence[datetime],
    late_befores: Sequence[datetime],
    helds: Sequence[bool],
    answered: Sequence[str | None],
    now: datetime,
) -> int:
    """Open arrears, or hold them from the start. `rules` are JSON text, `answered` lists."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "causes": list(causes),
        "revisions": list(revisions),
        "rules": list(rules),
        "skip_reasons": list(skip_reasons),
        "sinces": list(sinces),
        "untils": list(untils),
        "late_befores": list(late_befores),
        "helds": list(helds),
        "answered": list(answered),
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_arrears"], params)


async def lock_arrears(conn: Conn, *, now: datetime, limit: int) -> list[ArrearsRow]:
    """Lock up to `limit` arrears to be worked on, passing over those that somebody works on."""
    return await fetch_all(conn, _SQL["lock_arrears"], {"now": now, "limit": limit}, ArrearsRow)


async def read_revision_specs(
    conn: Conn, *, tenant_ids: Sequence[UUID], uids: Sequence[UUID], revisions: Sequence[int]
) -> list[RevisionSpec]:
    """Read the specs of some revisions."""
    params = {"tenant_ids": list(tenant_ids), "uids": list(uids), "revisions": list(revisions)}
    return await fetch_all(conn, _SQL["read_revision_specs"], params, RevisionSpec)


async def save_steps(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    arrears_ids: Sequence[int],
    rest_afters: Sequence[datetime],
    rest_untils: Sequence[datetime],
    first_runs: Sequence[datetime | None],
    last_runs: Sequence[datetime | None],
    open_spans: Sequence[str | None],
    paced_untils: Sequence[datetime | None],
    runs: Sequence[int],
    coalesced: Sequence[int],
    skipped: Sequence[int],
    missed: Sequence[int],
    look_ats: Sequence[datetime | None],
    now: datetime,
) -> int:
    """Keep what is left of arrears after a step; without a time to look at them again they are finished."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "arrears_ids": list(arrears_ids),
        "rest_afters": list(rest_afters),
        "rest_untils": list(rest_untils),
        "first_runs": list(first_runs),
        "last_runs": list(last_runs),
        "open_spans": list(open_spans),
        "paced_untils": list(paced_untils),
        "runs": list(runs),
        "coalesced": list(coalesced),
        "skipped": list(skipped),
        "missed": list(missed),
        "look_ats": list(look_ats),
        "now": now,
    }
    return await execute_count(conn, _SQL["save_steps"], params)


async def put_off_arrears(
    conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, arrears_id: int, look_at: datetime, error: str
) -> int:
    """Put off arrears that could not be worked on, with the error."""
    params = {
        "tenant_id": tenant_id,
        "schedule_uid": schedule_uid,
        "arrears_id": arrears_id,
        "look_at": look_at,
        "error": error,
    }
    return await execute_count(conn, _SQL["put_off_arrears"], params)


async def hold_arrears(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID) -> int:
    """Hold what is left of a schedule's arrears."""
    return await execute_count(conn, _SQL["hold_arrears"], {"tenant_id": tenant_id, "schedule_uid": schedule_uid})


async def release_arrears(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, rule: str, now: datetime) -> int:
    """Let a schedule's held arrears go on; those without a rule get this one (JSON text)."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "rule": rule, "now": now}
    return await execute_count(conn, _SQL["release_arrears"], params)


async def drop_arrears(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, reason: str, now: datetime) -> int:
    """Have what is left of a schedule's arrears recorded as skipped, for this reason."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "reason": reason, "now": now}
    return await execute_count(conn, _SQL["drop_arrears"], params)


async def list_arrears(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, before: int, limit: int) -> list[ArrearsRow]:
    """Return up to `limit` arrears of a schedule that are older than one, the newest first."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "before": before, "limit": limit}
    return await fetch_all(conn, _SQL["list_arrears"], params, ArrearsRow)


async def list_unfinished(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, limit: int) -> list[ArrearsRow]:
    """Return up to `limit` arrears of a schedule that are not finished, the oldest first."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "limit": limit}
    return await fetch_all(conn, _SQL["list_unfinished"], params, ArrearsRow)


async def next_look(conn: Conn) -> datetime | None:
    """Return when the earliest arrears are to be worked on, over all tenants."""
    return await fetch_optional(conn, _SQL["next_look"], {}, datetime)
