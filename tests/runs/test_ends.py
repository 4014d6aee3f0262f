"""Whoever follows a run hears of its end once, in the transaction that ends it, and of nobody else's."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Dispatch
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.ends import Ended, follow_with
from tests.dispatch.scene import Line, make_line, report_on

HOUR = timedelta(hours=1)


@dataclass
class Listener:
    """Remembers what it was told; raises when it is told to."""

    heard: list[Ended] = field(default_factory=list[Ended])
    defect: Exception | None = None

    async def __call__(self, conn: Connection, ended: Sequence[Ended], now: datetime) -> None:
        if self.defect is not None:
            raise self.defect
        ids = [each.run_id for each in ended]
        rows = await (
            await conn.execute("select run_id from everwhen.run_ends where run_id = any(%s)", (ids,))
        ).fetchall()
        assert len(rows) == len(ids), "the ends are written before anybody hears of them"
        self.heard += ended


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
async def line(database: Database, listener: Listener) -> Line:
    made = await make_line(database)
    dispatch = Dispatch(database, jitter=lambda: 0.0, on_ended=follow_with(listener))
    return replace(made, dispatch=dispatch)


async def follow(line: Line, run_ids: Sequence[object]) -> None:
    async with line.db.system() as conn:
        await conn.execute("update everwhen.waiting set is_followed = true where run_id = any(%s)", (list(run_ids),))


def reaper(database: Database, listener: Listener) -> Reaper:
    return Reaper(database=database, jitter=lambda: 0.0, on_ended=follow_with(listener))


async def test_a_report_tells_of_the_followed_run_alone(line: Line, listener: Listener) -> None:
    followed, _ = await line.fill(2)
    await follow(line, [followed])
    leases = await line.claim()
    await line.complete(*(report_on(lease) for lease in leases))
    assert listener.heard == [Ended(tenant_id=line.tenant.id, run_id=followed, state="succeeded", reason=None)]


async def test_the_mark_outlives_a_retry(line: Line, listener: Listener) -> None:
    followed = await line.fill(1)
    await follow(line, followed)
    now = await line.now()
    (lease,) = await line.claim()
    await line.complete(report_on(lease, "failed"))
    assert listener.heard == []
    (again,) = await line.claim(now=now + HOUR)
    await line.complete(report_on(again), now=now + HOUR)
    assert [(each.run_id, each.state) for each in listener.heard] == [(followed[0], "succeeded")]


async def test_the_reaper_tells_of_a_death(line: Line, listener: Listener, database: Database) -> None:
    followed = await line.fill(1)
    await follow(line, followed)
    now = await line.now()
    for hours in range(1, 20):
        await line.claim(now=now + hours * HOUR)
        await reaper(database, listener).tick(now + hours * HOUR + timedelta(minutes=5))
    assert [(each.run_id, each.state, each.reason) for each in listener.heard] == [
        (followed[0], "dead", "retry.exhausted")
    ]


async def test_the_start_deadline_tells(line: Line, listener: Listener, database: Database) -> None:
    followed, other = await line.fill(2)
    await follow(line, [followed])
    now = await line.now()
    async with line.db.system() as conn:
        await conn.execute("update everwhen.waiting set expires_at = %s", (now + HOUR,))
    await reaper(database, listener).tick(now + 2 * HOUR)
    assert [(each.run_id, each.state) for each in listener.heard] == [(followed, "expired")]
    assert await line.rows("select count(*) from everwhen.run_ends where run_id = %s", other) == [(1,)]


async def test_a_cancel_in_the_line_tells(line: Line, listener: Listener, database: Database) -> None:
    followed, other = await line.fill(2)
    await follow(line, [followed])
    for run_id in (followed, other, followed):
        await runs.cancel_run(
            database, tenant_id=line.tenant.id, ref=str(run_id), by="ann", reason=None, on_ended=follow_with(listener)
        )
    assert [(each.run_id, each.state) for each in listener.heard] == [(followed, "cancelled")]


async def test_a_follower_that_raises_keeps_the_run_from_ending(line: Line, listener: Listener) -> None:
    followed = await line.fill(1)
    await follow(line, followed)
    (lease,) = await line.claim()
    listener.defect = RuntimeError("no")
    with pytest.raises(RuntimeError):
        await line.complete(report_on(lease))
    assert await line.rows("select count(*) from everwhen.run_ends") == [(0,)]
    listener.defect = None
    assert await line.complete(report_on(lease)) == [(True, "succeeded", None)]
    assert len(listener.heard) == 1
