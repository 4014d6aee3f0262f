# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
"""Dead runs are run anew in bulk: exactly those that were planned, each once, at a rate, until told to stop."""

import asyncio
import contextlib
from datetime import timedelta

import pytest

from everwhen import failpoints
from everwhen.core.bulk import OperationState
from everwhen.core.lifecycle import RunState
from everwhen.dead_letters import service as dead_letters
from everwhen.dead_letters.model import RedriveRequest
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.operations import plans, service
from everwhen.operations.model import ItemOrder
from everwhen.operations.operator import Operator
from everwhen.operations.service import PersonsOrder
from everwhen.runs import service as runs
from everwhen.runs.listing.service import run_filter
from tests.dispatch.scene import report_on, rows
from tests.operations.scene import (
    begin,
    carry_out,
    count_made,
    drain,
    let_be_due,
    let_rate_pass,
    make_dead,
    read,
    redrive,
)

MANY = 10_000
STOP = PersonsOrder(by="tester", reason="enough")


async def finish_all(line, *, outcome="succeeded"):
    """Let a worker take whatever is due, and report the same of all."""
    count = 0
    while leases := await line.claim(limit=500):
        await line.complete(
            *(report_on(lease, outcome, **({"retryable": False} if outcome == "failed" else {})) for lease in leases)
        )
        count += len(leases)
    return count


@pytest.mark.timeout(300)  # ten thousand runs take their time on a busy machine
async def test_ten_thousand_are_redriven_with_canary_and_rate_and_stopped_in_the_middle(line, database, operator):
    await make_dead(database, line.tenant, MANY, fingerprints=["smtp"])
    await make_dead(database, line.tenant, 50, fingerprints=["other"])
    row = await begin(database, line.tenant, redrive("fingerprint:smtp", rate=50, canary=100))
    assert row.total == MANY

    await drain(operator)
    assert (await read(database, line.tenant, row.id)).done <= 100
    while (await read(database, line.tenant, row.id)).done < 100:
        await let_rate_pass(database, 10)
        await drain(operator)
    await let_rate_pass(database, 10)
    await drain(operator)
    assert (await read(database, line.tenant, row.id)).done == 100  # the canary is out, and nobody has answered
    await finish_all(line)
    for _ in range(5):
        await let_rate_pass(database, 10)
        await drain(operator)

    await service.abort(database, tenant_id=line.tenant.id, operation_id=row.id, order=STOP)
    await let_rate_pass(database, 10)
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert after.state == OperationState.ABORTED
    assert 100 < after.done < MANY
    assert after.skipped == 0
    assert after.done + after.progress.left == MANY
    assert await count_made(database, row.id) == after.done
    twice = await rows(
        database, "select origin_run_id from everwhen.runs where source = 'redrive' group by 1 having count(*) > 1"
    )
    assert twice == []
    groups = (await dead_letters.list_groups(database, tenant_id=line.tenant.id, limit=10)).rows
    assert {group.fingerprint: group.letters for group in groups} == {"smtp": MANY - after.done, "other": 50}


async def test_all_are_redriven_and_the_operation_ends_when_their_runs_have(line, database, operator):
    dead = await make_dead(database, line.tenant, 30, input={"region": "eu"})
    row = await begin(database, line.tenant, redrive())
    await drain(operator)
    assert (await read(database, line.tenant, row.id)).state == OperationState.RUNNING

    leases = await line.claim(limit=100)
    assert {lease.input for lease in leases} == {'{"region": "eu"}'}
    await line.complete(*(report_on(lease) for lease in leases[:20]))
    await line.complete(*(report_on(lease, "failed", retryable=False) for lease in leases[20:]))
    await let_be_due(database)
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.state, after.succeeded, after.dead, after.done) == (OperationState.SUCCEEDED, 20, 10, 30)
    old = await runs.get_run(database, tenant_id=line.tenant.id, ref=str(dead[0]))
    new = await runs.get_run(database, tenant_id=line.tenant.id, ref=str(old.row.redriven_as))
    assert (old.row.letter, new.row.origin_run_id, new.row.operation_id) == ("redriven", dead[0], row.id)
    assert (new.row.source, new.row.queue, new.row.priority) == ("redrive", old.row.queue, old.row.priority)


