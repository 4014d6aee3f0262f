"""A limit of ten, fifty workers who claim at random for a minute, and the limit changed meanwhile; and a witness."""

import asyncio
import sys

import psycopg
import pytest

from everwhen.postgres.pool import Database, PoolLimits
from everwhen.verify.service import verify
from tests.claim_limits.crowd import crowd, deadlocks
from tests.dispatch.scene import make_line

SECONDS = 60.0


@pytest.fixture
async def wide(server, database, work_database):
    """A connection for each worker, and patience for a machine that is busy; `database` cleans up."""
    limits = PoolLimits(min_size=1, max_size=55, borrow_seconds=60.0, lock_seconds=60.0)
    async with await Database.open(server.app(work_database), limits=limits) as opened:
        yield opened


async def test_a_limit_holds_for_a_minute_with_fifty_workers(server, wide, work_database):
    line = await make_line(wide, max_in_flight=10)
    await line.fill(6_000)
    over_at = asyncio.get_running_loop().time() + SECONDS

    async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
        seen = await crowd(
            line,
            conn,
            workers=50,
            until=lambda seen: bool(seen.over) or asyncio.get_running_loop().time() > over_at,
            seed=7,
            limits=(10, 10, 4, 16),
        )

    sys.stdout.write(
        f"{seen.looks} looks, {seen.done} runs, at most {seen.most} in flight, {seen.below} looks below the limit\n"
    )
    assert (seen.over, seen.idle) == ([], [])
    assert await deadlocks(wide) == 0
    assert await verify(wide) == {}
