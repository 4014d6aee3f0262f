# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false, reportOptionalOperand=false, reportOptionalSubscript=false
"""A change of a schedule: what was due stays, what was planned ahead goes, nothing is decided twice or not at all."""

import asyncio
from datetime import timedelta

import pytest

from everwhen.core.arrears import Counts
from everwhen.core.errors import TriggerError
from everwhen.core.lifecycle import RunState
from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.core.zones import GapPolicy
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.postgres.pool import Database
from everwhen.runs import service as runs
from everwhen.runs.model import RunFilter
from everwhen.schedules import looking_ahead
from everwhen.schedules import service as schedules
from everwhen.schedules.arrears.worker import work_off
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.planner import plan_due
from everwhen.schedules.service import Change
from tests.factories import TESTER, make_schedule, make_task, make_tenant
from tests.seasons import next_years_change

EVERY_SECOND = {"kind": "every", "every": "PT1S"}
HOURLY = {"kind": "cron", "expr": "0 * * * *"}
AHEAD = timedelta(seconds=30)


@pytest.fixture
async def tenant(database: Database):
    made = await make_tenant(database)
    await make_task(database, made)
    return made


async def plan(database: Database) -> None:
    async with database.system() as conn:
        await plan_due(conn, now=conn.now, ahead=AHEAD, batch=100)
        while (await work_off(conn, now=conn.now, arrears=100, instants=10_000)).is_more(conn.now):
            pass


async def set_back(database: Database, *, by: timedelta) -> None:
    """Age every watermark, as if nobody had planned for a while."""
    async with database.system() as conn:
        await conn.execute(
            "update everwhen.watermarks set decided_until = decided_until - %s, next_at = next_at - %s", (by, by)
        )


async def listed(database: Database, tenant, **where):
    return (await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(**where), limit=200)).rows


async def rows(database: Database, query: str):
    async with database.system() as conn:
        return await (await conn.execute(query)).fetchall()


async def decided_until(database: Database):
    async with database.system() as conn:
        return await (await conn.execute("select decided_until, next_at from everwhen.watermarks")).fetchone()


def patch(**changes):
    return lambda spec: changes


async def test_a_new_schedule_is_decided_up_to_now(database, tenant):
    made = await make_schedule(database, tenant, trigger=HOURLY)
    mark, next_at = await decided_until(database)

    assert mark == made.created_at
    assert made.created_at < next_at <= made.created_at + timedelta(hours=1)
    assert made.next_at == next_at


async def test_a_name_is_taken_once_whoever_asks_at_the_same_time(database, tenant):
    answers = await asyncio.gather(*(make_schedule(database, tenant) for _ in range(5)), return_exceptions=True)

    assert sum(isinstance(answer, Conflict) for answer in answers) == 4


async def test_a_schedule_of_an_unknown_task_is_refused(database, tenant):
    with pytest.raises(InvalidInput) as refused:
        await make_schedule(database, tenant, task="nope")

    assert (refused.value.code, refused.value.errors[0].pointer) == ("task.unknown", "/task")


async def test_a_trigger_that_never_fires_is_refused_and_one_that_has_fired_is_not(database, tenant):
    timing = Timing(parse_trigger({"kind": "at", "at": "2026-03-29T02:30"}), "Europe/Berlin", GapPolicy.SKIP)
    draft = ScheduleDraft(name="gone", task="report", spec=Spec(timing=timing))
    with pytest.raises(TriggerError) as refused:
        await schedules.create_schedule(database, tenant_id=tenant.id, draft=draft, change=TESTER)
    past = await make_schedule(database, tenant, trigger={"kind": "at", "at": "2020-01-01T00:00:00Z"})

    assert refused.value.code == "trigger.never"
    assert past.next_at is None


async def test_a_change_withdraws_what_was_planned_ahead_and_keeps_what_is_due(database, tenant):
    await make_schedule(database, tenant, trigger=EVERY_SECOND, catch_up=CatchUp(policy=CatchUpPolicy.REPLAY))
    await set_back(database, by=timedelta(seconds=5))
    await plan(database)
    before = await listed(database, tenant)
    spec = Spec(timing=Timing(parse_trigger(HOURLY)))
    changed = await schedules.update_schedule(
        database, tenant_id=tenant.id, name="nightly", changes=patch(spec=spec), change=TESTER
    )
    after = await listed(database, tenant)
    mark, next_at = await decided_until(database)

    assert {view.state for view in before} == {RunState.WAITING, RunState.PLANNED}
    assert {view.state for view in after} == {RunState.WAITING}
    assert all(view.row.due_at <= changed.updated_at for view in after)
    assert changed.revision == 2
    assert mark == changed.updated_at
    assert next_at == changed.next_at


