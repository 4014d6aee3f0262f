"""What a release of the tz database would do to the schedules of a tenant, before any server runs on it.

The release comes as an archive; this server's own is the one to compare with. Calendars are taken into account: what
they exclude moves nobody. The work is bounded: MOST_WALKED schedules are compared fire by fire (a zone whose file did
not change costs one comparison of bytes), the rest is counted, and can be asked for from there on.
"""

import asyncio
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from everwhen.core.calendar_use import Book
from everwhen.core.compare import Comparison, compare
from everwhen.core.errors import TriggerError
from everwhen.core.triggers import Timing, bind
from everwhen.core.zones import ZoneSource, add, installed_zones
from everwhen.errors import InvalidInput
from everwhen.postgres.pool import Database
from everwhen.schedules import store
from everwhen.schedules.looking_ahead import MOST_SCHEDULES, read_active
from everwhen.schedules.model import ForecastRow, PlannedWith, timing_from_data
from everwhen.schedules.tz_report import Releases, ScheduleMoves
from everwhen.schedules.tz_sources import read_archive

MOST_WALKED: Final = 500
"""How many schedules one review compares fire by fire."""

MOST_FIRES: Final = 2_000
"""How many fires of each are compared at most."""

UNREADABLE: Final = (TriggerError, LookupError, TypeError, ValueError, ArithmeticError, struct.error)
"""What a stored spec, or a zone file that somebody made up, may be answered with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What the release would do: the schedules that it touches, by uid, and from which on they are left to look at."""

    releases: Releases
    looked: int
    affected: Sequence[ScheduleMoves]
    following: UUID | None
    whole: bool


async def planned_with(db: Database, *, tenant_id: UUID) -> list[PlannedWith]:
    """Count the tenant's schedules by the release that they were planned with."""
    async with db.tenant(tenant_id) as conn:
        return await store.count_releases(conn, tenant_id=tenant_id)


async def review_release(
    db: Database, *, tenant_id: UUID, archive: bytes, horizon: timedelta, after: UUID | None = None
) -> Review:
    """Compare the tenant's active schedules, those after a uid; raise InvalidInput for an archive without zones."""
    try:
        new = await asyncio.to_thread(read_archive, archive)
    except InvalidInput as error:
        raise InvalidInput.at("/archive", error.detail, code="tz.archive") from None
    now, rows, whole = await read_active(db, tenant_id, most=MOST_SCHEDULES)
    releases = Releases(old=installed_zones(), new=new, after=now, until=add(now, horizon))
    rest = [(row, book) for row, book in rows if after is None or row.uid > after]
    return await asyncio.to_thread(_review, rest, releases, whole=whole)


def _review(rows: Sequence[tuple[ForecastRow, Book]], releases: Releases, *, whole: bool) -> Review:
    affected: list[ScheduleMoves] = []
    walked = looked = 0
    following: UUID | None = None
    for row, book in rows:
        if walked >= MOST_WALKED:
            break
        found = _moves_of(row, book, releases)
        looked, following = looked + 1, row.uid
        walked += found is not None
        if found is not None and found.affected:
            affected.append(found)
    return Review(
        releases=releases,
        looked=looked,
        affected=affected,
        following=following if looked < len(rows) else None,
        whole=whole,
    )


def _moves_of(row: ForecastRow, book: Book, releases: Releases) -> ScheduleMoves | None:
    """Return what becomes of a schedule; None when its zone is the same in both releases."""
    spec = json.loads(row.spec)
    timezone = str(spec.get("timezone") or "UTC")
    if releases.old.agrees(releases.new, timezone):
        return None
    comparison, error = None, None
    try:
        comparison = _compare(spec, book, releases)
    except UNREADABLE as wrong:
        code = wrong.code if isinstance(wrong, TriggerError) else "trigger.timezone.unreadable"
        error = f"{code}: {wrong}"[:500]
    return ScheduleMoves(name=row.name, timezone=timezone, after=releases.after, comparison=comparison, error=error)


def _compare(spec: dict[str, object], book: Book, releases: Releases) -> Comparison:
    old, new = (_bound(spec, book, zones) for zones in (releases.old, releases.new))
    return compare(old, new, after=releases.after, until=releases.until, most=MOST_FIRES)


def _bound(spec: dict[str, object], book: Book, zones: ZoneSource) -> Timing:
    # Not by parse_spec: what it remembers would keep the archive's zones alive.
    return bind(timing_from_data(spec, zones=zones), book)
