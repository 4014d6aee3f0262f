"""Seven days' outage: how long catching up takes under each policy, and how late the live work is meanwhile.

    python -m benchmarks.outage                      10,000 minutely schedules, 100 million instants
    python -m benchmarks.outage --schedules 500      smaller

The schedules fire once a minute, their anchors spread over it, so that the live work is steady. Every process is real.
The instants are counted apart from the product, by one division a schedule, and compared with what it recorded.
A replay of all 100 million is not measured: a maximum bounds it, and a full one of few schedules shows its rate.
"""

import argparse
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import backlog
from benchmarks.child import percentile
from benchmarks.cluster import TENANT, Cluster, exit_on_sigterm, running_cluster
from everwhen.core.zones import tz_version

OUTAGE = timedelta(days=7)
PERIOD = timedelta(minutes=1)
ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
MOST_SECONDS = 300.0
WATCHED_SECONDS = 20.0
"""How long live work is watched at least, from the start on, even when catching up is over before."""

POLICIES: dict[str, tuple[float, dict[str, Any]]] = {
    "skip": (1.0, {"policy": "skip"}),
    "coalesce latest": (1.0, {"policy": "coalesce"}),
    "coalesce earliest": (1.0, {"policy": "coalesce", "keep": "earliest"}),
    "replay, at most 5 each": (1.0, {"policy": "replay", "max_runs": 5}),
    "replay, all": (0.001, {"policy": "replay"}),
}
"""The share of the schedules, and the rule."""


def main() -> int:
    """Measure each policy, print a line of JSON for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--only", help="one policy")
    options = parser.parse_args()
    exit_on_sigterm()
    with running_cluster() as cluster:
        for name, (share, rule) in POLICIES.items():
            if options.only in {None, name}:
                count = max(1, round(options.schedules * share))
                print(json.dumps({"policy": name, **measure(cluster, schedules=count, rule=rule)}), flush=True)
    return 0


def measure(cluster: Cluster, *, schedules: int, rule: dict[str, Any]) -> dict[str, Any]:
    """Let the schedules have been down, start everything, and watch until the past is worked off."""
    cluster.reset()
    _define(cluster, schedules, rule)
    api, url = cluster.serve_api()
    worker = cluster.work(url, concurrency=200)
    reaper = cluster.serve("reaper")
    now = cluster.value("select now()")
    backlog.let_plan(cluster, decided_until=now - OUTAGE, next_at=now - OUTAGE)
    started, began = cluster.value("select clock_timestamp()"), time.monotonic()
    scheduler = cluster.serve("scheduler")
    live_after, done_after = _watch(cluster, schedules, began)
    if (rest := WATCHED_SECONDS - (time.monotonic() - began)) > 0:
        time.sleep(rest)
    ended = cluster.value("select clock_timestamp()")
    time.sleep(2)
    found = _lags(cluster, started + timedelta(seconds=live_after), ended) | _arithmetic(cluster)
    cluster.stop(scheduler, worker, api, reaper)
    seconds = None if done_after is None else round(done_after, 1)
    return {"schedules": schedules, "all_live_after_s": round(live_after, 1), "caught_up_after_s": seconds} | found


def _define(cluster: Cluster, schedules: int, rule: dict[str, Any]) -> None:
    catch_up = {"grace_seconds": 60, "window_seconds": None} | rule
    step = PERIOD / schedules
    anchors = ((ANCHOR + n * step).isoformat().replace("+00:00", "Z") for n in range(schedules))
    specs = [{"trigger": {"kind": "every", "every": "PT1M", "anchor": at}, "catch_up": catch_up} for at in anchors]
    backlog.define_schedules(cluster, specs)
    cluster.sql.execute(
        "insert into everwhen.schedule_revisions"
        " (tenant_id, uid, revision, action, task, spec, input, priority, changed_by, reason, changed_at, tz_version)"
        " select tenant_id, uid, revision, 'created', task, spec, input, priority, 'bench', null, created_at, %s"
        " from everwhen.schedules",
        (tz_version(),),
    )
    cluster.sql.execute("vacuum analyze everwhen.schedules")


def _watch(cluster: Cluster, schedules: int, began: float) -> tuple[float, float | None]:
    """Return after how many seconds every schedule was live again, and after how many all arrears were finished."""
    live: float | None = None
    while (passed := time.monotonic() - began) < MOST_SECONDS:
        opened, left = cluster.fetch(
            "select count(*), count(*) filter (where finished_at is null) from everwhen.arrears where tenant_id = %s",
            TENANT,
        )[0]
        if live is None and opened >= schedules:
            live = passed
        if live is not None and left == 0:
            return live, passed
        time.sleep(0.2)
    return live or passed, None


def _lags(cluster: Cluster, since: datetime, until: datetime) -> dict[str, Any]:
    rows = cluster.fetch(
        """
        select extract(epoch from coalesce(a.claimed_at, l.claimed_at, clock_timestamp()) - r.due_at)::float8
        from everwhen.runs r
        left join everwhen.attempts a on a.tenant_id = r.tenant_id and a.run_id = r.run_id and a.attempt = 1
        left join everwhen.leases l on l.tenant_id = r.tenant_id and l.run_id = r.run_id
        where r.tenant_id = %s and r.due_at >= %s and r.due_at < %s""",
        TENANT,
        since,
        until,
    )
    lags = sorted(row[0] for row in rows)
    if not lags:
        return {"live_runs": 0}
    named = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {"live_runs": len(lags)} | {f"live_{n}_ms": round(percentile(lags, q) * 1e3, 1) for n, q in named.items()}


def _arithmetic(cluster: Cluster) -> dict[str, Any]:
    """Compare what the arrears counted, and what is recorded, with a count of our own."""
    arrears = cluster.fetch(
        "select s.spec #>> '{trigger,anchor}', a.since, a.until, a.runs, a.coalesced, a.skipped, a.missed"
        " from everwhen.arrears a join everwhen.schedules s on s.tenant_id = a.tenant_id and s.uid = a.schedule_uid"
    )
    expected = sum(_between(datetime.fromisoformat(at), since, until) for at, since, until, *_ in arrears)
    runs, coalesced, skipped, missed = (sum(row[column] for row in arrears) for column in range(3, 7))
    recorded = cluster.value(
        "select (select count(*) from everwhen.runs r cross join lateral (select from everwhen.arrears a"
        "   where a.tenant_id = r.tenant_id and a.schedule_uid = r.schedule_uid"
        "     and r.nominal_at > a.since and r.nominal_at <= a.until) a)"
        " + (select coalesce(sum(instants), 0) from everwhen.spans)"
    )
    spans = cluster.value("select count(*) from everwhen.spans")
    counted = runs + coalesced + skipped + missed
    return {
        "instants": expected,
        "runs": runs,
        "coalesced": coalesced,
        "missed": missed + skipped,
        "exact": expected == counted == recorded,
        "spans": spans,
    }


def _between(anchor: datetime, since: datetime, until: datetime) -> int:
    return (until - anchor) // PERIOD - (since - anchor) // PERIOD


if __name__ == "__main__":
    raise SystemExit(main())
