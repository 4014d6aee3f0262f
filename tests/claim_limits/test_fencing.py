"""A first limit holds from its commit on, also for claims that were under way when it was set."""

import asyncio

import pytest

from everwhen.dispatch import store
from everwhen.dispatch.service import claim_on
from everwhen.dispatch.sharing import Round
from everwhen.queues import service as queues
from everwhen.queues.model import QueueDraft
from everwhen.tasks import service as tasks
from everwhen.verify.service import verify
from tests.dispatch.scene import LINE, make_line
from tests.limits.scene import set_limits


@pytest.fixture
async def line(database):
    made = await make_line(database)
    await made.fill(20)
    yield made
    assert await verify(database) == {}


async def limit_task(line):
    await tasks.update_task(line.db, tenant_id=line.tenant.id, name="report", changes={"max_in_flight": 3})


async def limit_queue(line):
    await queues.replace_queue(line.db, tenant_id=line.tenant.id, name=LINE, draft=QueueDraft(max_in_flight=3))


async def limit_share(line):
    share = queues.Share(weight=1, max_in_flight=3, by="platform")
    await queues.set_share(line.db, tenant_id=line.tenant.id, name=LINE, share=share)


async def limit_tenant(line):
    await set_limits(line.db, line.tenant, in_flight=3)


WAYS = (limit_task, limit_queue, limit_share, limit_tenant)


async def somebody_waits(line):
    """Come back when a transaction waits for a lock."""
    asked = "select count(*)::int from pg_locks where not granted"
    async with asyncio.timeout(20):
        while await line.rows(asked) == [(0,)]:  # noqa: ASYNC110  # only the server knows
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("by_platform", [False, True], ids=["the tenant's worker", "the platform's worker"])
@pytest.mark.parametrize("limit", WAYS)
async def test_a_claim_that_is_under_way_ends_before_the_limit_is_there(line, *, limit, by_platform):
    wish = line.wish(tenant_id=None if by_platform else line.tenant.id)
    scope = line.db.system() if by_platform else line.db.tenant(line.tenant.id)
    async with asyncio.TaskGroup() as group, scope as conn:
        grant = await claim_on(conn, wish, turn=Round(), now=conn.now)
        change = group.create_task(limit(line))
        await somebody_waits(line)
        assert not change.done()
    assert len(grant.leases) == 10

    assert await line.claim() == []
    assert await line.claim(tenant_id=None) == []


@pytest.mark.parametrize("limit", WAYS)
async def test_a_claim_that_looked_before_the_limit_was_there_begins_anew(line, monkeypatch, limit):
    await limit(line)
    look, looked = store.lock_limited_lanes, []

    async def too_early(conn, **params):
        looked.append(await look(conn, **params))
        return looked[-1] if len(looked) > 1 else []

    monkeypatch.setattr(store, "lock_limited_lanes", too_early)

    assert len(await line.claim()) == 3
    assert len(looked) == 2


async def test_claims_do_not_wait_for_each_other_at_the_fence(line):
    async with line.db.tenant(line.tenant.id) as conn:
        assert len((await claim_on(conn, line.wish(), turn=Round(), now=conn.now)).leases) == 10
        assert len(await line.claim()) == 10


async def test_a_claim_passes_the_fence_before_it_locks_a_line(line):
    await limit_queue(line)
    async with line.db.tenant(line.tenant.id) as conn:
        await conn.execute("select from everwhen.lanes for update")
        waiting = asyncio.create_task(line.claim())
        await somebody_waits(line)
        held = await line.rows("select count(*)::int from pg_locks where locktype = 'advisory' and granted")
    assert held == [(1,)]
    assert len(await waiting) == 3
