"""oban-py: bulk enqueue, drain in one process, idle latency; or schedules that are due at one minute. Python >= 3.12.

python -m benchmarks.peers.run_oban queue JOBS SAMPLES SETTING...      (settings: limit)
python -m benchmarks.peers.run_oban schedules COUNT
"""

import asyncio
import importlib.metadata
import logging
import sys
import time
from typing import Any

from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from benchmarks import child

logging.disable(logging.WARNING)
BULK = 1000
DRAIN_SECONDS = 20
MINUTE_SECONDS = 20
tally = child.Tally()


@worker(queue="q")
class Noop:
    """Counts itself."""

    async def process(self, _job: Any) -> None:
        """Run."""
        tally.hit()


@worker(queue="lag")
class Lag:
    """Says how late it is."""

    async def process(self, job: Any) -> None:
        """Run."""
        tally.lags.append(time.perf_counter() - job.args["t"])


async def queue(jobs: int, samples: int, settings: list[int]) -> dict[str, Any]:
    """Fill and drain once for each setting, then measure an idle worker."""
    results: dict[str, Any] = {}
    async with AsyncConnectionPool("", min_size=2, max_size=10, open=False) as pool:
        await install(pool)
        for setting in settings:
            await _enqueue(pool, jobs, results)
            await _settle(pool)
            await _drain(pool, jobs, setting, results)
        await _idle(pool, samples)
    return results | {"latency": child.latency(tally.lags)}


async def _enqueue(pool: AsyncConnectionPool, jobs: int, results: dict[str, Any]) -> None:
    oban = Oban(pool=pool, name="Oban")
    await oban.start()
    with child.metered(results, "enqueue") as found:
        for _ in range(jobs // BULK + 1):
            await oban.enqueue_many([Noop.new({"i": i}) for i in range(BULK)])
        found["units"] = (jobs // BULK + 1) * BULK
    await oban.stop()


async def _settle(pool: AsyncConnectionPool) -> None:
    async with pool.connection() as conn:
        await conn.set_autocommit(True)
        await conn.execute("vacuum analyze")
        await conn.set_autocommit(False)


async def _drain(pool: AsyncConnectionPool, jobs: int, setting: int, results: dict[str, Any]) -> None:
    tally.count = 0
    with child.metered(results, f"drain limit {setting}") as found:
        oban = Oban(pool=pool, name="Oban", queues={"q": setting})
        await oban.start()
        await tally.until(jobs, seconds=DRAIN_SECONDS)
        found.update(units=tally.count, per_s=tally.per_second())
    await oban.stop()


async def _idle(pool: AsyncConnectionPool, samples: int) -> None:
    oban = Oban(pool=pool, name="Oban", queues={"lag": 10})
    await oban.start()
    await asyncio.sleep(1)
    for n in range(samples):
        await oban.enqueue(Lag.new({"t": time.perf_counter()}))
        await asyncio.sleep(0.03 + n % 20 / 1000)
    await asyncio.sleep(1.5)
    await oban.stop()


async def schedules(count: int) -> dict[str, Any]:
    """How fast do schedules that are due at one minute become jobs? A leader inserts them all at once."""
    for i in range(count):
        worker(queue="never", cron="* * * * *")(type(f"Worker{i}", (), {"process": lambda _self, _job: None}))
    async with AsyncConnectionPool("", min_size=2, max_size=10, open=False) as pool:
        await install(pool)
        leader = Oban(pool=pool, name="Oban", queues={"other": 1})
        await leader.start()
        minute = (time.time() // 60 + 1) * 60
        minute += 60 if minute - time.time() < 8 else 0  # a leader must be elected before
        await asyncio.sleep(minute - time.time() - 0.2)
        async with pool.connection() as watcher:
            await watcher.set_autocommit(True)
            before = await _jobs(watcher)
            clock, made = child.meter(), 0
            while made < count and time.time() < minute + MINUTE_SECONDS:
                made = await _jobs(watcher) - before
                await asyncio.sleep(0.005)
            await watcher.set_autocommit(False)
        last = time.time() - minute
        found = {"units": made, "cpu_us": clock.micros_per(made)}
        await leader.stop()
    return found | ({"per_s": round(made / last, 1), "last_s": round(last, 2)} if made else {})


async def _jobs(conn: Any) -> int:
    return (await (await conn.execute("select count(*) from oban_jobs")).fetchone())[0]


def main() -> None:
    """Run what was asked for."""
    what, first, *others = sys.argv[1:]
    if what == "queue":
        results = asyncio.run(queue(int(first), int(others[0]), [int(n) for n in others[1:]]))
    else:
        results = asyncio.run(schedules(int(first)))
    child.emit(version=importlib.metadata.version("oban"), **results)


if __name__ == "__main__":
    main()
