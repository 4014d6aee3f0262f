# pyright: reportOptionalMemberAccess=false
"""Calendars as tenant objects: versions, effect, deletion, and what a change does to the schedules that use them."""

import asyncio
import contextlib
from datetime import UTC, date, datetime, timedelta

import pytest

from everwhen.calendars import books
from everwhen.calendars import service as calendars
from everwhen.calendars.model import CalendarDraft
from everwhen.core.calendar_json import parse_definition
from everwhen.core.calendar_use import Book, CalendarUse
from everwhen.core.calendars import Roll
from everwhen.core.errors import TriggerError
from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.errors import Conflict, NotFound
from everwhen.postgres.joined import joined
from everwhen.runs import service as runs
from everwhen.runs.model import RunFilter
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from everwhen.verify import service as verify
from tests.factories import TESTER, make_task, make_tenant
from tests.people import app_on, client_of, token_of
from tests.tzif import BERLIN, release

WEEK = ["mon", "tue", "wed", "thu", "fri"]
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database)
    await make_task(database, made)
    return made


def draft(*days, week=WEEK, effective_from=None, reason=None):
    definition = parse_definition({"week": week, "days": list(days)})
    return CalendarDraft(definition=definition, effective_from=effective_from, changed_by="tester", reason=reason)


def closed(day, label=""):
    return {"date": day, "hours": "closed", "label": label}


async def make_calendar(database, tenant, *days, name="de", **fields):
    return await calendars.create_calendar(database, tenant_id=tenant.id, name=name, draft=draft(*days, **fields))


async def replace(database, tenant, *days, name="de", **fields):
    return await calendars.replace_calendar(database, tenant_id=tenant.id, name=name, draft=draft(*days, **fields))


async def make_user(database, tenant, trigger, *, roll=Roll.NONE, use=None, timezone="Europe/Berlin", name="payroll"):
    use = use if use is not None else CalendarUse(open=("de",), roll=roll)
    timing = Timing(parse_trigger(trigger), timezone, calendars=use or None)
    spec = Spec(timing=timing, catch_up=CatchUp(policy=CatchUpPolicy.REPLAY))
    made = ScheduleDraft(name=name, task="report", spec=spec)
    return await schedules.create_schedule(database, tenant_id=tenant.id, draft=made, change=TESTER)


async def set_watermarks(database, at):
    async with database.system() as conn:
        await conn.execute("update everwhen.watermarks set decided_until = %s, next_at = %s", (at, at))
        await conn.execute("update everwhen.schedules set created_at = %s", (at,))


async def tick_until(database, start, end, *, step):
    """Run the real scheduler on a clock of our own, and let it finish at each step."""
    scheduler, now = Scheduler(database=database), start
    while now <= end:
        while (await scheduler.tick(now)).more:
            pass
        now += step


async def told(database, tenant):
    """Each run: nominal and due instant, state, reason, and what its events say of a calendar."""
    found = (await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(), limit=200)).rows
    lines = []
    for view in reversed(found):
        events = await runs.list_events(database, tenant_id=tenant.id, ref=str(view.row.run_id), limit=50)
        detail = next((event.detail for event in events if event.detail), None)
        assert view.row.nominal_at is not None
        nominal, due = view.row.nominal_at.astimezone(UTC), view.row.due_at.astimezone(UTC)
        lines.append((nominal, due, view.row.ended_state, view.row.reason, detail))
    return sorted(lines)


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    assert await verify.verify(database) == {}


async def test_versions_are_kept_and_the_year_shows_which_decides(database, tenant):
    first = await make_calendar(database, tenant, closed("2027-12-24"))
    second = await replace(database, tenant, effective_from=date(2027, 7, 1), reason="new law")
    year = await calendars.year_of(database, tenant_id=tenant.id, name="de", year=2027)
    versions = await calendars.list_versions(database, tenant_id=tenant.id, name="de", limit=10)

    assert (first.version, second.version) == (1, 2)
    assert {day.month: state.version for day, state in year} == {m: 1 if m < 7 else 2 for m in range(1, 13)}
    assert [(v.version, v.is_in_force, v.reason) for v in versions] == [(1, True, None), (2, True, "new law")]
    definition = await calendars.get_definition(database, tenant_id=tenant.id, name="de", version=1)
    assert definition["days"] == [{"date": "2027-12-24", "hours": "closed"}]


async def test_a_version_for_all_dates_stands_for_every_earlier_one(database, tenant):
    await make_calendar(database, tenant)
    await replace(database, tenant, effective_from=date(2027, 7, 1))
    await replace(database, tenant)
    versions = await calendars.list_versions(database, tenant_id=tenant.id, name="de", limit=10)

    assert [version.is_in_force for version in versions] == [False, False, True]


