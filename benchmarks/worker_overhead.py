"""What the SDK costs for one run: no-op tasks against a transport in this process.

Encoding and decoding are in, the network is not. The share of the transport's own bookkeeping is some 4 us.

Usage: python benchmarks/worker_overhead.py [runs]
"""

import asyncio
import contextlib
import io
import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from everwhen.worker import Worker
from everwhen.worker.protocol import (
    ClaimRequest,
    ClaimResponse,
    CompleteRequest,
    CompleteResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaseResult,
    ReportResult,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TENANT = UUID(int=1)


class InProcess:
    """Grants what is asked for at once and accepts every report; encodes and decodes as a transport must."""

    def __init__(self, task: str, runs: int, done: asyncio.Event) -> None:
        self.task, self.left, self.open, self.done = task, runs, runs, done
        self.claims = self.completes = 0

    async def claim(self, request: ClaimRequest) -> ClaimResponse:
        await asyncio.sleep(0)
        msgspec.json.encode(request)
        count = min(request.limit, self.left)
        if not count:
            await asyncio.sleep(3600)
        self.claims += 1
        first, self.left = self.left, self.left - count
        until = NOW + timedelta(seconds=request.lease_seconds)
        runs = [
            {"tenant_id": TENANT, "run_id": UUID(int=first - n), "task": self.task, "queue": "default", "attempt": 1}
            | {"lease_token": "1", "lease_until": until, "due_at": NOW, "claimed_at": NOW, "input": {"region": "eu"}}
            for n in range(count)
        ]
        return msgspec.json.decode(msgspec.json.encode({"runs": runs, "server_time": NOW}), type=ClaimResponse)

    async def complete(self, request: CompleteRequest) -> CompleteResponse:
        await asyncio.sleep(0)
        msgspec.json.encode(request)
        self.completes += 1
        self.open -= len(request.reports)
        if not self.open:
            self.done.set()
        results = [ReportResult(run_id=report.run_id, accepted=True, state="succeeded") for report in request.reports]
        return msgspec.json.decode(msgspec.json.encode(CompleteResponse(results=results)), type=CompleteResponse)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(results=[LeaseResult(run_id=held.run_id, status="held") for held in request.leases])

    async def close(self) -> None:
        pass


async def measure(*, task: str, concurrency: int, runs: int) -> str:
    """Return one line: wall and CPU time for each run."""
    done = asyncio.Event()
    transport = InProcess(task, runs, done)
    worker = Worker(transport=lambda _: transport, url="http://none", token="none")

    @worker.task("sync")
    def sync(region: str) -> None:
        pass

    @worker.task("async")
    async def on_loop(region: str) -> None:
        pass

    @worker.task("timed", timeout=60)
    async def timed(region: str) -> None:
        pass

    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        serving = asyncio.create_task(worker.serve(concurrency=concurrency))
        await done.wait()
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
        worker.stop()
        await serving
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    batch = runs / transport.completes
    return (
        f"{task:<6} {concurrency:>11} {wall / runs * 1e6:>12.1f} {cpu / runs * 1e6:>12.1f} "
        f"{runs / transport.claims:>9.0f} {batch:>9.0f}"
    )


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    print(f"{'task':<6} {'concurrency':>11} {'wall us/run':>12} {'CPU us/run':>12} {'per claim':>9} {'per flush':>9}")
    for task in ("async", "timed", "sync"):
        for concurrency in (100, 500):
            print(asyncio.run(measure(task=task, concurrency=concurrency, runs=runs)))


if __name__ == "__main__":
    main()
