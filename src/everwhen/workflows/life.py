"""The life of a workflow's run: what happens when nodes end, and when the run as a whole is started, halted or ended.

    started ──> nodes are released and end, in waves ──> every node has ended ──> the run ends
                         │ a node fails, under fail_fast
                         │ somebody cancels the run             ──> halted: no ordinary node is released any more;
                         │ its deadline passes                      the finally-nodes still have their turn

The decisions are those of `core/dag.py`. A node's run is a run like any other, marked as followed; its id is a function
of the workflow's run, the node and its place in a fan-out.

Invariants

1. What follows from the end of a node's run is written in the transaction that ends it, under the lock of the
   workflow's run. Two upstreams that end at the same time take that lock one after the other, and the second finds the
   first counted: a join is released by exactly one of them. A second release would break on the primary key besides.
2. A node is counted by its downstream nodes exactly once: its run's end is heard once, and `ended_at` is set with it.
3. The locks are taken in one order: whatever a run's end holds (its lease, its place in the line), then the rows of
   workflows' runs in the order of their keys, then nothing of anybody else's. So whoever holds a workflow's run never
   waits for a lease; what has to be stopped is stopped by the conductor, in a transaction that holds no workflow's run.
4. A workflow's run is ended by the conductor, in a transaction of its own: it may be a node of another workflow, whose
   lock must not be waited for under this one's. `look_at` says that there is something to do, and is written with its
   cause.
5. What a node's end costs depends on its edges: rows are counters, and only those downstream are read.

Crash points: before the commit nothing has happened, neither the end of the node's run nor what follows: its lease runs
out, or its worker reports again. After the commit there is nothing left to do. If the process that should wake the
conductor dies, the conductor looks by itself within a second.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from everwhen import failpoints
from everwhen.core.dag import (
    Advance,
    Cause,
    Halt,
    NodeEnd,
    NodeVerdict,
    ends_of,
    halt,
    node_state_of,
    rows_of_step,
    step,
)
from everwhen.core.dag_opening import read_end
from everwhen.core.dag_values import ENDED, NodeState
from everwhen.core.lifecycle import RunState
from everwhen.core.reasons import Reason
from everwhen.core.targets import WORKFLOW_QUEUE
from everwhen.postgres.pool import Connection
from everwhen.runs.ends import Ended
from everwhen.workflows import store
from everwhen.workflows.ledger import Ledger
from everwhen.workflows.model import NO_INSTANCE, NodeRef, NodeRow, counts_of
from everwhen.workflows.releasing import feed, open_nodes, write_releases
from everwhen.workflows.versions import load_version

OnReady = Callable[[Connection, UUID, str], Awaitable[None]]
"""Called inside the transaction that lines runs up: (connection, tenant, queue)."""

HALT_REASONS: Final = {
    Halt.FAIL_FAST: Reason.WORKFLOW_FAIL_FAST,
    Halt.CANCEL: Reason.CANCEL_REQUESTED,
    Halt.DEADLINE: Reason.DEADLINE_TOTAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFollower:
    """Follows the ends of nodes' runs: composed into `on_ended`, see runs/ends.py."""

    on_ready: OnReady

    async def __call__(self, conn: Connection, ended: Sequence[Ended], now: datetime) -> None:
        """Do what follows from these ends, for every workflow's run that they belong to."""
        by_run = {(each.tenant_id, each.run_id): each for each in ended}
        refs = await store.find_ended_nodes(
            conn, tenant_ids=[tenant_id for tenant_id, _ in by_run], run_ids=[run_id for _, run_id in by_run]
        )
        if not refs:
            return
        runs = await store.lock_runs(
            conn,
            tenant_ids=sorted({ref.tenant_id for ref in refs}),
            run_ids=sorted({ref.run_id for ref in refs}),
        )
        for run in runs:
            version = await load_version(conn, tenant_id=run.tenant_id, workflow=run.workflow, version=run.version)
            ledger = Ledger.open(conn, run, version, now=now)
            mine = [ref for ref in refs if (ref.tenant_id, ref.run_id) == (run.tenant_id, run.run_id)]
            await _count(ledger, [(ref, by_run[ref.tenant_id, ref.node_run_id]) for ref in mine])
            await settle(ledger, on_ready=self.on_ready)


