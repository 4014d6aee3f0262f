"""pgqueuer: bulk enqueue, drain in one process, idle latency; or schedules that are due at one minute.

python -m benchmarks.peers.run_pgqueuer queue JOBS SAMPLES SETTING...      (settings: batch size)
python -m benchmarks.peers.run_pgqueuer schedules COUNT
"""

import asyncio
import importlib.metadata
import logging
import sys
import time
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

from benchmarks import child

logging.disable(logging.WARNING)
BULK = 1000
DRAIN_SECONDS = 20
MINUTE_SECONDS = 40


async def queue(jobs: int, samples: int, settings: list[int]) -> dict[str, Any]:
    """Fill and drain once for each setting, then measure an idle worker."""
    connection, results = await asyncpg.connect(), {}
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for setting in settings:
        with child.metered(results, "enqueue") as found:
            # Twice what is drained, so that the measurement does not see its last, smaller batches.
            for _ in range(2 * jobs // BULK):
                await queries.enqueue(["noop"] * BULK, [b"x"] * BULK, [0] * BULK)
            found["units"] = 2 * jobs // BULK * BULK
        await connection.execute("vacuum analyze")
        await _drain(jobs, setting, results)
        await connection.execute("truncate pgqueuer")
    lags = await _idle(queries, samples)
    await connection.close()
    return results | {"latency": child.latency(lags)}


async def _drain(jobs: int, setting: int, results: dict[str, Any]) -> None:
    pool = await asyncpg.create_pool(min_size=4, max_size=10)
    app, tally = PgQueuer(AsyncpgPoolDriver(pool)), child.Tally()

    @app.entrypoint("noop")
    async def noop(_job: object) -> None:
        tally.hit()

    with child.metered(results, f"drain batch {setting}") as found:
        worker = asyncio.create_task(app.run(batch_size=setting, dequeue_timeout=timedelta(seconds=30)))
        await tally.until(jobs, seconds=DRAIN_SECONDS, ended=worker.done)
        found.update(units=tally.count, per_s=tally.per_second())
    await _stop(worker, app)
    await pool.close()


async def _idle(queries: Queries, samples: int) -> list[float]:
    connection, lags = await asyncpg.connect(), []
    app = PgQueuer(AsyncpgDriver(connection))

    @app.entrypoint("lag")
    async def lag(job: Any) -> None:
        lags.append(time.perf_counter() - float(job.payload))

    worker = asyncio.create_task(app.run(batch_size=10))
    await asyncio.sleep(1)
    for n in range(samples):
        await queries.enqueue("lag", repr(time.perf_counter()).encode())
        await asyncio.sleep(0.03 + n % 20 / 1000)
    await asyncio.sleep(1)
    await _stop(worker, app)
    await connection.close()
    return lags


async def schedules(count: int) -> dict[str, Any]:
    """How fast do schedules that are due at one minute become handler calls?"""
    connection = await asyncpg.connect()
    await Queries(AsyncpgDriver(connection)).install()
    pool, tally = await asyncpg.create_pool(min_size=4, max_size=10), child.Tally()
    app = PgQueuer(AsyncpgPoolDriver(pool))

    async def handler(_schedule: object) -> None:
        tally.hit()

    for i in range(count):
        app.schedule(f"schedule{i}", "* * * * *")(handler)
    runner = asyncio.create_task(app.run())
    minute = (time.time() // 60 + 1) * 60
    minute += 60 if minute - time.time() < 5 else 0
    await asyncio.sleep(minute - time.time() - 0.2)
    tally.count = 0
    clock, began = child.meter(), minute - time.time() + time.perf_counter()
    await tally.until(count, seconds=MINUTE_SECONDS)
    found = {"units": tally.count, "cpu_us": clock.micros_per(tally.count)}
    await _stop(runner, app)
    await pool.close()
    await connection.close()
    last = tally.last - began
    return found | ({"per_s": round(tally.count / last, 1), "last_s": round(last, 2)} if tally.count else {})


async def _stop(worker: "asyncio.Task[None]", app: PgQueuer) -> None:
    app.shutdown.set()
    await asyncio.wait([worker], timeout=15)


def main() -> None:
    """Run what was asked for."""
    what, first, *others = sys.argv[1:]
    if what == "queue":
        results = uvloop.run(queue(int(first), int(others[0]), [int(n) for n in others[1:]]))
    else:
        results = uvloop.run(schedules(int(first)))
    child.emit(version=importlib.metadata.version("pgqueuer"), **results)


if __name__ == "__main__":
    main()
