"""Clients of the control API: each sends one request after the other.

python -m benchmarks.control_client WHAT REQUESTS CLIENTS URL      (the token is in EVERWHEN_TOKEN)
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import httpx2
import uvloop

from benchmarks import child
from benchmarks.cluster import TASK

Send = Callable[[httpx2.AsyncClient, int], Awaitable[httpx2.Response]]
PATH = "/v1/tenants/bench"


async def request_run(client: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """Ask for a run, each under a key of its own."""
    body = {"task": TASK, "input": {"n": number}}
    return await client.post(f"{PATH}/runs", json=body, headers={"Idempotency-Key": f"bench-{number}"})


async def get_task(client: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """Read one task: one look-up by key, the cheapest there is."""
    return await client.get(f"{PATH}/tasks/{TASK}", headers={"Request-Id": f"bench{number}"})


async def list_runs(client: httpx2.AsyncClient, number: int) -> httpx2.Response:
    """Read a page of runs."""
    return await client.get(f"{PATH}/runs", headers={"Request-Id": f"bench{number}"})


SENDS: dict[str, Send] = {"request_run": request_run, "get_task": get_task, "list_runs": list_runs}


async def main() -> None:
    """Run the clients."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=SENDS)
    parser.add_argument("requests", type=int)
    parser.add_argument("clients", type=int)
    parser.add_argument("url")
    options = parser.parse_args()
    numbers, send, took = iter(range(options.requests)), SENDS[options.what], list[float]()
    headers = {"Authorization": f"Bearer {os.environ['EVERWHEN_TOKEN']}"}
    async with httpx2.AsyncClient(base_url=options.url, headers=headers, timeout=30) as client:

        async def work() -> None:
            for number in numbers:
                began = time.perf_counter()
                (await send(client, number)).raise_for_status()
                took.append(time.perf_counter() - began)

        for number in range(-20, 0):  # the first ones find a process that is still starting
            (await send(client, number)).raise_for_status()
        clock, started = child.meter(), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(options.clients)))
        found = child.rate(len(took), started)
        child.emit(**found, latency=child.latency(took), cpu_us=clock.micros_per(len(took)))


if __name__ == "__main__":
    uvloop.run(main())
