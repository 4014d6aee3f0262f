"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.core.backfill import VerdictSpan
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.runs.model import (
    Admission,
    Attempt,
    LastError,
    LinedUp,
    Outcome,
    PlannedAhead,
    RunEvent,
    RunRow,
    ScheduleTarget,
    TailedEvent,
)

_SQL = load("everwhen.runs")

Conn = AsyncConnection[Any]


async def ensure_week(conn: Conn, *, instant: datetime) -> bool:
    """Make the partitions for the week around an instant; return whether they were missing."""
    return await fetch_one(conn, _SQL["ensure_week"], {"instant": instant}, bool)


async def insert_planned(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    run_ids: Sequence[UUID],
    nominal_ats: Sequence[datetime],
    due_ats: Sequence[datetime],
    utc_offsets: Sequence[int],
    tz_version: str,
    now: datetime,
) -> int:
    """Write intended runs, their places in the line and their events; return how many were not there yet."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "run_ids": list(run_ids),
        "nominal_ats": list(nominal_ats),
        "due_ats": list(due_ats),
        "utc_offsets": list(utc_offsets),
        "tz_version": tz_version,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_planned"], params)


async def insert_rolled(
    conn: Conn, *, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID], details: Sequence[str | None], now: datetime
) -> int:
    """Record which calendar moved each run, of those planned at `now`; `details` are JSON texts."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids), "details": list(details), "now": now}
    return await execute_count(conn, _SQL["insert_rolled"], params)


async def insert_verdicts(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    run_ids: Sequence[UUID],
    nominal_ats: Sequence[datetime],
    due_ats: Sequence[datetime],
    utc_offsets: Sequence[int],
    states: Sequence[str],
    reasons: Sequence[str],
    details: Sequence[str | None],
    tz_version: str,
    now: datetime,
) -> int:
    """Write instants that will not run, each with its verdict and reason; return how many were not there yet."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "run_ids": list(run_ids),
        "nominal_ats": list(nominal_ats),
        "due_ats": list(due_ats),
        "utc_offsets": list(utc_offsets),
        "states": list(states),
        "reasons": list(reasons),
        "details": list(details),
        "tz_version": tz_version,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_verdicts"], params)


async def insert_caught_up(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    revisions: Sequence[int],
    run_ids: Sequence[UUID],
    nominal_ats: Sequence[datetime],
    due_ats: Sequence[datetime],
    available_ats: Sequence[datetime],
    utc_offsets: Sequence[int],
    priorities: Sequence[int | None],
    priority_offsets: Sequence[int],
    stands_fors: Sequence[str | None],
    reasons: Sequence[str | None],
    details: Sequence[str | None],
    tz_version: str,
    now: datetime,
) -> int:
    """Write runs for missed instants, with their turns and their events; return how many were not there yet."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "revisions": list(revisions),
        "run_ids": list(run_ids),
        "nominal_ats": list(nominal_ats),
        "due_ats": list(due_ats),
        "available_ats": list(available_ats),
        "utc_offsets": list(utc_offsets),
        "priorities": list(priorities),
        "priority_offsets": list(priority_offsets),
        "stands_fors": list(stands_fors),
        "reasons": list(reasons),
        "details": list(details),
        "tz_version": tz_version,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_caught_up"], params)


async def insert_caught_up_verdicts(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    revisions: Sequence[int],
    run_ids: Sequence[UUID],
    nominal_ats: Sequence[datetime],
    utc_offsets: Sequence[int],
    states: Sequence[str],
    reasons: Sequence[str],
    details: Sequence[str | None],
    tz_version: str,
    now: datetime,
) -> int:
    """Write missed instants that do not run; return how many were not there yet. `details` are JSON text."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "revisions": list(revisions),
        "run_ids": list(run_ids),
        "nominal_ats": list(nominal_ats),
        "utc_offsets": list(utc_offsets),
        "states": list(states),
        "reasons": list(reasons),
        "details": list(details),
        "tz_version": tz_version,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_caught_up_verdicts"], params)


async def insert_spans(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    first_ats: Sequence[datetime],
    last_ats: Sequence[datetime],
    instants: Sequence[int],
    verdicts: Sequence[str],
    reasons: Sequence[str],
    details: Sequence[str | None],
    now: datetime,
) -> int:
    """Write spans of equal verdicts."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "first_ats": list(first_ats),
        "last_ats": list(last_ats),
        "instants": list(instants),
        "verdicts": list(verdicts),
        "reasons": list(reasons),
        "details": list(details),
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_spans"], params)


