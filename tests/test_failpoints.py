"""Failpoints: each is in the code, fires, and leaves all of its transaction behind or nothing of it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from obstore.store import MemoryStore

from everwhen import failpoints
from everwhen.alerts import service
from everwhen.audit import service as audit
from everwhen.audit.model import Actor, Deed
from everwhen.audit.notary import Notary
from everwhen.audit.places import Shelf
from everwhen.audit.sealer import ChainSealer
from everwhen.cli import main
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.lifecycle import RunState
from everwhen.core.overlap import Overlap, OverlapPolicy
from everwhen.core.planning import CatchUp, CatchUpPolicy
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.dispatch.reaper import Reaper
from everwhen.failpoints import ALLOWED, LOG, POINTS, VARIABLE, FailpointError
from everwhen.logs.service import Logs
from everwhen.operations.operator import Operator
from everwhen.overlap.gatekeeper import Gatekeeper
from everwhen.payloads.depot import Depot
from everwhen.payloads.receiving import PayloadLimits
from everwhen.payloads.service import Payloads
from everwhen.postgres.pool import Database
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from everwhen.sentinel.sentinel import Sentinel
from everwhen.tenants import service as tenants
from tests.alerts.scene import make_scene
from tests.alerts.servers import HttpsReceiver
from tests.dispatch.brokers.scene import MemoryBroker, deliver_by, make_relay
from tests.dispatch.scene import Line, hold, make_line, report_on
from tests.endpoints.scene import make_scene as make_endpoint_scene
from tests.factories import TESTER, make_run, make_schedule
from tests.logs.scene import make_writer
from tests.operations.scene import begin, make_dead, redrive
from tests.payloads.scene import put
from tests.people import app_on, client_of, token_of
from tests.workflows.scene import make_scene as make_workflow_scene

ROOT = Path(__file__).parents[1]
SOURCES = [path for path in (ROOT / "src").rglob("*.py") if path.name != "failpoints.py"]
IN_THE_SERVER = [name for name in POINTS if not name.startswith("worker.")]
MINUTE = timedelta(minutes=1)


def test_every_failpoint_is_at_exactly_one_place_and_no_other_is_named():
    found = Counter(
        name
        for path in SOURCES
        for name in re.findall(r'failpoints\.hit\("([^"]*)"\)', path.read_text(encoding="utf-8"))
    )

    assert found == Counter(list(POINTS))


def test_every_failpoint_is_on_its_page_with_its_meaning():
    page = (ROOT / "docs/operate/chaos.md").read_text(encoding="utf-8")

    for name, meaning in POINTS.items():
        assert f"| `{name}` | {meaning} |" in page


# What a point leaves behind -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A line of runs, and a way to go past each failpoint of the server: `pass_<family>`, and `<family>_is_done`."""

    db: Database
    line: Line

    async def count(self, query: str) -> int:
        return (await self.line.rows(f"select count(*) from everwhen.{query}"))[0][0]

    async def pass_scheduler(self) -> Any:
        replay = CatchUp(policy=CatchUpPolicy.REPLAY, grace=MINUTE, window=None)
        await make_schedule(self.db, self.line.tenant, trigger={"kind": "every", "every": "PT1S"}, catch_up=replay)
        now = await self.line.now()
        return lambda: Scheduler(database=self.db).tick(now)

    async def scheduler_is_done(self) -> bool:
        return await self.count("runs") > 0

    async def pass_catchup(self) -> Any:
        replay = CatchUp(policy=CatchUpPolicy.REPLAY, grace=MINUTE, window=None)
        trigger = {"kind": "cron", "expr": "* * * * *"}
        await make_schedule(self.db, self.line.tenant, trigger=trigger, catch_up=replay)
        now = await self.line.now()
        old = now - 600 * MINUTE
        await self.line.rows("update everwhen.schedules set created_at = %s returning 1", old)
        await self.line.rows("update everwhen.watermarks set decided_until = %s, next_at = %s returning 1", old, old)
        return lambda: Scheduler(database=self.db).tick(now)

    async def catchup_is_done(self) -> bool:
        return await self.count("runs where nominal_at < now() - interval '300 minutes'") > 0

    async def pass_claim(self) -> Any:
        await self.line.fill(1)
        return self.line.claim

    async def claim_is_done(self) -> bool:
        return await self.count("leases") == 1

    async def pass_heartbeat(self) -> Any:
        await self.line.fill(1)
        (lease,) = await self.line.claim(lease_seconds=10.0)
        held = [hold(lease)]
        return lambda: self.line.dispatch.renew(self.line.tenant.id, held, lease_seconds=300.0)

    async def heartbeat_is_done(self) -> bool:
        return await self.count("leases where lease_until > claimed_at + interval '1 minute'") == 1

    async def pass_complete(self) -> Any:
        await self.line.fill(1)
        (lease,) = await self.line.claim()
        return lambda: self.line.complete(report_on(lease))

    async def complete_is_done(self) -> bool:
        return await self.count("run_ends") == 1

    async def pass_reaper(self) -> Any:
        await self.line.fill(1)
        (lease,) = await self.line.claim()
        return lambda: Reaper(database=self.db, jitter=lambda: 0.0).tick(lease.lease_until)

    async def reaper_is_done(self) -> bool:
        return await self.count("attempts where outcome = 'lost'") == 1

    async def pass_expiry(self) -> Any:
        await self.line.fill(1)
        await self.line.rows("update everwhen.waiting set expires_at = available_at + interval '1 minute' returning 1")
        now = await self.line.now()
        return lambda: Reaper(database=self.db, jitter=lambda: 0.0).tick(now + 2 * MINUTE)

    async def expiry_is_done(self) -> bool:
        return await self.count("run_ends where state = 'expired'") == 1

    async def pass_relay(self) -> Any:
        await deliver_by(self.line)
        await self.line.fill(1)
        now = await self.line.now()
        relay = make_relay(self.db, MemoryBroker())
        return lambda: relay.tick(now)

    async def relay_is_done(self) -> bool:
        return await self.count("outbox where published_at is not null") == 1

    async def pass_tell(self) -> Any:
        return await self.pass_relay()

    async def tell_is_done(self) -> bool:
        return await self.count("outbox") == 1

    async def pass_operator(self) -> Any:
        await make_dead(self.db, self.line.tenant, 1)
        row = await begin(self.db, self.line.tenant, redrive())
        return lambda: Operator(database=self.db).tick(row.read_at + MINUTE)

    async def operator_is_done(self) -> bool:
        return await self.count("operations where state = 'running'") == 1

    async def pass_gatekeeper(self) -> Any:
        timing = Timing(parse_trigger({"kind": "every", "every": "PT1S"}), "UTC")
        spec = Spec(timing=timing, overlap=Overlap(policy=OverlapPolicy.SKIP))
        draft = ScheduleDraft(name="alone", task="report", spec=spec)
        made = await schedules.create_schedule(self.db, tenant_id=self.line.tenant.id, draft=draft, change=TESTER)
        await Scheduler(database=self.db).tick(made.decided_until)
        return lambda: Gatekeeper(database=self.db).tick(made.decided_until + MINUTE)

    async def gatekeeper_is_done(self) -> bool:
        return await self.count("events where kind = 'admitted'") == 1

    async def pass_start_workflow(self) -> Any:
        scene = await make_workflow_scene(self.db)
        await scene.define({"id": "a"})
        await scene.run()
        now = await scene.now()
        return lambda: scene.conductor.tick(now)

    async def start_workflow_is_done(self) -> bool:
        return await self.count("workflow_runs") == 1

    async def pass_release_node(self) -> Any:
        scene = await make_workflow_scene(self.db)
        await scene.define({"id": "a", "concurrency_key": "k"})
        await scene.run()
        await scene.run()
        await scene.conduct()
        (lease,) = (await scene.claim()).values()
        await scene.report(lease)
        now = await scene.now()
        return lambda: scene.conductor.tick(now)

    async def release_node_is_done(self) -> bool:
        return await self.count("workflow_nodes where node_run_id is not null") == 2

    async def pass_conduct(self) -> Any:
        scene = await make_workflow_scene(self.db)
        await scene.define({"id": "a"})
        await scene.run()
        await scene.conduct()
        (lease,) = (await scene.claim()).values()
        await scene.report(lease)
        now = await scene.now()
        return lambda: scene.conductor.tick(now)

    async def conduct_is_done(self) -> bool:
        return await self.count("workflow_runs where ended_at is not null") == 1

    async def pass_sentinel(self) -> Any:
        await self.line.fill(1)
        now = await self.line.now()
        return lambda: Sentinel(database=self.db).tick(now + 2 * MINUTE)

    async def sentinel_is_done(self) -> bool:
        return await self.count("findings") == 1

    async def pass_matching(self) -> Any:
        alerts = await make_scene(self.db)
        await alerts.channel()
        await alerts.subscribe(AlertKind.RUN_DEAD)
        await make_run(self.db, alerts.tenant, state=RunState.DEAD)
        return alerts.match

    async def matching_is_done(self) -> bool:
        return await self.count("alert_deliveries") == 1

    async def pass_courier(self) -> Any:
        alerts = await make_scene(self.db)
        await alerts.channel()
        await service.send_tests(self.db, tenant_id=alerts.tenant.id, name="ops", recipient=None)
        now = await self.line.now()

        async def send() -> None:
            assert await alerts.notifier.courier.begin(now) == 1
            await asyncio.gather(*alerts.notifier.courier.in_flight)

        return send

    async def courier_is_done(self) -> bool:
        return await self.count("alert_deliveries where state = 'delivered'") == 1

    async def pass_caller(self) -> Any:
        async def call() -> None:
            with HttpsReceiver() as receiver:
                endpoint = await make_endpoint_scene(self.db, url=receiver.url)
                await endpoint.line.fill()
                await endpoint.caller.tick(await self.line.now())
                await asyncio.gather(*endpoint.caller.calls.in_flight)

        return call

    async def caller_is_done(self) -> bool:
        return await self.count("run_ends") == 1

    async def pass_api(self) -> Any:
        client = client_of(app_on(self.db), token_of("editor", tenant_id=self.line.tenant.id))

        async def ask() -> None:
            async with client:
                path = f"/v1/tenants/{self.line.tenant.name}/runs"
                await client.post(path, json={"task": "report"}, headers={"Idempotency-Key": "once"})

        return ask

    async def api_is_done(self) -> bool:
        return await self.count("runs") == 1

    async def pass_transaction(self) -> Any:
        return lambda: tenants.create_tenant(self.db, name="another")

    async def pass_upload(self) -> Any:
        payloads = Payloads.on(self.db, Depot(MemoryStore()), PayloadLimits(piece_bytes=4))
        return lambda: put(payloads, self.line.tenant, b"two pieces")

    async def upload_is_done(self) -> bool:
        return await self.count("payloads") == 1

    async def pass_sealer(self) -> Any:
        await self.tell()
        now = await self.line.now()
        return lambda: ChainSealer(database=self.db).tick(now)

    async def sealer_is_done(self) -> bool:
        return await self.count("audit_links") == 1

    async def pass_notary(self) -> Any:
        await self.tell()
        now = await self.line.now()
        await ChainSealer(database=self.db).tick(now)
        return lambda: Notary(database=self.db, places=[Shelf(MemoryStore())]).tick(now)

    async def notary_is_done(self) -> bool:
        return await self.count("audit_heads where anchored > 0") == 1

    async def tell(self) -> None:
        async with self.db.tenant(self.line.tenant.id) as conn:
            deed = Deed(operation="create_task", resource="tasks/report")
            await audit.record(conn, tenant_id=self.line.tenant.id, actor=Actor(subject="ada"), deed=deed)

    async def pass_log(self) -> Any:
        logs = Logs(database=self.db, depot=Depot(MemoryStore()))
        writer = await make_writer(self.db, self.line.tenant)
        return lambda: logs.append(writer, 0, b"a line")

    async def log_is_done(self) -> bool:
        return await self.count("log_pieces") == 1

    async def transaction_is_done(self) -> bool:
        return await self.count("tenants where name = 'another'") == 1


