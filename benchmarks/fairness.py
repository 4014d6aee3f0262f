"""Fairness and backlogs: what a big neighbour costs a small one, how a full queue is shared, what a million rows cost.

    python -m benchmarks.fairness                       everything, at its full size (about 15 minutes)
    python -m benchmarks.fairness --only shares,noisy --waiting 100000

Everything is compared within one run, on one server. The fleet is the platform's: an API process, and loops that claim
over HTTP from a queue that tenants share, hold what they got for a while, and report. Lag is `claimed_at − due_at` of
every run of the small tenant, from the history; a run that was never claimed fails the measurement.

    shares   three tenants with weights 1, 2 and 4 and endless work; what each got
    noisy    a tenant with ten runs a second: alone, beside a million waiting runs of another, again so, alone
    storm    so many runs due at one instant, beside the small tenant: until the last one is claimed
    claims   the time of a claim: of an empty line, of a million waiting, and of those after a day's churn; with sizes
"""

import argparse
import asyncio
import json
import os
import statistics
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2
import msgspec
import uvloop

from benchmarks import backlog
from benchmarks.batch_client import ENCODER
from benchmarks.child import percentile
from benchmarks.cluster import QUEUE, SECRET, TASK, TENANT, Cluster, exit_on_sigterm, running_cluster
from benchmarks.cpu import Meter
from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.taking import Claim
from everwhen.http.auth import mint_token
from everwhen.http.roles import Role
from everwhen.postgres.pool import Database
from everwhen.postgres.sql import load
from everwhen.worker.protocol import ClaimRequest, ClaimResponse, CompleteRequest, Report

PARTS: Final = ("shares", "noisy", "storm", "claims")
SMALL, BIG = uuid.UUID(int=100), uuid.UUID(int=101)
SHARING = {uuid.UUID(int=200 + weight): weight for weight in (1, 2, 4)}
LOOPS, LIMIT, HOLD_SECONDS = 4, 10, 0.05
A_SECOND: Final = 10
"""Runs of the small tenant."""

STORM_LOOPS, STORM_LIMIT = 3, 500
WARM_SECONDS: Final = 2.0
SAMPLES: Final = 200


def define(cluster: Cluster, tenant_id: uuid.UUID, *, weight: int = 1) -> None:
    """Make a tenant with the task, and its lane."""
    sql = cluster.sql
    sql.execute(
        "insert into everwhen.tenants (id, name, created_at) values (%s, %s, now()) on conflict do nothing",
        (tenant_id, f"t-{tenant_id.int}"),
    )
    sql.execute(
        "insert into everwhen.lanes (tenant_id, queue, weight) values (%s, %s, %s) on conflict do nothing",
        (tenant_id, QUEUE, weight),
    )
    sql.execute(
        "insert into everwhen.tasks (tenant_id, name, queue, priority, retry, timeout_seconds, created_at, updated_at)"
        " select %s, name, queue, priority, retry, timeout_seconds, now(), now() from everwhen.tasks"
        " where name = %s limit 1 on conflict do nothing",
        (tenant_id, TASK),
    )


def line_up(cluster: Cluster, tenant_id: uuid.UUID, count: int, *, first: datetime, step: timedelta) -> None:
    """Line up runs, due one after the other from an instant on; a step of nothing makes them due at once."""
    ids = (
        "(lpad(to_hex(floor(extract(epoch from due_at) * 1000)::bigint), 12, '0') || '8' || substr(md5(n::text), 1, 3)"
        " || '8' || substr(md5(%(tenant)s || n::text), 1, 15))::uuid"
    )
    cluster.sql.execute(
        "with made as (insert into everwhen.runs (tenant_id, run_id, source, task, queue, priority, due_at, planned_at,"
        f" input) select %(tenant_id)s, {ids}, 'api', %(task)s, %(queue)s, 5, due_at, now(), '{{}}'"
        " from (select n, %(first)s::timestamptz + n * %(step)s::interval as due_at"
        "       from generate_series(0, %(count)s - 1) n) due returning tenant_id, run_id, due_at)"
        " insert into everwhen.waiting (tenant_id, queue, priority, available_at, run_id, task)"
        " select tenant_id, %(queue)s, 5, due_at, run_id, %(task)s from made",
        {
            "tenant_id": tenant_id, "tenant": str(tenant_id), "task": TASK, "queue": QUEUE, "count": count,
            "first": first, "step": step,
        },
    )  # fmt: skip


