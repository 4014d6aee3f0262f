"""Specs and their calendars: which a stored spec needs, and the spec with them."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from everwhen.calendars.books import load_books
from everwhen.core.calendar_use import Book
from everwhen.core.errors import TriggerError
from everwhen.core.triggers import calendar_names
from everwhen.core.zones import ZoneSource
from everwhen.postgres.pool import Connection
from everwhen.schedules.model import parse_spec

_WORD: Final = '"calendar'
"""Stands in the text of every spec that needs a calendar; looking for it costs less than finding the parsed spec."""


async def books_of(
    conn: Connection, specs: Iterable[tuple[UUID, str]], *, zones: ZoneSource | None = None
) -> dict[UUID, Book]:
    """Return the calendars that stored specs need, by their tenants; one look for all, and none if none is needed."""
    wanted = {(tenant_id, name) for tenant_id, text in specs if _WORD in text for name in _names(text, zones)}
    return await load_books(conn, wanted)


def _names(text: str, zones: ZoneSource | None) -> tuple[str, ...]:
    try:
        return calendar_names(parse_spec(text, zones).timing)
    except (TriggerError, LookupError, TypeError, ValueError):
        return ()  # whoever plans it finds out, and says why
