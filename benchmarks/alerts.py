"""Alerts: how long from what happens to the receiver, with a hundred events a second; and a storm.

    python -m benchmarks.alerts              50 tenants, 100 events a second for a minute; 5,000 failures in a minute
    python -m benchmarks.alerts --quick      fewer seconds: that it runs

A real notifier process sends over HTTP to a receiver here. Events are ends of runs, written as a worker's report writes
them; a tenant's channel has the window that is the default, or none. What an occasion waited for is in both figures:
from what happened to the answer, and from when the message was due to the answer.
"""

import argparse
import asyncio
import base64
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

from benchmarks.cluster import SECRET, Cluster, exit_on_sigterm, running_cluster
from benchmarks.report import RESULTS, machine
from everwhen.alerts import service, subscribing
from everwhen.alerts.assembling import make_kit
from everwhen.alerts.model import ChannelDraft, SubscriptionDraft
from everwhen.alerts.service import AlertsDesk
from everwhen.config import Settings
from everwhen.core.alert_kinds import AlertKind
from everwhen.outside import make_channels
from everwhen.postgres.pool import Database
from everwhen.sealing.ring import new_entry, read_ring
from everwhen.sealing.service import Sealer
from everwhen.tasks import service as tasks
from everwhen.tasks.model import TaskDraft
from everwhen.tenants import service as tenants

EVENT = """
with made as (
  insert into everwhen.runs
    (tenant_id, run_id, schedule_uid, source, task, queue, priority, nominal_at, due_at, planned_at, input)
  select t.tenant_id,
         (substr(everwhen.first_run_id(clock_timestamp())::text, 1, 14) || '8' || substr(md5(random()::text), 1, 3)
          || '-8' || substr(md5(random()::text), 1, 3) || '-' || substr(md5(random()::text), 1, 12))::uuid,
         t.schedule_uid, 'schedule', 'report', 'line', 5, clock_timestamp(), clock_timestamp(), clock_timestamp(), '{}'
  from unnest(%s::uuid[], %s::uuid[]) as t (tenant_id, schedule_uid)
  returning tenant_id, run_id
)
insert into everwhen.run_ends (tenant_id, run_id, state, reason, attempts, finished_at)
select tenant_id, run_id, 'dead', 'retry.exhausted', 1, clock_timestamp() from made
"""

SHOWN = "from everwhen.alert_deliveries, jsonb_array_elements(shown) o where tenant_id = any(%s)"


class Receiver(BaseHTTPRequestHandler):
    """Takes everything."""

    protocol_version = "HTTP/1.1"
    taken = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        Receiver.taken += 1
        self.send_response(204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *given: object) -> None:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer seconds")
    options = parser.parse_args()
    exit_on_sigterm()
    seconds = 10 if options.quick else 60
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    port = receiver.server_address[1]
    keys = new_entry("bench")
    environment = {
        "sealing_keys": keys,
        "egress_allow": "127.0.0.0/8",
        "egress_ports": str(port),
        "egress_plain_http": "true",
        "egress_per_tenant": "8",
    }
    found: dict[str, Any] = {"machine": machine()}
    with running_cluster() as cluster:
        scene = Scene(cluster, environment, port)
        for window in (1.0, 30.0):
            found[f"rate, window {window:g} s"] = asyncio.run(scene.rate(window, seconds=seconds))
            print(json.dumps(found[f"rate, window {window:g} s"]), flush=True)
        found["storm"] = asyncio.run(scene.storm(seconds=seconds))
        print(json.dumps(found["storm"]), flush=True)
        cluster.stop()
    name = "alerts.quick.json" if options.quick else "alerts.json"
    (RESULTS / name).write_text(json.dumps(found, indent=1) + "\n")
    return 0


