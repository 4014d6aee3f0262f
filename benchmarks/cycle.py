"""Full cycles: a backlog of due runs, claimed and completed through HTTP, history written.

With the SDK: real API and worker processes. Without: a client that claims and completes batches. The rate comes from
the history itself, from the first claim to the last report; CPU is counted from the first claim on, so that starting a
process is not in it.
"""

from typing import Any

from benchmarks import backlog
from benchmarks.cluster import TENANT, Cluster
from benchmarks.cpu import Meter

DRAIN_SECONDS = 120.0
EVENTS_A_CYCLE = 2  # claimed, succeeded
CONCURRENCY = 500


def measure_sdk(cluster: Cluster, *, apis: int, workers: int, runs: int, stale: bool = False) -> dict[str, Any]:
    """Drain with the SDK."""
    before = prepare(cluster, runs, stale=stale)
    servers = [cluster.serve_api() for _ in range(apis)]
    wanted = _events(cluster) + EVENTS_A_CYCLE * runs
    first = _events(cluster)
    clients = [cluster.work(servers[n % apis][1], concurrency=CONCURRENCY) for n in range(workers)]
    cluster.wait(lambda: _events(cluster) > first, seconds=30, what="the first claim", poll=0.003)
    meter = Meter(
        roots={
            "api": [process.pid for process, _ in servers],
            "worker": [process.pid for process in clients],
            "database": [cluster.server.pid],
        }
    )
    cluster.wait(lambda: _events(cluster) >= wanted, seconds=DRAIN_SECONDS, what=f"{runs} runs done")
    # A sequence moves before its transaction commits: the last batch may be on its way.
    cluster.wait(lambda: _ended(cluster) == runs, seconds=10, what="the last batch is committed")
    used = {"cpu_us": meter.micros_per(runs), "other_cores": meter.other_cores()}
    found = history(cluster) | used
    cluster.stop(*clients, *[process for process, _ in servers])
    return found | costs(cluster, before, runs)


def measure_batches(cluster: Cluster, *, apis: int, batch: int, loops: int, runs: int) -> dict[str, Any]:
    """Drain by the batch API, without the SDK."""
    before = prepare(cluster, runs)
    servers = [cluster.serve_api() for _ in range(apis)]
    urls = [url for _, url in servers]
    roots = {"api": [process.pid for process, _ in servers]}
    meter = Meter(roots={})
    drained = backlog.run_child(
        cluster,
        "batch_client",
        batch,
        loops,
        *urls,
        roots=roots,
        environment={"EVERWHEN_TOKEN": cluster.token()},
    )
    found = history(cluster) | {"cpu_us": drained["cpu_us"], "other_cores": meter.other_cores()}
    cluster.stop(*[process for process, _ in servers])
    return found | costs(cluster, before, runs)


def prepare(cluster: Cluster, runs: int, *, stale: bool = False) -> dict[str, Any]:
    """Fill the line; return where the log and the tables stood before. Stale: statistics say that it is empty."""
    cluster.reset()
    before = {"bytes": table_bytes(cluster), "wal": cluster.value("select pg_current_wal_insert_lsn()")}
    before["fill"] = backlog.fill(cluster, runs)
    if not stale:
        cluster.sql.execute("vacuum analyze")
    return before


def history(cluster: Cluster) -> dict[str, Any]:
    """Return how many cycles there were and their rate, from the attempts; refuse a drain that is not whole."""
    ended, attempts, seconds, succeeded = cluster.fetch(
        """
        select (select count(*) from everwhen.run_ends), count(*),
               extract(epoch from max(finished_at) - min(claimed_at))::float8,
               count(*) filter (where outcome = 'succeeded')
        from everwhen.attempts where tenant_id = %s""",
        TENANT,
    )[0]
    planned = cluster.value("select count(*) from everwhen.runs")
    if not planned == ended == attempts == succeeded:
        raise RuntimeError(f"{planned} planned, {ended} ended, {attempts} attempts, {succeeded} succeeded")
    return {"units": succeeded, "per_s": round(succeeded / seconds, 1)}


def costs(cluster: Cluster, before: dict[str, Any], runs: int) -> dict[str, Any]:
    """Return bytes of the database and of its log for one run: planned, claimed and completed."""
    wal = cluster.value("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)::float8", before["wal"])
    cluster.sql.execute("vacuum everwhen.waiting, everwhen.leases")
    grown = table_bytes(cluster) - before["bytes"]
    schedules = cluster.value("select pg_total_relation_size('everwhen.schedules')")
    return {
        "wal_bytes": round(wal / runs),
        "database_bytes": round((grown - schedules) / runs),
        "fill": before["fill"],
    }


def table_bytes(cluster: Cluster) -> int:
    """Return the size of everything in the schema, indexes and TOAST included."""
    return cluster.value(
        "select sum(pg_total_relation_size(oid))::bigint from pg_class"
        " where relnamespace = 'everwhen'::regnamespace and relkind = 'r'"
    )


def _ended(cluster: Cluster) -> int:
    return cluster.value("select count(*) from everwhen.run_ends")


def _events(cluster: Cluster) -> int:
    return cluster.value("select last_value from everwhen.event_ids")
