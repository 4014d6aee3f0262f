"""Many workers, one limit, and a witness: never one too many, and nobody parked while there is room."""

import psycopg

from everwhen.core.claim_limits import KeyLimit
from everwhen.queues import service as queues
from everwhen.queues.model import QueueDraft
from everwhen.verify.service import verify
from tests.claim_limits.crowd import QUEUES, crowd, crowd_of_tenant, deadlocks
from tests.dispatch.scene import make_line
from tests.factories import make_task
from tests.limits.scene import set_limits


def enough(seen):
    return bool(seen.over) or (seen.looks >= 25 and seen.done >= 150)


async def test_fifty_workers_never_exceed_a_limit_that_is_changed_meanwhile_nor_leave_it_unused(
    server, database, work_database
):
    line = await make_line(database, max_in_flight=10)
    await line.fill(3_000)
    async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
        seen = await crowd(line, conn, workers=50, until=enough, seed=1, limits=(10, 10, 4, 16))

    assert (seen.over, seen.idle) == ([], [])
    assert await deadlocks(database) == 0
    # Whoever asks now gets exactly what is left of the limit: nothing is held back that could go.
    ((limit,),) = await line.rows("select max_in_flight from everwhen.tasks")
    assert len(await line.claim(limit=100)) == limit
    assert await line.claim(limit=100) == []
    assert await verify(database) == {}


async def test_fifty_workers_at_all_queues_of_a_tenant_never_exceed_its_limit_nor_wait_for_each_other_for_ever(
    server, database, work_database
):
    line = await tenants_line(database)
    async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
        seen = await crowd_of_tenant(line, conn, workers=50, until=enough, seed=2, limits=(10, 10, 4, 16))

    assert seen.over == []
    assert await deadlocks(database) == 0
    await queues.replace_queue(database, tenant_id=line.tenant.id, name="elsewhere", draft=QueueDraft())
    await set_limits(database, line.tenant, in_flight=11)
    assert len(await line.claim(limit=100, queues=QUEUES[::-1])) == 11
    assert await line.claim(limit=100, queues=QUEUES) == []
    assert await verify(database) == {}


async def test_the_witness_sees_it_when_the_tenant_is_not_counted(server, database, work_database, monkeypatch):
    line = await tenants_line(database)
    monkeypatch.setattr("everwhen.dispatch.loads._rooms", nobody_counts)
    async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
        seen = await crowd_of_tenant(line, conn, workers=20, until=enough, seed=1)

    assert seen.over


async def nobody_counts(_conn, tenant_ids, **_how):
    return dict.fromkeys(tenant_ids)


async def tenants_line(database):
    """A tenant that may have ten in flight: a limited task whose runs have keys at one queue, a free one at another."""
    line = await make_line(database, max_in_flight=8, concurrency=KeyLimit(pointers=("/customer",), max_in_flight=3))
    await make_task(database, line.tenant, name="other", queue="elsewhere")
    for customer in range(10):
        await line.fill(150, input={"customer": customer})
    await line.fill(1_500, task="other")
    await set_limits(database, line.tenant, in_flight=10)
    return line


async def test_the_witness_sees_it_when_a_claim_does_not_count(server, database, work_database, monkeypatch):
    line = await make_line(database, max_in_flight=3)
    await line.fill(500)
    monkeypatch.setattr("everwhen.core.claim_limits._full", lambda task, key: None)
    async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
        seen = await crowd(line, conn, workers=20, until=enough, seed=1)

    assert seen.over
