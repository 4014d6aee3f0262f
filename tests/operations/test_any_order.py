"""Whatever happens in whatever order (steps, crashes, people, workers), the counts add up and nothing is made twice."""

import contextlib
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everwhen import failpoints
from everwhen.core.bulk import OperationKind
from everwhen.dead_letters import service as dead_letters
from everwhen.dead_letters.model import RedriveRequest
from everwhen.errors import Conflict, NotFound
from everwhen.operations import service
from everwhen.operations.operator import Operator
from everwhen.operations.service import Ask, PersonsOrder
from everwhen.schedules import service as schedules
from everwhen.schedules.service import Change
from tests.dispatch.scene import LINE, report_on, rows
from tests.factories import make_schedule
from tests.operations.scene import begin, drain, let_be_due, make_dead, read, redrive

TOTAL = 12
PERSON = PersonsOrder(by="tester", reason="so")
MOVES = (
    "tick",
    "tick",
    "tick",
    "crash",
    "succeed",
    "fail",
    "pause",
    "resume",
    "abort",
    "withdraw",
    "dismiss",
    "redrive",
)
STEPS = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, TOTAL - 1)), max_size=12)
LIMITS = st.fixed_dictionaries({}, optional={
    "canary": st.integers(1, 5), "most_dead": st.integers(1, 6), "rate": st.sampled_from([2.0, 1_000.0]),
})  # fmt: skip


async def move(*, line, database, row, what, number, dead):
    """Make one move; what its moment does not allow is refused, and changes nothing."""
    tenant_id = line.tenant.id
    operator = Operator(database=database, batch=4)
    mine = {"tenant_id": tenant_id, "operation_id": row.id, "order": PERSON}
    match what:
        case "tick":
            await let_be_due(database)
            await operator.tick(row.created_at + timedelta(hours=1))
        case "crash":
            await let_be_due(database)
            with failpoints.armed("operator.before_commit:error:1"), contextlib.suppress(failpoints.FailpointError):
                await operator.tick(row.created_at + timedelta(hours=1))
        case "succeed" | "fail":
            outcome, more = ("succeeded", {}) if what == "succeed" else ("failed", {"retryable": False})
            for lease in await line.claim(limit=number + 1, queues=(LINE,)):
                await line.complete(report_on(lease, outcome, **more))
        case "pause":
            await service.pause(database, **mine)
        case "resume":
            await service.resume(database, **mine)
        case "abort" | "withdraw":
            await service.abort(database, **mine, cancel_runs=what == "withdraw")
        case "dismiss":
            await dead_letters.dismiss_run(
                database, tenant_id=tenant_id, ref=str(dead[number]), by="tester", reason="so"
            )
        case "redrive":
            await dead_letters.redrive_run(
                database, tenant_id=tenant_id, ref=str(dead[number]), request=RedriveRequest(by="tester")
            )


async def check(line, database, row):
    now = await read(database, line.tenant, row.id)
    assert now.done + now.skipped + now.progress.left == now.total == TOTAL
    assert now.succeeded + now.dead + now.ended <= now.done
    made = await rows(
        database, "select count(*), count(distinct origin_run_id) from everwhen.runs where operation_id = %s", row.id
    )
    assert made == [(now.done, now.done)]
    twice = await rows(
        database, "select origin_run_id from everwhen.runs where source = 'redrive' group by 1 having count(*) > 1"
    )
    assert twice == []


# An example is some ten transactions; what one leaves is no part of the next one's operation.
@pytest.mark.timeout(300)  # a dozen examples of a dozen moves take their time on a busy machine
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(STEPS, LIMITS)
async def test_in_any_order_of_events_the_counts_add_up(line, database, steps, limits):
    await rows(database, "update everwhen.operations set next_at = null returning 1")
    for lease in await line.claim(limit=500):
        await line.complete(report_on(lease))
    old = await rows(database, "select run_id from everwhen.run_ends where state = 'dead'")
    for (run_id,) in old:
        with contextlib.suppress(Conflict):
            await dead_letters.dismiss_run(
                database, tenant_id=line.tenant.id, ref=str(run_id), by="tester", reason="of another example"
            )
    dead = await make_dead(database, line.tenant, TOTAL)
    row = await begin(database, line.tenant, redrive(**limits))

    for what, number in steps:
        with contextlib.suppress(Conflict):
            await move(line=line, database=database, row=row, what=what, number=number, dead=dead)
        await check(line, database, row)
    await let_be_due(database)
    await drain(Operator(database=database))
    await check(line, database, row)


