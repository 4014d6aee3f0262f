"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.overlap.model import DueRun, GateRow, HeldRow, LetIn, OpenLease, RunKey, Slot
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.overlap")

Conn = AsyncConnection[Any]


async def save_gate(
    conn: Conn,
    *,
    tenant_id: UUID,
    schedule_uid: UUID,
    policy: str,
    max_running: int | None,
    max_buffered: int | None,
    on_failure: str,
    is_paused: bool,
    now: datetime,
) -> int:
    """Make or change a schedule's gate; waits for whoever decides under it."""
    params = {
        "tenant_id": tenant_id,
        "schedule_uid": schedule_uid,
        "policy": policy,
        "max_running": max_running,
        "max_buffered": max_buffered,
        "on_failure": on_failure,
        "is_paused": is_paused,
        "now": now,
    }
    return await execute_count(conn, _SQL["save_gate"], params)


async def pause_gate(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, is_paused: bool) -> int:
    """Let in what the schedule planned no longer, or again; return 0 when it has no gate."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "is_paused": is_paused}
    return await execute_count(conn, _SQL["pause_gate"], params)


async def release_gate(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID) -> int:
    """Let a line go on that a dead run holds up; return 0 when none did."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    return await execute_count(conn, _SQL["release_gate"], params)


async def lock_gates(conn: Conn, *, tenant_ids: Iterable[UUID], schedule_uids: Iterable[UUID]) -> list[GateRow]:
    """Lock gates, waiting for whoever holds them."""
    params = {"tenant_ids": list(tenant_ids), "schedule_uids": list(schedule_uids)}
    return await fetch_all(conn, _SQL["lock_gates"], params, GateRow)


async def lock_free_gates(conn: Conn, *, tenant_ids: Iterable[UUID], schedule_uids: Iterable[UUID]) -> list[GateRow]:
    """Lock those gates that nobody holds."""
    params = {"tenant_ids": list(tenant_ids), "schedule_uids": list(schedule_uids)}
    return await fetch_all(conn, _SQL["lock_free_gates"], params, GateRow)


async def mark_decided(
    conn: Conn,
    *,
    tenant_ids: Iterable[UUID],
    schedule_uids: Sequence[UUID],
    held_up_by: Sequence[UUID | None],
    at: datetime,
) -> int:
    """Write that these gates have decided something, and which run holds each line up."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "held_up_by": list(held_up_by),
        "at": at,
    }
    return await execute_count(conn, _SQL["mark_decided"], params)


async def find_due(conn: Conn, *, now: datetime, limit: int) -> list[DueRun]:
    """Return runs that have to be looked at by `now`, over all tenants; those due the longest first."""
    return await fetch_all(conn, _SQL["find_due"], {"now": now, "limit": limit}, DueRun)


async def next_look(conn: Conn) -> datetime | None:
    """Return when the next run has to be looked at; None when none has."""
    return await fetch_optional(conn, _SQL["next_look"], {}, datetime)


async def read_slots(conn: Conn, *, tenant_ids: Iterable[UUID], schedule_uids: Iterable[UUID]) -> list[Slot]:
    """Return what these gates, given pair by pair, have let in; of each the oldest first."""
    params = {"tenant_ids": list(tenant_ids), "schedule_uids": list(schedule_uids)}
    return await fetch_all(conn, _SQL["read_slots"], params, Slot)


async def read_line(
    conn: Conn,
    *,
    tenant_ids: Iterable[UUID],
    schedule_uids: Iterable[UUID],
    limits: Iterable[int],
    looked: Iterable[UUID],
    now: datetime,
) -> list[HeldRow]:
    """Return the due head of each line, up to its limit, and the runs `looked` of these gates; each line in order."""
    params = {
        "tenant_ids": list(tenant_ids),
        "schedule_uids": list(schedule_uids),
        "limits": list(limits),
        "looked": list(looked),
        "now": now,
    }
    return await fetch_all(conn, _SQL["read_line"], params, HeldRow)


async def admit_runs(
    conn: Conn,
    *,
    tenant_ids: Iterable[UUID],
    run_ids: Sequence[UUID],
    details: Sequence[str | None],
    at: datetime,
    now: datetime,
) -> list[LetIn]:
    """Let runs in; one that is not returned is not in the line any more. `details` are JSON texts."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "details": list(details),
        "at": at,
        "now": now,
    }
    return await fetch_all(conn, _SQL["admit_runs"], params, LetIn)


