"""Tasks through the services."""

import asyncio
from datetime import timedelta

import pytest

from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.postgres.pool import Database
from everwhen.tasks import service as tasks
from tests.factories import make_task, make_tenant


@pytest.fixture
async def tenant(database: Database):
    return await make_tenant(database)


async def lanes(database):
    async with database.system() as conn:
        rows = await (await conn.execute("select queue from everwhen.lanes order by queue")).fetchall()
    return [queue for (queue,) in rows]


async def test_a_task_is_read_back_as_it_was_made(database, tenant):
    policy = RetryPolicy(max_attempts=3, base=timedelta(seconds=1.5), factor=3.0, jitter=Jitter.FULL)
    made = await make_task(database, tenant, queue="slow", priority=9, retry=policy, timeout_seconds=2.5)

    assert await tasks.get_task(database, tenant_id=tenant.id, name="report") == made
    assert (made.retry, made.queue, made.priority, made.timeout_seconds) == (policy, "slow", 9, 2.5)
    assert await lanes(database) == ["slow"]


async def test_a_name_is_taken_once(database, tenant):
    await make_task(database, tenant)

    with pytest.raises(Conflict) as refused:
        await make_task(database, tenant)

    assert refused.value.code == "task.exists"


async def test_another_tenant_may_use_the_same_name(database, tenant):
    other = await make_tenant(database)
    await make_task(database, tenant)
    await make_task(database, other, queue="elsewhere")

    assert (await tasks.get_task(database, tenant_id=tenant.id, name="report")).queue == "default"


async def test_a_change_keeps_what_it_does_not_name_and_opens_the_new_lane(database, tenant):
    made = await make_task(database, tenant, timeout_seconds=5.0)
    changes = {"queue": "new", "retry": {"max_attempts": 2}, "timeout_seconds": None}
    after = await tasks.update_task(database, tenant_id=tenant.id, name="report", changes=changes)

    assert (after.queue, after.timeout_seconds, after.priority) == ("new", None, made.priority)
    assert after.retry == RetryPolicy(max_attempts=2)
    assert await lanes(database) == ["default", "new"]


async def test_a_change_that_does_not_fit_the_rest_is_refused(database, tenant):
    await make_task(database, tenant)

    with pytest.raises(InvalidInput) as refused:
        await tasks.update_task(
            database, tenant_id=tenant.id, name="report", changes={"retry": {"base_seconds": 7200.0}}
        )

    assert (refused.value.code, refused.value.errors[0].pointer) == ("task.retry.invalid", "/retry")


async def somebody_waits_for_a_lock(database):
    """Wait until a session does, or fail."""
    for _ in range(1_000):
        async with database.system() as conn:
            query = "select count(*) from pg_locks where not granted"
            if (await (await conn.execute(query)).fetchone())[0]:
                return
        await asyncio.sleep(0.01)
    pytest.fail("nobody waits")


async def test_a_change_waits_for_another_and_keeps_what_it_did(database, tenant):
    await make_task(database, tenant)
    async with database.tenant(tenant.id) as conn:
        await conn.execute("update everwhen.tasks set priority = 1")
        second = asyncio.create_task(
            tasks.update_task(database, tenant_id=tenant.id, name="report", changes={"queue": "new"})
        )
        await somebody_waits_for_a_lock(database)
    after = await second

    assert (after.priority, after.queue) == (1, "new")


async def test_an_unknown_task_is_not_found(database, tenant):
    with pytest.raises(NotFound):
        await tasks.get_task(database, tenant_id=tenant.id, name="nope")
    with pytest.raises(NotFound):
        await tasks.update_task(database, tenant_id=tenant.id, name="nope", changes={})


async def test_a_list_goes_on_after_the_last_name(database, tenant):
    for name in ("b", "a", "c"):
        await make_task(database, tenant, name=name)
    first = (await tasks.list_tasks(database, tenant_id=tenant.id, limit=2)).rows
    rest = (await tasks.list_tasks(database, tenant_id=tenant.id, after=first[-1].name, limit=2)).rows

    assert [task.name for task in [*first, *rest]] == ["a", "b", "c"]


async def test_a_task_that_is_made_anew_has_no_limits_of_its_former_life(database, tenant):
    async def limited():
        async with database.system() as conn:
            rows = await conn.execute("select max_in_flight from everwhen.task_limits where max_in_flight is not null")
            return await rows.fetchall()

    await make_task(database, tenant, max_in_flight=1)
    assert await limited() == [(1,)]
    await tasks.delete_task(database, tenant_id=tenant.id, name="report")
    made = await make_task(database, tenant)

    assert (made.revision, made.max_in_flight) == (2, None)
    assert await limited() == []