@pytest.fixture
async def scene(database):
    return Scene(db=database, line=await make_line(database))


@pytest.mark.parametrize("name", IN_THE_SERVER)
async def test_a_failpoint_of_the_server_fires_and_leaves_all_or_nothing(scene: Scene, name: str):
    family, _, place = name.partition(".")
    go_past = await getattr(scene, f"pass_{family}")()
    is_done = getattr(scene, f"{family}_is_done")

    with failpoints.armed(f"{name}:error:1"), pytest.raises(FailpointError, match=name):
        await go_past()

    assert await is_done() == (place in {"after_commit", "before_reply"})


# Actions and permission -----------------------------------------------------------------------------------------------


def test_nothing_fires_while_nothing_is_armed():
    for name in POINTS:
        failpoints.hit(name)


def test_the_nth_pass_fires_and_no_other():
    with failpoints.armed("claim.before_commit:error:3") as traps:
        failpoints.hit("claim.before_commit")
        failpoints.hit("claim.before_commit")
        with pytest.raises(FailpointError):
            failpoints.hit("claim.before_commit")
        failpoints.hit("claim.before_commit")

    assert traps["claim.before_commit"].passes == 4


def test_a_probability_of_none_never_fires_and_one_of_all_always():
    with failpoints.armed("claim.before_commit:error:0.0,claim.after_commit:error:1.0"):
        failpoints.hit("claim.before_commit")
        with pytest.raises(FailpointError):
            failpoints.hit("claim.after_commit")


