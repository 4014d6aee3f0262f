"""Live runs are cancelled in bulk: those that a filter found when it was planned, and never more."""

from datetime import timedelta

import pytest

from everwhen.core.bulk import Limits, OperationKind, OperationState
from everwhen.errors import Conflict, InvalidInput
from everwhen.operations import service
from everwhen.operations.service import Ask
from tests.dispatch.scene import report_on, rows
from tests.factories import make_task
from tests.operations.scene import begin, carry_out, drain, let_be_due, read

HOUR = timedelta(hours=1)


def cancel(text="", **limits):
    return Ask(kind=OperationKind.CANCEL_RUNS, filter=text, limits=Limits(**limits))


async def test_what_waits_ends_and_what_runs_is_asked_to(line, database, operator):
    await line.fill(20)
    await line.fill(5, due_in=HOUR)
    leases = await line.claim(limit=3)
    row = await begin(database, line.tenant, cancel())
    assert row.total == 25

    await drain(operator)
    await line.complete(*(report_on(lease, "cancelled") for lease in leases))
    await let_be_due(database)
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.state, after.done, after.ended, after.skipped) == (OperationState.SUCCEEDED, 25, 25, 0)
    found = await rows(database, "select state, count(*) from everwhen.run_ends group by 1")
    assert found == [("cancelled", 25)]
    told = await rows(
        database,
        "select distinct detail ->> 'by', detail ->> 'reason' from everwhen.events"
        " where kind = 'cancelled' and detail is not null",
    )
    assert told == [("tester", "mended")]


async def test_only_those_of_the_filter_are_cancelled(line, database, operator):
    await make_task(database, line.tenant, name="other", queue="line")
    await line.fill(4)
    await line.fill(6, task="other")
    await line.fill(3, due_in=HOUR)
    row = await begin(database, line.tenant, cancel("task:report state:waiting"))

    await drain(operator)

    assert (await read(database, line.tenant, row.id)).done == 4
    assert await rows(database, "select count(*) from everwhen.waiting") == [(9,)]


async def test_runs_that_end_meanwhile_are_fewer_and_new_ones_are_spared(line, database, operator):
    await line.fill(10)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=cancel())
    leases = await line.claim(limit=4)
    await line.complete(*map(report_on, leases))
    await line.fill(7)

    row, _ = await carry_out(database, line.tenant, planned)
    [late] = await line.claim(limit=1)
    await line.complete(report_on(late))
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.total, after.done, after.skipped) == (6, 5, 1)
    assert await rows(database, "select count(*) from everwhen.waiting") == [(7,)]


async def test_more_than_were_seen_are_refused(line, database):
    await line.fill(2, due_in=HOUR)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=cancel("state:waiting"))
    await rows(database, "update everwhen.waiting set available_at = now() - interval '1 minute' returning 1")

    with pytest.raises(Conflict) as caught:
        await carry_out(database, line.tenant, planned)

    assert caught.value.code == "operation.plan_changed"


async def test_a_run_that_has_ended_cannot_be_meant(line, database):
    with pytest.raises(InvalidInput) as caught:
        await service.plan(database, tenant_id=line.tenant.id, ask=cancel("state:dead"))

    assert caught.value.code == "filter.unserved"
