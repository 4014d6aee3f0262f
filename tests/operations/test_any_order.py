"""Whatever happens in whatever order (steps, crashes, people, workers), the counts add up and nothing is made twice."""

import contextlib
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everwhen import failpoints
from everwhen.dead_letters import service as dead_letters
from everwhen.dead_letters.model import RedriveRequest
from everwhen.errors import Conflict
from everwhen.operations import service
from everwhen.operations.operator import Operator
from everwhen.operations.service import PersonsOrder
from tests.dispatch.scene import LINE, report_on, rows
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
