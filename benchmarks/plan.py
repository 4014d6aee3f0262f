"""Planning: many schedules become due at one instant; how many runs a second do the scheduler's processes write?

The schedules are cron expressions: every minute, and times of day in several zones, each written so that it fires in
the minute that the benchmark needs. No two are stored alike, so that no cache of parsed schedules helps. Runs, places
in the line and events are written; the rate comes from the history.
"""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from benchmarks import backlog
from benchmarks.cluster import Cluster
from benchmarks.cpu import Meter

ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo")
PLAN_SECONDS = 120.0
GRACE_SECONDS = 3600


def measure(cluster: Cluster, *, schedulers: int, schedules: int) -> dict[str, Any]:
    """Let idle schedulers find the schedules all at once."""
    cluster.reset()
    minute = cluster.value("select date_trunc('minute', now())")
    backlog.define_schedules(cluster, [_spec(n, minute) for n in range(schedules)])
    cluster.sql.execute("vacuum analyze everwhen.schedules")
    processes = [cluster.serve("scheduler") for _ in range(schedulers)]
    cluster.wait(lambda: _connections(cluster) >= schedulers, seconds=20, what="the schedulers are connected")
    meter = Meter(roots={"scheduler": [p.pid for p in processes], "database": [cluster.server.pid]})
    backlog.let_plan(cluster, decided_until=minute - timedelta(seconds=1), next_at=minute)
    cluster.wait(
        lambda: _is_planned(cluster, minute), seconds=PLAN_SECONDS, what="every schedule is planned", poll=0.05
    )
    found = _rate(cluster)
    found |= {"cpu_us": meter.micros_per(found["units"]), "other_cores": meter.other_cores()}
    cluster.stop(*processes)
    return found | {"schedules": schedules}


def _spec(n: int, minute: datetime) -> dict[str, Any]:
    zone = ZONES[n % len(ZONES)]
    local = minute.astimezone(ZoneInfo(zone))
    time, weekday = f"{local.minute} {local.hour}", local.isoweekday() % 7
    expressions = (
        "* * * * *",
        f"{time} * * *",
        f"{time} * * {weekday}",
        f"{time} {local.day} {local.month} *",
        f"{local.minute},{(local.minute + 30) % 60} * * * *",
    )
    catch_up = {"policy": "replay", "grace_seconds": GRACE_SECONDS + n / 1000, "window_seconds": None}
    trigger = {"kind": "cron", "expr": expressions[n % len(expressions)]}
    return {"trigger": trigger, "timezone": zone, "catch_up": catch_up}


def _connections(cluster: Cluster) -> int:
    return cluster.value("select count(*) from pg_stat_activity where query ilike 'listen%%'")


def _is_planned(cluster: Cluster, minute: datetime) -> bool:
    return cluster.value("select min(next_at) from everwhen.watermarks") > minute


def _rate(cluster: Cluster) -> dict[str, Any]:
    """Runs over the time from the first batch to the last, the last itself left out: its end is not recorded."""
    batches = cluster.fetch("select planned_at, count(*) from everwhen.runs group by 1 order by 1")
    seconds = (batches[-1][0] - batches[0][0]).total_seconds()
    runs = sum(count for _, count in batches)
    return {"units": runs, "per_s": round((runs - batches[-1][1]) / seconds, 1), "batches": len(batches)}
