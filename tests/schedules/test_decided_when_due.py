"""An end is given when its instant has come: whatever a person changes before that still counts, and nothing is twice.

Each act of a person comes between a look of the planner, which is up to a minute ahead, and the instants that are to be
skipped. What is decided for good all the same, a run that was cancelled ahead or rolled back, stays and is passed over.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from everwhen.calendars import service as calendars
from everwhen.calendars.model import CalendarDraft
from everwhen.core.calendar_json import parse_definition
from everwhen.core.calendar_use import CalendarUse
from everwhen.core.calendars import Roll
from everwhen.core.catchup import CatchUpPolicy, Cause, Rule
from everwhen.core.flex import Flex, FlexMode
from everwhen.core.overlap import Overlap, OverlapPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.postgres.pool import Database
from everwhen.runs import service as runs
from everwhen.schedules import catching_up
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from everwhen.testing.clock import MovableClock
from everwhen.verify import service as verify
from tests.factories import TESTER, make_schedule, make_task, make_tenant
from tests.tzif import BERLIN, WITHOUT_SUMMER_TIME, release

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SECONDLY = {"kind": "every", "every": "PT1S"}
ODD = {"kind": "any_of", "triggers": [SECONDLY], "except": [{"kind": "every", "every": "PT2S"}]}


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database)
    await make_task(database, made)
    return made


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify.verify(database) == {}


async def rows(database, query, *parameters):
    async with database.system() as conn:
        return await (await conn.execute(query, parameters or None)).fetchall()


async def now_of(database):
    return (await rows(database, "select clock_timestamp()"))[0][0]


async def look(database, now=None, *, zones=None):
    """Let a scheduler look until it has nothing more to do."""
    scheduler = Scheduler(database=database, zones=zones)
    now = now or await now_of(database)
    while (await scheduler.tick(now)).more:
        pass
    return now


async def make_calendar(database, tenant, *, closed, around=None):
    """A calendar, or its next version, with these days closed, counted from today; every other day is open."""
    today = (around or await now_of(database)).astimezone(UTC).date()
    days = [{"date": str(today + timedelta(days=day)), "hours": "closed"} for day in closed]
    draft = CalendarDraft(definition=parse_definition({"days": days}), changed_by="tester", reason=None)
    known = (await calendars.list_calendars(database, tenant_id=tenant.id, limit=1)).rows
    make = calendars.replace_calendar if known else calendars.create_calendar
    await make(database, tenant_id=tenant.id, name="de", draft=draft)


async def on_calendar(database, tenant, trigger, *, roll=Roll.NONE, name="nightly"):
    timing = Timing(parse_trigger(trigger), calendars=CalendarUse(open=("de",), roll=roll))
    draft = ScheduleDraft(name=name, task="report", spec=Spec(timing=timing))
    await schedules.create_schedule(database, tenant_id=tenant.id, draft=draft, change=TESTER)


async def begin(database, instant):
    """Let every schedule have begun at this instant, and nothing have been decided since."""
    await rows(database, "update everwhen.schedules set created_at = %s returning 1", instant)
    await rows(
        database, "update everwhen.watermarks set decided_until = %s, next_at = %s returning 1", instant, instant
    )


async def make_user(database, tenant, trigger, *, name="nightly", **spec):
    draft = ScheduleDraft(name=name, task="report", spec=Spec(timing=Timing(parse_trigger(trigger)), **spec))
    await schedules.create_schedule(database, tenant_id=tenant.id, draft=draft, change=TESTER)


async def listed(database, name="nightly", *, ended=None):
    """The instants of a schedule's runs: those that have not ended, or have ended so."""
    found = await rows(
        database,
        "select r.nominal_at from everwhen.runs r join everwhen.schedules s on s.uid = r.schedule_uid"
        " left join everwhen.run_ends e on e.run_id = r.run_id"
        " where s.name = %s and e.state is not distinct from %s order by 1",
        name,
        ended,
    )
    return [at for (at,) in found]


# The acts -------------------------------------------------------------------------------------------------------------


async def pause(database, tenant, name):
    await schedules.pause_schedule(database, tenant_id=tenant.id, name=name, change=TESTER)


async def resume(database, tenant, name, rule=None):
    return await schedules.resume_schedule(database, tenant_id=tenant.id, name=name, change=TESTER, rule=rule)


async def pause_and_resume(database, tenant, name):
    await pause(database, tenant, name)
    await resume(database, tenant, name)


async def edit(database, tenant, name):
    spec = Spec(timing=Timing(parse_trigger({"kind": "every", "every": "PT3S"})))
    await schedules.update_schedule(
        database, tenant_id=tenant.id, name=name, changes=lambda _: {"spec": spec}, change=TESTER
    )


async def touch(database, tenant, name):
    await schedules.update_schedule(
        database, tenant_id=tenant.id, name=name, changes=lambda _: {"priority": 1}, change=TESTER
    )


