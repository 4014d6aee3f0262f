"""The scheduler: each occurrence is planned once, ahead of its instant, by any number of copies, whatever rows hold."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from everwhen.core.ids import scheduled_run_id
from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.triggers import Timing, occurrences, parse_trigger
from everwhen.runs import planning
from everwhen.schedules import service, store
from everwhen.schedules.scheduler import Scheduler
from everwhen.verify.service import verify
from tests.factories import TESTER, make_schedule, make_task, make_tenant

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TICK = timedelta(microseconds=1)
AHEAD = 30 * SECOND
EVERY_SECOND = {"kind": "every", "every": "PT1S"}
MINUTELY = {"kind": "cron", "expr": "* * * * *"}


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify(database) == {}


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database)
    await make_task(database, made)
    return made


@pytest.fixture
def scheduler(database):
    return Scheduler(database=database, ahead=AHEAD)


async def rows(database, query, *parameters):
    async with database.system() as conn:
        return await (await conn.execute(query, parameters or None)).fetchall()


async def wind_back(database, schedule, *, to):
    """Let the schedule have been made, and decided until then, as if nobody had looked since."""
    query = "update everwhen.watermarks set decided_until = %s, next_at = %s where schedule_uid = %s returning 1"
    await rows(database, query, to, to, schedule.uid)
    await rows(database, "update everwhen.schedules set created_at = %s where uid = %s returning 1", to, schedule.uid)


async def watermark(database, schedule):
    query = "select decided_until, next_at, failures, last_error from everwhen.watermarks where schedule_uid = %s"
    return (await rows(database, query, schedule.uid))[0]


async def nominal_ats(database):
    return [at for (at,) in await rows(database, "select nominal_at from everwhen.runs order by nominal_at")]


def fires(trigger, *, after, until, timezone="UTC"):
    """What the trigger intends in (after, until], asked of the core."""
    timing = Timing(parse_trigger(trigger), timezone)
    return [o.nominal_at for o in occurrences(timing, after=after, until=until, limit=100_000)]


async def until_done(scheduler, now):
    """Tick as the loop would while there is more; return how many ticks it took."""
    for ticks in range(1, 200):
        if not (await scheduler.tick(now)).more:
            return ticks
    raise AssertionError("there is always more")


# Ahead ----------------------------------------------------------------------------------------------------------------


async def test_runs_are_planned_ahead_of_their_instants_twice_as_far_as_the_horizon(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant, trigger=EVERY_SECOND)
    now = schedule.decided_until
    tick = await scheduler.tick(now)

    assert (tick.done, tick.more) == (60, False)
    assert await nominal_ats(database) == fires(EVERY_SECOND, after=now, until=now + 2 * AHEAD)
    assert await rows(database, "select count(*) from everwhen.waiting where available_at > %s", now) == [(60,)]


async def test_nothing_is_planned_before_the_horizon_reaches_it(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant)
    fire = schedule.next_at

    assert (await scheduler.tick(fire - AHEAD - TICK)).done == 0
    assert (await scheduler.tick(fire - AHEAD)).done == 1


async def test_a_tick_says_when_the_next_instant_comes_within_the_horizon(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant)

    assert (await scheduler.tick(schedule.decided_until)).next_at == schedule.next_at - AHEAD
    await scheduler.tick(schedule.next_at - AHEAD)
    assert (await scheduler.tick(schedule.next_at)).next_at == schedule.next_at + DAY - AHEAD


async def test_without_schedules_there_is_nothing_to_wait_for(scheduler):
    tick = await scheduler.tick(datetime(2026, 11, 29, tzinfo=UTC))

    assert (tick.done, tick.more, tick.next_at) == (0, False, None)


async def test_what_another_copy_is_planning_is_left_to_it(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant)
    async with database.system() as conn:
        assert await store.lock_due(conn, horizon=schedule.next_at, limit=10)
        tick = await scheduler.tick(schedule.next_at)

    assert (tick.done, tick.more, tick.next_at) == (0, False, None)


async def test_a_run_carries_the_id_that_its_intention_has(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant, trigger=MINUTELY)
    await scheduler.tick(schedule.decided_until + HOUR)

    found = await rows(database, "select run_id, nominal_at from everwhen.runs")
    assert found
    for run_id, at in found:
        assert run_id == scheduled_run_id(tenant.id, schedule.uid, nominal_at=at, due_at=at)


async def test_a_run_has_its_schedules_revision_input_and_priority_or_its_tasks(database, tenant, scheduler):
    await make_task(database, tenant, name="other", queue="aside", priority=3, start_deadline_seconds=90.0)
    plain = await make_schedule(database, tenant, name="plain", task="other", input={"n": 1}, trigger=MINUTELY)
    await make_schedule(database, tenant, name="own", task="other", priority=8, trigger=MINUTELY)
    await scheduler.tick(plain.decided_until + AHEAD)

    found = await rows(
        database,
        "select distinct s.name, r.queue, r.priority, r.input, r.schedule_revision, r.expires_at - r.due_at"
        " from everwhen.runs r join everwhen.schedules s on s.uid = r.schedule_uid order by 1",
    )
    assert found == [
        ("own", "aside", 8, {}, 1, 90 * SECOND),
        ("plain", "aside", 3, {"n": 1}, 1, 90 * SECOND),
    ]


@pytest.mark.parametrize(
    "stretch",
    [
        (datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC), 0),
        (datetime(2027, 1, 3, 23, 59, 30, tzinfo=UTC), 0),  # a Sunday: the partitions are cut at Monday
        (datetime(2026, 12, 25, tzinfo=UTC), 10),
    ],
)
async def test_the_turn_of_a_year_or_a_week_is_no_boundary(database, tenant, scheduler, stretch):
    at, days = stretch
    schedule = await make_schedule(
        database,
        tenant,
        trigger={"kind": "cron", "expr": "*/10 * * * *"},
        catch_up=CatchUp(policy=CatchUpPolicy.REPLAY),
    )
    await wind_back(database, schedule, to=at)
    now = at + days * DAY + 40 * SECOND
    await until_done(scheduler, now)

    expected = fires({"kind": "cron", "expr": "*/10 * * * *"}, after=at, until=now + 2 * AHEAD)
    assert await nominal_ats(database) == expected


async def test_both_passes_of_a_repeated_hour_are_told_apart(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant, timezone="Europe/Berlin")
    both = {**json.loads(schedule.definition), "fold": "both"}
    await respec(database, schedule, both)
    await change_catch_up(database, tenant, CatchUp(policy=CatchUpPolicy.REPLAY))
    await wind_back(database, schedule, to=datetime(2026, 10, 24, 22, tzinfo=UTC))
    await scheduler.tick(datetime(2026, 10, 25, 12, tzinfo=UTC))

    assert await rows(database, "select nominal_at, utc_offset_seconds from everwhen.runs order by 1") == [
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), 7200),
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), 3600),
    ]


async def respec(database, schedule, data):
    """Put a spec there as another version of the server might leave it: as a revision that this one cannot read."""
    query = "update everwhen.schedules set spec = %s::jsonb, revision = revision + 1 where uid = %s returning 1"
    await rows(database, query, json.dumps(data), schedule.uid)
    recorded = """
        insert into everwhen.schedule_revisions
        select tenant_id, uid, revision, 'updated', task, spec, input, priority, 'tester', null, now()
        from everwhen.schedules where uid = %s returning 1"""
    await rows(database, recorded, schedule.uid)


async def change_catch_up(database, tenant, catch_up, *, name="nightly"):
    await service.update_schedule(
        database,
        tenant_id=tenant.id,
        name=name,
        changes=lambda spec: {"spec": replace(spec, catch_up=catch_up)},
        change=TESTER,
    )


# Many copies ----------------------------------------------------------------------------------------------------------


async def test_many_schedulers_at_once_plan_each_occurrence_once(database, tenant):
    made = [await make_schedule(database, tenant, name=f"s{n}", trigger=EVERY_SECOND) for n in range(40)]
    now = max(schedule.decided_until for schedule in made)
    copies = [Scheduler(database=database, ahead=AHEAD, batch=7) for _ in range(4)]

    await asyncio.gather(*(until_done(copy, now) for copy in copies))
    await until_done(copies[0], now)

    for schedule in made:
        found = await rows(
            database, "select nominal_at from everwhen.runs where schedule_uid = %s order by 1", schedule.uid
        )
        assert [at for (at,) in found] == fires(EVERY_SECOND, after=schedule.decided_until, until=now + 2 * AHEAD)


async def test_a_schedule_that_changes_while_it_is_planned_gets_no_run_of_its_old_revision(database, tenant, scheduler):
    schedules = [await make_schedule(database, tenant, name=f"s{n}", trigger=EVERY_SECOND) for n in range(20)]
    now = schedules[-1].decided_until

    async def change(schedule):
        at = (now + DAY).isoformat()
        data = {"kind": "at", "at": at}
        await service.update_schedule(
            database,
            tenant_id=tenant.id,
            name=schedule.name,
            changes=lambda spec: {"spec": type(spec)(timing=Timing(parse_trigger(data), "UTC"))},
            change=TESTER,
        )

    await asyncio.gather(*(until_done(scheduler, now + SECOND) for _ in range(3)), *map(change, schedules))
    await until_done(scheduler, now + 2 * SECOND)

    assert await rows(
        database,
        "select count(*) from everwhen.runs r join everwhen.schedules s on s.uid = r.schedule_uid"
        " where r.due_at > s.updated_at and r.schedule_revision = 2",
    ) == [(0,)]


# Clocks ---------------------------------------------------------------------------------------------------------------


async def test_a_clock_that_steps_back_plans_nothing_twice(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant, trigger=EVERY_SECOND)
    now = schedule.decided_until + HOUR
    await until_done(scheduler, now)
    before = await watermark(database, schedule)
    history = await rows(database, "select count(*) from everwhen.events")

    for back in (SECOND, MINUTE, 30 * MINUTE, DAY):
        assert (await scheduler.tick(now - back)).done == 0

    assert await watermark(database, schedule) == before
    assert await rows(database, "select count(*) from everwhen.events") == history


async def test_a_watermark_that_went_back_by_itself_plans_no_run_twice(database, tenant, scheduler):
    """As after a restore of half a database: the ids are the intentions, so what is there stays as it is."""
    schedule = await make_schedule(database, tenant, trigger=EVERY_SECOND)
    now = schedule.decided_until
    await scheduler.tick(now)
    before = await rows(database, "select * from everwhen.runs order by run_id")
    await wind_back(database, schedule, to=now)

    assert (await scheduler.tick(now)).done == 0
    assert await rows(database, "select * from everwhen.runs order by run_id") == before


async def test_a_long_outage_is_worked_off_tick_by_tick_while_live_planning_goes_on(database, tenant, scheduler):
    schedule = await make_schedule(
        database, tenant, trigger=EVERY_SECOND, catch_up=CatchUp(policy=CatchUpPolicy.REPLAY)
    )
    now = schedule.decided_until
    start = now - 4 * HOUR
    await wind_back(database, schedule, to=start)
    await scheduler.tick(now)
    assert (await watermark(database, schedule))[0] >= now
    live = await rows(database, "select count(*) from everwhen.waiting where available_at > %s", now)
    assert live == [(60,)]
    assert await until_done(scheduler, now) > 2

    assert await nominal_ats(database) == fires(EVERY_SECOND, after=start, until=now + 2 * AHEAD)
    late = await rows(
        database, "select distinct priority from everwhen.runs where nominal_at < %s order by 1", now - HOUR
    )
    assert late == [(4,)]


# Catching up ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        (CatchUp(policy=CatchUpPolicy.REPLAY), 6, []),
        (CatchUp(policy=CatchUpPolicy.COALESCE), 2, [("coalesced", "catchup.coalesced", 4)]),
        (CatchUp(policy=CatchUpPolicy.SKIP), 1, [("missed", "catchup.skip", 5)]),
        (CatchUp(policy=CatchUpPolicy.SKIP, grace=3 * HOUR), 4, [("missed", "catchup.skip", 2)]),
        (
            CatchUp(policy=CatchUpPolicy.REPLAY, window=3 * HOUR),
            4,
            [("missed", "catchup.window", 2)],
        ),
    ],
)
async def test_what_was_missed_becomes_runs_and_verdicts_as_the_policy_says(database, tenant, scheduler, case):
    catch_up, planned, verdicts = case
    schedule = await make_schedule(database, tenant, trigger={"kind": "cron", "expr": "0 * * * *"}, catch_up=catch_up)
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    await wind_back(database, schedule, to=noon)
    await scheduler.tick(noon + 5 * HOUR + 59 * MINUTE + 30 * SECOND)  # five are due, the sixth comes in half a minute

    assert await rows(database, "select count(*) from everwhen.waiting") == [(planned,)]
    assert (
        await rows(database, "select state, reason, count(*)::int from everwhen.run_ends group by 1, 2 order by 1")
        == verdicts
    )
    assert await rows(database, "select count(*) from everwhen.events") == [(6,)]


async def test_a_long_stretch_of_missed_instants_is_one_span(database, tenant, scheduler):
    schedule = await make_schedule(
        database, tenant, trigger=MINUTELY, catch_up=CatchUp(policy=CatchUpPolicy.SKIP, grace=timedelta(0))
    )
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    await wind_back(database, schedule, to=noon)
    await scheduler.tick(noon + 5 * HOUR + SECOND)

    assert await rows(
        database, "select schedule_uid, first_at, last_at, instants, verdict, reason from everwhen.spans"
    ) == [(schedule.uid, noon + MINUTE, noon + 5 * HOUR, 300, "missed", "catchup.skip")]
    assert await nominal_ats(database) == [noon + 5 * HOUR + MINUTE]


async def test_the_instants_of_a_pause_are_recorded_as_skipped(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant, trigger={"kind": "cron", "expr": "0 * * * *"})
    await service.pause_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    paused_at = schedule.decided_until - 6 * HOUR
    await rows(
        database,
        "update everwhen.watermarks set decided_until = %s where schedule_uid = %s returning 1",
        paused_at,
        schedule.uid,
    )
    assert (await scheduler.tick(schedule.decided_until)).done == 0
    answer = await service.resume_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    resumed = answer.schedule
    await scheduler.tick(resumed.updated_at)

    hourly = fires({"kind": "cron", "expr": "0 * * * *"}, after=paused_at, until=resumed.updated_at)
    assert await rows(database, "select state, reason, count(*)::int from everwhen.run_ends group by 1, 2") == [
        ("skipped", "schedule.paused", len(hourly))
    ]


async def test_partitions_of_past_weeks_are_made_when_they_are_needed(database, tenant, scheduler):
    schedule = await make_schedule(
        database, tenant, trigger={"kind": "cron", "expr": "0 0 * * 3"}, catch_up=CatchUp(policy=CatchUpPolicy.REPLAY)
    )
    start = schedule.decided_until - 5 * 365 * DAY
    await wind_back(database, schedule, to=start)
    now = start + 40 * DAY
    await until_done(scheduler, now)

    assert await nominal_ats(database) == fires(
        {"kind": "cron", "expr": "0 0 * * 3"}, after=start, until=now + 2 * AHEAD
    )


# One bad row ----------------------------------------------------------------------------------------------------------


def spoilt(schedule, **changes):
    return {**json.loads(schedule.definition), **changes}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: {},
        lambda _: None,
        lambda _: "x",
        lambda _: [1, 2],
        lambda schedule: spoilt(schedule, timezone="Europe/Atlantis"),
        lambda schedule: spoilt(schedule, trigger={"kind": "cron", "expr": "every day"}),
        lambda schedule: spoilt(schedule, trigger={"kind": "by-a-later-version"}),
        lambda schedule: spoilt(schedule, gap="unheard-of"),
        lambda schedule: spoilt(schedule, catch_up={"policy": "guess", "grace_seconds": 1, "window_seconds": None}),
        lambda schedule: spoilt(schedule, catch_up={"policy": "skip", "grace_seconds": 1e300, "window_seconds": None}),
    ],
)
async def test_a_schedule_that_cannot_be_read_is_put_off_and_stops_no_other(database, tenant, scheduler, spoil):
    broken = await make_schedule(database, tenant, name="broken", trigger=EVERY_SECOND)
    await make_schedule(database, tenant, name="sound", trigger=EVERY_SECOND)
    await respec(database, broken, spoil(broken))
    now = broken.decided_until + SECOND

    assert (await scheduler.tick(now)).done >= 60
    decided_until, next_at, failures, last_error = await watermark(database, broken)
    assert (decided_until, failures) == (broken.decided_until, 1)
    assert next_at > now + AHEAD
    assert last_error
    assert (await scheduler.tick(now)).done == 0


async def test_a_broken_schedule_is_looked_at_less_and_less_often(database, tenant, scheduler):
    broken = await make_schedule(database, tenant)
    await respec(database, broken, {})
    waits = []
    now = broken.next_at
    for _ in range(10):
        await scheduler.tick(now)
        next_at = (await watermark(database, broken))[1]
        waits.append(next_at - now - AHEAD)
        now = next_at

    assert waits == [min(MINUTE * 2**n, HOUR) for n in range(10)]


@pytest.mark.parametrize("ahead", [AHEAD, HOUR])
async def test_a_broken_schedule_keeps_no_scheduler_awake_however_far_it_plans_ahead(database, tenant, ahead):
    broken = await make_schedule(database, tenant)
    await respec(database, broken, {})
    eager = Scheduler(database=database, ahead=ahead, batch=1)
    now = broken.next_at

    await until_done(eager, now)
    assert (await watermark(database, broken))[2] == 1
    assert not (await eager.tick(now + SECOND)).more
    assert (await watermark(database, broken))[2] == 1


async def test_a_schedule_that_is_repaired_goes_on_where_it_stopped(database, tenant, scheduler):
    schedule = await make_schedule(database, tenant, trigger=MINUTELY)
    await respec(database, schedule, {})
    await scheduler.tick(schedule.decided_until + MINUTE)
    await respec(database, schedule, json.loads(schedule.definition))
    decided_until, next_at, *_ = await watermark(database, schedule)
    await until_done(scheduler, next_at)

    assert decided_until == schedule.decided_until
    assert (await watermark(database, schedule))[2:] == (0, None)
    assert await nominal_ats(database) == fires(MINUTELY, after=decided_until, until=next_at + 2 * AHEAD)


@pytest.mark.parametrize("bad", [0, 3, 6])
async def test_a_plan_that_cannot_be_written_is_put_off_and_keeps_no_other_back(database, tenant, scheduler, bad):
    # A grace this long makes all of it merely late: no arrears, but planned like what is live.
    lenient = {bad: CatchUp(grace=13 * 365 * DAY)}
    made = [
        await make_schedule(database, tenant, name=f"s{n}", trigger=MINUTELY, catch_up=lenient.get(n)) for n in range(7)
    ]
    now = made[-1].decided_until + MINUTE
    await wind_back(database, made[bad], to=now - 12 * 365 * DAY)  # no partition may be made so far back

    await until_done(scheduler, now)

    found = await rows(database, "select distinct schedule_uid from everwhen.runs")
    assert {uid for (uid,) in found} == {schedule.uid for schedule in made} - {made[bad].uid}
    _, next_at, failures, last_error = await watermark(database, made[bad])
    assert (next_at > now + AHEAD, failures) == (True, 1)
    assert "no partition" in last_error


@pytest.mark.parametrize("bad", [0, 3, 6])
async def test_arrears_that_cannot_be_written_are_put_off_and_keep_no_other_back(database, tenant, scheduler, bad):
    replay = CatchUp(policy=CatchUpPolicy.REPLAY)
    made = [await make_schedule(database, tenant, name=f"s{n}", trigger=MINUTELY, catch_up=replay) for n in range(7)]
    now = made[-1].decided_until + MINUTE
    for number, schedule in enumerate(made):
        await wind_back(database, schedule, to=now - (12 * 365 * DAY if number == bad else HOUR))
    await until_done(scheduler, now)

    late = await rows(database, "select distinct schedule_uid from everwhen.runs where nominal_at < %s", now - MINUTE)
    assert {uid for (uid,) in late} == {schedule.uid for schedule in made} - {made[bad].uid}
    found = await rows(
        database, "select schedule_uid, failures, last_error, look_at from everwhen.arrears where finished_at is null"
    )
    assert [(uid, failures) for uid, failures, _, _ in found] == [(made[bad].uid, 1)]
    assert "no partition" in found[0][2]
    assert found[0][3] > now


async def test_what_breaks_off_in_the_middle_of_a_tick_leaves_nothing(database, tenant, scheduler, monkeypatch):
    schedule = await make_schedule(database, tenant, trigger=EVERY_SECOND)
    before = await watermark(database, schedule)
    advance = store.advance_watermarks

    async def dies(conn, **arguments):
        await advance(conn, **arguments)
        raise ConnectionResetError

    monkeypatch.setattr(store, "advance_watermarks", dies)
    with pytest.raises(ConnectionResetError):
        await scheduler.tick(schedule.decided_until)
    monkeypatch.undo()

    assert (await nominal_ats(database), await watermark(database, schedule)) == ([], before)
    assert (await scheduler.tick(schedule.decided_until)).done == 60


async def test_a_week_that_a_rollback_took_back_is_made_again(server, fresh_database):
    from everwhen.postgres.pool import Database

    at = datetime(2026, 3, 4, tzinfo=UTC)
    async with await Database.open(server.app(fresh_database)) as database:
        async with database.system() as conn:
            await planning.ensure_partitions(conn, [at])
            await planning.ensure_partitions(conn, [at])  # as when a batch is written by halves
            await conn.execute("rollback; begin")
        async with database.system() as conn:
            await planning.ensure_partitions(conn, [at])

        assert await rows(database, "select to_regclass('everwhen.runs_20260302') is not null") == [(True,)]