NAMES = tuple(f"s{number}" for number in range(6))
EDITS = ("tick", "tick", "tick", "crash", "pause", "resume", "delete", "remake", "tag", "untag", "edit", "abort")
EDITED = st.lists(st.tuples(st.sampled_from(EDITS), st.sampled_from(NAMES)), max_size=14)
KINDS = {
    OperationKind.PAUSE_SCHEDULES: {},
    OperationKind.RESUME_SCHEDULES: {},
    OperationKind.TAG_SCHEDULES: {"tags": ("new",)},
    OperationKind.UNTAG_SCHEDULES: {"tags": ("old",)},
    OperationKind.DELETE_SCHEDULES: {},
}
WORDS = {
    "paused": "pause_schedule",
    "resumed": "resume_schedule",
    "deleted": "delete_schedule",
    "updated": "update_schedule",
}


async def edit(*, line, database, row, what, name):
    """Let a person, or the operator, do something; what the moment does not allow is refused, and changes nothing."""
    key = {"tenant_id": line.tenant.id, "name": name}
    operator, mine = Operator(database=database, batch=2), Change(by="person", reason="so")
    match what:
        case "tick":
            await operator.tick(row.created_at + timedelta(hours=1))
        case "crash":
            with failpoints.armed("operator.before_commit:error:1"), contextlib.suppress(failpoints.FailpointError):
                await operator.tick(row.created_at + timedelta(hours=1))
        case "pause":
            await schedules.pause_schedule(database, **key, change=mine)
        case "resume":
            await schedules.resume_schedule(database, **key, change=mine)
        case "delete":
            await schedules.delete_schedule(database, **key, change=mine)
        case "remake":
            await make_schedule(database, line.tenant, name=name, tags=("old",))
        case "tag" | "untag" | "edit":
            after = {"tag": {"tags": ("old", "x")}, "untag": {"tags": ("x",)}, "edit": {"priority": 3}}[what]
            await schedules.update_schedule(database, **key, changes=lambda _: after, change=mine)
        case "abort":
            await service.abort(database, tenant_id=line.tenant.id, operation_id=row.id, order=PERSON)


async def check_changes(line, database, row):
    """Each item that was changed has one revision and one event of the operation's, and no other thing has any."""
    now = await read(database, line.tenant, row.id)
    assert now.done + now.skipped + now.progress.left == now.total
    assert now.succeeded == now.done
    items = await rows(
        database, "select uid, name, state, reason from everwhen.operation_items where operation_id = %s", row.id
    )
    assert all((reason is None) == (state != "skipped") for _, _, state, reason in items)
    changed = sorted((uid, name) for uid, name, state, _ in items if state == "succeeded")
    made = await rows(
        database,
        "select r.uid, s.name, r.action from everwhen.schedule_revisions r"
        " join everwhen.schedules s using (tenant_id, uid)"
        " where r.changed_by = 'tester' and r.reason = 'mended' and r.changed_at >= %s",
        row.created_at,
    )
    assert sorted((uid, name) for uid, name, _ in made) == changed
    told = await rows(
        database,
        "select resource, operation from everwhen.audit_events where record::jsonb #>> '{detail,operation}' = %s",
        str(row.id),
    )
    assert sorted(told) == sorted((f"schedules/{name}", WORDS[action]) for _, name, action in made)


@pytest.mark.timeout(300)  # as above
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from(sorted(KINDS)), EDITED)
async def test_in_any_order_of_events_each_thing_is_changed_once_or_skipped_with_a_reason(line, database, kind, steps):
    await rows(database, "update everwhen.operations set next_at = null returning 1")
    for name in NAMES:
        with contextlib.suppress(NotFound):
            await schedules.delete_schedule(
                database, tenant_id=line.tenant.id, name=name, change=Change(by="person", reason="of another example")
            )
        await make_schedule(database, line.tenant, name=name, tags=("old",))
        if kind is OperationKind.RESUME_SCHEDULES:
            await schedules.pause_schedule(
                database, tenant_id=line.tenant.id, name=name, change=Change(by="person", reason="so")
            )
    row = await begin(database, line.tenant, Ask(kind=kind, filter="tag:old", **KINDS[kind]))
    assert row.total == len(NAMES)

    for what, name in steps:
        with contextlib.suppress(Conflict, NotFound):
            await edit(line=line, database=database, row=row, what=what, name=name)
    await check_changes(line, database, row)
    await drain(Operator(database=database))
    await check_changes(line, database, row)
    assert (await read(database, line.tenant, row.id)).state in {"succeeded", "aborted"}
