"""What can be done with calendars.

A change writes the next version; what was written stays. The schedules that use the calendar follow by themselves: the
change leaves a mark, and the scheduler plans them anew, a page at a time (see `schedules/replanning.py`).
"""

import json
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.calendars import store
from everwhen.calendars.books import load_books
from everwhen.calendars.model import CalendarChange, CalendarDraft, CalendarItem, CalendarRow, VersionItem
from everwhen.core.calendar_json import definition_to_json
from everwhen.core.calendars import Calendar, DayState
from everwhen.core.filters import Moment, Vocabulary, within
from everwhen.core.quotas import Limit
from everwhen.errors import Conflict, NotFound, QuotaUsedUp
from everwhen.limits import quotas
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import ANY, NONE, Expected, refuse_stale, stale

CALENDARS: Final = Vocabulary(fields={"updated": Moment()}, short=within("updated"))
"""What a filter of calendars says."""

MOST_IN_FORCE: Final = 20
"""The most versions of a calendar that decide about some day: those that take effect one after the other."""

_MOST_NAMED: Final = 3
_DAY: Final = timedelta(days=1)


async def create_calendar(db: Database, *, tenant_id: UUID, name: str, draft: CalendarDraft) -> CalendarRow:
    """Make a calendar; raise Conflict when the name is taken, or the tenant has as many as it may have."""
    async with db.tenant(tenant_id) as conn:
        version = await store.insert_calendar(conn, tenant_id=tenant_id, name=name, owner=draft.owner, now=conn.now)
        if version is None:
            raise Conflict(f"A calendar named {name} exists already.", code="calendar.exists")
        await quotas.refuse_over(conn, Limit.CALENDARS, store.count_calendars, tenant_id=tenant_id)
        await _write(conn, tenant_id, name, version=version, draft=draft)
        return await _read(conn, tenant_id, name)