async def proceed(ledger: Ledger, ends: Sequence[NodeEnd]) -> None:
    """Do everything that follows from nodes that have ended, whose own rows say so already."""
    halted = ledger.standing.halt
    finished = list(ends)
    while True:
        while finished:
            finished = await _wave(ledger, finished)
        if ledger.standing.halt is not halted and ledger.standing.halt is not None:  # the run failed fast
            halted = ledger.standing.halt
            finished = await halt_nodes(ledger, halted)
        else:
            finished = await _admit(ledger)
        if not finished:
            return


async def take(ledger: Ledger, found: Advance, *, is_whole: bool) -> list[NodeEnd]:
    """Take what the core has decided; return the ends that it has not counted yet.

    `is_whole` says that what follows from the verdicts has been followed already, as `dag.halt` does.
    """
    ledger.standing = found.standing
    await ledger.load((node, NO_INSTANCE) for node in found.tallies)
    for node, tally in found.tallies.items():
        row = ledger.node(node)
        row.tally = counts_of(tally)
        ledger.change(row)
    for verdict in found.verdicts:
        if verdict.state in ENDED:
            _end_unreleased(ledger, verdict)
    released = [verdict.node for verdict in found.verdicts if verdict.state is NodeState.WAITING]
    ended = await open_nodes(ledger, released)
    return ended if is_whole else [*ends_of(found.verdicts), *ended]


async def halt_nodes(ledger: Ledger, why: Halt) -> list[NodeEnd]:
    """Release no ordinary node any more: end what is blocked or held, and return the ends that are to be counted."""
    await ledger.load_all()
    held = [row for row in await ledger.load_held() if not ledger.workflow.graph.nodes[row.node].is_finally]
    nodes = [node.id for node in ledger.workflow.nodes]
    found = halt(ledger.workflow, ledger.states(nodes), standing=ledger.standing, why=why)
    ended = await take(ledger, found, is_whole=True)
    return [*ended, *await _end_held(ledger, held)]


async def settle(ledger: Ledger, *, on_ready: OnReady) -> None:
    """Write the ledger, and wake whoever has something to do by it."""
    if ledger.outcome is not None:
        ledger.look_at, ledger.wakes_conductor = ledger.now, True
    queues = await write_releases(ledger)
    await ledger.write()
    if queues:
        failpoints.hit("release_node.before_commit")
    if ledger.wakes_conductor:
        queues.add(WORKFLOW_QUEUE)
    for queue in sorted(queues):
        await on_ready(ledger.conn, ledger.run.tenant_id, queue)


async def _count(ledger: Ledger, ended: Sequence[tuple[NodeRef, Ended]]) -> None:
    """Count the ends of nodes' runs, and do what follows."""
    keys = [(ref.node, ref.instance) for ref, _ in ended]
    await ledger.load([*keys, *((node, NO_INSTANCE) for node, instance in keys if instance != NO_INSTANCE)])
    results = await _steering(ledger, ended)
    finished: list[NodeEnd] = []
    fan_outs: dict[str, None] = {}
    for ref, end in ended:
        row = ledger.rows[ref.node, ref.instance]
        if row.ended_at is not None:
            continue
        ledger.live -= 1
        read = _end_released(ledger, row, end, results.get(ref.node_run_id))
        if ref.instance == NO_INSTANCE:
            finished.append(read)
        else:
            parent = ledger.node(ref.node)
            parent.instances_ended += 1
            ledger.change(parent)
            fan_outs[ref.node] = None
    await _free_keys(ledger, ended)
    for fan_out in fan_outs:
        fed = await feed(ledger, ledger.workflow.graph.nodes[fan_out])
        finished += [] if fed is None else [fed]
    await proceed(ledger, finished)


async def _wave(ledger: Ledger, finished: Sequence[NodeEnd]) -> list[NodeEnd]:
    rows = rows_of_step(ledger.workflow, finished, standing=ledger.standing)
    await ledger.load((node, NO_INSTANCE) for node in rows)
    found = step(ledger.workflow, ledger.states(rows), finished, standing=ledger.standing)
    return await take(ledger, found, is_whole=False)


