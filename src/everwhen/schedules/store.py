"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.schedules.model import (
    CursorRow,
    DueSchedule,
    ForecastRow,
    PlannedWith,
    Revision,
    RezonedRow,
    ScheduleHead,
    ScheduleRow,
    Stamp,
    StoredSpec,
    Streak,
    StreakRun,
    TimedChange,
)

_SQL = load("everwhen.schedules")

Conn = AsyncConnection[Any]


async def insert_schedule(
    conn: Conn,
    *,
    tenant_id: UUID,
    uid: UUID,
    name: str,
    task: str,
    spec: str,
    input: str,  # noqa: A002  # the column's name
    priority: int | None,
    tags: Sequence[str],
    owner: str | None,
    state: str,
    state_reason: str | None,
    now: datetime,
) -> UUID | None:
    """Return None when the name is taken. `spec` and `input` are JSON text."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "name": name,
        "task": task,
        "spec": spec,
        "input": input,
        "priority": priority,
        "tags": list(tags),
        "owner": owner,
        "state": state,
        "state_reason": state_reason,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["insert_schedule"], params, UUID)


async def count_schedules(conn: Conn, *, tenant_id: UUID) -> int:
    """How many there are that were not deleted."""
    return await fetch_one(conn, _SQL["count_schedules"], {"tenant_id": tenant_id}, int)


async def count_active(conn: Conn, *, tenant_id: UUID) -> int:
    """How many there are that plan runs."""
    return await fetch_one(conn, _SQL["count_active"], {"tenant_id": tenant_id}, int)


async def insert_revision(
    conn: Conn,
    *,
    tenant_id: UUID,
    uid: UUID,
    action: str,
    changed_by: str,
    reason: str | None,
    tz_version: str,
    now: datetime,
) -> int:
    """Record what the schedule has become."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "action": action,
        "changed_by": changed_by,
        "reason": reason,
        "tz_version": tz_version,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_revision"], params)


async def insert_watermark(
    conn: Conn, *, tenant_id: UUID, uid: UUID, decided_until: datetime, next_at: datetime | None, tz_version: str
) -> int:
    """Give a new schedule its cursor."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "decided_until": decided_until,
        "next_at": next_at,
        "tz_version": tz_version,
    }
    return await execute_count(conn, _SQL["insert_watermark"], params)


async def get_schedule(conn: Conn, *, tenant_id: UUID, name: str) -> ScheduleRow | None:
    """Read one schedule that is not deleted."""
    return await fetch_optional(conn, _SQL["get_schedule"], {"tenant_id": tenant_id, "name": name}, ScheduleRow)


async def list_schedules(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[ScheduleRow]:
    """Up to `limit` schedules that are not deleted and whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_schedules"], params, ScheduleRow)


