"""procrastinate: bulk enqueue, drain in one process, idle latency; or periodic tasks that are due at one instant.

python -m benchmarks.peers.run_procrastinate queue JOBS SAMPLES SETTING...      (settings: concurrency)
python -m benchmarks.peers.run_procrastinate schedules COUNT
"""

import asyncio
import importlib.metadata
import logging
import sys
import time
from typing import Any

import procrastinate

from benchmarks import child

logging.disable(logging.WARNING)
BULK = 1000
DRAIN_SECONDS = 20
MINUTE_SECONDS = 30
WORKER: dict[str, Any] = {"install_signal_handlers": False, "delete_jobs": "never"}


async def queue(jobs: int, samples: int, settings: list[int]) -> dict[str, Any]:
    """Fill and drain once for each setting, then measure an idle worker."""
    app, results, tally = _app(), {}, child.Tally()

    @app.task(name="noop", queue="q")
    async def noop(i: int) -> None:  # noqa: ARG001  # what the job carries
        tally.hit()

    @app.task(name="lag", queue="lag")
    async def lag(t: float) -> None:
        tally.lags.append(time.perf_counter() - t)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for setting in settings:
            with child.metered(results, "enqueue") as found:
                for _ in range(jobs // BULK + 1):
                    await noop.batch_defer_async(*({"i": i} for i in range(BULK)))
                found["units"] = (jobs // BULK + 1) * BULK
            await _settle(app)
            results |= await _drain(app, tally, jobs, setting)
        await _idle(app, lag, samples)
    return results | {"latency": child.latency(tally.lags)}


async def _drain(app: procrastinate.App, tally: child.Tally, jobs: int, setting: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    tally.count = 0
    with child.metered(results, f"drain concurrency {setting}") as found:
        working = app.run_worker_async(queues=["q"], concurrency=setting, wait=False, listen_notify=False, **WORKER)
        worker = asyncio.create_task(working)
        await tally.until(jobs, seconds=DRAIN_SECONDS, ended=worker.done)
        found.update(units=tally.count, per_s=tally.per_second())
    await _stop(worker)
    return results


async def _idle(app: procrastinate.App, lag: Any, samples: int) -> None:
    worker = asyncio.create_task(app.run_worker_async(queues=["lag"], concurrency=10, wait=True, **WORKER))
    await asyncio.sleep(1)
    for n in range(samples):
        await lag.defer_async(t=time.perf_counter())
        await asyncio.sleep(0.03 + n % 20 / 1000)
    await asyncio.sleep(1)
    await _stop(worker)


async def schedules(count: int) -> dict[str, Any]:
    """At the minute all periodic tasks are due; its event log says how late the last of them was deferred."""
    app = _app()

    async def nothing(timestamp: int) -> None: ...

    for i in range(count):
        app.periodic(cron="* * * * *")(app.task(name=f"periodic{i}", queue="never")(nothing))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(queues=["none"], concurrency=1, wait=True, **WORKER))
        minute = (time.time() // 60 + 1) * 60
        minute += 60 if minute - time.time() < 5 else 0
        await asyncio.sleep(minute - time.time() - 0.2)
        clock = child.meter()
        row, end = await _deferred(app, minute), time.time() + MINUTE_SECONDS
        while row["made"] < count and time.time() < end:
            await asyncio.sleep(0.5)  # what measures shall not be what is measured
            row = await _deferred(app, minute)
        cpu = clock.micros_per(row["made"])
        await _stop(worker)
    if not row["made"]:
        return {}
    last = row["last"]
    return {"per_s": round(row["made"] / last, 1), "last_s": round(last, 2), "units": row["made"], "cpu_us": cpu}


async def _deferred(app: procrastinate.App, minute: float) -> dict[str, Any]:
    """Count what has become a job at this minute, and say how late the last was."""
    return await app.connector.execute_query_one_async(
        """
        select count(*) as made, coalesce(extract(epoch from max(e.at))::float8 - %(minute)s, 0) as last
        from procrastinate_periodic_defers p
        join procrastinate_events e on e.job_id = p.job_id and e.type = 'deferred'
        where p.defer_timestamp = %(minute)s""",
        minute=int(minute),
    )


def _app() -> procrastinate.App:
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo="", min_size=1, max_size=12))


async def _settle(app: procrastinate.App) -> None:
    await app.connector.execute_query_async("analyze")


async def _stop(worker: "asyncio.Task[None]") -> None:
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


def main() -> None:
    """Run what was asked for."""
    what, first, *others = sys.argv[1:]
    if what == "queue":
        results = asyncio.run(queue(int(first), int(others[0]), [int(n) for n in others[1:]]))
    else:
        results = asyncio.run(schedules(int(first)))
    child.emit(version=importlib.metadata.version("procrastinate"), **results)


if __name__ == "__main__":
    main()