async def delete(database, tenant, name):
    await schedules.delete_schedule(database, tenant_id=tenant.id, name=name, change=TESTER)


ACTS = {each.__name__: each for each in (pause, pause_and_resume, edit, touch, delete)}
each_act = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)


async def closed_today(database, tenant):
    await make_calendar(database, tenant, closed=[0, 1])
    await on_calendar(database, tenant, SECONDLY)
    await rows(database, "update everwhen.watermarks set next_at = now() returning 1")  # not in a quarter of an hour


async def every_other_second(database, tenant):
    await make_schedule(database, tenant, trigger=ODD)


@pytest.mark.parametrize("kind", [closed_today, every_other_second])
@each_act
async def test_a_change_before_an_instant_is_skipped_finds_nothing_decided(database, tenant, act, kind):
    await kind(database, tenant)
    await look(database)
    ahead = await rows(
        database,
        "select (select count(*) from everwhen.run_ends e join everwhen.runs r using (tenant_id, run_id)"
        "        where r.nominal_at > e.finished_at),"
        "       (select count(*) from everwhen.spans where last_at > recorded_at)",
    )
    await act(database, tenant, "nightly")
    assert await verify.verify(database) == {}
    await look(database)
    await look(database, await now_of(database) + 2 * MINUTE)

    assert ahead == [(0, 0)]


async def test_a_new_version_of_a_calendar_opens_what_it_had_closed(database, tenant):
    await closed_today(database, tenant)
    now = await look(database)
    await make_calendar(database, tenant, closed=[])
    await look(database)
    planned = await listed(database)
    await look(database, now + 2 * MINUTE)

    assert len([at for at in planned if at <= now + MINUTE]) >= 25
    assert not set(planned) & set(await listed(database, ended="skipped"))


async def test_what_a_calendar_had_closed_by_then_stays_skipped_when_it_opens(database, tenant):
    await make_calendar(database, tenant, closed=[-1, 0, 1])
    await on_calendar(database, tenant, {"kind": "cron", "expr": "* * * * *"})
    await begin(database, await now_of(database) - 12 * MINUTE)
    await make_calendar(database, tenant, closed=[0])
    await make_calendar(database, tenant, closed=[])
    changed = await now_of(database)
    await look(database)
    spans = await rows(database, "select last_at, instants, verdict, detail from everwhen.spans")

    ((last_at, instants, verdict, detail),) = spans
    assert (verdict, detail) == ("skipped", {"calendar": "de", "version": 1})
    assert instants in {12, 13}  # a minute may have ended in between
    assert changed - MINUTE < last_at <= changed
    assert await rows(database, "select count(*) from everwhen.arrears") == [(0,)]


async def test_a_new_release_of_the_tz_database_opens_what_the_old_one_had_closed(database, tenant):
    zones = {"Europe/Berlin": BERLIN, "UTC": "UTC0"}
    old, new = release("2027a", zones), release("2027b", zones | {"Europe/Berlin": WITHOUT_SUMMER_TIME})
    nine = datetime(2026, 7, 1, 7, tzinfo=UTC)  # in Berlin's summer
    not_at_nine = {"kind": "cron", "expr": "* * 9 * * *", "seconds": True}
    trigger = {"kind": "any_of", "triggers": [SECONDLY], "except": [not_at_nine]}
    await make_schedule(database, tenant, trigger=trigger, timezone="Europe/Berlin")
    await begin(database, nine - 10 * SECOND)
    await rows(database, "update everwhen.watermarks set tz_version = '2027a' returning 1")
    await look(database, nine - 10 * SECOND, zones=old)
    by_old = await listed(database)
    await look(database, nine - 10 * SECOND, zones=new)
    by_new = await listed(database)
    await look(database, nine + 2 * MINUTE, zones=new)

    assert max(by_old) == nine - SECOND
    assert max(by_new) > nine + 30 * SECOND


async def test_a_release_that_moves_nothing_leaves_alone_what_waits_for_a_skip(database, tenant):
    zones = {"Europe/Berlin": BERLIN, "UTC": "UTC0"}
    made = await make_schedule(database, tenant, trigger=ODD)
    await rows(database, "update everwhen.watermarks set tz_version = '2027a' returning 1")
    now = await look(database, zones=release("2027a", zones))
    await look(database, now, zones=release("2027b", zones))
    revisions = await schedules.list_revisions(database, tenant_id=tenant.id, name=made.name, limit=10)

    assert [revision.action for revision in revisions] == ["created"]


async def test_two_schedulers_that_wait_for_the_same_instant_give_it_one_end(database, tenant):
    await every_other_second(database, tenant)
    start = await now_of(database)
    one, other = Scheduler(database=database), Scheduler(database=database)
    for step in range(12):
        now = start + step * timedelta(milliseconds=500)
        await asyncio.gather(one.tick(now), other.tick(now))
    ends = await rows(
        database, "select count(*), count(distinct nominal_at) from everwhen.runs join everwhen.run_ends using (run_id)"
    )

    assert ends[0][0] == ends[0][1] >= 2