async def list_heads(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[ScheduleHead]:
    """Return what a filter checks of up to `limit` schedules after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_heads"], params, ScheduleHead)


async def list_heads_tagged(conn: Conn, *, tenant_id: UUID, tag: str, after: str, limit: int) -> list[ScheduleHead]:
    """Return the same of those with a tag."""
    params = {"tenant_id": tenant_id, "tag": tag, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_heads_tagged"], params, ScheduleHead)


async def list_schedules_named(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[ScheduleRow]:
    """Return the schedules of these names that are not deleted, by name."""
    params = {"tenant_id": tenant_id, "names": list(names)}
    return await fetch_all(conn, _SQL["list_schedules_named"], params, ScheduleRow)


async def list_schedules_of_owner(
    conn: Conn, *, tenant_id: UUID, owner: str, after: str, limit: int
) -> list[ScheduleRow]:
    """Up to `limit` schedules of an owner that are not deleted and whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "owner": owner, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_schedules_of_owner"], params, ScheduleRow)


async def list_revisions(conn: Conn, *, tenant_id: UUID, uid: UUID, after: int, limit: int) -> list[Revision]:
    """Up to `limit` revisions after this one, oldest first."""
    params = {"tenant_id": tenant_id, "uid": uid, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_revisions"], params, Revision)


async def lock_cursor(conn: Conn, *, tenant_id: UUID, name: str) -> CursorRow | None:
    """Lock a schedule and its watermark for a change."""
    return await fetch_optional(conn, _SQL["lock_cursor"], {"tenant_id": tenant_id, "name": name}, CursorRow)


async def lock_cursor_of(conn: Conn, *, tenant_id: UUID, uid: UUID) -> CursorRow | None:
    """Lock a schedule and its watermark for a change, by its uid."""
    return await fetch_optional(conn, _SQL["lock_cursor_of"], {"tenant_id": tenant_id, "uid": uid}, CursorRow)


async def update_schedule(
    conn: Conn,
    *,
    tenant_id: UUID,
    uid: UUID,
    revision: int,
    task: str,
    spec: str,
    input: str,  # noqa: A002  # the column's name
    priority: int | None,
    tags: Sequence[str],
    owner: str | None,
    now: datetime,
) -> int:
    """Replace the definition of this revision by the next one; 0 when the revision has moved on."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "revision": revision,
        "task": task,
        "spec": spec,
        "input": input,
        "priority": priority,
        "tags": list(tags),
        "owner": owner,
        "now": now,
    }
    return await execute_count(conn, _SQL["update_schedule"], params)


async def set_labels(
    conn: Conn,
    *,
    tenant_id: UUID,
    uid: UUID,
    revision: int,
    tags: Sequence[str],
    owner: str | None,
    now: datetime,
) -> int:
    """Give this revision other tags or another owner, as the next one; 0 when the revision has moved on."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "revision": revision,
        "tags": list(tags),
        "owner": owner,
        "now": now,
    }
    return await execute_count(conn, _SQL["set_labels"], params)


async def set_state(
    conn: Conn,
    *,
    tenant_id: UUID,
    uid: UUID,
    revision: int,
    state: str,
    reason: str | None,
    until: datetime | None = None,
    now: datetime,
) -> int:
    """Pause, resume or delete this revision, which makes the next one; 0 when the revision has moved on."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "revision": revision,
        "state": state,
        "reason": reason,
        "until": until,
        "now": now,
    }
    return await execute_count(conn, _SQL["set_state"], params)


async def move_watermark(
    conn: Conn,
    *,
    tenant_id: UUID,
    uid: UUID,
    decided_until: datetime,
    next_at: datetime | None,
    skip_until: datetime | None,
    skip_reason: str | None,
    tz_version: str,
) -> int:
    """Set the cursor after a change of the schedule."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "decided_until": decided_until,
        "next_at": next_at,
        "skip_until": skip_until,
        "skip_reason": skip_reason,
        "tz_version": tz_version,
    }
    return await execute_count(conn, _SQL["move_watermark"], params)


async def lock_due(conn: Conn, *, horizon: datetime, limit: int) -> list[DueSchedule]:
    """Lock up to `limit` schedules whose next instant lies before `horizon`, passing over those being planned."""
    return await fetch_all(conn, _SQL["lock_due"], {"horizon": horizon, "limit": limit}, DueSchedule)


async def read_specs(conn: Conn, *, tenant_ids: Collection[UUID], uids: Sequence[UUID]) -> list[StoredSpec]:
    """Read the specs of schedules whose watermarks are locked."""
    return await fetch_all(conn, _SQL["read_specs"], {"tenant_ids": list(tenant_ids), "uids": list(uids)}, StoredSpec)


async def next_due(conn: Conn) -> datetime | None:
    """Return the earliest instant that is not decided yet, over all tenants."""
    return await fetch_optional(conn, _SQL["next_due"], {}, datetime)


async def advance_watermarks(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    uids: Sequence[UUID],
    old: Sequence[datetime],
    new: Sequence[datetime],
    next: Sequence[datetime | None],  # noqa: A002  # the statement's word
    tz_version: str,
) -> int:
    """Move watermarks forward; return how many were still where the plan started."""
    params = {
        "tenant_ids": list(tenant_ids),
        "uids": list(uids),
        "old": list(old),
        "new": list(new),
        "next": list(next),
        "tz_version": tz_version,
    }
    return await execute_count(conn, _SQL["advance_watermarks"], params)


async def note_answered(
    conn: Conn, *, tenant_ids: Sequence[UUID], uids: Sequence[UUID], answered: Sequence[str | None]
) -> int:
    """Note which instants beyond the watermark are answered (a list each), for these schedules."""
    params = {"tenant_ids": list(tenant_ids), "uids": list(uids), "answered": list(answered)}
    return await execute_count(conn, _SQL["note_answered"], params)


async def put_off(conn: Conn, *, tenant_id: UUID, uid: UUID, next_at: datetime, error: str) -> int:
    """Put off a schedule that could not be planned, with the error."""
    params = {"tenant_id": tenant_id, "uid": uid, "next_at": next_at, "error": error}
    return await execute_count(conn, _SQL["put_off"], params)


async def page_watermarks(conn: Conn, *, after_tenant_id: UUID, after_uid: UUID, limit: int) -> list[Stamp]:
    """Return one page of all watermarks, by key."""
    params = {"after_tenant_id": after_tenant_id, "after_uid": after_uid, "limit": limit}
    return await fetch_all(conn, _SQL["page_watermarks"], params, Stamp)