def start_anew(cluster: Cluster) -> None:
    """Forget every run, and how far each lane has come."""
    cluster.reset()
    cluster.sql.execute("update everwhen.lanes set virtual_time = 0")


@asynccontextmanager
async def fleet(cluster: Cluster, *, loops: int, limit: int, hold_seconds: float) -> AsyncGenerator[None]:
    """Let so many loops claim, hold and report, until the block ends."""
    _, url = cluster.serve_api()
    token = mint_token(
        SECRET, subject="fleet", roles=[Role.PLATFORM], tenant_id=None, queues=[QUEUE], now=datetime.now(UTC),
        lifetime=timedelta(hours=1),
    )  # fmt: skip
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with httpx2.AsyncClient(headers=headers, timeout=30, base_url=url) as client:
        working = [asyncio.create_task(_work(client, limit=limit, hold_seconds=hold_seconds)) for _ in range(loops)]
        try:
            yield
        finally:
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)
    cluster.stop()


async def _work(client: httpx2.AsyncClient, *, limit: int, hold_seconds: float) -> None:
    wanted = ClaimRequest(
        worker="fleet", queues=[QUEUE], tasks=[TASK], limit=limit, wait_seconds=2.0, lease_seconds=60.0
    )
    while True:
        answer = await client.post("/v1/worker/claim", content=ENCODER.encode(wanted))
        runs = msgspec.json.decode(answer.raise_for_status().content, type=ClaimResponse).runs
        if not runs:
            continue
        await asyncio.sleep(hold_seconds)
        reports = [
            Report(
                tenant_id=run.tenant_id, run_id=run.run_id, lease_token=run.lease_token, outcome="succeeded",
                started_at=run.claimed_at,
            )
            for run in runs
        ]  # fmt: skip
        body = ENCODER.encode(CompleteRequest(worker="fleet", reports=reports))
        (await client.post("/v1/worker/complete", content=body)).raise_for_status()


async def until(condition: Callable[[], bool], *, seconds: float) -> None:
    """Poll, in a thread, so that the loops go on."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s")
        await asyncio.sleep(0.1)


def claimed(cluster: Cluster, tenant_id: uuid.UUID) -> int:
    """Count the attempts of a tenant, open and closed."""
    return cluster.value(
        "select (select count(*) from everwhen.attempts where tenant_id = %s)"
        " + (select count(*) from everwhen.leases where tenant_id = %s)",
        tenant_id,
        tenant_id,
    )


def lags(cluster: Cluster, tenant_id: uuid.UUID) -> dict[str, float]:
    """Return how late a tenant's runs were claimed, in milliseconds."""
    found = cluster.fetch(
        "select extract(epoch from a.claimed_at - r.due_at)::float8 * 1000 from everwhen.attempts a"
        " join everwhen.runs r using (tenant_id, run_id) where a.tenant_id = %s order by 1",
        tenant_id,
    )
    values = [row[0] for row in found]
    return {"runs": len(values), "p50_ms": percentile(values, 0.5), "p99_ms": percentile(values, 0.99)}


async def shares(cluster: Cluster, *, runs: int) -> dict[str, Any]:
    """Return what each of the three got of a queue that is never empty, until so many were claimed."""
    start_anew(cluster)
    past = datetime.now(UTC) - timedelta(minutes=10)
    for tenant_id, weight in SHARING.items():
        define(cluster, tenant_id, weight=weight)
        line_up(cluster, tenant_id, runs, first=past, step=timedelta(0))

    def counts() -> list[int]:
        return [claimed(cluster, tenant_id) for tenant_id in SHARING]

    async with fleet(cluster, loops=LOOPS, limit=LIMIT, hold_seconds=HOLD_SECONDS):
        await until(lambda: sum(counts()) >= runs, seconds=300)
    got = counts()
    return {
        "claimed": got,
        "per_weight": [round(n / w / (sum(got) / 7), 3) for n, w in zip(got, (1, 2, 4), strict=True)],
    }


async def small_tenant(cluster: Cluster, *, seconds: float, waiting: int) -> dict[str, Any]:
    """Return how late the small tenant's runs are beside so many waiting runs of another."""
    start_anew(cluster)
    define(cluster, SMALL)
    define(cluster, BIG)
    if waiting:
        line_up(cluster, BIG, waiting, first=datetime.now(UTC) - timedelta(minutes=10), step=timedelta(0))
    cluster.sql.execute("checkpoint")
    count, step = int(seconds * A_SECOND), timedelta(seconds=1 / A_SECOND)
    async with fleet(cluster, loops=LOOPS, limit=LIMIT, hold_seconds=HOLD_SECONDS):
        await asyncio.sleep(WARM_SECONDS)
        first = datetime.now(UTC) + timedelta(seconds=2)
        await asyncio.to_thread(line_up, cluster, SMALL, count, first=first, step=step)
        await until(lambda: claimed(cluster, SMALL) >= count, seconds=seconds + 60)
        await asyncio.sleep(1)
    return lags(cluster, SMALL) | {"others_claimed": claimed(cluster, BIG)}


