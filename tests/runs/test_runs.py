"""Runs through the services: asked for once, found again, cancelled wherever they are."""

from datetime import timedelta

import pytest

from everwhen.core.history import fold
from everwhen.core.lifecycle import RunState
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.runs import service as runs
from everwhen.runs.model import RunFilter, RunRequest
from tests.factories import make_run, make_schedule, make_task, make_tenant

MADE = [
    RunState.PLANNED,
    RunState.WAITING,
    RunState.RUNNING,
    RunState.RETRYING,
    RunState.SUCCEEDED,
    RunState.DEAD,
    RunState.CANCELLED,
]


@pytest.fixture
async def tenant(database: Database):
    return await make_tenant(database)


@pytest.mark.parametrize("state", MADE)
async def test_the_events_of_a_run_come_to_its_state(database, tenant, state):
    view = await make_run(database, tenant, state=state)
    events = await runs.list_events(database, tenant_id=tenant.id, ref=str(view.row.run_id), limit=100)
    history = fold(events)

    assert history.is_at(view.state)
    assert (history.attempts, history.breaches) == (view.row.attempts, ())


async def ask(database, tenant, **request):
    return await runs.request_run(database, tenant_id=tenant.id, request=RunRequest(**request))


async def test_a_request_that_fails_after_it_made_a_partition_hinders_no_later_one(server, fresh_database):
    async def fail(conn, tenant_id, queue):
        raise RuntimeError("too late")

    limits = PoolLimits(min_size=1, max_size=2)
    async with await Database.open(server.app(fresh_database), limits=limits) as database:
        tenant = await make_tenant(database)
        await make_task(database, tenant)
        request = RunRequest(task="report")
        with pytest.raises(RuntimeError):
            await runs.request_run(database, tenant_id=tenant.id, request=request, on_ready=fail)

        assert (await runs.request_run(database, tenant_id=tenant.id, request=request)).state is RunState.WAITING


async def test_a_run_at_an_instant_waits_for_it(database, tenant):
    planned = await make_run(database, tenant, state=RunState.PLANNED)

    assert planned.state is RunState.PLANNED
    assert planned.row.due_at == planned.row.available_at


@pytest.mark.parametrize(
    ("offset", "code"), [(timedelta(days=361), "run.at_too_far"), (-timedelta(hours=1), "run.at_past")]
)
async def test_an_instant_out_of_range_is_refused(database, tenant, offset, code):
    await make_task(database, tenant)
    async with database.tenant(tenant.id) as conn:
        at = conn.now + offset

    with pytest.raises(InvalidInput) as refused:
        await ask(database, tenant, task="report", at=at)

    assert refused.value.code == code


async def test_a_schedule_run_by_hand_has_its_task_input_and_revision(database, tenant):
    await make_task(database, tenant, priority=7)
    made = await make_schedule(database, tenant, input={"region": "eu"}, priority=2)
    view = await ask(database, tenant, schedule="nightly")

    assert (view.row.task, view.row.input, view.row.priority) == ("report", '{"region": "eu"}', 2)
    assert (view.row.schedule, view.row.schedule_uid, view.row.schedule_revision) == ("nightly", made.uid, 1)
    assert (view.row.source, view.row.nominal_at) == ("api", None)


async def test_a_run_that_is_due_at_once_wakes_its_line_and_a_later_one_does_not(database, tenant):
    await make_task(database, tenant, queue="fast")
    woken = []

    async def on_ready(conn, tenant_id, queue):
        woken.append((tenant_id, queue))

    async with database.tenant(tenant.id) as conn:
        later = conn.now + timedelta(hours=1)
    for at in (None, later):
        await runs.request_run(
            database, tenant_id=tenant.id, request=RunRequest(task="report", at=at), on_ready=on_ready
        )

    assert woken == [(tenant.id, "fast")]


async def test_a_run_is_found_by_its_id_and_by_nothing_else(database, tenant):
    view = await make_run(database, tenant)

    assert (await runs.get_run(database, tenant_id=tenant.id, ref=str(view.row.run_id))).row == view.row
    for ref in ("", "x", "nightly", "nightly@", "nightly@2026-11-30T02:30", "nightly@2026-11-30T02:30+01:00",
                "@2026-11-30T02:30Z", "nightly@9999-12-31T23:59-23:59", str(tenant.id)):  # fmt: skip
        with pytest.raises(NotFound):
            await runs.get_run(database, tenant_id=tenant.id, ref=ref)