async def test_too_many_versions_one_after_the_other_are_refused(database, tenant):
    await make_calendar(database, tenant)
    for day in range(1, calendars.MOST_IN_FORCE):
        await replace(database, tenant, effective_from=date(2027, 7, day))
    with pytest.raises(Conflict) as refused:
        await replace(database, tenant, effective_from=date(2027, 8, 1))

    assert refused.value.code == "calendar.versions"


async def test_a_name_is_taken_once_and_a_deleted_calendar_counts_on(database, tenant):
    await make_calendar(database, tenant)
    with pytest.raises(Conflict):
        await make_calendar(database, tenant)
    await calendars.delete_calendar(database, tenant_id=tenant.id, name="de")
    with pytest.raises(NotFound):
        await calendars.get_calendar(database, tenant_id=tenant.id, name="de")

    assert (await make_calendar(database, tenant, closed("2027-03-03"))).version == 2
    year = await calendars.year_of(database, tenant_id=tenant.id, name="de", year=2027)
    assert {state.version for _, state in year} == {2}


async def test_a_calendar_in_use_is_not_deleted_and_its_schedule_is_named(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 * * *"})
    with pytest.raises(Conflict, match="payroll") as refused:
        await calendars.delete_calendar(database, tenant_id=tenant.id, name="de")

    assert refused.value.code == "calendar.in_use"
    await schedules.delete_schedule(database, tenant_id=tenant.id, name="payroll", change=TESTER)
    await calendars.delete_calendar(database, tenant_id=tenant.id, name="de")


async def test_a_schedule_that_no_longer_names_a_calendar_lets_it_go(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "business_day", "nth": -1, "times": ["18:00"], "calendar": "de"}, use=())
    spec = Spec(timing=Timing(parse_trigger({"kind": "cron", "expr": "0 9 * * *"})))
    await schedules.update_schedule(
        database, tenant_id=tenant.id, name="payroll", changes=lambda _: {"spec": spec}, change=TESTER
    )

    await calendars.delete_calendar(database, tenant_id=tenant.id, name="de")


@pytest.mark.parametrize(
    ("trigger", "use"),
    [
        ({"kind": "cron", "expr": "0 9 * * *"}, None),
        ({"kind": "business_day", "nth": 1, "times": ["09:00"], "calendar": "de"}, ()),
    ],
)
async def test_an_unknown_calendar_is_refused(database, tenant, trigger, use):
    with pytest.raises(TriggerError) as refused:
        await make_user(database, tenant, trigger, use=use)

    assert refused.value.code == "calendar.unknown"


async def test_a_schedule_that_never_meets_an_open_day_is_refused(database, tenant):
    await make_calendar(database, tenant, week=[])
    with pytest.raises(TriggerError) as refused:
        await make_user(database, tenant, {"kind": "cron", "expr": "0 9 * * *"})

    assert refused.value.code == "trigger.never"


async def test_a_payroll_at_the_end_of_the_month_is_paid_before_the_weekend_and_the_holiday(database, tenant):
    await make_calendar(database, tenant, closed("2027-03-26", "Good Friday"), closed("2027-03-29", "Easter Monday"))
    await make_user(database, tenant, {"kind": "cron", "expr": "0 18 28 * *"}, roll=Roll.PRECEDING)
    await set_watermarks(database, datetime(2027, 2, 25, tzinfo=UTC))
    # 28 February and 28 March 2027 are Sundays; Good Friday is the 26th.
    for day in (date(2027, 2, 26), date(2027, 3, 25), date(2027, 4, 28)):
        at = datetime(day.year, day.month, day.day, 15, 59, tzinfo=UTC)
        await tick_until(database, at, at + 3 * timedelta(hours=1), step=5 * MINUTE)
    found = await told(database, tenant)

    assert [(nominal.isoformat()[:16], due.isoformat()[:16]) for nominal, due, *_ in found] == [
        ("2027-02-28T17:00", "2027-02-26T17:00"),
        ("2027-03-28T16:00", "2027-03-25T17:00"),
        ("2027-04-28T16:00", "2027-04-28T16:00"),
    ]
    assert [detail for *_, detail in found] == [
        '{"version": 1, "calendar": "de"}',
        '{"version": 1, "calendar": "de"}',
        None,
    ]


async def test_hours_exclude_what_is_outside_and_it_is_recorded_by_calendar_and_version(database, tenant):
    eve = {"date": "2026-12-24", "hours": [["09:00", "13:00"]], "label": "Christmas Eve"}
    await make_calendar(database, tenant, eve)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 10,16 * * *"})
    start = datetime(2026, 12, 24, 8, tzinfo=UTC)
    await set_watermarks(database, start)
    await tick_until(database, start, start + timedelta(hours=10), step=timedelta(hours=1))
    found = await told(database, tenant)

    assert [(nominal.hour, state, reason, detail) for nominal, _, state, reason, detail in found] == [
        (9, None, None, None),
        (15, "skipped", "calendar.excluded", '{"label": "Christmas Eve", "version": 1, "calendar": "de"}'),
    ]