@pytest.mark.parametrize("point", ["operator.before_commit", "operator.after_commit", "transaction.before_commit"])
async def test_a_crash_in_the_middle_of_a_batch_repeats_and_loses_nothing(line, database, point):
    await make_dead(database, line.tenant, 250)
    row = await begin(database, line.tenant, redrive())
    operator = Operator(database=database, batch=100)
    now = (await read(database, line.tenant, row.id)).created_at + timedelta(seconds=1)
    for nth in (2, 3):
        with failpoints.armed(f"{point}:error:{nth}"), contextlib.suppress(failpoints.FailpointError):
            await drain(operator, now=now)
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.done, after.skipped, after.progress.left) == (250, 0, 0)
    assert await count_made(database, row.id) == 250


async def test_two_operators_at_once_make_each_run_once(line, database):
    await make_dead(database, line.tenant, 400)
    row = await begin(database, line.tenant, redrive())
    operators = [Operator(database=database, batch=50) for _ in range(3)]

    await asyncio.gather(*(drain(each) for each in operators))
    await drain(operators[0])

    after = await read(database, line.tenant, row.id)
    assert (after.done, after.skipped, after.progress.left) == (400, 0, 0)
    assert await count_made(database, row.id) == 400


async def test_two_operations_on_the_same_runs_share_them(line, database, operator):
    await make_dead(database, line.tenant, 60)
    first = await service.plan(database, tenant_id=line.tenant.id, ask=redrive())
    second = await service.plan(database, tenant_id=line.tenant.id, ask=redrive(order=ItemOrder.NEWEST))
    one, _ = await carry_out(database, line.tenant, first)
    other, _ = await carry_out(database, line.tenant, second)

    small = Operator(database=database, batch=20)
    await drain(small)

    one, other = await read(database, line.tenant, one.id), await read(database, line.tenant, other.id)
    assert one.done + other.done == 60
    assert one.done + one.skipped == other.done + other.skipped == 60
    assert await count_made(database, one.id) + await count_made(database, other.id) == 60
    reasons = await rows(database, "select distinct reason from everwhen.operation_items where state = 'skipped'")
    assert reasons == [("operation.taken",)]


async def test_the_canary_stops_what_would_fail(line, database, operator):
    await make_dead(database, line.tenant, 100)
    row = await begin(database, line.tenant, redrive(canary=3))
    await drain(operator)
    leases = await line.claim(limit=100)
    await line.complete(report_on(leases[0]), report_on(leases[1], "failed", retryable=False))

    await let_be_due(database)
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.state, after.state_reason, after.done) == (OperationState.FAILED, "operation.canary_failed", 3)
    assert after.progress.left == 97
    await line.complete(report_on(leases[2]))
    await let_be_due(database)
    await drain(operator)
    later = await read(database, line.tenant, row.id)
    assert (later.succeeded, later.dead, later.done, later.next_at) == (2, 1, 3, None)  # watched to the last end
    assert later.finished_at == after.finished_at


@pytest.mark.parametrize(
    ("limit", "stops"),
    [
        ({"most_dead": 5}, True),
        ({"most_dead": 50}, False),
        ({"most_dead_share": 0.4}, True),
        ({"most_dead_share": 0.9}, False),
    ],
)
async def test_too_many_dead_runs_stop_it(line, database, limit, stops):
    operator = Operator(database=database, batch=20)
    await make_dead(database, line.tenant, 200)
    row = await begin(database, line.tenant, redrive(rate=20, **limit))
    await drain(operator)
    await let_rate_pass(database, 1)
    await drain(operator)
    await finish_all(line, outcome="failed") if stops else await finish_all(line)

    await let_be_due(database)
    await drain(operator)

    after = await read(database, line.tenant, row.id)
    assert (after.state == OperationState.FAILED) is stops
    assert after.progress.left > 0


