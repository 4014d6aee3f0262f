"""Two tenants at random on a pool of one connection, with exceptions and cancellations: none sees a row of the other.

Each of the walls is taken down in turn: with row-level security and WHERE clauses, without the one, without the other;
and without both, where the rows of the other have to be seen, or the test would prove nothing. TEST_STEPS
raises the number of steps.
"""

import asyncio
import os
from random import Random  # noqa: TID251  # drawn by a seed

import pytest

from everwhen.identity import store as identity_store
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.tasks import store as tasks_store
from everwhen.tenants import store as tenants_store
from tests.contracts.test_isolation import without_row_security, without_where
from tests.factories import make_task, make_tenant

STEPS = int(os.environ.get("TEST_STEPS", "600"))
AT_ONCE = 6

pytestmark = pytest.mark.timeout(900)


class Deliberate(Exception):  # noqa: N818  # no accident
    """A block's own failure."""


async def lists(conn, own, other):
    return [row.name for row in await tasks_store.list_tasks(conn, tenant_id=own.id, after="", limit=50)]


async def asks_by_name(conn, own, other):
    found = await tasks_store.get_task(conn, tenant_id=own.id, name=f"{other.name}-task")
    return [] if found is None else [found.name]


async def asks_for_itself(conn, own, other):
    return [row.name for row in [await tenants_store.get_tenant(conn, tenant_id=own.id)] if row is not None]


async def writes(conn, own, other):
    member = await identity_store.put_member(
        conn, tenant_id=own.id, subject=f"login:{own.name}", roles=["viewer"], among=None, by=own.name, now=conn.now
    )
    return [member.subject]


async def lists_what_is_written(conn, own, other):
    return [row.subject for row in await identity_store.list_members(conn, tenant_id=own.id, after="", limit=50)]


async def removes(conn, own, other):
    subject = f"login:{other.name}"
    return [other.name] * await identity_store.delete_member(conn, tenant_id=own.id, subject=subject, among=None)


KINDS = [lists, asks_by_name, asks_for_itself, writes, lists_what_is_written, removes]
READING = [lists, asks_by_name, lists_what_is_written]


async def run_steps(db, tenants, *, kinds, seed=7):
    """Do STEPS transactions, AT_ONCE at a time; return the names of the other tenant that were seen."""
    drawn, seen, ended, tasks = Random(seed), [], {"done": 0, "raised": 0, "cancelled": 0}, set()

    async def step(own, other, kind, *, fails):
        async with db.tenant(own.id) as conn:
            seen.extend(name for name in await kind(conn, own, other) if other.name in name)
            await asyncio.sleep(0)
            seen.extend(name for name in await drawn.choice(kinds)(conn, own, other) if other.name in name)
            if fails:
                raise Deliberate

    async def tell(task):
        try:
            await task
            ended["done"] += 1
        except Deliberate:
            ended["raised"] += 1
        except asyncio.CancelledError:
            ended["cancelled"] += 1

    for _ in range(STEPS):
        own, other = drawn.sample(tenants, 2)
        task = asyncio.create_task(step(own, other, drawn.choice(kinds), fails=drawn.random() < 0.15))
        if drawn.random() < 0.2:
            asyncio.get_running_loop().call_later(drawn.random() / 100, task.cancel)
        tasks.add(asyncio.create_task(tell(task)))
        if len(tasks) >= AT_ONCE:
            _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*tasks)
    assert sum(ended.values()) == STEPS
    assert ended["done"] > STEPS / 4
    assert ended["raised"] > 0
    return seen


@pytest.fixture
async def two(server, fresh_database):
    """One connection, and two tenants."""
    limits = PoolLimits(min_size=1, max_size=1, borrow_seconds=60.0)
    async with await Database.open(server.app(fresh_database), limits=limits) as db:
        tenants = [await make_tenant(db, name=name) for name in ("linnet", "sparrow")]
        for tenant in tenants:
            await make_task(db, tenant, name=f"{tenant.name}-task")
        yield db, tenants


@pytest.fixture
def loosened(monkeypatch):
    """The WHERE clauses are down."""
    without_where(monkeypatch, [tasks_store, tenants_store, identity_store], at_least=1)


async def test_no_row_of_the_other_is_ever_seen(two):
    db, tenants = two

    assert await run_steps(db, tenants, kinds=KINDS) == []


async def test_nor_without_row_security(two, server, fresh_database):
    db, tenants = two
    without_row_security(server, fresh_database)

    assert await run_steps(db, tenants, kinds=KINDS) == []


async def test_nor_without_the_where_clauses(two, loosened):
    db, tenants = two

    assert await run_steps(db, tenants, kinds=KINDS) == []


async def test_without_both_the_rows_of_the_other_are_seen(two, server, fresh_database, loosened):
    db, tenants = two
    without_row_security(server, fresh_database)

    assert await run_steps(db, tenants, kinds=READING) != []
