"""Hundreds of runs of workflows while every kind of process is killed at random: each node ends as `simulate` says.

    WORKFLOW_RUNS=5000 WORKFLOW_SEED=7 pytest tests/system/test_workflows.py     for longer, or the same again

Half of the runs are asked for, the other half are planned by schedules. A node's outcome is in its input and does not
depend on the attempt, so that lost attempts change nothing about how it ends.
"""

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random  # noqa: TID251  # a run of the test is drawn by its seed, which a failure names
from typing import Any

import pytest

from everwhen import clock
from everwhen.core.retry import RetryPolicy
from everwhen.core.targets import workflow_task
from everwhen.postgres.pool import Database
from everwhen.runs import service as runs
from everwhen.runs.model import RunRequest
from everwhen.tasks.model import TaskDraft
from everwhen.tasks.service import create_task
from everwhen.verify.service import verify
from everwhen.workflows.definitions import create_workflow
from everwhen.workflows.model import Change
from tests.system.fleet import TENANT, Fleet, define_schedules, free_port, running_fleet, wait_until
from tests.system.graphs import expected, graph

pytestmark = pytest.mark.system

RUNS = int(os.environ.get("WORKFLOW_RUNS", "500"))
SEED = os.environ.get("WORKFLOW_SEED", "")
GRAPHS = 10
PATIENCE = 60 + RUNS
KILL_EVERY = (1.5, 4.0)
KINDS = ("scheduler", "conductor", "reaper", "api", "worker")

SCRIPTED = '''
"""Ends as its input says, and leaves a line outside of the system."""
import asyncio, os
from everwhen.worker import Context, NoRetry, Worker

worker = Worker()

@worker.task("scripted")
async def scripted(ctx: Context, outcome: str) -> None:
    line = f"{ctx.run_id} {ctx.attempt} {ctx.lease_token}\\n".encode()
    file = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)
    await asyncio.sleep(0.01)
    if outcome == "failed":
        raise NoRetry("as its input says")
    if outcome == "skipped":
        ctx.skip("as its input says")
'''


async def define(fleet: Fleet, graphs: Mapping[str, dict[str, Any]]) -> None:
    async with await Database.open(fleet.server.app_conninfo) as db:
        # Kills cost attempts, and to end for want of them is no outcome that `simulate` knows of.
        retry = RetryPolicy(max_attempts=1_000)
        await create_task(db, tenant_id=TENANT, draft=TaskDraft(name="scripted", queue="line", retry=retry))
        change = Change(by="system-test")
        for name, definition in graphs.items():
            await create_workflow(db, tenant_id=TENANT, name=name, definition=definition, change=change)


async def ask(fleet: Fleet, names: list[str]) -> None:
    async with await Database.open(fleet.server.app_conninfo) as db:
        for name in names:
            wanted = RunRequest(task=workflow_task(name))
            await runs.request_run(db, tenant_id=TENANT, request=wanted)


def broken_promises(fleet: Fleet) -> dict[str, Any]:
    async def check() -> dict[str, Any]:
        async with await Database.open(fleet.server.app_conninfo) as database:
            return await verify(database)

    return asyncio.run(check())


def start(fleet: Fleet, kind: str, ports: tuple[int, ...], number: int):
    if kind == "worker":
        return fleet.work(ports[number], lease_seconds=2.0, target="scripted:worker")
    return fleet.serve(kind, port=ports[number] if kind == "api" else None)


def kill_at_random(fleet: Fleet, rng: Random, ports: tuple[int, ...], is_over: Callable[[], bool]) -> Counter[str]:
    """Kill -9 whoever is drawn, and start another in its place, until it is over; return who was killed how often."""
    running = {(kind, number): start(fleet, kind, ports, number) for kind in KINDS for number in range(2)}
    killed: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE
    while not is_over():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s; killed so far: {killed}"
        time.sleep(rng.uniform(*KILL_EVERY))
        kind, number = rng.choice(sorted(running))
        fleet.kill(running[kind, number])
        running[kind, number] = start(fleet, kind, ports, number)
        killed[kind] += 1
    return killed


def test_every_node_ends_as_simulated_though_every_kind_of_process_is_killed() -> None:
    seed = SEED or clock.new_secret()
    rng = Random(seed)
    graphs = {f"flow-{number}": graph(rng) for number in range(GRAPHS)}
    with running_fleet() as fleet:
        (fleet.folder / "scripted.py").write_text(SCRIPTED)
        asyncio.run(define(fleet, graphs))
        due = fleet.fetch("select date_trunc('second', now() + interval '10 s')")[0][0].isoformat()
        for name in graphs:
            define_schedules(fleet, RUNS // 2 // GRAPHS, trigger={"kind": "at", "at": due}, task=workflow_task(name))
        names = list(itertools.islice(itertools.cycle(graphs), RUNS - RUNS // 2 // GRAPHS * GRAPHS))
        asyncio.run(ask(fleet, names))

        def ended() -> int:
            return fleet.fetch("select count(*) from everwhen.workflow_runs where ended_at is not null")[0][0]

        killed = kill_at_random(fleet, rng, (free_port(), free_port()), lambda: ended() >= RUNS * 9 // 10)
        assert killed, "it was over before anybody was killed"
        wait_until(lambda: ended() == RUNS, seconds=120, what=f"every run has ended (seed {seed}, killed {killed})")

        found = found_states(fleet)
        assert len(found) == RUNS
        wanted = {name: expected(definition) for name, definition in graphs.items()}
        assert [each for each in found if each[1] != wanted[each[0]]] == [], f"seed {seed}, killed {killed}"
        assert broken_promises(fleet) == {}, f"seed {seed}, killed {killed}"
        assert fleet.count("waiting") == fleet.count("leases") == 0
        judge_by_the_witness(fleet)


def found_states(fleet: Fleet) -> list[tuple[str, dict[str, str]]]:
    """The workflow of each run, with the states of its nodes and its own."""
    rows = fleet.fetch(
        "select r.workflow, r.run_id, n.node, n.state, e.state from everwhen.workflow_runs r"
        " join everwhen.workflow_nodes n using (tenant_id, run_id) join everwhen.run_ends e using (tenant_id, run_id)"
    )
    by_run: dict[tuple[str, Any], dict[str, str]] = {}
    for workflow, run_id, node, state, run_state in rows:
        by_run.setdefault((workflow, run_id), {"run": run_state})[node] = state
    return [(workflow, states) for (workflow, _), states in by_run.items()]


def judge_by_the_witness(fleet: Fleet) -> None:
    """Outside the system: what was executed was a released node, and each attempt at most once."""
    lines = [line.split() for line in fleet.witness.read_text().splitlines()]
    query = "select node_run_id::text from everwhen.workflow_nodes where node_run_id is not null"
    assert {run_id for run_id, _, _ in lines} == {run_id for (run_id,) in fleet.fetch(query)}
    assert len({(run_id, token) for run_id, _, token in lines}) == len(lines)
