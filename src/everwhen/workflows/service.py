"""What can be done with workflows' runs: look at one, cancel it, run a part of it again.

A run that has ended stays as it is. Running a part of it again makes the next generation: a run of its own, linked to
the one before, that keeps the ends of the nodes it does not begin again from. Of one generation there is one run: the
key on family and generation decides between two that ask at once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.core.dag_values import UNWELL, Node, NodeState, Workflow
from everwhen.core.ids import rerun_id
from everwhen.core.reasons import Reason
from everwhen.core.targets import WORKFLOW_QUEUE, workflow_of
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.limits import quotas
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.ends import OnEnded, nobody_follows
from everwhen.runs.planning import ensure_partitions
from everwhen.runs.service import RunView
from everwhen.workflows import store
from everwhen.workflows.foreseeing import Foresight, foresee
from everwhen.workflows.life import OnReady
from everwhen.workflows.model import NO_INSTANCE, Change, FanOutCount, LiveState, NodeRow, WorkflowRunRow
from everwhen.workflows.versions import load_version

MOST_LIVE: Final = 20_000
MOST_GENERATIONS: Final = 1_000
MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node of a run as of now."""

    node: Node
    row: NodeRow
    state: NodeState
    reason: str | None
    live: LiveState | None
    instances: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRunView:
    """A workflow's run with its nodes, in the order of the definition; without any until it has started."""

    run: RunView
    row: WorkflowRunRow | None
    workflow: Workflow | None
    nodes: Sequence[NodeView]
    generations: Sequence[WorkflowRunRow]
    foresight: Foresight | None
    now: datetime


async def get_workflow_run(db: Database, *, tenant_id: UUID, ref: str) -> WorkflowRunView:
    """Read a workflow's run by its id or by `schedule@local-time+offset`; raise NotFound."""
    run = await _run(db, tenant_id, ref)
    async with db.tenant(tenant_id) as conn:
        row = await store.get_run(conn, tenant_id=tenant_id, run_id=run.row.run_id)
        if row is None:
            return WorkflowRunView(
                run=run, row=None, workflow=None, nodes=(), generations=(), foresight=None, now=conn.now
            )
        version = await load_version(conn, tenant_id=tenant_id, workflow=row.workflow, version=row.version)
        generations = await store.list_generations(
            conn, tenant_id=tenant_id, root_run_id=row.root_run_id, limit=MOST_GENERATIONS
        )
        nodes = await _nodes(conn, row, version.workflow)
        stand = [(each.row, each.state) for each in nodes]
        return WorkflowRunView(
            run=run,
            row=row,
            workflow=version.workflow,
            nodes=nodes,
            generations=generations,
            foresight=await foresee(conn, row, version.workflow, stand) if stand else None,
            now=conn.now,
        )


async def get_node(db: Database, *, tenant_id: UUID, ref: str, node: str) -> WorkflowRunView:
    """Read a run that has this node; raise NotFound, and Conflict when the run has not started."""
    view = await get_workflow_run(db, tenant_id=tenant_id, ref=ref)
    if not view.nodes:
        detail = f"The workflow's run has not started: everwhen why {view.run.row.run_id} says why."
        raise Conflict(detail, code="workflow.not_started")
    if all(each.node.id != node for each in view.nodes):
        raise NotFound("The workflow's run has no such node.", code="workflow.unknown_node")
    return view


async def list_instances(
    db: Database, *, tenant_id: UUID, ref: str, node: str, after: int, limit: int
) -> list[NodeRow]:
    """Return up to `limit` instances of a fan-out after this one; raise NotFound."""
    run = await _run(db, tenant_id, ref)
    async with db.tenant(tenant_id) as conn:
        row = await store.get_run(conn, tenant_id=tenant_id, run_id=run.row.run_id)
        version = row and await load_version(conn, tenant_id=tenant_id, workflow=row.workflow, version=row.version)
        if version is None or node not in version.workflow.graph.nodes:
            raise NotFound("The workflow's run has no such node.", code="workflow.unknown_node")
        return await store.list_instances(
            conn, tenant_id=tenant_id, run_id=run.row.run_id, node=node, after=after, limit=limit
        )


async def cancel_workflow_run(
    db: Database,
    *,
    tenant_id: UUID,
    ref: str,
    change: Change,
    on_ended: OnEnded = nobody_follows,
) -> WorkflowRunView:
    """End a run that waits; of one that runs, have the conductor stop what runs and what waits.

    Raises NotFound, and Conflict when the run ended otherwise.
    """
    run = await _run(db, tenant_id, ref)
    run_ref = str(run.row.run_id)
    await runs.cancel_run(db, tenant_id=tenant_id, ref=run_ref, by=change.by, reason=change.reason, on_ended=on_ended)
    return await get_workflow_run(db, tenant_id=tenant_id, ref=run_ref)


