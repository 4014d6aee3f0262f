"""The past is filled: the instants that did not run, each once, whoever asks how often, in whatever order."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from everwhen import failpoints
from everwhen.core.backfill import Include
from everwhen.core.bulk import Limits, OperationKind, OperationState
from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.errors import Conflict, InvalidInput
from everwhen.operations import selecting, service
from everwhen.operations.model import ItemOrder
from everwhen.operations.operator import Operator
from everwhen.operations.service import Ask, BackfillAsk
from everwhen.schedules import service as schedules
from everwhen.schedules.scheduler import Scheduler
from tests.dispatch.scene import report_on, rows
from tests.factories import TESTER, make_schedule
from tests.operations.scene import begin, carry_out, count_made, drain, let_be_due, read

HOURLY = {"kind": "cron", "expr": "0 * * * *"}
MINUTELY = {"kind": "cron", "expr": "* * * * *"}
DAY = timedelta(days=1)


def whole_day(now: datetime) -> datetime:
    return datetime(now.year, now.month, now.day, tzinfo=UTC)


@pytest.fixture
async def until(line):
    """The beginning of the present day."""
    return whole_day(await line.now())


def fill(start, end, *, order=ItemOrder.OLDEST, schedule="nightly", limits=None, priority=None, **changes):
    return Ask(
        kind=OperationKind.BACKFILL,
        backfill=BackfillAsk(schedule=schedule, start=start, end=end, **changes),
        order=order,
        priority=priority,
        limits=limits or Limits(),
    )


async def instants_of(database, row):
    query = "select nominal_at from everwhen.runs where operation_id = %s order by nominal_at"
    return [at.astimezone(UTC) for (at,) in await rows(database, query, row.id)]


async def test_every_instant_of_a_past_range_gets_a_run_at_low_priority(line, database, operator, until):
    await make_schedule(database, line.tenant, trigger=HOURLY, input={"region": "eu"}, priority=7)
    row = await begin(database, line.tenant, fill(until - DAY, until))
    assert row.total == 24

    await drain(operator)

    assert await instants_of(database, row) == [until - DAY + hour * timedelta(hours=1) for hour in range(24)]
    leases = await line.claim(limit=100)
    assert {(lease.priority, lease.input) for lease in leases} == {(0, '{"region": "eu"}')}
    assert leases[0].nominal_at.astimezone(UTC) == until - DAY
    await line.complete(*map(report_on, leases))
    await let_be_due(database)
    await drain(operator)
    after = await read(database, line.tenant, row.id)
    assert (after.state, after.succeeded) == (OperationState.SUCCEEDED, 24)


async def test_the_newest_come_first_if_that_is_asked_for(line, database, until):
    await make_schedule(database, line.tenant, trigger=HOURLY)
    row = await begin(database, line.tenant, fill(until - DAY, until, order=ItemOrder.NEWEST, limits=Limits(canary=3)))

    await drain(Operator(database=database))

    assert await instants_of(database, row) == [until - hour * timedelta(hours=1) for hour in (3, 2, 1)]


async def test_the_same_backfill_makes_nothing_twice_and_another_id_makes_others(line, database, operator, until):
    await make_schedule(database, line.tenant, trigger=HOURLY)
    asked = fill(until - DAY, until, include=Include.ALL)
    first = await begin(database, line.tenant, asked)
    await drain(operator)
    second = await begin(database, line.tenant, asked)
    await drain(operator)
    third = await begin(database, line.tenant, fill(until - DAY, until, include=Include.ALL, id="again"))
    await drain(operator)

    second, third = await read(database, line.tenant, second.id), await read(database, line.tenant, third.id)
    assert (await count_made(database, first.id), second.done, second.skipped, third.done) == (24, 0, 24, 24)
    reasons = await rows(database, "select distinct reason from everwhen.operation_items where state = 'skipped'")
    assert reasons == [("operation.made_already",)]


async def test_what_ran_already_is_left_out(line, database, operator, until):
    await make_schedule(database, line.tenant, trigger=HOURLY)
    await begin(database, line.tenant, fill(until - DAY, until - DAY / 2))
    await drain(operator)
    leases = await line.claim(limit=3)
    await line.complete(report_on(leases[0]), report_on(leases[1], "failed", retryable=False))

    default = await service.plan(database, tenant_id=line.tenant.id, ask=fill(until - DAY, until))
    dead = await service.plan(database, tenant_id=line.tenant.id, ask=fill(until - DAY, until, only=("dead",)))
    everything = await service.plan(
        database, tenant_id=line.tenant.id, ask=fill(until - DAY, until, include=Include.ALL)
    )

    assert (default.count, dead.count, everything.count) == (12, 1, 24)


async def test_only_what_an_outage_left_missed_is_filled_also_from_spans(line, database, operator, until):
    made = await make_schedule(database, line.tenant, trigger=MINUTELY, catch_up=CatchUp(policy=CatchUpPolicy.SKIP))
    start = until - timedelta(hours=1)
    query = "update everwhen.watermarks set decided_until = %s, next_at = %s where schedule_uid = %s returning 1"
    await rows(database, query, start, start, made.uid)
    await rows(database, "update everwhen.schedules set created_at = %s where uid = %s returning 1", start, made.uid)
    async with database.system() as conn:
        now = conn.now
    scheduler = Scheduler(database=database, ahead=timedelta(seconds=1))
    while (await scheduler.tick(now)).more:
        pass
    spans = await rows(database, "select sum(instants) from everwhen.spans where verdict = 'missed'")

    planned = await service.plan(database, tenant_id=line.tenant.id, ask=fill(start, until, only=("missed",)))
    row, _ = await carry_out(database, line.tenant, planned)
    await drain(operator)

    assert spans[0][0] >= 59
    assert planned.count == (await read(database, line.tenant, row.id)).done == await count_made(database, row.id)
    assert planned.count in {59, 60}


async def test_a_crash_while_listing_or_making_repeats_nothing(line, database, until):
    await make_schedule(database, line.tenant, trigger=MINUTELY)
    row = await begin(database, line.tenant, fill(until - 3 * DAY, until))
    operator = Operator(database=database, batch=1_000)
    for nth in (1, 2, 2, 3, 3):
        with failpoints.armed(f"operator.before_commit:error:{nth}"), pytest.raises(failpoints.FailpointError):
            await drain(operator)
    await asyncio.gather(drain(operator), drain(Operator(database=database, batch=1_000)))
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.total, after.done, after.skipped) == (3 * 1_440, 3 * 1_440, 0)
    assert len(set(await instants_of(database, row))) == await count_made(database, row.id) == 3 * 1_440


async def test_a_large_backfill_whose_set_has_changed_makes_nothing(*, line, database, operator, until, monkeypatch):
    monkeypatch.setattr(service, "MOST_RECHECKED", 0)
    await make_schedule(database, line.tenant, trigger=HOURLY)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=fill(until - DAY, until))
    other = await begin(database, line.tenant, fill(until - DAY, until - DAY / 2, id="first"))
    await drain(operator)
    assert await count_made(database, other.id) == 12

    row, _ = await carry_out(database, line.tenant, planned)
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.state, after.state_reason, after.done) == (OperationState.FAILED, "operation.plan_changed", 0)


async def test_a_small_backfill_whose_set_has_changed_is_refused(line, database, operator, until):
    await make_schedule(database, line.tenant, trigger=HOURLY)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=fill(until - DAY, until))
    await begin(database, line.tenant, fill(until - DAY, until - DAY / 2, id="first"))
    await drain(operator)

    with pytest.raises(Conflict) as caught:
        await carry_out(database, line.tenant, planned)

    assert caught.value.code == "operation.plan_changed"


async def test_an_abort_while_it_lists_leaves_all_undone(line, database, until):
    await make_schedule(database, line.tenant, trigger=MINUTELY)
    row = await begin(database, line.tenant, fill(until - 3 * DAY, until))
    operator = Operator(database=database)
    await operator.tick(row.created_at + timedelta(seconds=1))

    await service.abort(
        database,
        tenant_id=line.tenant.id,
        operation_id=row.id,
        order=service.PersonsOrder(by="tester", reason="enough"),
    )

    assert await drain(operator) == 1  # it sees that there is nothing to look after
    after = await read(database, line.tenant, row.id)
    assert (after.state, after.next_at) == (OperationState.ABORTED, None)
    assert (after.state, after.done, await count_made(database, row.id)) == (OperationState.ABORTED, 0, 0)


async def test_a_schedule_that_is_deleted_meanwhile_stops_it(line, database, operator, until):
    await make_schedule(database, line.tenant, trigger=HOURLY)
    row = await begin(database, line.tenant, fill(until - DAY, until))
    await schedules.delete_schedule(database, tenant_id=line.tenant.id, name="nightly", change=TESTER)

    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.state, after.state_reason) == (OperationState.FAILED, "operation.unable")


async def test_a_plan_is_bounded(line, database, until, monkeypatch):
    monkeypatch.setattr(selecting, "MOST_INSTANTS", 1_000)
    await make_schedule(database, line.tenant, trigger=MINUTELY)

    planned = await service.plan(database, tenant_id=line.tenant.id, ask=fill(until - 7 * DAY, until))

    assert (planned.count, planned.whole) == (1_000, False)
    with pytest.raises(InvalidInput) as caught:
        await carry_out(database, line.tenant, planned)
    assert caught.value.code == "operation.too_large"


@pytest.mark.parametrize(
    ("start", "end", "pointer"),
    [(1, 1, "/backfill/until"), (1, 2, "/backfill/until"), (-1, -2, "/backfill/until"), (4_000, 1, "/backfill/from")],
)
async def test_a_range_that_cannot_be_is_refused(*, line, database, until, start, end, pointer):
    await make_schedule(database, line.tenant, trigger=HOURLY)

    with pytest.raises(InvalidInput) as caught:
        await service.plan(database, tenant_id=line.tenant.id, ask=fill(until - start * DAY, until - end * DAY))

    assert caught.value.code == "backfill.range"
    assert caught.value.errors[0].pointer == pointer


async def test_an_unknown_schedule_is_refused(line, database, until):
    with pytest.raises(InvalidInput) as caught:
        await service.plan(database, tenant_id=line.tenant.id, ask=fill(until - DAY, until, schedule="nowhere"))

    assert caught.value.code == "schedule.unknown"


@pytest.mark.parametrize(
    "ask",
    [
        Ask(kind=OperationKind.BACKFILL),
        Ask(kind=OperationKind.CANCEL_RUNS, limits=Limits(canary=1)),
        Ask(kind=OperationKind.CANCEL_RUNS, priority=1),
    ],
)
async def test_what_does_not_go_together_is_refused(line, database, ask):
    with pytest.raises(InvalidInput) as caught:
        await service.plan(database, tenant_id=line.tenant.id, ask=ask)

    assert caught.value.code == "operation.misfit"
