"""Reads and writes of the control API beside a long history, and the same beside an empty database.

    python -m benchmarks.api_load            a million runs and 10,000 schedules; a minute of each
    python -m benchmarks.api_load --quick    20,000 runs and 200 schedules, a few seconds: that it runs

One API process on a durable PostgreSQL; a client in a process of its own sends 150 reads and 5 writes a second, when
they are due (`api_load_client`). First beside a few hundred runs, then beside the history, then beside a few hundred
again: what the machine does meanwhile would show as a difference between the first and the last.
"""

import argparse
import json
import sys
from datetime import timedelta
from typing import Any

from benchmarks import backlog
from benchmarks.cluster import ROOT, TENANT, Cluster, exit_on_sigterm, running_cluster
from benchmarks.report import RESULTS, machine
from everwhen.http.roles import Role

FEW_RUNS, FEW_SCHEDULES = 500, 50
DAYS = 20
READS, WRITES = 150, 5
TRIGGER = {"trigger": {"kind": "cron", "expr": "0 3 * * *"}}
# One run in a hundred is dead; each has an attempt and the two events of it. Spread over twenty days and all schedules.
HISTORY = f"""
with made as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, schedule_revision, source, task, queue, priority, nominal_at, due_at, planned_at,
     input)
  select '{TENANT}',
         (substr(everwhen.first_run_id(at)::text, 1, 14) || '8' || substr(md5(n::text), 1, 3) || '-8'
          || substr(md5(n::text), 4, 3) || '-' || substr(md5(n::text), 7, 12))::uuid,
         s.uids[1 + n %% array_length(s.uids, 1)], 1, 'schedule', 'noop', 'line', 5, at, at, at,
         jsonb_build_object('pad', repeat('x', 600))
  from (select array_agg(uid) as uids from everwhen.schedules) s,
       generate_series(%(first)s::int, %(last)s::int) n,
       lateral (select date_trunc('second', now() - {DAYS} * interval '1 day' * (%(runs)s::int - n) / %(runs)s::int)
                       - interval '1 minute' as at) at
  returning run_id, due_at
), attempt as (
  insert into everwhen.attempts
    (tenant_id, run_id, attempt, lease_token, worker, claimed_at, started_at, finished_at, outcome)
  select '{TENANT}', run_id, 1, 1, 'w', due_at, due_at, due_at + interval '2 seconds', 'succeeded' from made
), event as (
  insert into everwhen.events (tenant_id, run_id, at, kind, attempt)
  select '{TENANT}', m.run_id, m.due_at + k.after, k.kind, 1
  from made m, (values ('claimed', interval '0'), ('succeeded', interval '2 seconds')) k (kind, after)
)
insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at, fingerprint)
select '{TENANT}', run_id,
       case when is_dead then 'dead' else 'succeeded' end, case when is_dead then 'retry.exhausted' end, 1,
       due_at + interval '2 seconds', case when is_dead then 'f' end
from made, lateral (select substr(run_id::text, 36, 1) = '0' and substr(run_id::text, 35, 1) < '3' as is_dead) d
"""
BATCH = 50_000


def main() -> int:
    """Measure three times, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    exit_on_sigterm()
    runs, schedules, seconds = (20_000, 200, 5) if options.quick else (1_000_000, 10_000, options.seconds)
    with running_cluster() as cluster:
        for day in range(-DAYS - 1, 1):
            cluster.sql.execute("select everwhen.ensure_week(now() + make_interval(days => %s))", (day,))
        found = {
            "few before": measured(cluster, FEW_RUNS, FEW_SCHEDULES, seconds),
            "many": measured(cluster, runs, schedules, seconds),
            "few after": measured(cluster, FEW_RUNS, FEW_SCHEDULES, seconds),
        }
    text = json.dumps({"machine": machine(), "runs": runs, "schedules": schedules, "measured": found}, indent=1)
    if not options.quick:
        (RESULTS / "api_load.json").write_text(text + "\n")
    sys.stdout.write(text + "\n")
    return 0


def measured(cluster: Cluster, runs: int, schedules: int, seconds: float) -> dict[str, Any]:
    """Store so much, and send for so long."""
    cluster.reset()
    backlog.define_schedules(cluster, [TRIGGER] * schedules)
    now = cluster.value("select now()")
    backlog.let_plan(cluster, decided_until=now, next_at=now + timedelta(days=1))
    cluster.sql.execute("set session_replication_role = replica")  # as it was written, one by one, long ago
    for first in range(1, runs + 1, BATCH):
        cluster.sql.execute(HISTORY, {"first": first, "last": min(first + BATCH - 1, runs), "runs": runs})
    cluster.sql.execute("set session_replication_role = origin")
    cluster.sql.execute("vacuum analyze")
    cluster.sql.execute("checkpoint")
    targets = cluster.folder / "targets.json"
    sample = "select {} from everwhen.{} order by md5({}::text) limit 400"
    targets.write_text(
        json.dumps(
            {
                "run": [str(row[0]) for row in cluster.fetch(sample.format("run_id", "runs", "run_id"))],
                "schedule": [row[0] for row in cluster.fetch(sample.format("name", "schedules", "name"))],
            }
        )
    )
    server, url = cluster.serve_api()
    environment = {"EVERWHEN_TOKEN": cluster.token(Role.ADMIN), "PYTHONPATH": str(ROOT)}
    found = backlog.run_child(
        cluster, "api_load_client", targets, seconds, READS, WRITES, url,
        roots={"api": [server.pid]}, environment=environment,
    )  # fmt: skip
    cluster.stop(server)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
