"""A worker that is drained, cordoned or about to stop is given nothing, and its waiting claims go home at once."""

import asyncio
import uuid
from datetime import timedelta

import pytest

from everwhen.core.fleets import Wish
from everwhen.dispatch import lines as module
from everwhen.dispatch.lines import Lines
from everwhen.fleets import service as fleets
from everwhen.fleets.model import Announced, Beat
from everwhen.postgres.wakeups import Wakeups
from tests.dispatch.scene import LINE, ids, wish
from tests.factories import make_tenant

LONG = 30.0
ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)
IDLE = {"held": 0, "in_use": {}, "heard": Wish.ACTIVE}


async def announce(db, instance, *, tenant_id):
    said = Announced(
        instance=instance, name="w", sdk=None, version=None, host=None, pid=None, slots=1, tasks=None, queues=[LINE],
        labels={}, resources={},
    )  # fmt: skip
    return (await fleets.announce(db, tenant_id=tenant_id, said=said)).worker_id


async def order(db, worker_id, wish, *, tenant_id):
    await fleets.order(db, tenant_id=tenant_id, worker_id=worker_id, order=fleets.Order(wish=wish, by="x"))


@pytest.fixture(params=["own", "shared"])
async def whose(request, line):
    """The tenant of a worker and its claims: the tenant's own, or the platform's."""
    return line.tenant.id if request.param == "own" else None


@pytest.fixture
async def worker(line, whose):
    return await announce(line.db, ONE, tenant_id=whose)


@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize("held_back", [Wish.DRAINING, Wish.CORDONED, "stopping"])
async def test_it_is_given_nothing_and_others_are(line, whose, worker, *, limit, held_back):
    await line.set_lane(max_in_flight=limit)
    await announce(line.db, TWO, tenant_id=whose)
    runs = await line.fill(3)
    if held_back == "stopping":
        await fleets.beat(line.db, tenant_id=whose, said=Beat(instance=ONE, is_stopping=True, **IDLE))
    else:
        await order(line.db, worker, held_back, tenant_id=whose)
    nothing = await line.dispatch.claim(wish(tenant_id=whose, instance=ONE))
    all_of_them = await line.dispatch.claim(wish(tenant_id=whose, instance=TWO))

    assert (nothing.leases, nothing.is_held_back) == ([], True)
    assert sorted(ids(all_of_them.leases)) == sorted(runs)
    assert not (await line.dispatch.claim(wish(tenant_id=whose, instance=TWO))).is_held_back


async def test_it_is_given_runs_again_when_it_is_uncordoned(line, whose, worker):
    runs = await line.fill()
    await order(line.db, worker, Wish.CORDONED, tenant_id=whose)
    assert (await line.dispatch.claim(wish(tenant_id=whose, instance=ONE))).leases == []
    await order(line.db, worker, Wish.ACTIVE, tenant_id=whose)

    assert ids((await line.dispatch.claim(wish(tenant_id=whose, instance=ONE))).leases) == runs


async def test_another_tenants_worker_of_the_same_instance_is_another(line, database):
    other = await make_tenant(database)
    theirs = await announce(database, ONE, tenant_id=other.id)
    await order(database, theirs, Wish.CORDONED, tenant_id=other.id)
    runs = await line.fill()

    assert ids(await line.claim(instance=ONE)) == runs


@pytest.fixture
async def lines(line, server, work_database, monkeypatch):
    """Claims that wait, and hear the database; no poll ever comes."""
    monkeypatch.setattr(module, "POLL_SECONDS", LONG)
    monkeypatch.setattr(module, "SHARED_POLL_SECONDS", LONG)
    wakeups = Wakeups(server.app(work_database))
    listener = asyncio.create_task(wakeups.listen_forever())
    async with asyncio.timeout(10):
        await wakeups.listening.wait()
    yield Lines(line.dispatch, wakeups)
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)


async def there():
    return True


async def until_waiting(lines, count):
    async with asyncio.timeout(10):
        while sum(line.claims for line in lines._lines.values()) < count or not any(  # noqa: ASYNC110
            line.last for line in lines._lines.values()
        ):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("held_back", [Wish.DRAINING, "stopping"])
async def test_its_waiting_claims_go_home_and_the_others_stay(line, lines, whose, worker, *, held_back):
    await announce(line.db, TWO, tenant_id=whose)
    instances = (ONE, TWO, ONE, TWO)  # the first has the turn, the others wait for it
    claims = []
    for count, instance in enumerate(instances):
        claim = wish(tenant_id=whose, instance=instance)
        claims.append(asyncio.create_task(lines.take(claim, wait_seconds=LONG, still_there=there)))
        await until_waiting(lines, count + 1)
    if held_back == "stopping":
        await fleets.beat(line.db, tenant_id=whose, said=Beat(instance=ONE, is_stopping=True, **IDLE))
    else:
        await order(line.db, worker, held_back, tenant_id=whose)

    async with asyncio.timeout(10):
        home = [await claims[0], await claims[2]]
    assert [(grant.leases, grant.is_held_back) for grant in home] == [([], True)] * 2
    assert not claims[1].done()
    assert not claims[3].done()
    (run,) = await line.fill(due_in=timedelta(0))
    lines._wakeups.wake_everybody()
    async with asyncio.timeout(10):
        grants = await asyncio.gather(claims[1], claims[3])
    assert [run_id for grant in grants for run_id in ids(grant.leases)] == [run]
    assert not lines._lines
    assert not lines._wakeups._waiters