async def count_releases(conn: Conn, *, tenant_id: UUID) -> list[PlannedWith]:
    """Count a tenant's schedules by the release that they were planned with."""
    return await fetch_all(conn, _SQL["count_releases"], {"tenant_id": tenant_id}, PlannedWith)


async def lock_for_rezoning(conn: Conn, *, tenant_ids: Sequence[UUID], uids: Sequence[UUID]) -> list[RezonedRow]:
    """Lock schedules and their watermarks, in the order of the key."""
    params = {"tenant_ids": list(tenant_ids), "uids": list(uids)}
    return await fetch_all(conn, _SQL["lock_for_rezoning"], params, RezonedRow)


async def stamp_release(conn: Conn, *, tenant_ids: Sequence[UUID], uids: Sequence[UUID], tz_version: str) -> int:
    """Note that a release changes nothing of what these schedules have planned."""
    params = {"tenant_ids": list(tenant_ids), "uids": list(uids), "tz_version": tz_version}
    return await execute_count(conn, _SQL["stamp_release"], params)


async def page_active(
    conn: Conn, *, after_tenant_id: UUID, after_uid: UUID, last_tenant_id: UUID, limit: int
) -> list[ForecastRow]:
    """Return one page of active schedules up to and including a tenant's, by key."""
    params = {
        "after_tenant_id": after_tenant_id,
        "after_uid": after_uid,
        "last_tenant_id": last_tenant_id,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["page_active"], params, ForecastRow)


async def save_streak(conn: Conn, *, tenant_id: UUID, uid: UUID, pause_after: int) -> int:
    """Count a schedule's failures in a row, up to this many."""
    return await execute_count(
        conn, _SQL["save_streak"], {"tenant_id": tenant_id, "uid": uid, "pause_after": pause_after}
    )


async def drop_streak(conn: Conn, *, tenant_id: UUID, uid: UUID) -> int:
    """Count a schedule's failures no longer."""
    return await execute_count(conn, _SQL["drop_streak"], {"tenant_id": tenant_id, "uid": uid})


async def reset_streak(conn: Conn, *, tenant_id: UUID, uid: UUID) -> int:
    """Count a schedule's failures anew."""
    return await execute_count(conn, _SQL["reset_streak"], {"tenant_id": tenant_id, "uid": uid})


async def find_streak_runs(conn: Conn, *, tenant_ids: Iterable[UUID], run_ids: Iterable[UUID]) -> list[StreakRun]:
    """Return which of these runs, given pair by pair, count for a streak, and for whose."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["find_streak_runs"], params, StreakRun)


async def lock_streaks(conn: Conn, *, tenant_ids: Iterable[UUID], uids: Iterable[UUID]) -> list[Streak]:
    """Lock the counts of these schedules."""
    params = {"tenant_ids": list(tenant_ids), "uids": list(uids)}
    return await fetch_all(conn, _SQL["lock_streaks"], params, Streak)


async def write_streak(
    conn: Conn, *, tenant_id: UUID, uid: UUID, failures: int, run_ids: Iterable[UUID], pause_at: datetime | None
) -> int:
    """Write a count that was locked."""
    params = {
        "tenant_id": tenant_id,
        "uid": uid,
        "failures": failures,
        "run_ids": list(run_ids),
        "pause_at": pause_at,
    }
    return await execute_count(conn, _SQL["write_streak"], params)


async def find_failing(conn: Conn, *, limit: int) -> list[TimedChange]:
    """Return schedules that are to be paused for their failures, and from when on."""
    return await fetch_all(conn, _SQL["find_failing"], {"limit": limit}, TimedChange)


async def put_off_failing(conn: Conn, *, tenant_id: UUID, uid: UUID, until: datetime, now: datetime) -> int:
    """Pause a failing schedule no earlier than `until`."""
    params = {"tenant_id": tenant_id, "uid": uid, "until": until, "now": now}
    return await execute_count(conn, _SQL["put_off_failing"], params)


async def put_off_resuming(conn: Conn, *, tenant_id: UUID, uid: UUID, until: datetime, now: datetime) -> int:
    """Resume a schedule whose pause has ended no earlier than `until`."""
    params = {"tenant_id": tenant_id, "uid": uid, "until": until, "now": now}
    return await execute_count(conn, _SQL["put_off_resuming"], params)


async def find_pauses_to_end(conn: Conn, *, limit: int) -> list[TimedChange]:
    """Return schedules whose pause ends by itself, and when."""
    return await fetch_all(conn, _SQL["find_pauses_to_end"], {"limit": limit}, TimedChange)
