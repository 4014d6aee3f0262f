# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
"""A new release of the tz database, while the server runs: what it moves is planned anew, the rest is untouched."""

from datetime import UTC, datetime, timedelta

import pytest

from everwhen.core.lifecycle import RunState
from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.reasons import Reason
from everwhen.postgres.pool import Database
from everwhen.runs import service as runs
from everwhen.runs.model import RunFilter
from everwhen.schedules import rezoning
from everwhen.schedules import service as schedules
from everwhen.schedules.scheduler import Scheduler
from tests.factories import TESTER, make_schedule, make_task, make_tenant
from tests.tzif import BERLIN, WITHOUT_SUMMER_TIME, release

OLD = release("2027a", {"Europe/Berlin": BERLIN, "UTC": "UTC0", "Asia/Gone": BERLIN})
NEW = release("2027b", {"Europe/Berlin": WITHOUT_SUMMER_TIME, "UTC": "UTC0"})
DAILY = {"kind": "cron", "expr": "0 9 * * *"}
YEARLY = {"kind": "cron", "expr": "0 9 15 7 *"}


@pytest.fixture
async def tenant(database: Database):
    made = await make_tenant(database)
    await make_task(database, made)
    return made


async def set_marks(database: Database, now: datetime) -> None:
    """Let every schedule be decided until `now`, whatever the clock says."""
    async with database.system() as conn:
        await conn.execute("update everwhen.watermarks set decided_until = %s, next_at = %s, tz_version = %s",
                           (now, now, OLD.version))  # fmt: skip


async def tick_all(scheduler: Scheduler, now: datetime) -> None:
    while (await scheduler.tick(now)).more:
        pass


async def marks(database: Database) -> dict[str, tuple[datetime, datetime | None, str | None]]:
    async with database.system() as conn:
        rows = await (
            await conn.execute(
                "select s.name, w.decided_until, w.next_at, w.tz_version, w.last_error from everwhen.watermarks w"
                " join everwhen.schedules s on s.uid = w.schedule_uid"
            )
        ).fetchall()
    return {row[0]: row[1:] for row in rows}


async def run_rows(database: Database):
    async with database.system() as conn:
        cursor = await conn.execute(
            "select run_id, nominal_at, tz_version, planned_at from everwhen.runs order by nominal_at, run_id"
        )
        return await cursor.fetchall()


async def test_what_was_planned_ahead_is_withdrawn_and_planned_where_the_new_release_has_it(database, tenant):
    now = datetime(2026, 7, 1, 6, 59, 50, tzinfo=UTC)  # ten seconds before nine in Berlin's summer
    made = await make_schedule(database, tenant, trigger=DAILY, timezone="Europe/Berlin")
    await set_marks(database, now)
    await tick_all(Scheduler(database=database, zones=OLD), now)
    planned = await run_rows(database)
    await tick_all(Scheduler(database=database, zones=NEW), now)
    withdrawn = await run_rows(database)
    later = datetime(2026, 7, 1, 7, 59, 50, tzinfo=UTC)
    await tick_all(Scheduler(database=database, zones=NEW), later)
    revisions = await schedules.list_revisions(database, tenant_id=tenant.id, name=made.name, limit=10)

    assert [(at, version) for _, at, version, _ in planned] == [(datetime(2026, 7, 1, 7, tzinfo=UTC), "2027a")]
    assert withdrawn == []
    assert [(at, version) for _, at, version, _ in await run_rows(database)] == [
        (datetime(2026, 7, 1, 8, tzinfo=UTC), "2027b")
    ]
    assert [(each.action, each.changed_by, each.tz_version) for each in revisions[1:]] == [
        ("rezoned", "everwhen", "2027b")
    ]
    assert "2027a → 2027b" in revisions[1].reason
    assert "1 planned runs withdrawn" in revisions[1].reason


async def test_a_far_instant_moves_earlier_and_is_not_late(database, tenant):
    now = datetime(2027, 1, 1, tzinfo=UTC)
    await make_schedule(database, tenant, trigger=YEARLY, timezone="Europe/Berlin")
    await set_marks(database, now)
    old = Scheduler(database=database, zones=NEW)  # without summer time first: nine o'clock is 08:00 UTC
    await tick_all(old, now)
    await tick_all(Scheduler(database=database, zones=release("2027c", {"Europe/Berlin": BERLIN})), now)

    assert (await marks(database))["nightly"][1:3] == (datetime(2027, 7, 15, 7, tzinfo=UTC), "2027c")


async def test_what_does_not_move_keeps_its_rows_and_gets_no_revision(database, tenant):
    now = datetime(2026, 7, 1, 6, 59, 50, tzinfo=UTC)
    for name, trigger, zone in (
        ("utc", {"kind": "cron", "expr": "0 7 * * *"}, "UTC"),
        ("minutely", {"kind": "cron", "expr": "* * * * *"}, "Europe/Berlin"),
        ("elapsed", {"kind": "every", "every": "PT10S"}, "Europe/Berlin"),
    ):
        await make_schedule(database, tenant, name=name, trigger=trigger, timezone=zone)
    await set_marks(database, now)
    await tick_all(Scheduler(database=database, zones=OLD), now)
    before = await run_rows(database)
    await tick_all(Scheduler(database=database, zones=NEW), now)

    assert len(before) > 3
    assert await run_rows(database) == before
    assert {mark[2] for mark in (await marks(database)).values()} == {"2027b"}
    for name in ("utc", "minutely", "elapsed"):
        assert len(await schedules.list_revisions(database, tenant_id=tenant.id, name=name, limit=9)) == 1