async def noisy(cluster: Cluster, *, seconds: float, waiting: int) -> dict[str, Any]:
    """Return the small tenant's lag alone and beside another, each twice, and by how much it moved."""
    found = [await small_tenant(cluster, seconds=seconds, waiting=n) for n in (0, waiting, waiting, 0)]
    alone = statistics.mean(found[n]["p99_ms"] for n in (0, 3))
    beside = statistics.mean(found[n]["p99_ms"] for n in (1, 2))
    return {"alone": found[0::3], "beside": found[1:3], "p99_moved": round(beside / alone - 1, 3)}


async def storm(cluster: Cluster, *, runs: int, schedulers: int) -> dict[str, Any]:
    """Return how long it takes to claim so many runs that are due at one instant, and how late the small tenant is.

    The schedulers find the schedules when the fleet is at work; they plan them ahead of the instant.
    """
    start_anew(cluster)
    define(cluster, SMALL)
    now = datetime.now(UTC)
    due = (now + timedelta(seconds=80 + runs / 4_000)).replace(second=0, microsecond=0)
    trigger = {"kind": "cron", "expr": f"{due.minute} {due.hour} {due.day} {due.month} *"}
    await asyncio.to_thread(backlog.define_schedules, cluster, [{"trigger": trigger}] * runs)
    cluster.sql.execute("vacuum analyze everwhen.schedules")
    count, step = 30 * A_SECOND, timedelta(seconds=1 / A_SECOND)
    async with fleet(cluster, loops=STORM_LOOPS, limit=STORM_LIMIT, hold_seconds=0.0):
        roots = {"api": [each.pid for each in cluster.processes], "database": [cluster.server.pid]}
        roots["scheduler"] = [cluster.serve("scheduler").pid for _ in range(schedulers)]
        await asyncio.sleep(WARM_SECONDS)
        meter = Meter(roots=roots | {"client": [os.getpid()]})
        await asyncio.to_thread(backlog.let_plan, cluster, decided_until=due - timedelta(seconds=1), next_at=due)
        await asyncio.to_thread(line_up, cluster, SMALL, count, first=due - timedelta(seconds=2), step=step)
        await until(lambda: claimed(cluster, TENANT) >= runs, seconds=400)
        cpu = meter.micros_per(runs)
        await until(lambda: claimed(cluster, SMALL) >= count, seconds=60)
        await asyncio.sleep(1)
    cpu["client"] = round(cpu["client"] - sum(cpu[name] for name in ("api", "scheduler", "database")), 1)
    last, planned = (
        cluster.value(f"select max({column}) from everwhen.{table} where tenant_id = %s", TENANT)
        for column, table in (("claimed_at", "attempts"), ("planned_at", "runs"))
    )
    return {
        "runs": runs,
        "claimed_in_s": round((last - due).total_seconds(), 2),
        "planned_s_before": round((due - planned).total_seconds(), 2),
        "small": lags(cluster, SMALL),
        "cpu_us": cpu,
    }


