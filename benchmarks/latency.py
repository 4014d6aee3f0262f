"""From asking for a run to its start, on an idle system: what the peers call the latency of an enqueue."""

import time
from typing import Any

import httpx2

from benchmarks.child import latency
from benchmarks.cluster import TASK, Cluster
from benchmarks.cpu import Meter


def measure(cluster: Cluster, *, samples: int) -> dict[str, Any]:
    """Ask for runs one by one over HTTP; the worker is idle each time."""
    cluster.reset()
    api, url = cluster.serve_api()
    worker = cluster.work(url, concurrency=10)
    meter = Meter(roots={})
    headers = {"Authorization": f"Bearer {cluster.operator_token()}"}
    asked: dict[str, float] = {}
    with httpx2.Client(headers=headers) as client:
        for n in range(samples + 10):
            before = time.time()
            run = {"task": TASK, "input": {"n": n}}
            given = client.post(f"{url}/v1/tenants/bench/runs", json=run, headers={"Idempotency-Key": f"bench-{n}"})
            given.raise_for_status()
            if n >= 10:  # the first ones find processes that are still starting
                asked[given.json()["id"]] = before
            time.sleep(0.03 + n % 20 / 1000)
    time.sleep(1.5)
    begun = cluster.fetch("select run_id::text, extract(epoch from started_at)::float8 from everwhen.attempts")
    lags = [started - asked[run_id] for run_id, started in begun if run_id in asked]
    cluster.sql.execute("truncate everwhen.replies")
    cluster.stop(worker, api)
    return {"latency": latency(lags), "other_cores": meter.other_cores()}
