"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.calendars.model import CalendarChange, CalendarItem, CalendarKey, CalendarRow, InForceRow, VersionItem
from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load

_SQL = load("everwhen.calendars")

Conn = AsyncConnection[Any]


async def insert_calendar(conn: Conn, *, tenant_id: UUID, name: str, owner: str | None, now: datetime) -> int | None:
    """Return the version to write first; None when the name is taken."""
    params = {"tenant_id": tenant_id, "name": name, "owner": owner, "now": now}
    return await fetch_optional(conn, _SQL["insert_calendar"], params, int)


async def count_calendars(conn: Conn, *, tenant_id: UUID) -> int:
    """How many there are that were not deleted."""
    return await fetch_one(conn, _SQL["count_calendars"], {"tenant_id": tenant_id}, int)


async def next_version(
    conn: Conn,
    *,
    tenant_id: UUID,
    name: str,
    among: Sequence[int] | None,
    has_owner: bool,
    owner: str | None,
    now: datetime,
) -> int | None:
    """Count the version up and return it; None without such a calendar at one of these versions (None: any)."""
    params = {
        "tenant_id": tenant_id,
        "name": name,
        "among": None if among is None else list(among),
        "has_owner": has_owner,
        "owner": owner,
        "now": now,
    }
    return await fetch_optional(conn, _SQL["next_version"], params, int)


async def insert_version(
    conn: Conn,
    *,
    tenant_id: UUID,
    calendar: str,
    version: int,
    effective_from: date | None,
    definition: str,
    changed_by: str,
    reason: str | None,
    now: datetime,
) -> int:
    """Write a version. `definition` is JSON text."""
    params = {
        "tenant_id": tenant_id,
        "calendar": calendar,
        "version": version,
        "effective_from": effective_from,
        "definition": definition,
        "changed_by": changed_by,
        "reason": reason,
        "now": now,
    }
    return await execute_count(conn, _SQL["insert_version"], params)


async def supersede(conn: Conn, *, tenant_id: UUID, calendar: str, version: int, effective_from: date | None) -> int:
    """Put earlier versions out of force that decide about no day any more."""
    params = {"tenant_id": tenant_id, "calendar": calendar, "version": version, "effective_from": effective_from}
    return await execute_count(conn, _SQL["supersede"], params)


async def count_in_force(conn: Conn, *, tenant_id: UUID, calendar: str) -> int:
    """Return how many versions decide about some day."""
    params = {"tenant_id": tenant_id, "calendar": calendar}
    return await fetch_one(conn, _SQL["count_in_force"], params, int)


async def get_calendar(conn: Conn, *, tenant_id: UUID, name: str) -> CalendarRow | None:
    """Read a calendar with its latest version."""
    params = {"tenant_id": tenant_id, "name": name}
    return await fetch_optional(conn, _SQL["get_calendar"], params, CalendarRow)