async def test_a_change_settles_what_nobody_had_planned_yet(database, tenant):
    await make_schedule(database, tenant, trigger=EVERY_SECOND, catch_up=CatchUp(policy=CatchUpPolicy.REPLAY))
    await set_back(database, by=timedelta(seconds=5))
    changed = await schedules.update_schedule(
        database, tenant_id=tenant.id, name="nightly", changes=patch(priority=1), change=TESTER
    )
    due = await listed(database, tenant)

    assert len(due) in {5, 6}  # whole seconds within five and what the test took
    assert {view.row.schedule_revision for view in due} == {1}
    assert (await decided_until(database))[0] == changed.updated_at


async def test_a_change_waits_for_no_schedule_however_far_it_is_behind(database, tenant):
    await make_schedule(database, tenant, trigger=EVERY_SECOND, catch_up=CatchUp(policy=CatchUpPolicy.SKIP))
    await set_back(database, by=timedelta(days=1))
    spec = Spec(timing=Timing(parse_trigger(HOURLY)))
    await schedules.update_schedule(
        database, tenant_id=tenant.id, name="nightly", changes=patch(spec=spec), change=TESTER
    )
    await plan(database)

    found = await rows(database, "select sum(instants)::int, min(reason) from everwhen.spans")
    late = await listed(database, tenant, state=RunState.WAITING)
    assert found[0][0] + len(late) in {86_400, 86_401}
    assert found[0][1] == "catchup.skip"
    assert {view.row.schedule_revision for view in late} == {1}


async def test_a_change_waits_for_the_planner_and_leaves_no_run_of_the_old_revision_behind_it(database, tenant):
    await make_schedule(database, tenant, trigger=EVERY_SECOND)
    await asyncio.gather(
        *(plan(database) for _ in range(3)),
        schedules.update_schedule(
            database, tenant_id=tenant.id, name="nightly", changes=patch(priority=1), change=TESTER
        ),
        *(plan(database) for _ in range(3)),
    )
    await plan(database)
    planned = await listed(database, tenant, state=RunState.PLANNED)

    assert planned
    assert {view.row.schedule_revision for view in planned} == {2}
    assert len({view.row.nominal_at for view in planned}) == len(planned)


async def test_a_paused_schedule_plans_nothing_and_says_why(database, tenant):
    await make_schedule(database, tenant, trigger=EVERY_SECOND)
    await plan(database)
    paused = await schedules.pause_schedule(
        database, tenant_id=tenant.id, name="nightly", change=Change(by="ann", reason="migration")
    )
    await plan(database)

    assert (paused.state, paused.state_reason, paused.next_at) == ("paused", "migration", None)
    assert await listed(database, tenant, state=RunState.PLANNED) == []
    with pytest.raises(Conflict):
        await schedules.pause_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)


async def test_what_a_pause_left_behind_is_recorded_as_skipped(database, tenant):
    await make_schedule(database, tenant, trigger=EVERY_SECOND)
    paused = await schedules.pause_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    await set_back(database, by=timedelta(seconds=5))
    answer = await schedules.resume_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    resumed = answer.schedule
    await plan(database)
    skipped = await listed(database, tenant, state=RunState.SKIPPED)
    planned = await listed(database, tenant, state=RunState.PLANNED)

    left_behind_from = paused.updated_at - timedelta(seconds=5)
    assert len(skipped) == int(resumed.updated_at.timestamp()) - int(left_behind_from.timestamp())
    assert answer.left_behind.counts == Counts(skipped=len(skipped))
    assert {view.row.reason for view in skipped} == {"schedule.paused"}
    assert all(view.row.nominal_at <= resumed.updated_at for view in skipped)
    assert planned
    with pytest.raises(Conflict):
        await schedules.resume_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)


async def test_a_change_during_a_pause_keeps_account_of_the_pause_so_far(database, tenant):
    await make_schedule(database, tenant, trigger=EVERY_SECOND)
    paused = await schedules.pause_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    await set_back(database, by=timedelta(seconds=5))
    spec = Spec(timing=Timing(parse_trigger(HOURLY)))
    changed = await schedules.update_schedule(
        database, tenant_id=tenant.id, name="nightly", changes=patch(spec=spec), change=TESTER
    )
    mark = await decided_until(database)
    await plan(database)
    assert await listed(database, tenant, state=RunState.SKIPPED) == []
    await schedules.resume_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    await plan(database)
    skipped = await listed(database, tenant, state=RunState.SKIPPED)

    assert (changed.state, changed.next_at) == ("paused", None)
    left_behind_from = paused.updated_at - timedelta(seconds=5)
    assert len(skipped) == int(changed.updated_at.timestamp()) - int(left_behind_from.timestamp())
    assert {(view.row.reason, view.row.schedule_revision) for view in skipped} == {("schedule.paused", 2)}
    assert mark == (changed.updated_at, None)