@pytest.mark.parametrize("state", MADE)
async def test_a_run_is_listed_under_its_state_and_no_other(database, tenant, state):
    await make_task(database, tenant)
    await make_schedule(database, tenant)
    made = await make_run(database, tenant, state=state)

    for asked in RunState:
        found = (await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(state=asked), limit=10)).rows
        assert [view.row.run_id for view in found] == ([made.row.run_id] if asked is state else [])
    for where, expected in (
        (RunFilter(state=state, task=made.row.task), 1),
        (RunFilter(state=state, task="another"), 0),
        (RunFilter(state=state, schedule="nightly"), 0),
        (RunFilter(task=made.row.task), 1),
        (RunFilter(schedule="nightly"), 0),
    ):
        assert len((await runs.list_runs(database, tenant_id=tenant.id, where=where, limit=10)).rows) == expected


async def test_a_list_goes_on_below_the_last_id(database, tenant):
    await make_task(database, tenant)
    made = [(await ask(database, tenant, task="report")).row.run_id for _ in range(5)]
    first = (await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(), limit=3)).rows
    rest = (
        await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(), before=first[-1].row.run_id, limit=3)
    ).rows

    assert [view.row.run_id for view in [*first, *rest]] == sorted(made, reverse=True)


async def test_a_list_of_an_unknown_schedule_says_so(database, tenant):
    with pytest.raises(InvalidInput) as refused:
        await runs.list_runs(database, tenant_id=tenant.id, where=RunFilter(schedule="nope"), limit=1)

    assert refused.value.code == "schedule.unknown"


@pytest.mark.parametrize("state", [RunState.PLANNED, RunState.WAITING, RunState.RETRYING])
async def test_a_run_in_the_line_is_cancelled_at_once(database, tenant, state):
    made = await make_run(database, tenant, state=state)
    ref = str(made.row.run_id)
    after = await runs.cancel_run(database, tenant_id=tenant.id, ref=ref, by="ann", reason="not needed")
    again = await runs.cancel_run(database, tenant_id=tenant.id, ref=ref, by="bob", reason=None)
    events = await runs.list_events(database, tenant_id=tenant.id, ref=ref, limit=50)

    assert (after.state, after.row.reason) == (RunState.CANCELLED, "cancel.requested")
    assert again.row == after.row
    assert events[-1].kind == "cancelled"
    assert events[-1].detail == '{"by": "ann", "reason": "not needed"}'


async def test_the_holder_of_a_run_is_asked_to_stop_once(database, tenant):
    made = await make_run(database, tenant, state=RunState.RUNNING)
    ref = str(made.row.run_id)
    after = await runs.cancel_run(database, tenant_id=tenant.id, ref=ref, by="ann", reason=None)
    await runs.cancel_run(database, tenant_id=tenant.id, ref=ref, by="bob", reason=None)
    events = await runs.list_events(database, tenant_id=tenant.id, ref=ref, limit=50)

    assert after.state is RunState.RUNNING
    assert after.row.cancel_requested_at is not None
    assert [event.kind for event in events] == ["planned", "claimed", "cancel_requested"]


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.DEAD])
async def test_a_run_that_ended_cannot_be_cancelled(database, tenant, state):
    made = await make_run(database, tenant, state=state)

    with pytest.raises(Conflict) as refused:
        await runs.cancel_run(database, tenant_id=tenant.id, ref=str(made.row.run_id), by="ann", reason=None)

    assert refused.value.code == "run.ended"


async def test_attempts_tell_the_closed_ones_and_the_open_one(database, tenant):
    done = await make_run(database, tenant, state=RunState.DEAD)
    held = await make_run(database, tenant, state=RunState.RUNNING)
    closed = await runs.list_attempts(database, tenant_id=tenant.id, ref=str(done.row.run_id))
    opened = await runs.list_attempts(database, tenant_id=tenant.id, ref=str(held.row.run_id))

    assert [(attempt.attempt, attempt.outcome) for attempt in closed] == [(1, "failed")]
    assert [(attempt.attempt, attempt.outcome) for attempt in opened] == [(1, None)]


async def test_events_go_on_after_the_last_one(database, tenant):
    made = await make_run(database, tenant, state=RunState.SUCCEEDED)
    ref = str(made.row.run_id)
    first = await runs.list_events(database, tenant_id=tenant.id, ref=ref, limit=1)
    rest = await runs.list_events(database, tenant_id=tenant.id, ref=ref, after=first[-1].event_id, limit=10)

    assert [event.kind for event in [*first, *rest]] == ["planned", "claimed", "succeeded"]
