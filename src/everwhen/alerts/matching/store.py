"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.alerts.matching.model import (
    Gathering,
    OutletState,
    PastEnd,
    RuleRow,
    RunFacts,
    ScheduleFacts,
    Signal,
    ToldKey,
    Turn,
)
from everwhen.postgres.fetch import execute_count, fetch_all
from everwhen.postgres.sql import load

_SQL = load("everwhen.alerts.matching")

Conn = AsyncConnection[Any]


async def take_turns(conn: Conn, *, limit: int) -> list[Turn]:
    """Lock tenants with signals until the transaction ends."""
    return await fetch_all(conn, _SQL["take_turns"], {"limit": limit}, Turn)


async def end_turns(conn: Conn, *, tenant_ids: Sequence[UUID], now: datetime) -> int:
    """Put these tenants last."""
    return await execute_count(conn, _SQL["end_turns"], {"tenant_ids": list(tenant_ids), "now": now})


async def take_signals(conn: Conn, *, tenant_ids: Sequence[UUID], limit: int) -> list[Signal]:
    """Take up to `limit` signals of each tenant."""
    return await fetch_all(conn, _SQL["take_signals"], {"tenant_ids": list(tenant_ids), "limit": limit}, Signal)


async def list_rules(conn: Conn, *, tenant_ids: Sequence[UUID]) -> list[RuleRow]:
    """Return the subscriptions in force."""
    return await fetch_all(conn, _SQL["list_rules"], {"tenant_ids": list(tenant_ids)}, RuleRow)


async def read_runs(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    attempts: Sequence[int | None],
    most_error: int,
) -> list[RunFacts]:
    """Return what is told of runs."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "attempts": list(attempts),
        "most_error": most_error,
    }
    return await fetch_all(conn, _SQL["read_runs"], params, RunFacts)


async def read_past(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    schedule_uids: Sequence[UUID],
    walk: int,
    limit: int,
) -> list[PastEnd]:
    """Return how the runs of the same schedules before these ended."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "schedule_uids": list(schedule_uids),
        "walk": walk,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["read_past"], params, PastEnd)


async def read_past_of_tasks(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    run_ids: Sequence[UUID],
    tasks: Sequence[str],
    walk: int,
    limit: int,
) -> list[PastEnd]:
    """Return how the runs of the same tasks before these ended, as far as one looks."""
    params = {
        "tenant_ids": list(tenant_ids),
        "run_ids": list(run_ids),
        "tasks": list(tasks),
        "walk": walk,
        "limit": limit,
    }
    return await fetch_all(conn, _SQL["read_past_of_tasks"], params, PastEnd)


async def read_schedules(conn: Conn, *, tenant_ids: Sequence[UUID], uids: Sequence[UUID]) -> list[ScheduleFacts]:
    """Return what is told of schedules."""
    params = {"tenant_ids": list(tenant_ids), "uids": list(uids)}
    return await fetch_all(conn, _SQL["read_schedules"], params, ScheduleFacts)


async def lock_outlets(conn: Conn, *, tenant_ids: Sequence[UUID], channels: Sequence[str]) -> list[OutletState]:
    """Lock the receivers of channels until the transaction ends."""
    params = {"tenant_ids": list(tenant_ids), "channels": list(channels)}
    return await fetch_all(conn, _SQL["lock_outlets"], params, OutletState)


async def lock_gathering(conn: Conn, *, tenant_ids: Sequence[UUID], delivery_ids: Sequence[UUID]) -> list[Gathering]:
    """Lock those of the messages that still take occasions."""
    params = {"tenant_ids": list(tenant_ids), "delivery_ids": list(delivery_ids)}
    return await fetch_all(conn, _SQL["lock_gathering"], params, Gathering)


async def insert_told(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    channels: Sequence[str],
    recipients: Sequence[str],
    occasion_ids: Sequence[UUID],
    delivery_ids: Sequence[UUID],
    kinds: Sequence[str],
) -> list[ToldKey]:
    """Write who is told of what, and return what nobody was told before."""
    params = {
        "tenant_ids": list(tenant_ids),
        "channels": list(channels),
        "recipients": list(recipients),
        "occasion_ids": list(occasion_ids),
        "delivery_ids": list(delivery_ids),
        "kinds": list(kinds),
    }
    return await fetch_all(conn, _SQL["insert_told"], params, ToldKey)


async def insert_gathering(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    delivery_ids: Sequence[UUID],
    channels: Sequence[str],
    recipients: Sequence[str],
    subscriptions: Sequence[str],
    totals: Sequence[int],
    counts: Sequence[str],
    shown: Sequence[str],
    window_froms: Sequence[datetime],
    window_tos: Sequence[datetime],
    due_ats: Sequence[datetime],
    now: datetime,
) -> int:
    """Write messages that begin to gather."""
    params = {
        "tenant_ids": list(tenant_ids),
        "delivery_ids": list(delivery_ids),
        "channels": list(channels),
        "recipients": list(recipients),
        "subscriptions": list(subscriptions),
        "totals": list(totals),
        "counts": list(counts),
        "shown": list(shown),
        "window_froms": list(window_froms),
        "window_tos": list(window_tos),
        "due_ats": list(due_ats),
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_gathering"], params)


async def add_to_gathering(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    delivery_ids: Sequence[UUID],
    subscriptions: Sequence[str],
    totals: Sequence[int],
    counts: Sequence[str],
    shown: Sequence[str],
    window_froms: Sequence[datetime],
    window_tos: Sequence[datetime],
) -> int:
    """Write what locked messages have become."""
    params = {
        "tenant_ids": list(tenant_ids),
        "delivery_ids": list(delivery_ids),
        "subscriptions": list(subscriptions),
        "totals": list(totals),
        "counts": list(counts),
        "shown": list(shown),
        "window_froms": list(window_froms),
        "window_tos": list(window_tos),
    }
    return await execute_count(conn, _SQL["add_to_gathering"], params)


async def set_paces(
    conn: Conn,
    *,
    tenant_ids: Sequence[UUID],
    channels: Sequence[str],
    recipients: Sequence[str],
    opens_ats: Sequence[datetime | None],
    urgent_opens_ats: Sequence[datetime | None],
    allowances: Sequence[datetime | None],
    gatherings: Sequence[UUID | None],
    urgent_gatherings: Sequence[UUID | None],
) -> int:
    """Write the paces of locked receivers."""
    params = {
        "tenant_ids": list(tenant_ids),
        "channels": list(channels),
        "recipients": list(recipients),
        "opens_ats": list(opens_ats),
        "urgent_opens_ats": list(urgent_opens_ats),
        "allowances": list(allowances),
        "gatherings": list(gatherings),
        "urgent_gatherings": list(urgent_gatherings),
    }
    return await execute_count(conn, _SQL["set_paces"], params)
