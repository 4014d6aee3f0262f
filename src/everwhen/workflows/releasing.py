"""Releasing nodes: from a node that may run to a run in the line, or to the reason why it does not run after all.

A node that may run is opened: its condition is looked at, its input and its key are resolved. It is then released,
unless there is no room for it (`max_parallel`) or its key may be somebody's: then it is held, and whoever makes room,
or the conductor for a key, opens it again. A fan-out has a row for each of its instances, which are released in order.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from everwhen.core.dag import NodeEnd
from everwhen.core.dag_data import Context
from everwhen.core.dag_opening import (
    NotOpened,
    Opened,
    OpenedEach,
    fan_out_state,
    next_instances,
    open_instance,
    open_node,
)
from everwhen.core.dag_values import Node, NodeState
from everwhen.core.reasons import Reason
from everwhen.core.targets import workflow_task
from everwhen.workflows import store
from everwhen.workflows.ledger import Ledger, Release
from everwhen.workflows.model import NO_INSTANCE, NodeRow, RunFacts
from everwhen.workflows.versions import Reads

MOST_RESULT_BYTES: Final = 4_194_304
"""How large the results of a fan-out may be together, where a node refers to them."""

_LIMITS: Final = ("timeout_seconds", "total_deadline_seconds", "heartbeat_timeout_seconds")

_REASONS: Final = {
    "workflow.condition": Reason.WORKFLOW_CONDITION,
    "workflow.no_items": Reason.WORKFLOW_NO_ITEMS,
}


async def open_nodes(ledger: Ledger, nodes: Sequence[str]) -> list[NodeEnd]:
    """Open nodes that may run, in this order; return those that end by it."""
    if not nodes:
        return []
    await ledger.load((node, NO_INSTANCE) for node in nodes)
    data = await _read_data(ledger, [ledger.version.reads(node) for node in nodes])
    ended: list[NodeEnd] = []
    for name in nodes:
        node = ledger.workflow.graph.nodes[name]
        end = await _open_node(ledger, node, data)
        ended += [] if end is None else [end]
    return ended


async def feed(ledger: Ledger, node: Node) -> NodeEnd | None:
    """Release the next instances of a fan-out, as far as there is room; return its end when all have ended."""
    row = ledger.node(node.id)
    data: _Data | None = None
    while span := _span(ledger, node, row):
        data = data or await _read_data(ledger, [ledger.version.reads(node.id, is_instance=True)])
        await ledger.load((node.id, index) for index in span)
        for index in span:
            _open_instance(ledger, node, ledger.rows[node.id, index], data)
    if row.instances_ended < (row.instances or 0):
        return None
    return await _end_fan_out(ledger, node, row)


async def release_keyed(ledger: Ledger, row: NodeRow) -> list[NodeEnd]:
    """Release a node, or an instance, whose key has just been taken for it; return what ends by it."""
    node = ledger.workflow.graph.nodes[row.node]
    data = await _read_data(ledger, [ledger.version.reads(node.id, is_instance=row.instance != NO_INSTANCE)])
    opened = _opened(node, row, data)
    if isinstance(opened, NotOpened):  # what it refers to is not there any more
        return await _end_held(ledger, node, row, opened)
    _release(ledger, node, row, opened)
    return []


async def write_releases(ledger: Ledger) -> set[str]:
    """Line up what was released; return the queues where somebody may wait for it."""
    releases, ledger.releases = ledger.releases, []
    if not releases:
        return set()
    found = await store.release_nodes(
        ledger.conn,
        tenant_id=ledger.run.tenant_id,
        workflow_run_id=ledger.run.run_id,
        run_ids=[each.run_id for each in releases],
        tasks=[each.task for each in releases],
        inputs=[each.input for each in releases],
        queues=[each.queue for each in releases],
        priorities=[each.priority for each in releases],
        start_deadlines=[each.start_deadline for each in releases],
        policies=[each.policy for each in releases],
        details=[each.detail for each in releases],
        now=ledger.now,
    )
    assert len(found) == len(releases)  # tasks are never deleted
    return {each.queue for each in found}


class _Data:
    """What the nodes that are opened together refer to."""

    def __init__(self, context: Context, cut: set[str]) -> None:
        self.context = context
        self.cut = cut


async def _open_node(ledger: Ledger, node: Node, data: _Data) -> NodeEnd | None:
    row = ledger.node(node.id)
    ledger.change(row)
    row.state, row.decided_at = NodeState.WAITING, row.decided_at or ledger.now
    cut = sorted(ledger.version.reads(node.id).results & data.cut)
    opened = _too_large(cut) if cut else open_node(node, data.context)
    match opened:
        case NotOpened():
            return _not_opened(ledger, row, opened)
        case OpenedEach():
            row.instances, row.is_held, row.reason = len(opened.items), False, None
            for index, item in enumerate(opened.items):
                ledger.add(_instance(ledger, node, index, item))
            return await feed(ledger, node)
        case Opened():
            _release_or_hold(ledger, node, row, opened)
            return None


def _open_instance(ledger: Ledger, node: Node, instance: NodeRow, data: _Data) -> None:
    row = ledger.node(node.id)
    ledger.change(row)
    ledger.change(instance)
    row.instances_released += 1
    opened = _opened(node, instance, data)
    if isinstance(opened, NotOpened):
        row.instances_ended += 1
        _not_opened(ledger, instance, opened)
        return
    _release_or_hold(ledger, node, instance, opened)


def _opened(node: Node, row: NodeRow, data: _Data) -> Opened | NotOpened:
    if row.instance == NO_INSTANCE:
        opened = open_node(node, data.context)
        assert not isinstance(opened, OpenedEach)  # a fan-out is never held, its instances are
        return opened
    return open_instance(node, data.context, index=row.instance, item=json.loads(row.item or "null"))


def _instance(ledger: Ledger, node: Node, index: int, item: Any) -> NodeRow:
    return NodeRow(
        node=node.id,
        instance=index,
        state=NodeState.WAITING,
        reason=Reason.LIMIT_WORKFLOW,
        is_held=True,
        item=json.dumps(item),
        decided_at=ledger.now,
    )


def _release_or_hold(ledger: Ledger, node: Node, row: NodeRow, opened: Opened) -> None:
    if opened.concurrency_key is not None:
        row.is_held, row.concurrency_key, row.reason = True, opened.concurrency_key, Reason.LIMIT_KEY
        ledger.wakes_conductor = True
    elif ledger.room() == 0:
        row.is_held, row.reason = True, Reason.LIMIT_WORKFLOW
    else:
        _release(ledger, node, row, opened)


def _release(ledger: Ledger, node: Node, row: NodeRow, opened: Opened) -> None:
    run = ledger.run
    row.node_run_id, row.is_held, row.reason, row.decided_at = ledger.run_id_of(row), False, None, ledger.now
    ledger.change(row)
    ledger.live += 1
    where: dict[str, Any] = {"workflow": run.workflow, "workflow_run": str(run.run_id), "node": node.id}
    if row.instance != NO_INSTANCE:
        where["instance"] = row.instance
    ledger.releases.append(
        Release(
            run_id=row.node_run_id,
            task=node.task or workflow_task(node.workflow or ""),
            input=json.dumps({} if node.input is None else opened.input),
            queue=node.queue,
            priority=run.priority if node.priority is None else node.priority,
            start_deadline=node.start_deadline_seconds,
            policy=_policy(node),
            detail=json.dumps(where),
        )
    )


def _policy(node: Node) -> str | None:
    own: dict[str, Any] = {"retry": None if node.retry is None else dict(node.retry)}
    own |= {name: getattr(node, name) for name in _LIMITS}
    given = {name: value for name, value in own.items() if value is not None}
    return json.dumps(given) if given else None


def _span(ledger: Ledger, node: Node, row: NodeRow) -> range:
    """Return which instances are to be released now."""
    assert node.each is not None
    span = next_instances(
        total=row.instances or 0,
        released=row.instances_released,
        in_flight=row.instances_released - row.instances_ended,
        max_parallel=node.each.max_parallel,
    )
    room = ledger.room()
    return span if room is None else span[:room]


def _not_opened(ledger: Ledger, row: NodeRow, found: NotOpened) -> NodeEnd:
    end = NodeEnd(node=row.node, state=found.state)
    reason = _REASONS.get(found.code, Reason.WORKFLOW_DATA)
    row.end(end, now=ledger.now, reason=reason, detail=json.dumps({"code": found.code, "message": found.message}))
    ledger.change(row)
    return end


async def _end_held(ledger: Ledger, node: Node, row: NodeRow, found: NotOpened) -> list[NodeEnd]:
    end = _not_opened(ledger, row, found)
    if row.instance == NO_INSTANCE:
        return [end]
    await ledger.load([(node.id, NO_INSTANCE)])
    ledger.node(node.id).instances_ended += 1
    ledger.change(ledger.node(node.id))
    ended = await feed(ledger, node)
    return [] if ended is None else [ended]


async def _end_fan_out(ledger: Ledger, node: Node, row: NodeRow) -> NodeEnd:
    await ledger.write_nodes()  # so that what ends just now is counted
    found = await store.count_instances(ledger.conn, **ledger.key, node=node.id)
    counts = {NodeState(each.state): each.count for each in found}
    state = fan_out_state(counts, total=row.instances or 0)
    assert state is not None
    end = NodeEnd(node=node.id, state=state)
    reason = None if state is NodeState.SUCCEEDED else _worst(state)
    row.end(end, now=ledger.now, reason=reason)
    ledger.change(row)
    return end


def _worst(state: NodeState) -> Reason:
    match state:
        case NodeState.CANCELLED:
            return Reason.CANCEL_REQUESTED
        case NodeState.SKIPPED:
            return Reason.WORKFLOW_SKIPPED
        case _:
            return Reason.WORKFLOW_NODE_FAILED


def _too_large(cut: Sequence[str]) -> NotOpened:
    message = (
        f"the results of {', '.join(cut[:3])} have more than {MOST_RESULT_BYTES:,} bytes together: let its instances"
        " write them where workers can reach them, and return where"
    )
    return NotOpened(state=NodeState.FAILED, code="workflow.results_too_large", message=message)


async def _read_data(ledger: Ledger, reads: Iterable[Reads]) -> _Data:
    """Read what these nodes refer to, and nothing else: most refer to nothing."""
    wanted = list(reads)
    nodes = sorted({node for each in wanted for node in each.states})
    results = sorted({node for each in wanted for node in each.results})
    await ledger.load((node, NO_INSTANCE) for node in nodes)
    rows = [ledger.node(node) for node in results]
    found, cut = await _fan_out_results(ledger, [row for row in rows if row.instances is not None])
    found |= await _results(ledger, [row for row in rows if row.instances is None])
    facts = await _facts(ledger) if any(each.facts for each in wanted) else None
    states = {node: NodeState(ledger.node(node).state) for node in nodes}
    return _Data(Context(run=_run(ledger, facts), results=found, states=states), cut)


async def _results(ledger: Ledger, rows: Sequence[NodeRow]) -> dict[str, Any]:
    nodes = {row.node_run_id or row.kept_run_id: row.node for row in rows if row.state == NodeState.SUCCEEDED}
    run_ids = [run_id for run_id in nodes if run_id is not None]
    if not run_ids:
        return {}
    found = await store.read_results(ledger.conn, tenant_id=ledger.run.tenant_id, run_ids=run_ids)
    return {nodes[each.run_id]: json.loads(each.result or "null") for each in found}


async def _fan_out_results(ledger: Ledger, rows: Sequence[NodeRow]) -> tuple[dict[str, Any], set[str]]:
    names = [row.node for row in rows if row.ended_at is not None]
    if not names:
        return {}, set()
    await ledger.write_nodes()
    found = await store.read_instance_results(ledger.conn, **ledger.key, nodes=names, most_bytes=MOST_RESULT_BYTES)
    results: dict[str, Any] = {name: [] for name in names}
    for each in found:
        succeeded = each.state == NodeState.SUCCEEDED and each.result is not None
        results[each.node].append(json.loads(each.result or "null") if succeeded else None)
    cut = {each.node for each in found if each.is_cut}
    return {name: value for name, value in results.items() if name not in cut}, cut


async def _facts(ledger: Ledger) -> RunFacts:
    """Read about the first generation's run: a rerun has its schedule and its instant."""
    return await store.read_facts(ledger.conn, tenant_id=ledger.run.tenant_id, run_id=ledger.run.root_run_id)


def _run(ledger: Ledger, facts: RunFacts | None) -> dict[str, Any]:
    if facts is None:
        return {}
    run = ledger.run
    return {
        "id": str(run.run_id),
        "tenant": facts.tenant,
        "workflow": run.workflow,
        "version": run.version,
        "generation": run.generation,
        "schedule": facts.schedule,
        "nominal_at": facts.nominal_at and facts.nominal_at.isoformat(),
        "due_at": facts.due_at.isoformat(),
        "input": json.loads(facts.input),
    }