async def test_an_abort_cancels_what_was_made_if_that_is_asked_for(line, database, operator):
    await make_dead(database, line.tenant, 300)
    row = await begin(database, line.tenant, redrive())
    small = Operator(database=database, batch=70)
    now = row.created_at + timedelta(seconds=1)
    for _ in range(4):
        await small.tick(now)
    [running] = await line.claim(limit=1)

    await service.abort(database, tenant_id=line.tenant.id, operation_id=row.id, order=STOP, cancel_runs=True)
    await let_be_due(database)
    await drain(small)

    after = await read(database, line.tenant, row.id)
    assert (after.state, after.state_reason) == (OperationState.ABORTED, "operation.aborted")
    assert 0 < after.done < 300
    left = await rows(database, "select count(*) from everwhen.waiting")
    asked = await rows(
        database, "select cancel_requested_at is not null from everwhen.leases where run_id = %s", running.run_id
    )
    assert (left, asked) == ([(0,)], [(True,)])
    again = await service.abort(database, tenant_id=line.tenant.id, operation_id=row.id, order=STOP)
    assert again.state == OperationState.ABORTED
    with pytest.raises(Conflict):
        await service.resume(database, tenant_id=line.tenant.id, operation_id=row.id, order=STOP)


async def test_a_paused_operation_makes_nothing_and_goes_on_where_it_was(line, database):
    operator = Operator(database=database, batch=10)
    await make_dead(database, line.tenant, 50)
    row = await begin(database, line.tenant, redrive())
    for _ in range(3):
        await operator.tick(row.created_at + timedelta(seconds=1))
    await service.pause(database, tenant_id=line.tenant.id, operation_id=row.id, order=STOP)
    paused = await read(database, line.tenant, row.id)
    assert await drain(operator) == 0
    assert paused.state == OperationState.PAUSED

    await service.resume(database, tenant_id=line.tenant.id, operation_id=row.id, order=STOP)
    await drain(operator)

    assert 0 < paused.done < 50
    assert (await read(database, line.tenant, row.id)).done == 50


async def test_the_rate_holds(line, database):
    await make_dead(database, line.tenant, 100)
    row = await begin(database, line.tenant, redrive(rate=10))
    operators = [Operator(database=database), Operator(database=database)]

    await asyncio.gather(*(drain(each) for each in operators))
    first = (await read(database, line.tenant, row.id)).done
    await let_rate_pass(database, 1)
    await drain(operators[0])

    assert 1 <= first <= 21
    assert (await read(database, line.tenant, row.id)).done <= first + 21


# Plans ---------------------------------------------------------------------------------------------------------------


async def test_a_plan_writes_nothing_and_says_what_it_means(line, database):
    dead = await make_dead(database, line.tenant, 12, fingerprints=["a"])
    await make_dead(database, line.tenant, 5, fingerprints=["b"])

    planned = await service.plan(database, tenant_id=line.tenant.id, ask=redrive("fingerprint:a since:2d"))

    assert (planned.count, planned.whole) == (12, True)
    assert [view.row.run_id for view in planned.runs] == dead[: service.SAMPLE]
    text = planned.filter.canonical
    assert text.startswith("state:dead fingerprint:a letter:open due>=")
    assert run_filter(planned.filter).state is RunState.DEAD
    assert await rows(database, "select count(*) from everwhen.operations") == [(0,)]


async def test_what_dies_after_the_plan_is_not_touched(line, database, operator):
    await make_dead(database, line.tenant, 10)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=redrive())
    late = await make_dead(database, line.tenant, 4, ago=timedelta(0))

    row, _ = await carry_out(database, line.tenant, planned)
    await drain(operator)

    assert (await read(database, line.tenant, row.id)).done == 10
    view = await runs.get_run(database, tenant_id=line.tenant.id, ref=str(late[0]))
    assert view.row.letter is None


async def test_a_set_that_has_changed_is_refused(line, database):
    dead = await make_dead(database, line.tenant, 10)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=redrive())
    await dead_letters.dismiss_run(database, tenant_id=line.tenant.id, ref=str(dead[3]), by="tester", reason="seen to")

    with pytest.raises(Conflict) as caught:
        await carry_out(database, line.tenant, planned)

    assert caught.value.code == "operation.plan_changed"


async def test_another_request_under_the_same_token_is_refused(line, database):
    await make_dead(database, line.tenant, 10)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=redrive())
    other = await service.plan(database, tenant_id=line.tenant.id, ask=redrive("task:report"))

    with pytest.raises(Conflict) as caught:
        await service.start(
            database,
            tenant_id=line.tenant.id,
            ask=other.ask,
            asked=service.Asked(by="tester", reason="x", token=planned.token),
        )

    assert caught.value.code == "operation.plan_changed"


