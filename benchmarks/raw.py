"""The raw-SQL limit of the same writes: see raw_client.py for what is sent."""

from typing import Any

from benchmarks import backlog, cycle
from benchmarks.cluster import Cluster
from benchmarks.cpu import Meter


def measure_cycle(cluster: Cluster, *, connections: int, batch: int, runs: int) -> dict[str, Any]:
    """Claim and complete a backlog; the rate is checked against the history."""
    cycle.prepare(cluster, runs)
    meter = Meter(roots={})
    found = backlog.run_child(cluster, "raw_client", "cycle", runs, connections, batch)
    counted = cycle.history(cluster)["units"]
    if counted != found["units"]:
        raise RuntimeError(f"{found['units']} cycles, but the history has {counted}")
    return found | {"other_cores": meter.other_cores()}


def measure_plan(cluster: Cluster, *, connections: int, batch: int, runs: int) -> dict[str, Any]:
    """Insert planned runs."""
    cluster.reset()
    meter = Meter(roots={})
    found = backlog.fill(cluster, runs, connections=connections, batch=batch)
    return found | {"other_cores": meter.other_cores()}
