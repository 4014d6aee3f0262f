"""A thousand runs posted to an endpoint in every mood, while its callers are killed: none is lost, none has two ends.

    ENDPOINT_RUNS=200 ENDPOINT_SEED=7 pytest tests/system/test_endpoints.py     fewer, or the same again

Two callers share the work, and one is killed every second or so. The endpoint succeeds, accepts and reports later,
accepts and forgets, fails, asks for time, hangs and cuts, as it is drawn. Judged by what it was asked, against the
database: every run succeeds; what was posted is an attempt, under the run's one idempotency key; no message came twice.
"""

import asyncio
import os
import sys
import time
from collections import Counter
from random import Random  # noqa: TID251  # a run of the test is drawn by its seed, which a failure names
from typing import Final

import httpx2
import pytest

from everwhen import clock
from everwhen.config import Settings
from everwhen.endpoints import service
from everwhen.endpoints.model import EndpointDraft
from everwhen.endpoints.service import EndpointsDesk
from everwhen.outside import make_policy
from everwhen.postgres.pool import Database
from everwhen.revisions import NONE
from everwhen.sealing.ring import new_entry, read_ring
from everwhen.sealing.service import Sealer
from everwhen.tenants.service import find_tenant
from everwhen.verify.service import verify
from tests.alerts.certificates import authority
from tests.alerts.servers import CUT, HANG, HttpsReceiver, Reply, Request
from tests.dispatch.scene import fill
from tests.hunting import dump_of, found
from tests.system.fleet import SECRET, TENANT, Fleet, free_port, running_fleet, wait_until

pytestmark = pytest.mark.system

RUNS: Final = int(os.environ.get("ENDPOINT_RUNS", "1000"))
SEED: Final = os.environ.get("ENDPOINT_SEED") or str(clock.new_id(clock.process_now()))
KEY: Final = "whsec_" + "Y2FuYXJ5LW9mLXRoZS1lbmRwb2ludHMtdGVz"
MOODS: Final = {200: 60, 202: 20, 500: 6, 503: 2, HANG: 2, CUT: 6, "forget": 4}
LATER: Final = Reply(status=503, headers={"Retry-After": "1"})


class Moody(HttpsReceiver):
    """An endpoint whose answers are drawn; it keeps what it has accepted and is to report."""

    def __init__(self) -> None:
        super().__init__(secrets=(KEY,))
        self.random = Random(SEED)
        self.accepted: list[dict] = []

    def answer(self, request: Request) -> int | str | Reply:
        if (refused := super().answer(request)) != self.ordinary:
            return refused
        [mood] = self.random.choices(list(MOODS), weights=list(MOODS.values()))
        if mood == 202:
            self.accepted.append(request.json["data"])
        return LATER if mood == 503 else 202 if mood == "forget" else mood


def environment_of(endpoint: Moody) -> dict[str, str]:
    return {
        "EVERWHEN_SEALING_KEYS": new_entry("test"),
        "EVERWHEN_EGRESS_ALLOW": "127.0.0.0/8,::1/128",
        "EVERWHEN_EGRESS_PORTS": str(endpoint.port),
        "EVERWHEN_EGRESS_CA_FILE": str(authority().file),
    }


async def prepare(fleet: Fleet, endpoint: Moody) -> None:
    """Give the line its endpoint, and runs that are due."""
    settings = Settings(jwt_secret=SECRET)  # pyright: ignore[reportCallIssue]
    sealer = Sealer(read_ring(settings.sealing_keys.get_secret_value() if settings.sealing_keys else ""))
    draft = EndpointDraft(url=endpoint.url, answer_seconds=2.0, accept_seconds=10.0, secrets={"secret": KEY})
    async with await Database.open(fleet.server.app_conninfo) as db:
        desk = EndpointsDesk(database=db, sealer=sealer, policy=make_policy(settings))
        await service.put_endpoint(desk, tenant_id=TENANT, queue="line", draft=draft, by="test", expected=NONE)
        await fill(db, await find_tenant(db, name="acme", bound_to=None), count=RUNS, task="witness")


def report(fleet: Fleet, port: int, accepted: list[dict]) -> Counter[bool]:
    """Report what was accepted, as the endpoint's own people would; return how many reports were taken."""
    told, accepted[:] = list(accepted), []
    keys = ("tenant_id", "run_id", "lease_token")
    reports = [{**{key: each[key] for key in keys}, "outcome": "succeeded"} for each in told]
    if not reports:
        return Counter()
    try:
        answer = httpx2.post(
            f"http://127.0.0.1:{port}/v1/worker/complete",
            json={"worker": "billing", "reports": reports},
            headers={"Authorization": f"Bearer {fleet.token()}"},
            trust_env=False,
            timeout=30,
        )
    except httpx2.TransportError:  # the API is not there yet
        accepted[:] = [*told, *accepted]
        return Counter()
    return Counter(each["accepted"] for each in answer.json()["results"])


def test_no_run_is_lost_and_none_ends_twice_while_callers_are_killed(monkeypatch) -> None:
    with Moody() as endpoint, running_fleet() as fleet:
        for name, value in environment_of(endpoint).items():
            monkeypatch.setenv(name, value)
        asyncio.run(prepare(fleet, endpoint))
        port = free_port()
        fleet.serve("api", port=port)
        fleet.serve("reaper")
        callers = [fleet.serve("caller") for _ in range(2)]
        killed, taken, deadline = 0, Counter[bool](), time.monotonic() + 240
        wait_until(lambda: len(endpoint.requests) > 0, seconds=60, what="the first request")
        kill_at = time.monotonic() + 1
        while fleet.count("run_ends") < RUNS:
            assert time.monotonic() < deadline, (SEED, fleet.count("run_ends"))
            if time.monotonic() > kill_at and killed < 8:
                killed, kill_at = killed + 1, time.monotonic() + endpoint.random.uniform(0.5, 2)
                fleet.kill(callers.pop(0))
                callers.append(fleet.serve("caller"))
            taken += report(fleet, port, endpoint.accepted)
            time.sleep(0.2)
        judge(fleet, endpoint)
        sys.stdout.write(
            f"{RUNS} runs, {len(endpoint.requests)} requests, {killed} killed, reports {dict(taken)}, seed {SEED}\n"
        )


def judge(fleet: Fleet, endpoint: Moody) -> None:
    assert fleet.fetch("select state, count(*) from everwhen.run_ends group by 1") == [("succeeded", RUNS)]
    attempts = {f"{run}-{n}" for run, n in fleet.fetch("select run_id, attempt from everwhen.attempts")}
    posted = Counter(request.headers["webhook-id"] for request in endpoint.requests)
    assert set(posted) <= attempts, SEED
    assert max(posted.values()) == 1, SEED
    assert all(
        request.headers["webhook-id"].startswith(request.headers["idempotency-key"]) for request in endpoint.requests
    )
    assert sum(endpoint.verified.values()) == len(endpoint.requests)
    assert asyncio.run(promises_of(fleet)) == {}
    assert found(dump_of(fleet.server.superuser_conninfo), [KEY]) == []


async def promises_of(fleet: Fleet) -> object:
    async with await Database.open(fleet.server.app_conninfo) as db:
        return await verify(db)
