"""What a million waiting runs of one task whose limit is full cost: others at its line, who parks them, and releases.

    python -m benchmarks.full_task                  a million runs (some minutes)
    python -m benchmarks.full_task --waiting 50000

Everything is a claim or a report of one tenant, in one process, over one connection, so what is told is the time of one
call. `others` are runs of a task without a limit that became due after all of the million.
"""

import argparse
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import uvloop

from benchmarks.child import percentile
from benchmarks.cluster import QUEUE, TASK, Cluster, exit_on_sigterm, running_cluster
from benchmarks.fairness import BIG, define, sizes
from everwhen.dispatch.model import Lease
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.postgres.pool import Database
from everwhen.tasks import service as tasks
from everwhen.worker.protocol import Report

OTHER: Final = "other"
LIMIT: Final = 10
SAMPLES: Final = 200
PART: Final = 50_000
"""How many runs are lined up in one statement."""


def line_up(cluster: Cluster, task: str, count: int, *, due_at: datetime) -> None:
    """Line up runs of a task that are due at an instant, some at a time."""
    for begin in range(0, count, PART):
        cluster.sql.execute(
            "with made as (insert into everwhen.runs"
            " (tenant_id, run_id, source, task, queue, priority, due_at, planned_at, input)"
            " select %(tenant_id)s,"
            " (lpad(to_hex(floor(extract(epoch from %(due_at)s::timestamptz) * 1000)::bigint), 12, '0')"
            " || '8' || substr(md5(n::text), 1, 3) || '8' || substr(md5(%(task)s || n::text), 1, 15))::uuid,"
            " 'api', %(task)s, %(queue)s, 5, %(due_at)s, now(), '{}'"
            " from generate_series(%(begin)s, %(end)s - 1) n returning tenant_id, run_id, due_at)"
            " insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task)"
            " select tenant_id, %(queue)s, 5, due_at, run_id, %(task)s from made",
            {
                "tenant_id": BIG, "task": task, "queue": QUEUE, "due_at": due_at, "begin": begin,
                "end": min(count, begin + PART),
            },
        )  # fmt: skip


def prepare(cluster: Cluster) -> None:
    """Make the tenant, the task that is to be full, and another one at the same queue."""
    cluster.reset()
    define(cluster, BIG)
    cluster.sql.execute(
        "insert into everwhen.tasks (tenant_id, name, queue, priority, retry, timeout_seconds, created_at, updated_at)"
        " select tenant_id, %s, queue, priority, retry, timeout_seconds, now(), now() from everwhen.tasks"
        " where tenant_id = %s and name = %s on conflict do nothing",
        (OTHER, BIG, TASK),
    )


async def timed(work: Callable[[], Awaitable[Any]], times: int) -> list[float]:
    """Return how many milliseconds it took each time."""
    took: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        await work()
        took.append((time.perf_counter() - started) * 1000)
    return took


def told(took: Sequence[float]) -> list[float]:
    """Return the median, the 95th percentile and the worst."""
    ordered = sorted(took)
    return [round(percentile(ordered, 0.5), 2), round(percentile(ordered, 0.95), 2), round(ordered[-1], 2)]


class Bench:
    """The calls that are timed."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dispatch = Dispatch(database, jitter=lambda: 0.0)
        self.held: list[Lease] = []

    async def claim(self, limit: int = 10) -> list[Lease]:
        """Take some runs."""
        wish = Claim(tenant_id=BIG, queues=(QUEUE,), tasks=None, worker="fleet", limit=limit, lease_seconds=600.0)
        return (await self.dispatch.claim(wish)).leases

    async def end(self, leases: Sequence[Lease]) -> None:
        """Report that these are done."""
        reports = [
            Report(tenant_id=each.tenant_id, run_id=each.run_id, lease_token=str(each.lease_token), outcome="succeeded")
            for each in leases
        ]
        await self.dispatch.complete(BIG, "fleet", reports)

    async def take_other(self) -> None:
        """Take and end a run of the other task."""
        leases = await self.claim(1)
        assert [each.task for each in leases] == [OTHER], leases
        await self.end(leases)

    async def go_on(self) -> None:
        """End one run of the full task and take the next."""
        await self.end([self.held.pop()])
        taken = await self.claim(1)
        assert [each.task for each in taken] == [TASK], taken
        self.held += taken


async def measure(cluster: Cluster, *, waiting: int) -> dict[str, Any]:
    """Return the figures."""
    prepare(cluster)
    past = datetime.now(UTC) - timedelta(minutes=30)
    found: dict[str, Any] = {"ms": "median, 95th percentile, worst"}
    async with await Database.open(cluster.server.app_conninfo) as database:
        bench = Bench(database)
        await tasks.update_task(database, tenant_id=BIG, name=TASK, changes={"max_in_flight": LIMIT})
        line_up(cluster, TASK, LIMIT + 5, due_at=past)
        line_up(cluster, OTHER, 2 * SAMPLES, due_at=past + timedelta(seconds=2))
        bench.held = [each for each in await bench.claim(LIMIT) if each.task == TASK]
        found["another's claim and end beside a few parked, ms"] = told(await timed(bench.take_other, SAMPLES))
        line_up(cluster, TASK, waiting, due_at=past + timedelta(seconds=1))
        started, parking = time.perf_counter(), list[float]()
        while cluster.value("select exists (select from everwhen.waiting where priority = 5 and task = 'noop')"):
            before = time.perf_counter()
            await bench.claim(1)
            parking.append((time.perf_counter() - before) * 1000)
        found["claims that park, ms"] = told(parking)
        found["claims until all are parked"] = len(parking)
        found["seconds until all are parked"] = round(time.perf_counter() - started, 1)
        found["another's claim and end beside all that are parked, ms"] = told(
            await timed(bench.take_other, SAMPLES // 2)
        )
        found["an end of the full task and the next claim, ms"] = told(await timed(bench.go_on, SAMPLES))
        reaper = Reaper(database=database, jitter=lambda: 0.0)

        async def look() -> None:
            async with database.system() as conn:
                now = conn.now
            await reaper.tick(now)

        found["the reaper's look, ms"] = told(await timed(look, 20))
        found |= sizes(cluster)
    return found


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=1_000_000, help="runs of the full task that wait")
    options = parser.parse_args()
    exit_on_sigterm()
    with running_cluster() as cluster:
        print(json.dumps(uvloop.run(measure(cluster, waiting=options.waiting)), indent=1))


if __name__ == "__main__":
    main()