async def insert_requested(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    task: str,
    schedule_uid: UUID | None,
    schedule_revision: int | None,
    priority: int | None,
    due_at: datetime,
    input: str,  # noqa: A002  # the column's name
    is_followed: bool = False,
    now: datetime,
) -> LinedUp | None:
    """Write a run that somebody asked for; None when there is no such task. `input` is JSON text."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "task": task,
        "schedule_uid": schedule_uid,
        "schedule_revision": schedule_revision,
        "priority": priority,
        "due_at": due_at,
        "input": input,
        "is_followed": is_followed,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["insert_requested"], params, LinedUp)


async def insert_redriven(
    conn: Conn,
    *,
    tenant_id: UUID,
    origin_run_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    priority: int | None,
    input: str | None,  # noqa: A002  # the column's name
    operation_id: UUID | None,
    detail: str,
    is_free: bool,
    is_patient: bool,
    now: datetime,
) -> list[LinedUp]:
    """Make runs from dead ones and line them up; return those that are new. `input` and `detail` are JSON texts."""
    params = {
        "tenant_id": tenant_id,
        "origin_run_ids": list(origin_run_ids),
        "run_ids": list(run_ids),
        "priority": priority,
        "input": input,
        "operation_id": operation_id,
        "detail": detail,
        "is_free": is_free,
        "is_patient": is_patient,
        "now": now,
    }
    return await fetch_all(conn, _SQL["insert_redriven"], params, LinedUp)


async def share_schedules(conn: Conn, *, tenant_id: UUID, schedule_uids: Sequence[UUID]) -> list[UUID]:
    """Keep these schedules as they are until this transaction ends."""
    params = {"tenant_id": tenant_id, "schedule_uids": list(schedule_uids)}
    return await fetch_all(conn, _SQL["share_schedules"], params, UUID)


async def share_schedules_of(conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[UUID]:
    """Keep the schedules of these runs as they are until this transaction ends."""
    return await fetch_all(conn, _SQL["share_schedules_of"], {"tenant_id": tenant_id, "run_ids": list(run_ids)}, UUID)


async def insert_backfilled(
    conn: Conn,
    *,
    tenant_id: UUID,
    schedule_uid: UUID,
    run_ids: Sequence[UUID],
    nominal_ats: Sequence[datetime],
    utc_offsets: Sequence[int],
    priority: int,
    operation_id: UUID,
    tz_version: str,
    detail: str,
    is_free: bool,
    is_patient: bool,
    now: datetime,
) -> list[LinedUp]:
    """Make a schedule's runs for past instants and line them up; return those that are new."""
    params = {
        "tenant_id": tenant_id,
        "schedule_uid": schedule_uid,
        "run_ids": list(run_ids),
        "nominal_ats": list(nominal_ats),
        "utc_offsets": list(utc_offsets),
        "priority": priority,
        "operation_id": operation_id,
        "tz_version": tz_version,
        "detail": detail,
        "is_free": is_free,
        "is_patient": is_patient,
        "now": now,
    }
    return await fetch_all(conn, _SQL["insert_backfilled"], params, LinedUp)


async def find_outcomes(
    conn: Conn,
    *,
    tenant_id: UUID,
    schedule_uid: UUID,
    first_at: datetime,
    last_at: datetime,
    first_id_at: datetime,
    last_id_at: datetime,
) -> list[Outcome]:
    """Return what became of a schedule's instants within two, both included, whose ids lie within two others."""
    params = {
        "tenant_id": tenant_id,
        "schedule_uid": schedule_uid,
        "first_at": first_at,
        "last_at": last_at,
        "first_id_at": first_id_at,
        "last_id_at": last_id_at,
    }
    return await fetch_all(conn, _SQL["find_outcomes"], params, Outcome)


async def find_spans(
    conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, first_at: datetime, last_at: datetime
) -> list[VerdictSpan]:
    """Return the spans of a schedule that touch a stretch of time."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "first_at": first_at, "last_at": last_at}
    return await fetch_all(conn, _SQL["find_spans"], params, VerdictSpan)


async def insert_held(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    task: str,
    schedule_uid: UUID,
    schedule_revision: int,
    priority: int | None,
    due_at: datetime,
    input: str,  # noqa: A002  # the column's name
    is_patient: bool,
    now: datetime,
) -> LinedUp | None:
    """Write a run of a gated schedule that somebody asked for; None without such a task. `input` is JSON text."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "task": task,
        "schedule_uid": schedule_uid,
        "schedule_revision": schedule_revision,
        "priority": priority,
        "due_at": due_at,
        "input": input,
        "is_patient": is_patient,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["insert_held"], params, LinedUp)


async def find_in_need_of(conn: Conn, *, tenant_id: UUID, text: str) -> UUID | None:
    """Return a live run, or an open dead one, whose input has this text in it."""
    return await fetch_optional(conn, _SQL["find_in_need_of"], {"tenant_id": tenant_id, "text": text}, UUID)