async def test_a_repeated_request_is_one_operation(line, database, operator):
    await make_dead(database, line.tenant, 10)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=redrive())

    answers = await asyncio.gather(*(carry_out(database, line.tenant, planned) for _ in range(4)))
    await drain(operator)
    late = await carry_out(database, line.tenant, planned)

    assert len({row.id for row, _ in (*answers, late)}) == 1
    assert sum(not replayed for _, replayed in answers) == 1
    assert late[1]
    assert await count_made(database, late[0].id) == 10


async def test_an_old_plan_and_a_made_up_token_are_refused(line, database):
    await make_dead(database, line.tenant, 1)
    planned = await service.plan(database, tenant_id=line.tenant.id, ask=redrive())
    seen = plans.decode(planned.token)
    old = plans.encode(plans.Token(as_of=seen.as_of - plans.VALID, count=1, items=seen.items, request=seen.request))
    for token, code, kind in (
        (old, "operation.plan_expired", Conflict),
        ("pln_x", "operation.plan_token", InvalidInput),
    ):
        with pytest.raises(kind) as caught:
            await service.start(
                database,
                tenant_id=line.tenant.id,
                ask=planned.ask,
                asked=service.Asked(by="tester", reason="x", token=token),
            )
        assert caught.value.code == code


async def test_an_operation_of_nothing_succeeds(line, database, operator):
    row = await begin(database, line.tenant, redrive())
    await drain(operator)

    assert (await read(database, line.tenant, row.id)).state == OperationState.SUCCEEDED


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("state:missed", "filter.unserved"),
        ("state:dead origin:01a2290b-f820-8c7f-a512-430466578e05", "filter.unserved"),
        ("colour:red", "filter.field"),
        ("schedule:nowhere", "schedule.unknown"),
    ],
)
async def test_what_cannot_be_redriven_is_refused(line, database, text, code):
    with pytest.raises(InvalidInput) as caught:
        await service.plan(database, tenant_id=line.tenant.id, ask=redrive(text))

    assert caught.value.code == code


async def test_a_bad_operation_stops_itself_and_no_other(line, database, operator):
    await make_dead(database, line.tenant, 5)
    bad = await begin(database, line.tenant, redrive("since:2d"))
    async with database.system() as conn:
        await conn.execute("update everwhen.operations set request = '{}'")
    good = await begin(database, line.tenant, redrive())

    await drain(operator)

    async with database.system() as conn:
        await conn.execute(
            "update everwhen.operations set request = (select request from everwhen.operations where id = %s)",
            (good.id,),
        )
    after = await read(database, line.tenant, bad.id)
    assert (after.state, after.state_reason) == (OperationState.FAILED, "operation.unable")
    assert (await read(database, line.tenant, good.id)).done == 5


async def test_one_is_redriven_once_unless_asked_for_again_with_another_input(line, database):
    [dead] = await make_dead(database, line.tenant, 1, input={"n": 1})
    key = {"tenant_id": line.tenant.id, "ref": str(dead)}
    first = await dead_letters.redrive_run(database, **key, request=RedriveRequest(by="tester"))
    with pytest.raises(Conflict) as caught:
        await dead_letters.redrive_run(database, **key, request=RedriveRequest(by="tester"))
    changed = RedriveRequest(by="tester", again=True, input={"n": 2}, has_input=True, priority=9)
    second = await dead_letters.redrive_run(database, **key, request=changed)

    assert caught.value.code == "dead_letter.redriven"
    assert (first.row.input, second.row.input, second.row.priority) == ('{"n": 1}', '{"n": 2}', 9)
    assert first.row.origin_run_id == second.row.origin_run_id == dead
    with pytest.raises(Conflict):
        await dead_letters.redrive_run(
            database, tenant_id=line.tenant.id, ref=str(first.row.run_id), request=RedriveRequest(by="tester")
        )


async def test_of_redrives_at_once_one_wins(line, database):
    [dead] = await make_dead(database, line.tenant, 1)

    async def once():
        with contextlib.suppress(Conflict):
            return await dead_letters.redrive_run(
                database, tenant_id=line.tenant.id, ref=str(dead), request=RedriveRequest(by="tester")
            )

    made = await asyncio.gather(*(once() for _ in range(6)))

    assert sum(view is not None for view in made) == 1
    assert await rows(database, "select count(*) from everwhen.runs where origin_run_id = %s", dead) == [(1,)]


async def test_an_unknown_operation_is_not_found(line, database):
    with pytest.raises(NotFound):
        await read(database, line.tenant, line.tenant.id)
