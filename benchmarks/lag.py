"""How late: due to claimed, and due to started, through every real process, at a steady rate of due runs.

Schedules fire every 10 s, their anchors spread evenly, so that as many runs as wanted are due each second. The planner
looks only AHEAD_SECONDS ahead, so that it is at work all the time, not only before the measurement. The lag is read
from the history. Runs that were due and never claimed would be missing from it, so they are counted as well.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import backlog
from benchmarks.child import percentile
from benchmarks.cluster import TENANT, Cluster
from benchmarks.cpu import Meter

PERIOD_SECONDS = 10
AHEAD_SECONDS = 5
WARM_UP_SECONDS = 8.0
"""Left out: the first plan of all schedules at once, and processes that start."""

CONCURRENCY = 200
POINTS = 400


def measure(cluster: Cluster, *, rate: int, seconds: float) -> dict[str, Any]:
    """Run the whole system at `rate` due runs a second; return what the history says of `seconds` of it."""
    cluster.reset()
    backlog.define_schedules(cluster, _specs(rate * PERIOD_SECONDS))
    cluster.sql.execute("vacuum analyze everwhen.schedules")
    ahead = {"plan_ahead_seconds": str(AHEAD_SECONDS)}
    scheduler, reaper = cluster.serve("scheduler", **ahead), cluster.serve("reaper")
    api, url = cluster.serve_api()
    worker = cluster.work(url, concurrency=CONCURRENCY)
    now = cluster.value("select now()")
    backlog.let_plan(cluster, decided_until=now, next_at=now)
    cluster.wait(lambda: _all_planned(cluster), seconds=60, what="every schedule has a plan")
    time.sleep(WARM_UP_SECONDS)
    roots = {"api": api, "worker": worker, "scheduler": scheduler, "reaper": reaper, "database": cluster.server}
    meter = Meter(roots={name: [process.pid] for name, process in roots.items()})
    started = cluster.value("select now()")
    time.sleep(seconds)
    ended = cluster.value("select now()")
    used = {"cpu_us": meter.micros_per(round(rate * seconds)), "other_cores": meter.other_cores()}
    time.sleep(1.5)
    found = _lags(cluster, started, ended)
    cluster.stop(worker, api, scheduler, reaper)
    return found | used | {"rate": rate}


def _specs(schedules: int) -> list[dict[str, Any]]:
    base = datetime(2026, 1, 1, tzinfo=UTC)
    step = timedelta(seconds=PERIOD_SECONDS) / schedules
    anchors = [(base + n * step).isoformat().replace("+00:00", "Z") for n in range(schedules)]
    return [{"trigger": {"kind": "every", "every": f"PT{PERIOD_SECONDS}S", "anchor": anchor}} for anchor in anchors]


def _all_planned(cluster: Cluster) -> bool:
    return not cluster.value("select exists (select from everwhen.watermarks where next_at <= now() + interval '1 s')")


def _lags(cluster: Cluster, started: datetime, ended: datetime) -> dict[str, Any]:
    rows = cluster.fetch(
        """
        select extract(epoch from a.claimed_at - r.due_at)::float8, extract(epoch from a.started_at - r.due_at)::float8
        from everwhen.runs r
        left join everwhen.attempts a on a.tenant_id = r.tenant_id and a.run_id = r.run_id and a.attempt = 1
        where r.tenant_id = %s and r.due_at >= %s and r.due_at < %s""",
        TENANT,
        started,
        ended,
    )
    claimed = sorted(row[0] for row in rows if row[0] is not None)
    begun = sorted(row[1] for row in rows if row[1] is not None)
    return {
        "units": len(rows),
        "per_s": round(len(rows) / (ended - started).total_seconds(), 1),
        "unclaimed": len(rows) - len(claimed),
        "claimed": _summary(claimed),
        "started": _summary(begun),
        "curve_ms": [round(percentile(claimed, n / POINTS) * 1e3, 2) for n in range(POINTS + 1)],
    }


def _summary(lags: list[float]) -> dict[str, float]:
    found = {"p50_ms": percentile(lags, 0.5), "p99_ms": percentile(lags, 0.99), "max_ms": lags[-1]}
    return {name: round(value * 1e3, 2) for name, value in found.items()}
