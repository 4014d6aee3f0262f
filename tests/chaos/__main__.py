"""`make chaos`: real processes, random kill -9 and SIGSTOP, at random and at named failpoints, and a verdict.

    CHAOS_SECONDS=600 CHAOS_SEED=7 make chaos

Two schedulers, two conductors, two reapers, two APIs, four workers, and two of every other role run against a durable
PostgreSQL, while schedules of tasks and of workflows fire every few seconds, a client asks for runs under idempotency
keys, and people pause, resume, edit, cancel and rerun. Then the faults end, the schedules are deleted, what is due is
worked off, and it is judged: by `everwhen verify`, by a witness outside of the system, by instants computed apart, and
by `simulate`. Exit code 0: no fault was found.
"""

import asyncio
import json
import os
import secrets
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import httpx2

from everwhen.dispatch.tokens import LeaseTokens
from everwhen.http.roles import Role
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.verify.model import Scope
from everwhen.verify.service import check
from tests.chaos.faults import LEASE_SECONDS, Faults, Place, now
from tests.chaos.flows import credited, judge_flows, read_definitions, read_runs
from tests.chaos.judge import Attempt, Execution, Verdict, judge_executions, read_witness
from tests.chaos.people import People
from tests.chaos.schedules import EDITED_CALENDAR, Made, define, is_up, judge_schedules
from tests.system.fleet import SECRET, Fleet, free_port, running_fleet, wait_until
from tests.system.zygote import Zygote

QUIET_SECONDS = 420
LONGEST_CHANGE = timedelta(seconds=30)
WATERMARKS = "select schedule_uid, decided_until from everwhen.watermarks"
OPEN_FLOWS = "workflow_runs where started_at is not null and ended_at is null"
ATTEMPTS = """
select a.run_id, a.attempt, a.lease_token, a.outcome
from everwhen.attempts a join everwhen.runs r using (tenant_id, run_id)
where r.queue <> 'everwhen:workflows'"""
"""Those of workers: what the conductor holds, nobody executes."""


@dataclass
class Client:
    """Asks for runs under keys, repeats what was not answered, and remembers what was acknowledged."""

    ports: list[int]
    token: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    unanswered: int = 0
    number: int = 0

    def step(self) -> None:
        """Ask once: for what was not answered before, else for something new."""
        if not self.waiting:
            self.number += 1
            self.waiting.append(f"chaos-{self.number}")
        key = self.waiting[0]
        port = self.ports[self.number % len(self.ports)]
        try:
            answer = httpx2.post(
                f"http://127.0.0.1:{port}/v1/tenants/acme/runs",
                json={"task": "quick"},
                headers={"Authorization": f"Bearer {self.token}", "Idempotency-Key": key},
                timeout=3.0,
                trust_env=False,
            )
        except httpx2.HTTPError:
            self.unanswered += 1
            self.ports.append(self.ports.pop(0))
            return
        if answer.status_code in {200, 201}:
            self.acknowledged[key] = answer.json()["id"]
            self.waiting.pop(0)


def main() -> int:
    """Run it and print what came of it as JSON."""
    seconds = float(os.environ.get("CHAOS_SECONDS", "600"))
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 31))
    sys.stderr.write(f"chaos: {seconds:.0f} s, seed {seed}\n")
    zygote = Zygote()
    with running_fleet(zygote) as fleet:
        report, verdict = run(fleet, seconds=seconds, seed=seed)
    zygote.close()
    sys.stdout.write(json.dumps(report, indent=2, default=str) + "\n")
    for what, whom in verdict.faults.items():
        sys.stderr.write(f"FAULT {what}: {len(whom)}\n" + "".join(f"  {each}\n" for each in whom[:10]))
    sys.stderr.write("chaos: no fault was found\n" if not verdict.faults else "chaos: FAULTS\n")
    return 1 if verdict.faults else 0