async def test_what_rolls_onto_another_run_is_coalesced_and_that_run_is_one(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 * * *"}, roll=Roll.FOLLOWING)
    start = datetime(2027, 3, 5, 12, tzinfo=UTC)  # a Friday
    await set_watermarks(database, start)
    await tick_until(database, start, start + timedelta(days=3), step=timedelta(hours=1))
    found = await told(database, tenant)

    assert [(nominal.day, due.day, state, reason) for nominal, due, state, reason, _ in found] == [
        (6, 6, "coalesced", "calendar.rolled"),
        (7, 7, "coalesced", "calendar.rolled"),
        (8, 8, None, None),
    ]


async def test_the_events_of_a_run_that_was_rolled_are_listed_over_http(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 7 * *"}, roll=Roll.FOLLOWING)
    start = datetime(2027, 3, 6, 12, tzinfo=UTC)  # the 7th is a Sunday
    await set_watermarks(database, start)
    await tick_until(database, start, start + timedelta(days=2), step=timedelta(hours=1))
    (run,) = (await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(), limit=200)).rows
    async with client_of(app_on(database), token_of("viewer", tenant_id=tenant.id)) as client:
        listed = await client.get(f"/v1/tenants/{tenant.name}/runs/{run.row.run_id}/events")

    assert [(event["kind"], event["reason"]) for event in listed.json()["items"]] == [
        ("planned", None),
        ("rolled", "calendar.rolled"),
    ]


async def test_a_closed_weekend_of_a_dense_schedule_is_a_few_spans(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "* * * * *"})
    start = datetime(2027, 3, 6, 12, tzinfo=UTC)
    await set_watermarks(database, start)
    await tick_until(database, start, start + timedelta(hours=2), step=MINUTE)
    async with database.system() as conn:
        spans = await (await conn.execute("select instants, reason, detail from everwhen.spans")).fetchall()
        rows = await (await conn.execute("select count(*) from everwhen.runs")).fetchone()

    assert sum(span[0] for span in spans) + rows[0] >= 120 - 16
    assert len(spans) <= 9
    assert {(span[1], span[2]["version"]) for span in spans} == {("calendar.excluded", 1)}


