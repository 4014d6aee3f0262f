"""What the audit costs a change: the same request with it and without it, in turns, in one process.

python -m benchmarks.audit_cost [ROUNDS]

Without it nothing of a resource is held, looked at or told; everything else is the same, the idempotency key included.
Requests come in pairs, one of each, whose order is turned with each pair; a figure is the ratio of the medians (wall)
and of the sums (CPU of this process, the database's server apart), with the quartiles of the pairs' ratios as noise.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx2
import uvloop

from benchmarks.cluster import SECRET, TASK, running_cluster
from benchmarks.report import RESULTS
from everwhen.app import FEATURES
from everwhen.http.app import create_app
from everwhen.http.auditing import Recorder
from everwhen.http.auth import Authenticator
from everwhen.http.plane import ControlPlane
from everwhen.http.roles import Role
from everwhen.identity.directory import DatabaseDirectory
from everwhen.postgres.pool import Database
from everwhen.tenants.service import find_tenant

Send = Callable[[httpx2.AsyncClient, int], Awaitable[httpx2.Response]]
PATH = "/v1/tenants/bench"
TRIGGER = {"kind": "cron", "expr": "0 4 * * *"}


async def post_run(client: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """Ask for a run under a key."""
    headers = {"Idempotency-Key": f"cost-{number}"}
    return await client.post(f"{PATH}/runs", json={"task": TASK, "input": {"n": number}}, headers=headers)


async def post_schedule(client: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """Make a schedule."""
    body = {"name": f"cost-{number}", "task": TASK, "trigger": TRIGGER, "timezone": "UTC"}
    return await client.post(f"{PATH}/schedules", json=body)


async def patch_schedule(client: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """Change the priority of one that is there."""
    return await client.patch(f"{PATH}/schedules/changed", json={"priority": number % 10}, headers={"If-Match": "*"})


SENDS: dict[str, Send] = {"POST run": post_run, "POST schedule": post_schedule, "PATCH schedule": patch_schedule}


@contextmanager
def without_audit() -> Iterator[None]:
    """Have changes told nowhere."""

    async def begin(self: Recorder, tenant_id: Any, *_: Any, **__: Any) -> None:
        self.tenant_id = tenant_id

    async def tell(self: Recorder, answer: Any) -> None:
        pass

    with patch.object(Recorder, "begin", begin), patch.object(Recorder, "tell", tell):
        yield


async def compare(client: httpx2.AsyncClient, send: Send, rounds: int) -> dict[str, Any]:
    """Send pairs; return the ratios with and without."""
    wall, cpu, numbers = {True: list[float](), False: list[float]()}, {True: 0.0, False: 0.0}, iter(range(10**9))
    for turn in range(-20, rounds):
        for is_told in (turn % 2 == 0, turn % 2 != 0):
            began, used = time.perf_counter(), time.process_time()
            if is_told:
                answer = await send(client, next(numbers))
            else:
                with without_audit():
                    answer = await send(client, next(numbers))
            took, used = time.perf_counter() - began, time.process_time() - used
            answer.raise_for_status()
            if turn >= 0:
                wall[is_told].append(took)
                cpu[is_told] += used
    ratios = [told / plain for told, plain in zip(wall[True], wall[False], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    medians = {told: statistics.median(each) for told, each in wall.items()}
    return {
        "wall": round(medians[True] / medians[False], 3),
        "wall_quartiles_of_pairs": [round(low, 3), round(high, 3)],
        "cpu": round(cpu[True] / cpu[False], 3),
        "with_ms": round(1e3 * medians[True], 3),
        "without_ms": round(1e3 * medians[False], 3),
        "pairs": rounds,
    }


def make_client(database: Database, token: str) -> httpx2.AsyncClient:
    """Make a client of an API in this process."""
    plane = ControlPlane(
        database=database,
        authenticator=Authenticator(SECRET, directory=DatabaseDirectory(database=database)),
        find_tenant=find_tenant,
    )
    app = create_app(plane, routers=[feature.router for feature in FEATURES])
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://bench", headers=headers)


async def main() -> None:
    """Compare each kind of change."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=1_000)
    rounds = parser.parse_args().rounds
    with running_cluster() as cluster:
        cluster.reset()
        async with await Database.open(cluster.server.app_conninfo) as database:
            client = make_client(database, cluster.token(Role.ADMIN))
            async with client:
                await client.post(f"{PATH}/schedules", json={"name": "changed", "task": TASK, "trigger": TRIGGER})
                found = {name: await compare(client, send, rounds) for name, send in SENDS.items()}
    for name, each in found.items():
        print(name, each)
    document = {"load": round(os.getloadavg()[0], 1), **found}
    (RESULTS / "audit-cost.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    uvloop.run(main())