async def get_run(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> RunRow | None:
    """Read one run with whatever says where it is."""
    return await fetch_optional(conn, _SQL["get_run"], {"tenant_id": tenant_id, "run_id": run_id}, RunRow)


async def read_runs(conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[RunRow]:
    """Read these runs, the newest first."""
    return await fetch_all(conn, _SQL["read_runs"], {"tenant_id": tenant_id, "run_ids": list(run_ids)}, RunRow)


async def list_attempts(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> list[Attempt]:
    """Every attempt of a run, the open one last."""
    return await fetch_all(conn, _SQL["list_attempts"], {"tenant_id": tenant_id, "run_id": run_id}, Attempt)


async def find_last_error(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> LastError | None:
    """Return how the run's last attempt that did not do well ended."""
    return await fetch_optional(conn, _SQL["find_last_error"], {"tenant_id": tenant_id, "run_id": run_id}, LastError)


async def list_events(conn: Conn, *, tenant_id: UUID, run_id: UUID, after: int, limit: int) -> list[RunEvent]:
    """Up to `limit` events of a run after this one, oldest first."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_events"], params, RunEvent)


async def list_planned_ahead(
    conn: Conn, *, tenant_ids: Sequence[UUID], schedule_uids: Sequence[UUID], now: datetime
) -> list[PlannedAhead]:
    """Return what schedules have planned that is not due yet."""
    params = {"tenant_ids": list(tenant_ids), "schedule_uids": list(schedule_uids), "now": now}
    return await fetch_all(conn, _SQL["list_planned_ahead"], params, PlannedAhead)


async def list_answered(
    conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, after: datetime, until: datetime
) -> list[datetime]:
    """Return at which instants in `(after, until]` a schedule has runs already, ascending."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "after": after, "until": until}
    return await fetch_all(conn, _SQL["list_answered"], params, datetime)


async def find_nominal(
    conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, nominal_at: datetime, last_due_at: datetime
) -> UUID | None:
    """Return the run that a schedule intended for an instant, wherever in its flex window it is due."""
    params = {
        "tenant_id": tenant_id,
        "schedule_uid": schedule_uid,
        "nominal_at": nominal_at,
        "last_due_at": last_due_at,
    }
    return await fetch_optional(conn, _SQL["find_nominal"], params, UUID)


async def withdraw_planned(
    conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, reason: str, now: datetime
) -> list[UUID]:
    """Take back what was planned for a schedule after `now`; return the runs' ids."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "reason": reason, "now": now}
    return await fetch_all(conn, _SQL["withdraw_planned"], params, UUID)


async def cancel_waiting(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, reason: str, detail: str | None, now: datetime
) -> bool | None:
    """End a run that is in the line, and say whether its end is followed; None when it is not there.

    `detail` is JSON text.
    """
    params = {"tenant_id": tenant_id, "run_id": run_id, "reason": reason, "detail": detail, "now": now}
    return await fetch_optional(conn, _SQL["cancel_waiting"], params, bool)


async def cancel_held(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, reason: str, detail: str | None, now: datetime
) -> bool | None:
    """End a run that its schedule's gate has not let in; True, since its end is followed, or None when it is not there.

    `detail` is JSON text.
    """
    params = {"tenant_id": tenant_id, "run_id": run_id, "reason": reason, "detail": detail, "now": now}
    return await fetch_optional(conn, _SQL["cancel_held"], params, bool)


async def request_cancel(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, reason: str, detail: str | None, now: datetime
) -> int:
    """Ask the holder of a run to stop; 0 when nobody holds it or it was asked before. `detail` is JSON text."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "reason": reason, "detail": detail, "now": now}
    return await execute_count(conn, _SQL["request_cancel"], params)


async def find_schedule_target(conn: Conn, *, tenant_id: UUID, name: str) -> ScheduleTarget | None:
    """What a schedule would run."""
    params = {"tenant_id": tenant_id, "name": name}
    return await fetch_optional(conn, _SQL["find_schedule_target"], params, ScheduleTarget)


async def share_schedule_target(conn: Conn, *, tenant_id: UUID, name: str) -> ScheduleTarget | None:
    """What a schedule would run; no change of it commits before this transaction ends."""
    params = {"tenant_id": tenant_id, "name": name}
    return await fetch_optional(conn, _SQL["share_schedule_target"], params, ScheduleTarget)


async def admit_run(conn: Conn, *, tenant_id: UUID, task: str, day: date, usual: int) -> Admission | None:
    """Count a run of a task on a day; None when there is no task of this name."""
    params = {"tenant_id": tenant_id, "task": task, "day": day, "usual": usual}
    return await fetch_optional(conn, _SQL["admit_run"], params, Admission)


async def tail_events(conn: Conn, *, tenant_id: UUID, since: datetime, after: int, limit: int) -> list[TailedEvent]:
    """Return events numbered above `after`, of runs due since `since`."""
    params = {"tenant_id": tenant_id, "since": since, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["tail_events"], params, TailedEvent)
