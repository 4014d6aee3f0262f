"""Many workers, one limit, and a witness: never one too many, and nobody parked while there is room."""

import psycopg

from everwhen.verify.service import verify
from tests.claim_limits.crowd import crowd, deadlocks
from tests.dispatch.scene import make_line


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


async def test_the_witness_sees_it_when_a_claim_does_not_count(server, database, work_database, monkeypatch):
    line = await make_line(database, max_in_flight=3)
    await line.fill(500)
    monkeypatch.setattr("everwhen.core.claim_limits._full", lambda task, key: None)
    async with await psycopg.AsyncConnection.connect(server.superuser(work_database), autocommit=True) as conn:
        seen = await crowd(line, conn, workers=20, until=enough, seed=1)

    assert seen.over