async def _admit(ledger: Ledger) -> list[NodeEnd]:
    """Release what waits for room, as far as there is some; return what ends by it."""
    ended: list[NodeEnd] = []
    full: set[str] = set()
    while ledger.workflow.max_parallel is not None and (room := ledger.room()):
        await ledger.write_nodes()  # so that what is held just now is found
        found = await store.read_held(ledger.conn, **ledger.key, full_nodes=sorted(full), limit=room)
        if not found:
            break
        held = [row for row in ledger.adopt(found) if row.is_held]
        ended += await open_nodes(ledger, [row.node for row in held if row.instance == NO_INSTANCE])
        for fan_out in sorted({row.node for row in held if row.instance != NO_INSTANCE}):
            await ledger.load([(fan_out, NO_INSTANCE)])
            fed = await feed(ledger, ledger.workflow.graph.nodes[fan_out])
            ended += [] if fed is None else [fed]
            full.add(fan_out)
    return ended


def _end_released(ledger: Ledger, row: NodeRow, ended: Ended, result: str | None) -> NodeEnd:
    """End a node, or an instance, as its run has ended, and as its result says."""
    state = node_state_of(RunState(ended.state))
    value: Any = None if result is None else json.loads(result)
    end, error = read_end(ledger.workflow, row.node, state, value)
    reason: str | None = ended.reason
    detail: str | None = None
    if error is not None:
        reason, detail = Reason.WORKFLOW_DATA, json.dumps({"code": error.code, "message": error.message})
    elif end.state is NodeState.SKIPPED and state is NodeState.SUCCEEDED:
        reason, detail = Reason.WORKFLOW_SKIPPED, json.dumps({"message": value["$skip"]})
    row.end(end, now=ledger.now, reason=reason, detail=detail)
    ledger.change(row)
    return end


def _end_unreleased(ledger: Ledger, verdict: NodeVerdict) -> None:
    """End a node that will not run."""
    row = ledger.node(verdict.node)
    row.end(NodeEnd(node=verdict.node, state=verdict.state), now=ledger.now, reason=_reason(ledger, verdict))
    ledger.change(row)


def _reason(ledger: Ledger, verdict: NodeVerdict) -> Reason:
    if verdict.cause is Cause.HALT:
        halted = ledger.standing.halt
        assert halted is not None
        return HALT_REASONS[halted]
    if verdict.cause is Cause.NOT_TAKEN:
        return Reason.WORKFLOW_BRANCH
    return Reason.WORKFLOW_UPSTREAM_FAILED if verdict.state is NodeState.UPSTREAM_FAILED else Reason.WORKFLOW_RULE


async def _end_held(ledger: Ledger, held: Sequence[NodeRow]) -> list[NodeEnd]:
    """End what was let run and has not been released, because the run is halted."""
    halted = ledger.standing.halt
    assert halted is not None
    ended: list[NodeEnd] = []
    fan_outs: dict[str, None] = {}
    for row in held:
        end = NodeEnd(node=row.node, state=NodeState.CANCELLED)
        waited_for_room = row.concurrency_key is None
        row.end(end, now=ledger.now, reason=HALT_REASONS[halted])
        ledger.change(row)
        if row.instance == NO_INSTANCE:
            ended.append(end)
            continue
        parent = ledger.node(row.node)
        parent.instances_ended += 1
        parent.instances_released += waited_for_room  # one that waits for its key was counted when it was opened
        ledger.change(parent)
        fan_outs[row.node] = None
    for fan_out in fan_outs:
        fed = await feed(ledger, ledger.workflow.graph.nodes[fan_out])
        ended += [] if fed is None else [fed]
    return ended


async def _steering(ledger: Ledger, ended: Sequence[tuple[NodeRef, Ended]]) -> dict[UUID, str | None]:
    nodes = ledger.workflow.graph.nodes
    well = [ref for ref, end in ended if end.state == RunState.SUCCEEDED]
    if not well:
        return {}
    found = await store.read_steering(
        ledger.conn,
        tenant_id=ledger.run.tenant_id,
        run_ids=[ref.node_run_id for ref in well],
        are_branches=[nodes[ref.node].is_branch for ref in well],
    )
    return {each.run_id: each.result for each in found}


async def _free_keys(ledger: Ledger, ended: Sequence[tuple[NodeRef, Ended]]) -> None:
    nodes = ledger.workflow.graph.nodes
    keyed = [ref.node_run_id for ref, _ in ended if nodes[ref.node].concurrency_key is not None]
    if keyed and await store.free_keys(ledger.conn, tenant_ids=[ledger.run.tenant_id], node_run_ids=keyed):
        ledger.wakes_conductor = True