async def test_the_planner_rezones_before_it_plans_whatever_the_sweep_has_seen(database, tenant):
    now = datetime(2026, 7, 1, 6, 59, 50, tzinfo=UTC)
    await make_schedule(database, tenant, trigger=DAILY, timezone="Europe/Berlin")
    await set_marks(database, now)
    scheduler = Scheduler(database=database, zones=NEW)
    scheduler.rezoned.finished_at = now  # as if it had just been
    await tick_all(scheduler, now)

    assert await run_rows(database) == []
    assert (await marks(database))["nightly"][1:3] == (datetime(2026, 7, 1, 8, tzinfo=UTC), "2027b")


async def test_nothing_is_lost_or_doubled_across_the_change(database, tenant):
    now = datetime(2026, 3, 28, tzinfo=UTC)
    await make_schedule(database, tenant, trigger={"kind": "cron", "expr": "*/20 * * * *"}, timezone="Europe/Berlin",
                        catch_up=CatchUp(policy=CatchUpPolicy.REPLAY))  # fmt: skip
    await set_marks(database, now)
    schedulers = [Scheduler(database=database, zones=OLD), Scheduler(database=database, zones=NEW)]
    for step in range(300):  # both at once, in turns, through the night of the change
        await tick_all(schedulers[step % 2], now + timedelta(minutes=10) * step)
    found = [at for _, at, _, _ in await run_rows(database)]

    assert found == [found[0] + timedelta(minutes=20) * i for i in range(len(found))]
    assert len(found) >= 148


async def test_an_older_release_does_not_fight_a_newer_one(database, tenant):
    now = datetime(2027, 1, 1, tzinfo=UTC)
    await make_schedule(database, tenant, trigger=YEARLY, timezone="Europe/Berlin")
    await set_marks(database, now)
    older, newer = Scheduler(database=database, zones=OLD), Scheduler(database=database, zones=NEW)
    await tick_all(older, now)
    await tick_all(newer, now)
    await tick_all(older, now + rezoning.SWEEP_EVERY)
    kept = (await marks(database))["nightly"][2]
    await tick_all(Scheduler(database=database, zones=OLD), now + rezoning.SWEEP_EVERY)  # a step back, on purpose

    assert kept == "2027b"
    assert (await marks(database))["nightly"][1:3] == (datetime(2027, 7, 15, 7, tzinfo=UTC), "2027a")


async def test_a_zone_that_is_gone_is_shown_and_stops_nobody(database, tenant):
    now = datetime(2026, 7, 1, 6, 59, 50, tzinfo=UTC)
    await make_schedule(database, tenant, name="gone", trigger=DAILY, timezone="UTC")
    await make_schedule(database, tenant, trigger={"kind": "cron", "expr": "0 7 * * *"}, timezone="UTC")
    async with database.system() as conn:
        await conn.execute(
            """update everwhen.schedules set spec = jsonb_set(spec, '{timezone}', '"Asia/Gone"') where name = 'gone'"""
        )
    await set_marks(database, now)
    await tick_all(Scheduler(database=database, zones=NEW), now)
    mark = (await marks(database))["gone"]

    assert "trigger.timezone.unknown" in mark[3] or "Asia/Gone" in mark[3]
    assert len(await run_rows(database)) == 1


async def test_a_paused_schedule_is_stamped_and_a_second_round_finds_nothing(database, tenant):
    now = datetime(2027, 1, 1, tzinfo=UTC)
    await make_schedule(database, tenant, trigger=YEARLY, timezone="Europe/Berlin")
    await schedules.pause_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    async with database.system() as conn:
        await conn.execute("update everwhen.watermarks set tz_version = null")
    scheduler = Scheduler(database=database, zones=NEW)
    await tick_all(scheduler, now)
    await tick_all(scheduler, now + rezoning.SWEEP_EVERY)

    assert (await marks(database))["nightly"][1:3] == (None, "2027b")
    assert (scheduler.rezoned.rounds, scheduler.rezoned.moved) == (2, 0)


async def test_the_sweep_goes_on_where_a_page_ended(database, tenant, monkeypatch):
    monkeypatch.setattr(rezoning, "PAGE", 2)
    now = datetime(2027, 1, 1, tzinfo=UTC)
    for name in "abcde":
        await make_schedule(database, tenant, name=name, trigger=YEARLY, timezone="Europe/Berlin")
    scheduler = Scheduler(database=database, zones=NEW)
    ticks = 1
    while (await scheduler.tick(now)).more:
        ticks += 1

    assert ticks == 3
    assert {mark[2] for mark in (await marks(database)).values()} == {"2027b"}


async def test_the_withdrawn_run_leaves_its_reason(database, tenant):
    now = datetime(2026, 7, 1, 6, 59, 50, tzinfo=UTC)
    await make_schedule(database, tenant, trigger=DAILY, timezone="Europe/Berlin")
    await set_marks(database, now)
    await tick_all(Scheduler(database=database, zones=OLD), now)
    await tick_all(Scheduler(database=database, zones=NEW), now)
    async with database.system() as conn:
        events = await (await conn.execute("select kind, reason from everwhen.events order by event_id")).fetchall()

    assert events == [("planned", None), ("unplanned", Reason.SCHEDULE_REZONED)]
    found = (await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(state=RunState.PLANNED), limit=9)).rows
    assert found == []
