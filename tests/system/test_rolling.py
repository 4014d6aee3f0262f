"""Every worker of a fleet is replaced under load, by a signal and by an order: no run is lost, none is tried twice."""

import signal

import pytest

from everwhen import clock
from everwhen.http.auth import mint_token
from everwhen.http.roles import Role
from tests.system.fleet import SECRET, TENANT, Fleet, define_schedules, free_port, running_fleet, wait_until
from tests.system.test_storm import broken_promises

pytestmark = pytest.mark.system

TASKS = """
import asyncio, time
from everwhen.worker import Worker

worker = Worker()

@worker.task("short")
def short():
    return "done"

@worker.task("long")
def long():
    time.sleep(1.5)
    return "done"

@worker.task("async-long")
async def async_long():
    await asyncio.sleep(2.5)
    return "done"
"""
EVERY_SECOND = {"kind": "every", "every": "PT1S"}


def test_three_workers_are_replaced_under_load_and_no_run_notices() -> None:
    with running_fleet() as fleet:
        (fleet.folder / "rolling.py").write_text(TASKS)
        define(fleet)
        port = free_port()
        fleet.serve("api,scheduler,reaper", port=port)
        old = [work(fleet, port, f"old-{number}") for number in range(3)]
        wait_until(lambda: alive(fleet) == 3, seconds=60, what="three workers are listed")
        wait_until(lambda: fleet.count("run_ends") > 50, seconds=60, what="the fleet is under load")
        for number, process in enumerate(old):
            work(fleet, port, f"new-{number}")
            wait_until(lambda: alive(fleet) == 4, seconds=60, what="its successor is listed")
            before = fleet.count("run_ends")
            if number == 1:
                drain(fleet, port, f"old-{number}")
            else:
                process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            wait_until(lambda: alive(fleet) == 3, seconds=60, what="it has left")
            wait_until(lambda before=before: fleet.count("run_ends") > before + 20, seconds=60, what="work goes on")
        fleet.sql.execute("update everwhen.schedules set state = 'paused'")
        fleet.sql.execute("update everwhen.watermarks set next_at = null")
        wait_until(lambda: fleet.count("leases") == fleet.count("waiting") == 0, seconds=60, what="all has ended")

        outcomes = fleet.fetch("select outcome, max(attempt) from everwhen.attempts group by 1")
        assert outcomes == [("succeeded", 1)]
        workers = {name for (name,) in fleet.fetch("select distinct worker from everwhen.attempts")}
        assert workers == {f"{age}-{number}" for age in ("old", "new") for number in range(3)}
        assert fleet.fetch("select count(*) from everwhen.events where kind = 'refused'") == [(0,)]
        assert broken_promises(fleet) == {}


def define(fleet: Fleet) -> None:
    for name in ("short", "long", "async-long"):
        fleet.sql.execute(
            "insert into everwhen.tasks select tenant_id, %s, queue, priority, retry, 60, null, now(), now()"
            " from everwhen.tasks where name = 'witness'",
            (name,),
        )
    define_schedules(fleet, 20, trigger=EVERY_SECOND, task="short")
    define_schedules(fleet, 3, trigger=EVERY_SECOND, task="long")
    define_schedules(fleet, 3, trigger=EVERY_SECOND, task="async-long")


def work(fleet: Fleet, port: int, name: str):
    return fleet.work(
        port,
        lease_seconds=20.0,
        target="rolling:worker",
        environment={"EVERWHEN_WORKER_ID": name},
        drain_seconds=30.0,
    )


def alive(fleet: Fleet) -> int:
    return fleet.count("workers")


def drain(fleet: Fleet, port: int, name: str) -> None:
    """Drain it by the command line, and wait until it is gone."""
    token = mint_token(SECRET, subject="ops", roles=[Role.OPERATOR], tenant_id=TENANT, now=clock.process_now())
    target = {"EVERWHEN_URL": f"http://127.0.0.1:{port}", "EVERWHEN_TENANT": "acme", "EVERWHEN_TOKEN": token}
    arguments = ["worker", "drain", name, "--exit", "--wait", "--timeout", "60"]
    assert fleet.run(arguments, environment=target) == 0