async def test_a_changed_calendar_has_its_schedules_planned_anew(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 5 3 *"}, roll=Roll.PRECEDING)
    friday = datetime(2027, 3, 5, 7, 59, 30, tzinfo=UTC)
    await set_watermarks(database, friday)
    await tick_until(database, friday, friday, step=MINUTE)
    before = await told(database, tenant)
    await replace(database, tenant, closed("2027-03-05"))
    await tick_until(database, friday, friday, step=MINUTE)
    after = await told(database, tenant)

    assert [(nominal.day, due.day) for nominal, due, *_ in before] == [(5, 5)]
    assert [(nominal.day, due.day) for nominal, due, *_ in after] == [(5, 4)]
    async with database.system() as conn:
        left = await (await conn.execute("select count(*) from everwhen.calendar_changes")).fetchone()
        kinds = await (
            await conn.execute("select kind, reason from everwhen.events where reason = 'calendar.changed'")
        ).fetchall()
    assert left == (0,)
    assert kinds == [("unplanned", "calendar.changed")]


async def test_a_run_that_has_been_paid_is_not_paid_again_when_its_day_opens(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 7 3 *"}, roll=Roll.PRECEDING)
    friday = datetime(2027, 3, 5, 7, 59, 30, tzinfo=UTC)
    await set_watermarks(database, friday)
    await tick_until(database, friday, friday, step=MINUTE)
    async with database.system() as conn:
        await conn.execute("update everwhen.waiting set attempts = 1")  # a worker has had it
    await replace(database, tenant, week=[*WEEK, "sat", "sun"])
    await tick_until(database, friday + timedelta(days=1), friday + timedelta(days=3), step=timedelta(hours=1))
    found = await told(database, tenant)

    assert [(nominal.day, due.day) for nominal, due, *_ in found] == [(7, 5)]


async def test_a_change_is_followed_page_by_page(database, tenant, monkeypatch):
    monkeypatch.setattr("everwhen.schedules.replanning.PAGE", 2)
    await make_calendar(database, tenant)
    for number in range(5):
        await make_user(database, tenant, {"kind": "cron", "expr": "0 9 * * *"}, name=f"s{number}")
    await replace(database, tenant, week=["sun"])
    now = datetime(2027, 3, 5, 12, tzinfo=UTC)
    await tick_until(database, now, now, step=MINUTE)
    async with database.system() as conn:
        left = await (await conn.execute("select count(*) from everwhen.calendar_changes")).fetchone()

    assert left == (0,)


async def test_changes_of_a_schedule_and_its_calendar_at_once_both_hold(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 * * *"})
    spec = Spec(
        timing=Timing(parse_trigger({"kind": "cron", "expr": "0 10 * * *"}), calendars=CalendarUse(open=("de",)))
    )

    async def change():
        return await schedules.update_schedule(
            database, tenant_id=tenant.id, name="payroll", changes=lambda _: {"spec": spec}, change=TESTER
        )

    async def tick():
        async with database.system() as conn:
            now = conn.now
        return await Scheduler(database=database).tick(now)

    for day in range(1, 6):
        await asyncio.gather(change(), replace(database, tenant, closed(f"2027-03-0{day}")), tick(), change(), tick())
    assert (await calendars.get_calendar(database, tenant_id=tenant.id, name="de")).version == 6


async def test_a_version_that_is_not_committed_is_remembered_by_nobody(database, tenant):
    await make_calendar(database, tenant)

    tried: Book = {}
    with contextlib.suppress(LookupError):
        async with joined(database) as whole:
            await replace(whole, tenant, closed("2027-03-05"))
            async with whole.tenant(tenant.id) as conn:
                tried = await books.share_book(conn, tenant_id=tenant.id, names=["de"])
            raise LookupError
    await replace(database, tenant, closed("2027-03-08"))
    async with database.tenant(tenant.id) as conn:
        found = await books.share_book(conn, tenant_id=tenant.id, names=["de"])

    closed_days = [[day for day in (5, 8) if not book["de"].state(date(2027, 3, day)).hours] for book in (tried, found)]
    assert closed_days == [[5], [8]]


async def test_a_planner_reads_a_calendar_once_however_often_it_plans(database, tenant):
    await make_calendar(database, tenant)
    async with database.system() as conn:
        first = await books.load_books(conn, [(tenant.id, "de")])
        second = await books.load_books(conn, [(tenant.id, "de"), (tenant.id, "nope")])

    assert first[tenant.id]["de"] is second[tenant.id]["de"]
    assert set(second[tenant.id]) == {"de"}


async def test_a_paused_schedule_stays_paused_when_its_calendar_changes(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 * * *"})
    await schedules.pause_schedule(database, tenant_id=tenant.id, name="payroll", change=TESTER)
    await replace(database, tenant, week=["sun"])
    now = datetime(2027, 3, 5, 12, tzinfo=UTC)
    await tick_until(database, now, now, step=MINUTE)
    async with database.system() as conn:
        marks = await (await conn.execute("select next_at from everwhen.watermarks")).fetchall()

    assert marks == [(None,)]


async def test_a_new_release_of_the_tz_database_knows_the_calendars_too(database, tenant):
    old, new = (release(name, {"Europe/Berlin": BERLIN}) for name in ("2027a", "2027b"))
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "0 9 * * *"}, roll=Roll.PRECEDING)
    friday = datetime(2027, 3, 5, 7, 59, 50, tzinfo=UTC)
    await set_watermarks(database, friday)
    async with database.system() as conn:
        await conn.execute("update everwhen.watermarks set tz_version = '2027a'")
    for zones in (old, new):
        scheduler = Scheduler(database=database, zones=zones)
        while (await scheduler.tick(friday)).more:
            pass
    async with database.system() as conn:
        marks = await (await conn.execute("select tz_version, last_error from everwhen.watermarks")).fetchall()

    assert marks == [("2027b", None)]
    assert [(nominal.day, due.day) for nominal, due, *_ in await told(database, tenant)] == [(5, 5)]


async def test_a_calendar_that_is_gone_puts_its_schedule_off_and_no_other(database, tenant):
    await make_calendar(database, tenant)
    await make_user(database, tenant, {"kind": "cron", "expr": "* * * * *"})
    await make_user(database, tenant, {"kind": "cron", "expr": "* * * * *"}, use=(), name="other")
    start = datetime(2027, 3, 5, 12, tzinfo=UTC)
    await set_watermarks(database, start)
    async with database.system() as conn:
        await conn.execute("update everwhen.calendars set deleted_at = now()")  # nobody can, but a broken restore
    await tick_until(database, start, start, step=MINUTE)
    async with database.system() as conn:
        errors = await (
            await conn.execute(
                "select s.name, w.last_error from everwhen.watermarks w"
                " join everwhen.schedules s on s.uid = w.schedule_uid order by s.name"
            )
        ).fetchall()

    assert errors[0] == ("other", None)
    assert "no calendar named" in errors[1][1]
