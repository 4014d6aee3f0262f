"""Through the clock changes of 2027 by the real scheduler on a moved clock: what it does is what was previewed in 2026.

Each schedule exists once for every gap and fold policy, and without any. The preview is made a year before; the
scheduler ticks through a day around each transition, and every row that it writes is compared: nominal instant, offset,
state and reason.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from everwhen.core.triggers import FoldPolicy, GapPolicy, Timing, parse_trigger
from everwhen.core.zones import find_zone
from everwhen.postgres.pool import Database
from everwhen.schedules import service as schedules
from everwhen.schedules.looking_ahead import look_ahead
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from tests.factories import TESTER, make_task, make_tenant

YEAR_BEFORE = datetime(2026, 1, 2, tzinfo=UTC)
BEFORE, BEHIND = timedelta(hours=5), timedelta(hours=26)  # a skip is written when the next fire is looked for
EXPRESSIONS = {
    "America/New_York": ("30 2 * * *", "30 1 * * *", "*/30 1-3 * * *"),
    "Australia/Lord_Howe": ("15 2 * * *", "45 1 * * *", "*/15 */2 * * *"),
    "Africa/Cairo": ("0 0 * * *", "30 23 * * *"),
    "Antarctica/Troll": ("30 1 * * *", "0 2,3 * * *", "0 */2 * * *"),
}
POLICIES = [(None, None), *product(GapPolicy, FoldPolicy)]


@dataclass(frozen=True)
class Row:
    """One intended instant, previewed or written."""

    nominal_at: datetime
    utc_offset_seconds: int
    state: str
    reason: str | None


def timings(zone: str) -> list[Timing]:
    found = []
    for expr, (gap, fold) in product(EXPRESSIONS[zone], POLICIES):
        found.append(Timing(parse_trigger({"kind": "cron", "expr": expr}), zone, gap, fold))
    return found


def previewed(timing: Timing, *, after: datetime, until: datetime) -> list[Row]:
    """What the preview of a year before says about a stretch of time."""
    rows = [
        Row(
            occurrence.nominal_at,
            int(occurrence.local.utcoffset().total_seconds()),
            "runs" if occurrence.skipped is None else "skipped",
            occurrence.skipped,
        )
        for occurrence in look_ahead(timing, after=YEAR_BEFORE, count=100_000, until=until)
    ]
    return [row for row in rows if row.nominal_at > after]


async def written(database: Database, uid: UUID) -> list[Row]:
    query = """
        select r.nominal_at, r.utc_offset_seconds, coalesce(e.state, 'runs'), e.reason from everwhen.runs r
        left join everwhen.run_ends e on e.tenant_id = r.tenant_id and e.run_id = r.run_id
        where r.schedule_uid = %s order by r.nominal_at
    """
    async with database.system() as conn:
        rows = await (await conn.execute(query, (uid,))).fetchall()
    return [Row(at.astimezone(UTC), *rest) for at, *rest in rows]


async def walk(database: Database, *, after: datetime, until: datetime) -> None:
    """Let every schedule be decided until `after`, then tick until `until`, as time goes by."""
    async with database.system() as conn:
        await conn.execute("update everwhen.watermarks set decided_until = %s, next_at = %s", (after, after))
    scheduler = Scheduler(database=database)
    now = after
    while now <= until:
        tick = await scheduler.tick(now)
        if not tick.more:
            now += min(timedelta(hours=1), max(timedelta(seconds=20), (tick.next_at or until) - now))


def windows(zone: str) -> list[tuple[datetime, datetime]]:
    year = datetime(2027, 1, 1, tzinfo=UTC)
    found = find_zone(zone).transitions(year, year + timedelta(days=365))
    return [(change.at - BEFORE, change.at + BEHIND) for change in found]


@pytest.mark.parametrize("zone", EXPRESSIONS)
async def test_the_scheduler_does_what_was_previewed_a_year_before(database: Database, zone: str) -> None:
    tenant = await make_tenant(database)
    await make_task(database, tenant)
    made: list[tuple[UUID, Timing]] = []
    for number, timing in enumerate(timings(zone)):
        draft = ScheduleDraft(name=f"s{number}", task="report", spec=Spec(timing=timing))
        schedule = await schedules.create_schedule(database, tenant_id=tenant.id, draft=draft, change=TESTER)
        made.append((schedule.uid, timing))
    stretches = windows(zone)
    expected: dict[UUID, list[Row]] = {uid: [] for uid, _ in made}
    for after, until in stretches:
        for uid, timing in made:
            expected[uid] += previewed(timing, after=after, until=until)
        await walk(database, after=after, until=until)

    assert len(stretches) == 2
    for uid, timing in made:
        rows = [row for row in await written(database, uid) if any(a < row.nominal_at <= b for a, b in stretches)]
        assert rows == expected[uid], timing


def test_the_transitions_matter_to_what_is_tested() -> None:
    """Each zone's schedules skip, move or repeat something in those nights: the test above is about something."""
    for zone in EXPRESSIONS:
        flags: set[str] = set()
        for timing, (after, until) in product(timings(zone), windows(zone)):
            for found in look_ahead(timing, after=after, count=1000, until=until):
                flags |= flags_of(found)
        assert flags == {"skipped", "moved", "repeated"}, zone


def flags_of(occurrence: Any) -> set[str]:
    if occurrence.skipped is not None:
        return {"skipped"}
    return ({"moved"} if occurrence.missing else set()) | ({"repeated"} if occurrence.repeated else set())
