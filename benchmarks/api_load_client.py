"""A client of the control API that sends when it is time, whatever has been answered: reads and a few writes.

python -m benchmarks.api_load_client TARGETS SECONDS READS WRITES URL

TARGETS is a JSON file that names runs and schedules; READS and WRITES are requests a second; EVERWHEN_TOKEN has the
token. A latency counts from the instant at which the request should have been sent, so a server that stands still is
not spared the requests that would have come meanwhile.
"""

import argparse
import asyncio
import json
import os
import random
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import httpx2
import uvloop

from benchmarks import child
from benchmarks.cluster import TASK

PATH = "/v1/tenants/bench"
READS = {
    "list runs": (25, "/runs"),
    "list dead runs": (5, "/runs?filter=state:dead"),
    "list a schedule's runs": (10, "/runs?filter=schedule:{schedule}"),
    "a run": (15, "/runs/{run}"),
    "a run's events": (10, "/runs/{run}/events"),
    "why": (10, "/runs/{run}/explain"),
    "list schedules": (10, "/schedules"),
    "a schedule": (15, "/schedules/{schedule}"),
}
"""What is read: how often of a hundred, and where."""


async def main() -> None:
    """Send, and print what it came to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("reads", type=float)
    parser.add_argument("writes", type=float)
    parser.add_argument("url")
    options = parser.parse_args()
    headers = {"Authorization": f"Bearer {os.environ['EVERWHEN_TOKEN']}"}
    limits = httpx2.Limits(max_connections=50, max_keepalive_connections=50)
    async with httpx2.AsyncClient(base_url=options.url, headers=headers, timeout=30, limits=limits) as client:
        load = Load(client, json.loads(options.targets.read_text()))
        await load.send_at(3, reads=options.reads, writes=options.writes)  # plans, caches, connections
        load.took.clear()
        clock = child.meter()
        sent = await load.send_at(options.seconds, reads=options.reads, writes=options.writes)
        every = [seconds for found in load.took.values() for seconds in found]
        child.emit(
            sent=sent,
            failed=load.failed,
            all=summary(every),
            kinds={kind: summary(found) for kind, found in sorted(load.took.items())},
            cpu_us=clock.micros_per(sent),
        )


class Load:
    """Sends requests of the mixture, and remembers how long each took."""

    def __init__(self, client: httpx2.AsyncClient, targets: dict[str, list[str]]) -> None:
        self.took: defaultdict[str, list[float]] = defaultdict(list)
        self.failed: Counter[str] = Counter()
        self._client = client
        self._targets = targets
        self._chance = random.Random(7)
        self._number = 0

    async def send_at(self, seconds: float, *, reads: float, writes: float) -> int:
        """Send at these rates for so long; return how many were sent."""
        began = time.perf_counter()
        plan = sorted(
            [(n / reads, True) for n in range(int(seconds * reads))]
            + [(n / writes, False) for n in range(int(seconds * writes))]
        )
        async with asyncio.TaskGroup() as sending:
            for offset, is_read in plan:
                due = began + offset
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                sending.create_task(self._read(due) if is_read else self._write(due))
        return len(plan)

    async def _read(self, due: float) -> None:
        kinds = list(READS)
        (kind,) = self._chance.choices(kinds, weights=[READS[name][0] for name in kinds])
        names = {name: self._chance.choice(found) for name, found in self._targets.items()}
        await self._timed(kind, due, self._client.get(PATH + READS[kind][1].format(**names)))

    async def _write(self, due: float) -> None:
        self._number += 1
        if self._number % 2:
            key = {"Idempotency-Key": f"load-{time.time_ns()}"}
            body = {"task": TASK, "input": {"n": self._number}}
            await self._timed("request a run", due, self._client.post(f"{PATH}/runs", json=body, headers=key))
        else:
            name = self._chance.choice(self._targets["schedule"])
            change = {"pause_after_failures": self._number % 50 + 1}
            sent = self._client.patch(f"{PATH}/schedules/{name}", json=change, headers={"If-Match": "*"})
            await self._timed("change a schedule", due, sent)

    async def _timed(self, kind: str, due: float, sent: Any) -> None:
        answer = await sent
        self.took[kind].append(time.perf_counter() - due)
        if answer.status_code >= 400:
            self.failed[f"{kind}: {answer.status_code} {answer.json()['code']}"] += 1


def summary(seconds: list[float]) -> dict[str, float]:
    """Return milliseconds: mean, p50, p95, p99, max."""
    found = {"mean_ms": sum(seconds) / len(seconds)}
    found |= {f"p{part}_ms": child.percentile(seconds, part / 100) for part in (50, 95, 99)}
    return {name: round(value * 1e3, 2) for name, value in (found | {"max_ms": max(seconds)}).items()} | {
        "samples": len(seconds)
    }


if __name__ == "__main__":
    uvloop.run(main())