def run(fleet: Fleet, *, seconds: float, seed: int) -> tuple[dict, Verdict]:
    """Let it rage for so many seconds, come to rest, and be judged."""
    ports = [free_port(), free_port()]
    folder = fleet.folder / "executions"
    folder.mkdir()
    (fleet.folder / "chaos_witnesses.py").write_text((Path(__file__).parent / "witnesses.py").read_text())
    faults = Faults(seed=seed, log=fleet.folder / "failpoints.log", places=places_of(fleet, ports, folder))
    faults.start_all()
    made = define(fleet, ports[0], faults.random)
    faults.arm()
    verdict = Verdict()
    token = fleet.token(Role.ADMIN)
    client = Client(ports=list(ports), token=token)
    people = People(ports, token, faults.random, edited=made.edited, calendar=EDITED_CALENDAR)
    rage(fleet, faults, client, people, verdict=verdict, until=now() + seconds)
    faults.heal()
    come_to_rest(fleet, faults, client, people, port=ports[0])
    report = judge(fleet, faults, client, made, folder=folder, verdict=verdict)
    verdict.blame("an answer that no request deserves", people.broken)
    report["people"] = dict(sorted(people.counts.items()))
    report["verdict"] = {what: len(whom) for what, whom in verdict.faults.items()} or "no fault was found"
    return report | {"seconds": seconds, "seed": seed}, verdict


def places_of(fleet: Fleet, ports: list[int], folder: Path) -> list[Place]:
    """Return the fleet's places."""

    def server(role: str, port: int | None = None):
        return lambda environment: fleet.serve(role, port=port, environment=environment)

    def worker(port: int):
        return lambda environment: fleet.work(
            port,
            lease_seconds=LEASE_SECONDS,
            concurrency=8,
            target="chaos_witnesses:worker",
            environment={**environment, "WITNESS": str(folder)},
        )

    found = [Place(f"scheduler {n}", "scheduler", server("scheduler")) for n in (1, 2)]
    found += [Place(f"conductor {n}", "conductor", server("conductor")) for n in (1, 2)]
    found += [Place(f"reaper {n}", "reaper", server("reaper")) for n in (1, 2)]
    found += [Place(f"api {n}", "api", server("api", port)) for n, port in enumerate(ports, 1)]
    found += [Place(f"worker {n}", "worker", worker(ports[n % 2])) for n in range(1, 5)]
    return [*found, *(Place(f"others {n}", "others", server(others())) for n in (1, 2))]


def others() -> str:
    """Return every other role, in one process."""
    from everwhen.config import ALL_ROLES

    return ",".join(role for role in ALL_ROLES if role not in {"api", "scheduler", "conductor", "reaper"})


def rage(fleet: Fleet, faults: Faults, client: Client, people: People, *, verdict: Verdict, until: float) -> None:
    """Let faults happen, ask for runs, change things, and see that no watermark ever goes back."""
    highest: dict[UUID, datetime] = {}
    looked_at = fleet.fetch("select now()")[0][0]
    told = now()
    while (moment := now()) < until:
        faults.step(moment)
        client.step()
        people.step(moment)
        for uid, decided in fleet.fetch(WATERMARKS):
            # A pause or an edit takes back what is planned and was not due when it began, which may be a while ago.
            if decided < min(highest.get(uid, decided), looked_at - LONGEST_CHANGE):
                verdict.blame("a watermark went back", [f"{uid}: {highest[uid]} → {decided}, looked at {looked_at}"])
            highest[uid] = decided
        looked_at = fleet.fetch("select now()")[0][0]
        if moment - told > 30:
            told = moment
            ended = fleet.count("run_ends")
            sys.stderr.write(f"  {until - moment:4.0f} s left, {ended} runs ended, {faults.counts.total()} faults\n")
        time.sleep(0.2)


def come_to_rest(fleet: Fleet, faults: Faults, client: Client, people: People, *, port: int) -> None:
    """End every pause and every schedule, answer what was asked, and let what is due be worked off."""
    headers = {"Authorization": f"Bearer {client.token}"}
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=30.0) as http:
        wait_until(lambda: is_up(http), seconds=120, what="the API is up again")
        wait_until(people.resume_everything, seconds=240, what="nothing is paused")
        for (name,) in fleet.fetch("select name from everwhen.schedules order by name"):
            wait_until(lambda n=name: _is_deleted(http, n), seconds=120, what=f"{name} is deleted")
        wait_until(lambda: _is_answered(client), seconds=60, what="the client is answered")

    def rests() -> bool:
        faults.step(now())
        return all(
            fleet.count(table) == 0
            for table in ("waiting", "held", "leases", "arrears where look_at is not null", OPEN_FLOWS)
        )

    wait_until(rests, seconds=QUIET_SECONDS, what="everything has come to rest")