async def rerun_workflow_run(
    db: Database,
    *,
    tenant_id: UUID,
    ref: str,
    nodes: Sequence[str],
    change: Change,
    on_ready: OnReady | None = None,
) -> WorkflowRunView:
    """Make the next generation of an ended run: these nodes and what is downstream of them begin again.

    Without nodes it begins again from all that failed. Raises NotFound, InvalidInput for an unknown node, and Conflict
    when the run has not ended, is not the latest generation, or has nothing to begin again from.
    """
    run = await _run(db, tenant_id, ref)
    async with db.tenant(tenant_id) as conn:
        locked = await store.lock_runs(conn, tenant_ids=[tenant_id], run_ids=[run.row.run_id])
        if not locked or locked[0].ended_at is None:
            raise Conflict("The workflow's run has not ended; cancel it first.", code="workflow.running")
        made = await _make_generation(conn, locked[0], nodes=nodes, change=change)
        if on_ready is not None:
            await on_ready(conn, tenant_id, WORKFLOW_QUEUE)
    return await get_workflow_run(db, tenant_id=tenant_id, ref=str(made))


async def _make_generation(conn: Connection, row: WorkflowRunRow, *, nodes: Sequence[str], change: Change) -> UUID:
    version = await load_version(conn, tenant_id=row.tenant_id, workflow=row.workflow, version=row.version)
    begun = await _begun(conn, row, version.workflow, nodes)
    await quotas.use_one_run(conn, tenant_id=row.tenant_id, due_at=conn.now)
    generation = row.generation + 1
    run_id = rerun_id(row.tenant_id, row.root_run_id, generation=generation, now=conn.now)
    await ensure_partitions(conn, [conn.now])
    made = await store.insert_run(
        conn,
        tenant_id=row.tenant_id,
        run_id=run_id,
        workflow=row.workflow,
        version=row.version,
        root_run_id=row.root_run_id,
        generation=generation,
        rerun_of=row.run_id,
        rerun_nodes=begun,
        nesting=0,
        priority=row.priority,
        lease_token=None,
        started_at=None,
        deadline_at=None,
    )
    if not made:
        raise Conflict("A later generation of this run is there already; rerun that one.", code="workflow.not_latest")
    told = {"by": change.by} | ({} if change.reason is None else {"reason": change.reason})
    await store.insert_rerun(
        conn,
        tenant_id=row.tenant_id,
        run_id=run_id,
        rerun_of=row.run_id,
        detail=json.dumps({**told, "rerun_of": str(row.run_id), "nodes": begun[:MOST_NAMED]}),
        now=conn.now,
    )
    return run_id


async def _begun(conn: Connection, row: WorkflowRunRow, workflow: Workflow, nodes: Sequence[str]) -> list[str]:
    """Return from which nodes the next generation begins again."""
    for index, node in enumerate(nodes):
        if node not in workflow.graph.nodes:
            raise InvalidInput.at(
                f"/nodes/{index}", "The workflow's run has no such node.", code="workflow.unknown_node"
            )
    if nodes:
        return sorted(set(nodes))
    found = await store.read_all_nodes(conn, tenant_id=row.tenant_id, run_id=row.run_id)
    failed = sorted(each.node for each in found if each.state in UNWELL)
    if not failed:
        raise Conflict("No node failed: name the nodes to begin again from.", code="workflow.nothing_failed")
    return failed


async def _run(db: Database, tenant_id: UUID, ref: str) -> RunView:
    run = await runs.get_run(db, tenant_id=tenant_id, ref=ref)
    if workflow_of(run.row.task) is None:
        raise NotFound("There is no such run.", code="run.unknown")
    return run


async def _nodes(conn: Connection, row: WorkflowRunRow, workflow: Workflow) -> list[NodeView]:
    key = {"tenant_id": row.tenant_id, "run_id": row.run_id}
    rows = {each.node: each for each in await store.read_all_nodes(conn, **key)}
    if not rows:  # a rerun that has not started
        return []
    live = {(each.node, each.instance): each for each in await store.list_live_states(conn, **key, limit=MOST_LIVE)}
    counts = _by_node(await store.count_fan_outs(conn, **key), live)
    return [
        _view(node, rows[node.id], live.get((node.id, NO_INSTANCE)), counts.get(node.id, {}), now=conn.now)
        for node in workflow.nodes
    ]


def _view(node: Node, row: NodeRow, live: LiveState | None, counts: Mapping[str, int], *, now: datetime) -> NodeView:
    state = NodeState(row.state)
    if state is NodeState.WAITING:
        state = NodeState.RUNNING if row.instances is not None else _live_state(live, now)
    reason = row.reason
    if state is NodeState.BLOCKED:
        reason = Reason.DEPENDENCY_UNMET
    elif state is NodeState.WAITING and reason is None:
        reason = Reason.QUEUE_WAITING
    elif state is NodeState.RETRYING:
        reason = Reason.RETRY_BACKOFF
    return NodeView(node=node, row=row, state=state, reason=reason, live=live, instances=counts)


def _live_state(live: LiveState | None, now: datetime) -> NodeState:
    if live is None:
        return NodeState.WAITING
    if live.worker is not None:
        return NodeState.RUNNING
    rests = live.failures and live.available_at is not None and live.available_at > now
    return NodeState.RETRYING if rests else NodeState.WAITING


def _by_node(counts: Sequence[FanOutCount], live: Mapping[tuple[str, int], LiveState]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for each in counts:
        states = found.setdefault(each.node, {})
        states[each.state] = states.get(each.state, 0) + each.count
    for (node, instance), state in live.items():
        if instance >= 0 and state.worker is not None:
            states = found[node]
            states[NodeState.WAITING] -= 1
            states[NodeState.RUNNING] = states.get(NodeState.RUNNING, 0) + 1
    return {node: {state: count for state, count in states.items() if count} for node, states in found.items()}
