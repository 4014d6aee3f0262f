"""The raw-SQL limit: the product's own statements over plain psycopg connections, no HTTP, no SDK, no decisions.

    python -m benchmarks.raw_client plan  RUNS CONNECTIONS BATCH     insert_planned
    python -m benchmarks.raw_client cycle RUNS CONNECTIONS BATCH     claim_runs, then close_attempts

Each batch is one transaction with the tenant set in it, under the row-level security that the product is under.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import uvloop
from psycopg.types.array import ListBinaryDumper

from benchmarks import child
from benchmarks.cluster import QUEUE, TENANT
from everwhen.core.ids import scheduled_run_id
from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS
from everwhen.postgres.pool import PoolLimits, Role, session_conninfo
from everwhen.postgres.sql import load

DISPATCH, RUNS = load("everwhen.dispatch"), load("everwhen.runs")
BEGIN = f"begin; select set_config('everwhen.tenant', '{TENANT}', true), now()"
Conn = psycopg.AsyncConnection[Any]


async def connect(role: Role) -> Conn:
    """Connect as the product's pools do."""
    given = session_conninfo(os.environ["EVERWHEN_DATABASE_URL"], role=role, limits=PoolLimits())
    conn = await psycopg.AsyncConnection.connect(given, autocommit=True)
    conn.adapters.register_dumper(list, ListBinaryDumper)
    return conn


async def begin(conn: Conn) -> datetime:
    """Begin a transaction; return the database's time."""
    cursor = await conn.execute(BEGIN)
    cursor.nextset()
    row = await cursor.fetchone()
    assert row is not None
    return row[1]


async def cycle(conn: Conn, batch: int) -> int:
    """Claim and complete until nothing is left; return how many."""
    total = 0
    while True:
        claimed = await _claim(conn, batch)
        if not claimed:
            return total
        await _close(conn, claimed)
        total += len(claimed)


async def _claim(conn: Conn, batch: int) -> list[tuple[Any, ...]]:
    now = await begin(conn)
    parameters = {
        "tenant_ids": [TENANT],
        "queues": [QUEUE],
        "quotas": [batch],
        "tasks": ["noop"],
        "capped": [],
        "open_tenants": [TENANT],
        "open_queues": [QUEUE],
        "free_tenants": [TENANT],
        "limit": batch,
        "worker": "raw",
        "lease_seconds": 30.0,
        "deadline_grace_seconds": DEADLINE_GRACE_SECONDS,
        "now": now,
    }
    cursor = await conn.execute(DISPATCH["claim_runs"], parameters)
    rows = await cursor.fetchall()
    await conn.execute("commit")
    places = {column.name: index for index, column in enumerate(cursor.description or ())}
    wanted = [places[name] for name in ("tenant_id", "run_id", "lease_token")]
    return [tuple(row[place] for place in wanted) for row in rows]


async def _close(conn: Conn, claimed: list[tuple[Any, ...]]) -> None:
    now, size = await begin(conn), len(claimed)
    claimed.sort(key=lambda row: row[1].int)
    parameters = {
        "tenant_ids": [TENANT],
        "run_ids": [row[1] for row in claimed],
        "tokens": [row[2] for row in claimed],
        "verdicts": [1] * size,
        "states": ["succeeded"],
        "kinds": ["succeeded"],
        "reasons": [None],
        "outcomes": ["succeeded"],
        "available_ats": None,
        "failures": None,
        "errors": None,
        "results": None,
        "started_ats": [now] * size,
        "expires_ats": None,
        "fingerprints": None,
        "details": None,
        "now": now,
    }
    await conn.execute(DISPATCH["close_attempts"], parameters)
    await conn.execute("commit")


async def plan(conn: Conn, batches: Iterator[dict[str, list[Any]]]) -> int:
    """Insert planned runs, batch by batch; return how many."""
    total = 0
    for batch in batches:
        now = await begin(conn)
        await conn.execute(RUNS["insert_planned"], batch | {"tz_version": "2026f", "now": now})
        await conn.execute("commit")
        total += len(batch["run_ids"])
    return total


def intentions(uids: list[Any], runs: int, batch: int) -> list[dict[str, list[Any]]]:
    """Make the parameters of `insert_planned` for runs due by now, a second apart for each schedule."""
    base = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    made = [(uids[n % len(uids)], base - timedelta(seconds=n // len(uids))) for n in range(runs)]
    found = []
    for start in range(0, runs, batch):
        part = made[start : start + batch]
        found.append(
            {
                "tenant_ids": [TENANT] * len(part),
                "schedule_uids": [uid for uid, _ in part],
                "run_ids": [scheduled_run_id(TENANT, uid, nominal_at=at, due_at=at) for uid, at in part],
                "nominal_ats": [at for _, at in part],
                "due_ats": [at for _, at in part],
                "utc_offsets": [0] * len(part),
            }
        )
    return found


async def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["plan", "cycle"])
    parser.add_argument("runs", type=int)
    parser.add_argument("connections", type=int)
    parser.add_argument("batch", type=int)
    options = parser.parse_args()
    role: Role = "everwhen_system" if options.what == "plan" else "everwhen_tenant"
    connections = [await connect(role) for _ in range(options.connections)]
    if options.what == "plan":
        cursor = await connections[0].execute("select uid from everwhen.schedules order by uid")
        uids = [row[0] for row in await cursor.fetchall()]
        batches = iter(intentions(uids, options.runs, options.batch))
        loops = [plan(conn, batches) for conn in connections]
    else:
        loops = [cycle(conn, options.batch) for conn in connections]
    results: dict[str, Any] = {}
    with child.metered(results, "result") as found:
        started = time.perf_counter()
        found.update(child.rate(sum(await asyncio.gather(*loops)), started))
    child.emit(**results["result"])
    for conn in connections:
        await conn.close()


if __name__ == "__main__":
    uvloop.run(main())