def judge(fleet: Fleet, faults: Faults, client: Client, made: Made, *, folder: Path, verdict: Verdict) -> dict:
    """Ask the database, the witness, the clock, and `simulate`."""
    fleet.stop()
    promises = asyncio.run(_promises(fleet))
    for checked in promises:
        verdict.blame(f"verify: {checked.name}", checked.first)
    executions = read_witness(folder, LeaseTokens(SECRET).open)
    attempts = [Attempt(*row) for row in fleet.fetch(ATTEMPTS)]
    judge_executions(verdict, executions, attempts)
    by_run: dict[UUID, list[Execution]] = defaultdict(list)
    for execution in executions:
        by_run[execution.run_id].append(execution)
    flows = read_runs(fleet)
    judge_flows(verdict, flows, read_definitions(fleet), by_run)
    judge_schedules(fleet, verdict, made, {**by_run, **credited(flows, by_run)})
    _judge_client(fleet, client, verdict)
    _judge_hygiene(fleet, verdict)
    states = dict(fleet.fetch("select state, count(*) from everwhen.run_ends group by 1"))
    refused = dict(fleet.fetch("select reason, count(*) from everwhen.events where kind = 'refused' group by 1"))
    return {
        "faults": dict(sorted(faults.counts.items())),
        "failpoints": dict(sorted(faults.failpoints().items())),
        "runs": fleet.count("runs"),
        "workflow_runs": fleet.count("workflow_runs"),
        "states": states,
        "attempts": dict(Counter(a.outcome for a in attempts)),
        "executions": len(executions),
        "stale_reports_refused": refused,
        "client": {"acknowledged": len(client.acknowledged), "unanswered": client.unanswered},
        "promises_checked": len(promises),
        "figures": dict(sorted(verdict.figures.items())),
        "findings": dict(fleet.fetch("select kind, count(*) from everwhen.findings group by 1")),
    }


async def _promises(fleet: Fleet):
    limits = PoolLimits(min_size=1, max_size=2, statement_seconds=300, transaction_seconds=600)
    async with await Database.open(fleet.server.app_conninfo, limits=limits) as database:
        return await check(database, Scope(sample=None, days=1, quiescent=True))


def _judge_client(fleet: Fleet, client: Client, verdict: Verdict) -> None:
    """What was acknowledged is there; a key stands for one run, however often it was asked."""
    kept = "select key, convert_from(body, 'UTF8')::json ->> 'id' from everwhen.replies where operation = 'request_run'"
    known = dict(fleet.fetch(kept))
    verdict.blame(
        "acknowledged, but not there", (key for key, run in client.acknowledged.items() if known.get(key) != run)
    )
    asked = fleet.fetch("select count(*) from everwhen.runs where source = 'api'")[0][0]
    if asked != len(known):
        verdict.blame("keys and runs differ in number", [f"{len(known)} keys, {asked} runs"])


def _judge_hygiene(fleet: Fleet, verdict: Verdict) -> None:
    """When every process has ended, nothing of theirs is left on the server."""
    left = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
    wait_until(lambda: fleet.fetch(left) == [(0,)], seconds=30, what="every session has ended")
    for what in ("pg_prepared_xacts", "pg_replication_slots", "pg_locks where locktype = 'advisory'"):
        if count := fleet.fetch(f"select count(*) from {what}")[0][0]:
            verdict.blame("left behind", [f"{count} in {what}"])


def _is_deleted(client: httpx2.Client, name: str) -> bool:
    try:
        return client.delete(f"/v1/tenants/acme/schedules/{name}", headers={"If-Match": "*"}).status_code in {204, 404}
    except httpx2.HTTPError:
        return False


def _is_answered(client: Client) -> bool:
    if client.waiting:
        client.step()
    return not client.waiting


if __name__ == "__main__":
    sys.exit(main())
