"""A worker that stops for three leases and then reports: refused, recorded, the run's state unmoved."""

import signal
from datetime import timedelta

import httpx2
import pytest

from everwhen.dispatch.tokens import LeaseTokens
from tests.system.fleet import SECRET, TENANT, define_schedules, free_port, running_fleet, wait_until
from tests.system.test_storm import broken_promises

pytestmark = pytest.mark.system


def test_a_worker_that_slept_for_three_leases_changes_nothing() -> None:
    with running_fleet() as fleet:
        at = fleet.fetch("select now()")[0][0] + timedelta(seconds=1)
        define_schedules(fleet, 1, trigger={"kind": "at", "at": at.isoformat()}, task="holder")
        port = free_port()
        for role in ("scheduler", "reaper"):
            fleet.serve(role)
        fleet.serve("api", port=port)
        sleepy = fleet.work(
            port, lease_seconds=5.0
        )  # not so short that a busy machine takes it before we stop the worker
        wait_until(fleet.witness.exists, seconds=60, what="the run is being executed")
        sleepy.send_signal(signal.SIGSTOP)
        stale = fleet.fetch("select run_id, lease_token from everwhen.leases")[0]
        wait_until(lambda: fleet.count("attempts") == 1, seconds=60, what="the lease is reaped")
        fleet.let_go()
        fleet.work(port, lease_seconds=30.0)
        wait_until(lambda: fleet.count("run_ends") == 1, seconds=60, what="another worker ends the run")
        ended = fleet.fetch("select * from everwhen.run_ends"), fleet.fetch("select * from everwhen.attempts")

        sleepy.send_signal(signal.SIGCONT)
        sleepy.terminate()
        assert sleepy.wait(60) == 0
        answer = _report(fleet, port, *stale)

        assert answer == {"accepted": False, "state": "succeeded", "code": "lease.lost"}
        assert (fleet.fetch("select * from everwhen.run_ends"), fleet.fetch("select * from everwhen.attempts")) == ended
        outcomes = fleet.fetch("select outcome from everwhen.attempts order by attempt")
        assert outcomes == [("lost",), ("succeeded",)]
        refused = fleet.fetch("select reason, detail ->> 'worker' from everwhen.events where kind = 'refused'")
        # Once for each lease: who slept may have sent its own late report before, when it was woken.
        assert [reason for reason, _ in refused] == ["lease.lost"]
        assert broken_promises(fleet) == {}


def _report(fleet, port: int, run_id, token: int) -> dict:
    """Report as a worker without an SDK would, which keeps nothing from being sent."""
    report = {
        "tenant_id": str(TENANT),
        "run_id": str(run_id),
        "lease_token": LeaseTokens(SECRET).seal(run_id, token),
        "outcome": "failed",
    }
    response = httpx2.post(
        f"http://127.0.0.1:{port}/v1/worker/complete",
        json={"worker": "stale-by-hand", "reports": [report]},
        headers={"Authorization": f"Bearer {fleet.token()}"},
        trust_env=False,
    )
    answer = response.json()["results"][0]
    return {key: answer[key] for key in ("accepted", "state", "code")}