async def turn_away(
    conn: Conn,
    *,
    tenant_ids: Iterable[UUID],
    run_ids: Sequence[UUID],
    states: Sequence[str],
    reasons: Sequence[str],
    details: Sequence[str],
    at: datetime,
) -> list[RunKey]:
    """End runs that were not let in; `details` are JSON texts."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "states": list(states),
        "reasons": list(reasons),
        "details": list(details),
        "at": at,
    }
    return await fetch_all(conn, _SQL["turn_away"], params, RunKey)


async def keep_waiting(
    conn: Conn,
    *,
    tenant_ids: Iterable[UUID],
    run_ids: Sequence[UUID],
    reasons: Sequence[str],
    details: Sequence[str],
    at: datetime,
) -> int:
    """Write why runs wait; `details` are JSON texts with `blocked_by`."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "reasons": list(reasons),
        "details": list(details),
        "at": at,
    }
    return await execute_count(conn, _SQL["keep_waiting"], params)


async def look_again(
    conn: Conn, *, tenant_ids: Iterable[UUID], schedule_uids: Iterable[UUID], at: datetime, now: datetime
) -> int:
    """Have the gatekeeper look at these lines at `at`."""
    params = {"tenant_ids": list(tenant_ids), "schedule_uids": list(schedule_uids), "at": at, "now": now}
    return await execute_count(conn, _SQL["look_again"], params)


async def look_at_all(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, now: datetime) -> int:
    """Have everything in this line decided anew."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "now": now}
    return await execute_count(conn, _SQL["look_at_all"], params)


async def reorder_line(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, is_strict: bool) -> int:
    """Put a line in the order of the nominal instants, or else of the due instants."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "is_strict": is_strict}
    return await execute_count(conn, _SQL["reorder_line"], params)


async def find_slots(conn: Conn, *, tenant_ids: Iterable[UUID], run_ids: Iterable[UUID]) -> list[Slot]:
    """Return the slots of these runs."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["find_slots"], params, Slot)


async def free_slots(conn: Conn, *, tenant_ids: Iterable[UUID], run_ids: Iterable[UUID]) -> int:
    """Give the slots of these runs back."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await execute_count(conn, _SQL["free_slots"], params)


async def mark_stopping(conn: Conn, *, tenant_ids: Iterable[UUID], run_ids: Iterable[UUID], at: datetime) -> int:
    """Note that these active runs were asked to stop."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids), "at": at}
    return await execute_count(conn, _SQL["mark_stopping"], params)


async def cancel_lined_up(
    conn: Conn,
    *,
    tenant_ids: Iterable[UUID],
    run_ids: Sequence[UUID],
    reason: str,
    details: Sequence[str],
    at: datetime,
) -> list[RunKey]:
    """Cancel active runs that no worker holds; return which."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "reason": reason,
        "details": list(details),
        "at": at,
    }
    return await fetch_all(conn, _SQL["cancel_lined_up"], params, RunKey)


async def ask_to_stop(
    conn: Conn,
    *,
    tenant_ids: Iterable[UUID],
    run_ids: Sequence[UUID],
    reason: str,
    details: Sequence[str],
    at: datetime,
) -> list[RunKey]:
    """Ask the workers that hold these runs to stop; return which runs could be asked, now or before."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "reason": reason,
        "details": list(details),
        "at": at,
    }
    return await fetch_all(conn, _SQL["ask_to_stop"], params, RunKey)


async def find_workflow_runs(conn: Conn, *, tenant_ids: Iterable[UUID], run_ids: Iterable[UUID]) -> list[UUID]:
    """Return those of these runs that the conductor performs."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["find_workflow_runs"], params, UUID)


async def lock_leases_to_revoke(conn: Conn, *, tenant_ids: Iterable[UUID], run_ids: Iterable[UUID]) -> list[OpenLease]:
    """Lock the leases of these runs, as far as nobody else has them locked."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["lock_leases_to_revoke"], params, OpenLease)


async def find_left_behind(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, now: datetime, limit: int) -> list[UUID]:
    """Return the due runs that a schedule planned and that were not let in."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "now": now, "limit": limit}
    return await fetch_all(conn, _SQL["find_left_behind"], params, UUID)


async def adopt_lined_up(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID) -> list[UUID]:
    """Follow the runs of a schedule that wait for a worker and have no slot; return which."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    return await fetch_all(conn, _SQL["adopt_lined_up"], params, UUID)


async def adopt_leased(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID) -> list[UUID]:
    """Follow the runs of a schedule that workers hold and that have no slot; return which."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    return await fetch_all(conn, _SQL["adopt_leased"], params, UUID)


async def take_slots(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, run_ids: Iterable[UUID], at: datetime) -> int:
    """Give these runs slots, with or without room."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "run_ids": list(run_ids), "at": at}
    return await execute_count(conn, _SQL["take_slots"], params)


async def put_off(conn: Conn, *, tenant_id: UUID, run_ids: Iterable[UUID], until: datetime) -> int:
    """Look at these held runs no earlier than `until`."""
    params = {"tenant_id": tenant_id, "run_ids": list(run_ids), "until": until}
    return await execute_count(conn, _SQL["put_off"], params)
