"""The worker API without the SDK: claim a batch, complete it, until the line is empty.

python -m benchmarks.batch_client BATCH LOOPS URL...          (the token is in EVERWHEN_TOKEN)
"""

import argparse
import asyncio
import os
import time

import httpx2
import msgspec
import uvloop

from benchmarks import child
from benchmarks.cluster import QUEUE
from everwhen.worker.protocol import ClaimRequest, ClaimResponse, CompleteRequest, CompleteResponse, Report

ENCODER = msgspec.json.Encoder()


async def drain(client: httpx2.AsyncClient, url: str, batch: int) -> int:
    """Claim and complete until nothing is left; return how many."""
    claim = ClaimRequest(
        worker="batch", queues=[QUEUE], tasks=["noop"], limit=batch, wait_seconds=0.0, lease_seconds=30.0
    )
    total = 0
    while True:
        answer = await client.post(f"{url}/v1/worker/claim", content=ENCODER.encode(claim))
        runs = msgspec.json.decode(answer.raise_for_status().content, type=ClaimResponse).runs
        if not runs:
            return total
        reports = [
            Report(
                tenant_id=run.tenant_id,
                run_id=run.run_id,
                lease_token=run.lease_token,
                outcome="succeeded",
                started_at=run.claimed_at,
            )
            for run in runs
        ]
        body = ENCODER.encode(CompleteRequest(worker="batch", reports=reports))
        answer = await client.post(f"{url}/v1/worker/complete", content=body)
        results = msgspec.json.decode(answer.raise_for_status().content, type=CompleteResponse).results
        total += sum(result.accepted for result in results)


async def main() -> None:
    """Run the loops."""
    parser = argparse.ArgumentParser()
    parser.add_argument("batch", type=int)
    parser.add_argument("loops", type=int)
    parser.add_argument("urls", nargs="+")
    options = parser.parse_args()
    headers = {"Authorization": f"Bearer {os.environ['EVERWHEN_TOKEN']}", "Content-Type": "application/json"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as client:
        clock, started = child.meter(), time.perf_counter()
        urls = [options.urls[n % len(options.urls)] for n in range(options.loops)]
        totals = await asyncio.gather(*(drain(client, url, options.batch) for url in urls))
        found = child.rate(sum(totals), started)
        child.emit(**found, cpu_us=clock.micros_per(sum(totals)))


if __name__ == "__main__":
    uvloop.run(main())