def test_another_failpoint_than_the_armed_one_does_not_fire():
    with failpoints.armed("claim.before_commit:error"):
        failpoints.hit("claim.after_commit")


@pytest.mark.parametrize(
    "text",
    [
        "nowhere:error",
        "claim.before_commit",
        "claim.before_commit:explode",
        "claim.before_commit:error:often",
        "claim.before_commit:error:1.5",
        "claim.before_commit:error:0",
        "claim.before_commit:error:-1",
        "claim.before_commit:sleep=long",
        "claim.before_commit:sleep=-1",
        "claim.before_commit:sleep=nan",
    ],
)
def test_what_makes_no_sense_is_refused_and_named(text):
    with pytest.raises(ValueError, match="EVERWHEN_FAILPOINT"):
        failpoints.parse(text)


def test_a_command_refuses_failpoints_without_the_permission(monkeypatch):
    monkeypatch.setenv(VARIABLE, "claim.before_commit:error")

    result = CliRunner().invoke(main, ["presets"])

    assert result.exit_code == 2
    assert ALLOWED in result.stderr


def test_a_command_with_the_permission_says_what_is_armed(monkeypatch):
    monkeypatch.setenv(VARIABLE, "claim.before_commit:error:0.5")
    monkeypatch.setenv(ALLOWED, "yes")

    with failpoints.armed(""):  # puts back what the command arms
        result = CliRunner().invoke(main, ["presets"])

    assert result.exit_code == 0
    assert "claim.before_commit" in result.stderr