async def claims(cluster: Cluster, *, waiting: int, churn: int) -> dict[str, Any]:
    """Return the time of a claim of one and of a hundred, as lines grow and churn, and the sizes of the hot tables."""
    start_anew(cluster)
    define(cluster, BIG)
    found: dict[str, Any] = {}
    async with await Database.open(cluster.server.app_conninfo) as database:
        dispatch = Dispatch(database, jitter=lambda: 0.0)
        past = datetime.now(UTC) - timedelta(minutes=30)
        line_up(cluster, BIG, 30_000, first=past, step=timedelta(0))
        found["little waiting"] = await _timed(cluster, dispatch) | sizes(cluster)
        line_up(cluster, BIG, waiting, first=past + timedelta(seconds=1), step=timedelta(0))
        found[f"{waiting:,} waiting"] = await _timed(cluster, dispatch) | sizes(cluster)
        started, done = time.monotonic(), 0
        while done < churn:
            part = min(50_000, churn - done)
            line_up(cluster, BIG, part, first=past + timedelta(seconds=2 + done / 50_000), step=timedelta(0))
            for _ in range(part // 500):
                await _cycle(dispatch, limit=500)
            done += part
        spent = time.monotonic() - started
        found[f"after {churn:,} cycles"] = (
            await _timed(cluster, dispatch) | sizes(cluster) | {"per_s": round(churn / spent)}
        )
    return found


async def _timed(cluster: Cluster, dispatch: Dispatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for limit in (1, 100):
        found[f"claim of {limit}, pages"] = pages(cluster, limit)
    for limit in (1, 100):
        took: list[float] = []
        for _ in range(SAMPLES):
            started = time.perf_counter()
            leases = (await dispatch.claim(_claim(limit))).leases
            took.append((time.perf_counter() - started) * 1000)
            await dispatch.complete(BIG, "fleet", [_report(lease) for lease in leases])
        found[f"claim of {limit}, ms"] = [round(percentile(sorted(took), share), 2) for share in (0.5, 0.95)]
    return found


def pages(cluster: Cluster, limit: int) -> int:
    """Return how many pages a claim touches: of two, the second, since the first marks dead entries; none is kept."""
    text = load("everwhen.dispatch")["claim_runs"]
    now = datetime.now(UTC)
    given = {
        "tenant_ids": [BIG], "queues": [QUEUE], "quotas": [limit], "tasks": [TASK], "capped": [], "limit": limit,
        "worker": "pages", "lease_seconds": 60.0, "deadline_grace_seconds": 5.0, "now": now, "open_tenants": [BIG],
        "open_queues": [QUEUE], "free_tenants": [BIG],
    }  # fmt: skip
    touched = 0
    for _ in range(2):
        with cluster.sql.transaction(force_rollback=True):
            cluster.sql.execute("set local enable_seqscan = off")
            plan = cluster.sql.execute(f"explain (analyze, buffers, timing off, format json) {text}", given).fetchone()
        assert plan is not None
        touched = plan[0][0]["Plan"]["Shared Hit Blocks"] + plan[0][0]["Plan"]["Shared Read Blocks"]
    return touched


async def _cycle(dispatch: Dispatch, *, limit: int) -> None:
    leases = (await dispatch.claim(_claim(limit))).leases
    await dispatch.complete(BIG, "fleet", [_report(lease) for lease in leases])


def _claim(limit: int) -> Claim:
    return Claim(tenant_id=BIG, queues=(QUEUE,), tasks=(TASK,), worker="fleet", limit=limit, lease_seconds=60.0)


def _report(lease: Any) -> Report:
    return Report(
        tenant_id=lease.tenant_id, run_id=lease.run_id, lease_token=str(lease.lease_token), outcome="succeeded"
    )


def sizes(cluster: Cluster) -> dict[str, int]:
    """Return the megabytes of the hot tables, with their indexes."""
    found = cluster.fetch(
        "select relname, pg_total_relation_size(oid) / 1048576 from pg_class"
        " where relnamespace = 'everwhen'::regnamespace and relname in ('waiting', 'leases', 'lanes')"
    )
    return {f"{name}, MB": int(size) for name, size in found}


async def measure(options: argparse.Namespace) -> None:
    """Measure what was asked for; print each part as soon as it is known."""
    wanted = options.only.split(",")
    with running_cluster() as cluster:
        makers = {
            "shares": lambda: shares(cluster, runs=options.shares),
            "noisy": lambda: noisy(cluster, seconds=options.seconds, waiting=options.waiting),
            "storm": lambda: storm(cluster, runs=options.storm, schedulers=options.schedulers),
            "claims": lambda: claims(cluster, waiting=options.waiting, churn=options.churn),
        }
        for part in wanted:
            print(json.dumps({part: await makers[part]()}, default=str), flush=True)


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="runs of the big tenant that wait")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the small tenant is looked at, each time")
    parser.add_argument("--storm", type=int, default=100_000, help="runs that are due at one instant")
    parser.add_argument("--schedulers", type=int, default=3, help="processes that plan them")
    parser.add_argument("--churn", type=int, default=864_000, help="cycles: ten a second for a day")
    parser.add_argument("--shares", type=int, default=14_000, help="runs until the shares are read")
    options = parser.parse_args()
    if unknown := set(options.only.split(",")) - set(PARTS):
        parser.error(f"unknown part {min(unknown)}; known are {', '.join(PARTS)}")
    exit_on_sigterm()
    uvloop.run(measure(options))


if __name__ == "__main__":
    main()
