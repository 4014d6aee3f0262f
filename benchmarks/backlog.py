"""Schedules and due runs to measure with, and what it takes to run a client in a process of its own."""

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

from benchmarks.child import ROOTS
from benchmarks.cluster import ROOT, TASK, TENANT, Cluster
from everwhen import clock
from everwhen.core.zones import tz_version

PAYLOAD_BYTES = 600
"""Of each run's input, so that a run's row has about 1 kB. The peers carry a few bytes."""

SCHEDULES = 1_000
CHILD_SECONDS = 180.0

SPEC = {
    "timezone": "UTC",
    "gap": None,
    "fold": None,
    "catch_up": {"policy": "replay", "grace_seconds": 3600, "window_seconds": None},
}


def define_schedules(cluster: Cluster, specs: list[dict[str, Any]]) -> None:
    """Insert schedules as the API would; the planner does not see them yet."""
    now = cluster.value("select now()")
    payload = json.dumps({"pad": "x" * PAYLOAD_BYTES})
    columns = "tenant_id, uid, name, state, revision, task, spec, input, created_at, updated_at"
    with (
        cluster.sql.cursor() as cursor,
        cursor.copy(f"copy everwhen.schedules ({columns}) from stdin") as copy,
    ):
        for n, spec in enumerate(specs):
            text = json.dumps(SPEC | spec)
            copy.write_row((TENANT, clock.new_id(now), f"bench-{n}", "active", 1, TASK, text, payload, now, now))


def let_plan(cluster: Cluster, *, decided_until: datetime, next_at: datetime) -> None:
    """Give every schedule its watermark, all in one transaction: from now on the planner sees them."""
    cluster.sql.execute(
        "insert into everwhen.watermarks (tenant_id, schedule_uid, decided_until, next_at, tz_version)"
        " select tenant_id, uid, %s, %s, %s from everwhen.schedules",
        (decided_until, next_at, tz_version()),
    )


def fill(cluster: Cluster, runs: int, *, connections: int = 2, batch: int = 500) -> dict[str, Any]:
    """Plan due runs with the product's own statement; return how fast that was."""
    trigger = {"trigger": {"kind": "every", "every": "PT1S"}}
    define_schedules(cluster, [trigger] * min(SCHEDULES, runs))
    cluster.sql.execute("analyze everwhen.schedules")
    return run_child(cluster, "raw_client", "plan", runs, connections, batch)


def run_child(
    cluster: Cluster,
    module: str,
    *arguments: object,
    python: str = sys.executable,
    environment: dict[str, str] | None = None,
    roots: dict[str, list[int]] | None = None,
) -> dict[str, Any]:
    """Run a client to its end; return its line of JSON."""
    given = {ROOTS: json.dumps({"database": [cluster.server.pid], **(roots or {})}), **(environment or {})}
    out = cluster.folder / f"{module}.json"
    command = [python, "-m", f"benchmarks.{module}", *map(str, arguments)]
    shell = ["sh", "-c", 'exec "$@" > "$0"', str(out), *command]
    process = cluster.start(shell, name=module, environment=given, cwd=ROOT)
    try:
        status = process.wait(CHILD_SECONDS)
    except subprocess.TimeoutExpired:
        cluster.stop(process)
        raise
    cluster.processes.remove(process)
    if status:
        raise RuntimeError(f"{module} {arguments} ended with {status}")
    return json.loads(out.read_text().splitlines()[-1])