async def test_a_long_pause_is_recorded_as_one_span_and_ends_in_a_change(database, tenant):
    await make_schedule(database, tenant, trigger={"kind": "every", "every": "PT1M"})
    await schedules.pause_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    await set_back(database, by=timedelta(days=7))
    await schedules.delete_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    await plan(database)
    spans = await rows(database, "select instants, verdict, reason from everwhen.spans")

    assert len(spans) == 1
    assert spans[0][0] in {7 * 1440, 7 * 1440 + 1}
    assert spans[0][1:] == ("skipped", "schedule.paused")


async def test_a_deleted_schedule_keeps_its_history_and_gives_its_name_back(database, tenant):
    first = await make_schedule(database, tenant, trigger=EVERY_SECOND)
    await plan(database)
    await schedules.delete_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    with pytest.raises(NotFound):
        await schedules.get_schedule(database, tenant_id=tenant.id, name="nightly")
    second = await make_schedule(database, tenant)

    assert second.uid != first.uid
    assert await listed(database, tenant, state=RunState.PLANNED) == []


async def test_a_schedule_that_cannot_be_planned_any_more_hides_no_other(database, tenant):
    await make_schedule(database, tenant, name="good")
    await make_schedule(database, tenant, name="lost")
    async with database.system() as conn:
        await conn.execute(
            """update everwhen.schedules set spec = jsonb_set(spec, '{timezone}', '"Mars/Base"') where name = 'lost'"""
        )
    good, lost = (await schedules.list_schedules(database, tenant_id=tenant.id, limit=10)).rows

    assert (good.last_error, lost.next_at) == (None, None)
    assert "trigger.timezone.unknown" in lost.last_error


async def test_revisions_tell_who_changed_what_and_why(database, tenant):
    await make_schedule(database, tenant)
    say = Change(by="ann", reason="because")
    await schedules.pause_schedule(database, tenant_id=tenant.id, name="nightly", change=say)
    await schedules.resume_schedule(database, tenant_id=tenant.id, name="nightly", change=TESTER)
    await schedules.update_schedule(
        database, tenant_id=tenant.id, name="nightly", changes=patch(input={"a": 1}), change=TESTER
    )
    found = await schedules.list_revisions(database, tenant_id=tenant.id, name="nightly", limit=10)
    rest = await schedules.list_revisions(database, tenant_id=tenant.id, name="nightly", after=3, limit=10)

    assert [revision.action for revision in found] == ["created", "paused", "resumed", "updated"]
    assert (found[1].changed_by, found[1].reason) == ("ann", "because")
    assert [revision.input for revision in found] == ["{}", "{}", "{}", '{"a": 1}']
    assert rest == found[3:]


async def test_two_changes_at_once_both_hold(database, tenant):
    await make_schedule(database, tenant)
    await asyncio.gather(
        schedules.update_schedule(
            database, tenant_id=tenant.id, name="nightly", changes=patch(priority=1), change=TESTER
        ),
        schedules.update_schedule(
            database, tenant_id=tenant.id, name="nightly", changes=patch(input={"a": 1}), change=TESTER
        ),
    )
    after = await schedules.get_schedule(database, tenant_id=tenant.id, name="nightly")

    assert (after.revision, after.priority, after.input) == (3, 1, {"a": 1})


async def test_a_preview_shows_skips_and_folds_between_the_fires(database, tenant):
    spring = next_years_change(3)
    timing = Timing(parse_trigger({"kind": "cron", "expr": "30 2 * 3,4 *"}), "Europe/Berlin", GapPolicy.SKIP)
    found = (await looking_ahead.preview(database, tenant_id=tenant.id, timing=timing, count=125)).occurrences
    then = [each for each in found if timedelta(0) <= each.nominal_at - spring < timedelta(days=1)]

    assert sum(occurrence.skipped is None for occurrence in found) == 125
    assert [each.nominal_at for each in then] == [spring, spring + timedelta(hours=23, minutes=30)]
    assert [each.skipped for each in then] == ["calendar.dst_gap", None]