def passing(action: str, log: Path) -> "subprocess.Popen[bytes]":
    """A process that arms itself from its environment and passes a failpoint."""
    code = "from everwhen import failpoints as f; f.arm_from_environment(); f.hit('claim.after_commit'); print('past')"
    environment = os.environ | {VARIABLE: f"claim.after_commit:{action}", ALLOWED: "yes", LOG: str(log)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)


def test_kill9_ends_the_process_and_leaves_a_line(tmp_path):
    process = passing("kill9", tmp_path / "log")
    said, _ = process.communicate(timeout=30)

    assert (process.returncode, said) == (-signal.SIGKILL, b"")
    assert (tmp_path / "log").read_text() == f"claim.after_commit kill9 {process.pid}\n"


def test_stop_halts_the_process_until_it_is_continued(tmp_path):
    process = passing("stop", tmp_path / "log")
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)

    process.send_signal(signal.SIGCONT)

    assert process.communicate(timeout=30)[0] == b"past\n"


async def test_a_run_moves_on_after_the_crash_of_its_claim(database, scene):
    """Before the commit nothing was granted; the next claim gets the run as if nobody had asked."""
    view = await make_run(database, scene.line.tenant)
    wish = scene.line.wish(queues=(view.row.queue,))
    with failpoints.armed("claim.before_commit:error:1"), pytest.raises(FailpointError):
        await scene.line.dispatch.claim(wish)

    (lease,) = (await scene.line.dispatch.claim(wish)).leases

    assert (lease.run_id, lease.attempt) == (view.row.run_id, 1)