async def count_calendars(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many there are, in the caller's transaction."""
    return await store.count_calendars(conn, tenant_id=tenant_id)


async def put_new_calendar(db: Database, *, tenant_id: UUID, name: str, draft: CalendarDraft) -> CalendarRow:
    """Make a calendar as `create_calendar` does; raise PreconditionFailed when the name is taken."""
    try:
        return await create_calendar(db, tenant_id=tenant_id, name=name, draft=draft)
    except QuotaUsedUp:
        raise
    except Conflict:
        raise stale(NONE, (await get_calendar(db, tenant_id=tenant_id, name=name)).version) from None


async def replace_calendar(
    db: Database, *, tenant_id: UUID, name: str, draft: CalendarDraft, expected: Expected = ANY
) -> CalendarRow:
    """Write the next version, unless it says what the latest one says.

    Raises NotFound, PreconditionFailed when it is not the version that was expected, and Conflict when too many take
    effect one after the other.
    """
    async with db.tenant(tenant_id) as conn:
        present = await _read(conn, tenant_id, name)
        if expected.admits(present.version) and says_the_same(present, draft):
            return present
        await store.mark_changed(conn, tenant_id=tenant_id, calendar=name, now=conn.now)
        key: dict[str, Any] = {"tenant_id": tenant_id, "name": name, "among": expected.among}
        owned: dict[str, Any] = {"owner": draft.owner, "has_owner": draft.has_owner}
        version = await store.next_version(conn, **key, **owned, now=conn.now)
        if version is None:
            raise stale(expected, (await _read(conn, tenant_id, name)).version)
        await store.supersede(
            conn, tenant_id=tenant_id, calendar=name, version=version, effective_from=draft.effective_from
        )
        await _write(conn, tenant_id, name, version=version, draft=draft)
        if await store.count_in_force(conn, tenant_id=tenant_id, calendar=name) > MOST_IN_FORCE:
            raise Conflict(
                f"More than {MOST_IN_FORCE} versions would be in force, one after the other: leave out effective_from,"
                " so that this one stands for all.",
                code="calendar.versions",
            )
        return await _read(conn, tenant_id, name)


def says_the_same(present: CalendarRow, draft: CalendarDraft) -> bool:
    """Tell whether the latest version is what the draft would make of it."""
    return (
        json.loads(present.definition) == definition_to_json(draft.definition)
        and present.effective_from == draft.effective_from
        and (not draft.has_owner or present.owner == draft.owner)
    )


async def get_calendar(db: Database, *, tenant_id: UUID, name: str) -> CalendarRow:
    """Read a calendar with its latest version; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await _read(conn, tenant_id, name)


async def list_calendars(
    db: Database, *, tenant_id: UUID, after: str = "", limit: int, where: str = ""
) -> Listed[CalendarItem]:
    """Return up to `limit` calendars after `after` that the filter `where` finds, by name; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        return await walk(
            lambda after, limit: store.list_calendars(conn, tenant_id=tenant_id, after=after, limit=limit),
            start=after,
            key=lambda row: row.name,
            limit=limit,
            asked=read_filter(where, CALENDARS, now=conn.now),
            values=lambda row: {"updated": row.updated_at},
        )


async def find_calendars(conn: Connection, *, tenant_id: UUID, names: Sequence[str]) -> list[CalendarRow]:
    """Return those of these calendars that there are, in the caller's transaction."""
    return await store.list_declared_named(conn, tenant_id=tenant_id, names=names)


async def page_calendars(
    conn: Connection, *, tenant_id: UUID, owner: str | None, after: str, limit: int
) -> list[CalendarRow]:
    """Return up to `limit` calendars of an owner, or of everybody, after `after`, in the caller's transaction."""
    page: dict[str, Any] = {"tenant_id": tenant_id, "after": after, "limit": limit}
    if owner is None:
        return await store.list_declared(conn, **page)
    return await store.list_declared_of_owner(conn, **page, owner=owner)


async def users_of(conn: Connection, *, tenant_id: UUID, name: str, limit: int) -> list[str]:
    """Return the names of up to `limit` schedules that use a calendar, in the caller's transaction."""
    return await store.users_of(conn, tenant_id=tenant_id, calendar=name, limit=limit)


async def list_versions(db: Database, *, tenant_id: UUID, name: str, after: int = 0, limit: int) -> list[VersionItem]:
    """Return up to `limit` versions of a calendar after this one, oldest first; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        await _read(conn, tenant_id, name)
        return await store.list_versions(conn, tenant_id=tenant_id, calendar=name, after=after, limit=limit)


async def get_definition(db: Database, *, tenant_id: UUID, name: str, version: int) -> dict[str, Any]:
    """Return what a version says, as JSON data; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        await _read(conn, tenant_id, name)
        text = await store.get_version(conn, tenant_id=tenant_id, calendar=name, version=version)
    if text is None:
        raise NotFound("The calendar has no such version.", code="calendar.unknown")
    return json.loads(text)


async def year_of(db: Database, *, tenant_id: UUID, name: str, year: int) -> list[tuple[date, DayState]]:
    """Return what holds on each day of a year, by the versions in force then; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        books = await load_books(conn, [(tenant_id, name)])
    calendar: Calendar | None = books.get(tenant_id, {}).get(name)
    if calendar is None:
        raise _unknown()
    first = date(year, 1, 1)
    days = [first + _DAY * index for index in range((date(year, 12, 31) - first).days + 1)]
    return [(day, calendar.state(day)) for day in days]


async def delete_calendar(db: Database, *, tenant_id: UUID, name: str, expected: Expected = ANY) -> None:
    """Give the name back; the versions stay.

    Raises NotFound, PreconditionFailed when it is not the version that was expected, and Conflict while a schedule uses
    it.
    """
    async with db.tenant(tenant_id) as conn:
        version = await store.lock_calendar(conn, tenant_id=tenant_id, name=name)
        if version is None:
            raise _unknown()
        refuse_stale(expected, version)
        users = await store.users_of(conn, tenant_id=tenant_id, calendar=name, limit=_MOST_NAMED + 1)
        if users:
            named = ", ".join(users[:_MOST_NAMED]) + (", …" if len(users) > _MOST_NAMED else "")
            raise Conflict(f"Schedules use the calendar: {named}.", code="calendar.in_use")
        await store.end_versions(conn, tenant_id=tenant_id, calendar=name)
        await store.delete_calendar(conn, tenant_id=tenant_id, name=name, now=conn.now)


async def set_calendars(conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, names: Sequence[str]) -> None:
    """Note which calendars a schedule uses, in the caller's transaction, which holds them (`books.share_book`)."""
    await store.delete_users(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, kept=names)
    if names:
        await store.insert_users(conn, tenant_id=tenant_id, calendars=names, schedule_uid=schedule_uid)


async def take_changed_users(conn: Connection, *, limit: int) -> tuple[CalendarChange, list[UUID]] | None:
    """Take a page of schedules whose calendar has changed; None when there is no change to follow.

    The caller plans them anew in the same transaction, which also notes how far the change has been followed.
    """
    change = await store.take_change(conn)
    if change is None:
        return None
    tenant_id, calendar = change.tenant_id, change.calendar
    page = await store.page_users(conn, tenant_id=tenant_id, calendar=calendar, after_uid=change.after_uid, limit=limit)
    if len(page) < limit:
        await store.end_change(conn, tenant_id=tenant_id, calendar=calendar)
    else:
        await store.move_change(conn, tenant_id=tenant_id, calendar=calendar, after_uid=page[-1])
    return change, page


async def _write(conn: Connection, tenant_id: UUID, name: str, *, version: int, draft: CalendarDraft) -> None:
    await store.insert_version(
        conn,
        tenant_id=tenant_id,
        calendar=name,
        version=version,
        effective_from=draft.effective_from,
        definition=json.dumps(definition_to_json(draft.definition)),
        changed_by=draft.changed_by,
        reason=draft.reason,
        now=conn.now,
    )


async def _read(conn: Connection, tenant_id: UUID, name: str) -> CalendarRow:
    row = await store.get_calendar(conn, tenant_id=tenant_id, name=name)
    if row is None:
        raise _unknown()
    return row


def _unknown() -> NotFound:
    return NotFound("There is no calendar of this name.", code="calendar.unknown")
