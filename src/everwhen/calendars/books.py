"""Loads calendars for whoever computes with them, and remembers what it has compiled.

A version says the same for ever, and a name counts its versions even over a deletion, so (tenant, name, version) is a
key that needs no invalidation. What is remembered is bounded by the days that are listed, not by the calendars.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from everwhen.calendars import store
from everwhen.calendars.model import CalendarKey, InForceRow
from everwhen.core.calendar_json import parse_definition
from everwhen.core.calendar_use import Book
from everwhen.core.calendars import Calendar, CalendarVersion
from everwhen.postgres.pool import Connection

MOST_REMEMBERED: Final = 400_000
"""Listed days over all remembered calendars; one of ten public holidays over 30 years has 300."""

_COST: Final = 200  # of a calendar itself, in days


class _Memory:
    """Compiled calendars, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[CalendarKey, Calendar] = OrderedDict()
        self._cost = 0

    def get(self, key: CalendarKey) -> Calendar | None:
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def put(self, key: CalendarKey, calendar: Calendar) -> None:
        if key in self._known:
            return
        self._known[key] = calendar
        self._cost += calendar.size + _COST
        while self._cost > MOST_REMEMBERED and len(self._known) > 1:
            _, forgotten = self._known.popitem(last=False)
            self._cost -= forgotten.size + _COST


_memory = _Memory()


async def load_books(conn: Connection, wanted: Iterable[tuple[UUID, str]]) -> dict[UUID, Book]:
    """Return the calendars that are wanted, each by its tenant and name; what does not exist is not in the book."""
    pairs = sorted(set(wanted))
    if not pairs:
        return {}
    keys = await store.find_calendars(
        conn, tenant_ids=[tenant_id for tenant_id, _ in pairs], names=[name for _, name in pairs]
    )
    return await _books(conn, keys)


async def load_calendar(conn: Connection, *, tenant_id: UUID, name: str, version: int) -> Calendar:
    """Return a calendar as it was while this version was the latest."""
    key = CalendarKey(tenant_id=tenant_id, name=name, version=version)
    found = _memory.get(key)
    if found is None:
        rows = await store.read_as_of_version(conn, tenant_id=tenant_id, name=name, version=version)
        found = Calendar(name, [version_of(row) for row in rows])
        _memory.put(key, found)
    return found


async def share_book(conn: Connection, *, tenant_id: UUID, names: Sequence[str]) -> Book:
    """Return a tenant's calendars, which stay as they are until the caller's transaction ends."""
    if not names:
        return {}
    keys = await store.share_calendars(conn, tenant_id=tenant_id, names=names)
    return (await _books(conn, keys)).get(tenant_id, {})


async def _books(conn: Connection, keys: Sequence[CalendarKey]) -> dict[UUID, Book]:
    found = {key: calendar for key in keys if (calendar := _memory.get(key)) is not None}
    missing = [key for key in keys if key not in found]
    if missing:
        found |= await _compiled(conn, missing)
    books: dict[UUID, dict[str, Calendar]] = {}
    for key, calendar in found.items():
        books.setdefault(key.tenant_id, {})[key.name] = calendar
    return dict(books)


async def _compiled(conn: Connection, keys: Sequence[CalendarKey]) -> dict[CalendarKey, Calendar]:
    rows = await store.read_in_force(conn, tenant_ids=[key.tenant_id for key in keys], names=[key.name for key in keys])
    found: dict[CalendarKey, Calendar] = {}
    for key in keys:
        own = [row for row in rows if (row.tenant_id, row.calendar) == (key.tenant_id, key.name)]
        calendar = found[key] = Calendar(key.name, [version_of(row) for row in own])
        # A change that committed between the two statements would be remembered under the wrong version, and one of our
        # own transaction, which is as old as it, may never be committed.
        is_whole = max((row.version for row in own), default=0) == key.version
        if is_whole and all(row.changed_at < conn.now for row in own):
            _memory.put(key, calendar)
    return found


def version_of(row: InForceRow) -> CalendarVersion:
    """Read a stored version."""
    return CalendarVersion(
        number=row.version,
        definition=parse_definition(json.loads(row.definition)),
        effective_from=row.effective_from,
    )
