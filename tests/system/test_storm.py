"""Five thousand schedules due in the same second, while one of each kind of process is killed in the middle of it."""

import asyncio
from collections import Counter

import pytest

from everwhen.postgres.pool import Database
from everwhen.verify.service import verify
from tests.system.fleet import Fleet, define_schedules, free_port, running_fleet, wait_until

pytestmark = pytest.mark.system

SCHEDULES = 5_000


def broken_promises(fleet: Fleet) -> dict:
    async def check() -> dict:
        async with await Database.open(fleet.server.app_conninfo) as database:
            return await verify(database)

    return asyncio.run(check())


def test_each_occurrence_has_one_run_that_ends_though_every_kind_of_process_is_killed() -> None:
    with running_fleet() as fleet:
        due = fleet.fetch("select date_trunc('second', now() + interval '20 s')")[0][0]
        define_schedules(fleet, SCHEDULES, trigger={"kind": "at", "at": due.isoformat()})
        port = free_port()
        schedulers = [fleet.serve("scheduler") for _ in range(2)]
        wait_until(lambda: fleet.count("runs") > 0, seconds=30, what="the first runs are planned")
        fleet.kill(schedulers[0])
        api = fleet.serve("api", port=port)
        reapers = [fleet.serve("reaper") for _ in range(2)]
        workers = [fleet.work(port) for _ in range(3)]
        wait_until(lambda: fleet.count("runs") == SCHEDULES, seconds=60, what="every run is planned")
        wait_until(lambda: fleet.count("run_ends") > SCHEDULES // 10, seconds=60, what="some runs have ended")
        fleet.kill(workers[0])
        fleet.kill(reapers[0])
        wait_until(lambda: fleet.count("run_ends") > SCHEDULES // 4, seconds=60, what="a quarter has ended")
        fleet.kill(api)
        fleet.serve("api", port=port)
        wait_until(lambda: fleet.count("run_ends") == SCHEDULES, seconds=120, what="every run has ended")

        assert broken_promises(fleet) == {}
        assert fleet.fetch("select state, count(*) from everwhen.run_ends group by 1") == [("succeeded", SCHEDULES)]
        assert fleet.fetch("select count(distinct (schedule_uid, nominal_at)) from everwhen.runs") == [(SCHEDULES,)]
        assert fleet.fetch("select distinct nominal_at from everwhen.runs") == [(due,)]
        assert fleet.count("waiting") == fleet.count("leases") == 0
        judge_by_the_witness(fleet)


def judge_by_the_witness(fleet: Fleet) -> None:
    """Outside the system: every run was executed, and more than once only where an attempt was lost."""
    lines = [line.split() for line in fleet.witness.read_text().splitlines()]
    executions = Counter(run_id for run_id, _, _ in lines)
    opened = {
        str(run): count for run, count in fleet.fetch("select run_id, count(*) from everwhen.attempts group by 1")
    }
    assert set(executions) == set(opened)
    assert all(count <= opened[run_id] for run_id, count in executions.items())
    assert len({(run_id, token) for run_id, _, token in lines}) == len(lines)