# What is decided for good ---------------------------------------------------------------------------------------------


async def cancel(database, tenant, at, name="nightly"):
    ref = f"{name}@{at.astimezone(UTC).isoformat()}"
    await runs.cancel_run(database, tenant_id=tenant.id, ref=ref, by="ann", reason=None)


async def first_after(database, instant, name="nightly"):
    return next(at for at in await listed(database, name) if at > instant)


@pytest.fixture
async def halted(server, work_database, database):
    """The same database by a clock that stands still until the test moves it, and that clock."""
    clock = MovableClock((await now_of(database)).astimezone(UTC))
    async with await Database.open(server.app(work_database), set_clock=clock) as opened:
        yield opened, clock


@pytest.mark.parametrize("overlap", [None, OverlapPolicy.BUFFER_ALL])
@each_act
async def test_a_run_that_was_cancelled_ahead_stays_cancelled_whatever_its_schedule_becomes(
    database, tenant, act, overlap
):
    await make_user(database, tenant, SECONDLY, overlap=Overlap() if overlap is None else Overlap(policy=overlap))
    at = await first_after(database, await look(database) + 20 * SECOND)
    await cancel(database, tenant, at)
    await act(database, tenant, "nightly")
    assert await verify.verify(database) == {}
    await look(database)
    await look(database, await now_of(database) + 2 * MINUTE)

    assert await listed(database, ended="cancelled") == [at]


async def test_a_run_that_was_cancelled_ahead_is_passed_over_by_what_becomes_of_the_pause(halted, tenant):
    database, clock = halted
    flex = Flex(mode=FlexMode.HASH, window=timedelta(seconds=30))
    made = {policy: f"by-{policy}" for policy in CatchUpPolicy}
    for name in made.values():
        await make_user(database, tenant, SECONDLY, name=name, flex=flex)
    await look(database, clock.now)
    cancelled = {name: await first_after(database, clock.now + 2 * SECOND, name) for name in made.values()}
    for name, at in cancelled.items():
        await cancel(database, tenant, at, name)
        await pause(database, tenant, name)
    clock.now = max(cancelled.values()) + SECOND
    for policy, name in made.items():
        foreseen = await catching_up.preview_catch_up(
            database, tenant_id=tenant.id, name=name, cause=Cause.RESUME, rule=Rule(policy=policy), since=None
        )
        told = (await resume(database, tenant, name, Rule(policy=policy))).left_behind
        assert told.counts == foreseen.counts
    await look(database, clock.now)
    await look(database, clock.now + 2 * MINUTE)
    counted = await rows(
        database, "select runs + coalesced + skipped + missed, cardinality(answered) from everwhen.arrears"
    )

    assert {answered for _, answered in counted} == {1}
    for name, at in cancelled.items():
        assert await listed(database, name, ended="cancelled") == [at]


async def test_a_run_that_rolled_back_and_was_due_stays_whatever_its_schedule_becomes(database, tenant):
    due = (await now_of(database)).astimezone(UTC).replace(microsecond=0) - MINUTE
    await make_calendar(database, tenant, around=due, closed=[1])
    tomorrow = due + timedelta(days=1)
    expr = f"{due.second} {due.minute} {due.hour} * * {tomorrow.isoweekday() % 7}"
    for name in ACTS:
        trigger = {"kind": "cron", "expr": expr, "seconds": True}
        await on_calendar(database, tenant, trigger, name=name, roll=Roll.PRECEDING)
    await begin(database, due - MINUTE)
    await look(database, due - 20 * SECOND)
    for name, act in ACTS.items():
        await act(database, tenant, name)
    answered = await rows(database, "select distinct answered from everwhen.watermarks")
    assert await verify.verify(database) == {}
    await make_calendar(database, tenant, around=due, closed=[])
    await look(database)
    await look(database, tomorrow + 2 * MINUTE)

    of_tomorrow = await rows(database, "select due_at from everwhen.runs where nominal_at = %s", tomorrow)
    assert answered == [([tomorrow],)]
    assert of_tomorrow == [(due,)] * len(ACTS)


async def test_a_dry_run_lists_what_would_be_withdrawn_and_not_what_has_ended(database, tenant):
    await make_schedule(database, tenant, trigger=SECONDLY)
    at = await first_after(database, await look(database) + 20 * SECOND)
    planned = await listed(database)
    await cancel(database, tenant, at)
    async with database.tenant(tenant.id) as conn:
        changed = await schedules.change_schedule(
            conn, tenant_id=tenant.id, name="nightly", changes=lambda _: {"priority": 1}, change=TESTER
        )
        now = conn.now

    assert changed.withdrawn == [each for each in planned if each > now and each != at]