class Scene:
    """Tenants with a channel each, a notifier, and what happens to them."""

    def __init__(self, cluster: Cluster, environment: dict[str, str], port: int) -> None:
        self.cluster, self.port, self.environment = cluster, port, environment
        for name, value in environment.items():
            os.environ[f"EVERWHEN_{name.upper()}"] = value
        kinds = make_channels(Settings(jwt_secret=SECRET))
        self.kit = make_kit(kinds, Sealer(read_ring(environment["sealing_keys"])), secret=SECRET)
        cluster.sql.execute("select everwhen.ensure_week(now())")
        self.notifier = cluster.serve("notifier", **environment)

    async def _tenant(self, db: Database, name: str, window: float) -> UUID:
        made = await tenants.create_tenant(db, name=name)
        secret = "whsec_" + base64.b64encode(os.urandom(32)).decode()
        draft = ChannelDraft(
            kind="webhook",
            configuration={"url": f"http://127.0.0.1:{self.port}/hook"},
            secrets={"secret": secret},
            window_seconds=window,
        )
        desk = AlertsDesk(database=db, kit=self.kit)
        await service.create_channel(desk, tenant_id=made.id, name="ops", draft=draft, by="bench")
        wish = SubscriptionDraft(kinds=frozenset({AlertKind.RUN_DEAD}), channels=("ops",))
        await subscribing.create_subscription(db, tenant_id=made.id, name="dead", draft=wish, by="bench")
        self.cluster.sql.execute(
            "update everwhen.alert_outlets set verified_at = now() where tenant_id = %s", [made.id]
        )
        return made.id

    async def rate(self, window: float, *, seconds: int, tenants_: int = 50, a_second: int = 100) -> dict[str, Any]:
        async with await Database.open(self.cluster.server.app_conninfo) as db:
            ids = [await self._tenant(db, f"rate-{window:g}-{n}".replace(".", "-"), window) for n in range(tenants_)]
        step, began, sent = a_second // 10, time.monotonic(), 0
        while sent < seconds * a_second:
            who = [ids[(sent + n) % tenants_] for n in range(step)]
            self.cluster.sql.execute(EVENT, [who, [UUID(int=1)] * step])
            sent += step
            await asyncio.sleep(max(0.0, began + sent / a_second - time.monotonic()))
        took = time.monotonic() - began
        return self._figures(ids, sent, wait=window + 60) | {
            "events_a_second": round(sent / took, 1),
            "tenants": tenants_,
        }

    async def storm(self, *, seconds: int, failures: int = 5_000) -> dict[str, Any]:
        async with await Database.open(self.cluster.server.app_conninfo) as db:
            tenant = await self._tenant(db, "storm", 30.0)
            await tasks.create_task(db, tenant_id=tenant, draft=TaskDraft(name="report"))
        self.cluster.sql.execute(
            "insert into everwhen.schedules select %s, gen_random_uuid(), 's' || n, 'active', null, 1, 'report',"
            " '{\"timezone\": \"UTC\"}', '{}', null, now(), now() from generate_series(1, %s) n",
            [tenant, failures],
        )
        uids = [row[0] for row in self.cluster.fetch("select uid from everwhen.schedules where tenant_id = %s", tenant)]
        began, step = time.monotonic(), 50
        for at in range(0, failures, step):
            self.cluster.sql.execute(EVENT, [[tenant] * step, uids[at : at + step]])
            await asyncio.sleep(max(0.0, began + seconds * (at + step) / failures - time.monotonic()))
        found = self._figures([tenant], failures, wait=90)
        totals = self.cluster.fetch(
            "select total, counts::text, jsonb_array_length(shown) from everwhen.alert_deliveries"
            " where tenant_id = %s order by due_at",
            tenant,
        )
        return found | {"messages": [total for total, _, _ in totals], "shown": [shown for _, _, shown in totals]}

    def _figures(self, ids: list[UUID], events: int, *, wait: float) -> dict[str, Any]:
        mine = "from everwhen.alert_deliveries where tenant_id = any(%s)"

        def is_told() -> bool:
            done = self.cluster.fetch(f"select coalesce(sum(total), 0), count(look_at) {mine}", ids)[0]
            return done == (events, 0)

        self.cluster.wait(is_told, seconds=wait + 60, what=f"{events} occasions delivered", poll=0.25)
        states = dict(self.cluster.fetch(f"select state, count(*) {mine} group by state", ids))
        tries = self.cluster.value(f"select sum(tries) {mine}", ids)
        figures: dict[str, Any] = {"events": events, "messages_by_state": states, "tries": int(tries)}
        for name, seconds in (
            ("due_to_delivered", f"select extract(epoch from finished_at - due_at)::float8 as s {mine}"),
            (
                "happened_to_delivered",
                f"select extract(epoch from finished_at - (o ->> 'at')::timestamptz)::float8 as s {SHOWN}",
            ),
        ):
            p50, p99, most = self.cluster.fetch(
                "select percentile_cont(0.5) within group (order by s),"
                f" percentile_cont(0.99) within group (order by s), max(s) from ({seconds}) d",
                ids,
            )[0]
            figures[name] = {"p50_s": round(p50, 3), "p99_s": round(p99, 3), "max_s": round(most, 3)}
        return figures


if __name__ == "__main__":
    raise SystemExit(main())