async def list_calendars(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[CalendarItem]:
    """Up to `limit` calendars whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_calendars"], params, CalendarItem)


async def list_declared(conn: Conn, *, tenant_id: UUID, after: str, limit: int) -> list[CalendarRow]:
    """Up to `limit` calendars, with what they say, whose names come after `after`, by name."""
    params = {"tenant_id": tenant_id, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_declared"], params, CalendarRow)


async def list_declared_of_owner(
    conn: Conn, *, tenant_id: UUID, owner: str, after: str, limit: int
) -> list[CalendarRow]:
    """Those of an owner, as `list_declared` returns them."""
    params = {"tenant_id": tenant_id, "owner": owner, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_declared_of_owner"], params, CalendarRow)


async def list_declared_named(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[CalendarRow]:
    """Those of these names, as `list_declared` returns them."""
    params = {"tenant_id": tenant_id, "names": list(names)}
    return await fetch_all(conn, _SQL["list_declared_named"], params, CalendarRow)


async def list_versions(conn: Conn, *, tenant_id: UUID, calendar: str, after: int, limit: int) -> list[VersionItem]:
    """Up to `limit` versions after this one, oldest first."""
    params = {"tenant_id": tenant_id, "calendar": calendar, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_versions"], params, VersionItem)


async def get_version(conn: Conn, *, tenant_id: UUID, calendar: str, version: int) -> str | None:
    """Return a version's definition as JSON text."""
    params = {"tenant_id": tenant_id, "calendar": calendar, "version": version}
    return await fetch_optional(conn, _SQL["get_version"], params, str)


async def lock_calendar(conn: Conn, *, tenant_id: UUID, name: str) -> int | None:
    """Lock a calendar for its deletion; return its version."""
    params = {"tenant_id": tenant_id, "name": name}
    return await fetch_optional(conn, _SQL["lock_calendar"], params, int)


async def delete_calendar(conn: Conn, *, tenant_id: UUID, name: str, now: datetime) -> int:
    """Give the name back; the versions stay."""
    params = {"tenant_id": tenant_id, "name": name, "now": now}
    return await execute_count(conn, _SQL["delete_calendar"], params)


async def end_versions(conn: Conn, *, tenant_id: UUID, calendar: str) -> int:
    """Put every version out of force."""
    params = {"tenant_id": tenant_id, "calendar": calendar}
    return await execute_count(conn, _SQL["end_versions"], params)


async def users_of(conn: Conn, *, tenant_id: UUID, calendar: str, limit: int) -> list[str]:
    """Return the names of some schedules that use a calendar."""
    params = {"tenant_id": tenant_id, "calendar": calendar, "limit": limit}
    return await fetch_all(conn, _SQL["users_of"], params, str)


async def share_calendars(conn: Conn, *, tenant_id: UUID, names: Sequence[str]) -> list[CalendarKey]:
    """Keep calendars from changing until the transaction ends."""
    params = {"tenant_id": tenant_id, "names": list(names)}
    return await fetch_all(conn, _SQL["share_calendars"], params, CalendarKey)


async def find_calendars(conn: Conn, *, tenant_ids: Sequence[UUID], names: Sequence[str]) -> list[CalendarKey]:
    """Return the versions of calendars, each named by its tenant and name."""
    params = {"tenant_ids": list(tenant_ids), "names": list(names)}
    return await fetch_all(conn, _SQL["find_calendars"], params, CalendarKey)


async def read_in_force(conn: Conn, *, tenant_ids: Sequence[UUID], names: Sequence[str]) -> list[InForceRow]:
    """Read the versions of calendars that decide about some day."""
    params = {"tenant_ids": list(tenant_ids), "names": list(names)}
    return await fetch_all(conn, _SQL["read_in_force"], params, InForceRow)


async def read_as_of_version(conn: Conn, *, tenant_id: UUID, name: str, version: int) -> list[InForceRow]:
    """Read what decided about some day while a version of a calendar was the latest."""
    params = {"tenant_id": tenant_id, "name": name, "version": version}
    return await fetch_all(conn, _SQL["read_as_of_version"], params, InForceRow)


async def insert_users(conn: Conn, *, tenant_id: UUID, calendars: Sequence[str], schedule_uid: UUID) -> int:
    """Note which calendars a schedule uses."""
    params = {"tenant_id": tenant_id, "calendars": list(calendars), "schedule_uid": schedule_uid}
    return await execute_count(conn, _SQL["insert_users"], params)


async def delete_users(conn: Conn, *, tenant_id: UUID, schedule_uid: UUID, kept: Sequence[str]) -> int:
    """Forget the calendars that a schedule uses no more."""
    params = {"tenant_id": tenant_id, "schedule_uid": schedule_uid, "kept": list(kept)}
    return await execute_count(conn, _SQL["delete_users"], params)


async def mark_changed(conn: Conn, *, tenant_id: UUID, calendar: str, now: datetime) -> int:
    """Have the calendar's schedules planned anew."""
    params = {"tenant_id": tenant_id, "calendar": calendar, "now": now}
    return await execute_count(conn, _SQL["mark_changed"], params)


async def take_change(conn: Conn) -> CalendarChange | None:
    """Lock one changed calendar, passing over those in other hands."""
    return await fetch_optional(conn, _SQL["take_change"], {}, CalendarChange)


async def page_users(conn: Conn, *, tenant_id: UUID, calendar: str, after_uid: UUID, limit: int) -> list[UUID]:
    """Return one page of the schedules that use a calendar, by key."""
    params = {"tenant_id": tenant_id, "calendar": calendar, "after_uid": after_uid, "limit": limit}
    return await fetch_all(conn, _SQL["page_users"], params, UUID)


async def move_change(conn: Conn, *, tenant_id: UUID, calendar: str, after_uid: UUID) -> int:
    """Note how far the schedules have been planned anew."""
    params = {"tenant_id": tenant_id, "calendar": calendar, "after_uid": after_uid}
    return await execute_count(conn, _SQL["move_change"], params)


async def end_change(conn: Conn, *, tenant_id: UUID, calendar: str) -> int:
    """The last schedule has been planned anew."""
    params = {"tenant_id": tenant_id, "calendar": calendar}
    return await execute_count(conn, _SQL["end_change"], params)
