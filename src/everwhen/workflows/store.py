"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import execute_count, fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.workflows.model import (
    FanOutCount,
    HeldNode,
    InstanceResult,
    KeyedNode,
    LiveNode,
    LiveState,
    NodePast,
    NodeRef,
    NodeResult,
    NodeRow,
    Released,
    RunFacts,
    RunKey,
    Starting,
    StateCount,
    WorkflowRunRow,
)

_SQL = load("everwhen.workflows")

Conn = AsyncConnection[Any]


async def find_ended_nodes(conn: Conn, *, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID]) -> list[NodeRef]:
    """Return which nodes these runs are."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["find_ended_nodes"], params, NodeRef)


async def lock_runs(conn: Conn, *, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID]) -> list[WorkflowRunRow]:
    """Lock these workflows' runs, in the order of their keys."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["lock_runs"], params, WorkflowRunRow)


async def take_run(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> WorkflowRunRow | None:
    """Lock one workflow's run; None when somebody else has it."""
    return await fetch_optional(conn, _SQL["take_run"], {"tenant_id": tenant_id, "run_id": run_id}, WorkflowRunRow)


async def get_run(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> WorkflowRunRow | None:
    """Read one workflow's run; None until it has started."""
    return await fetch_optional(conn, _SQL["get_run"], {"tenant_id": tenant_id, "run_id": run_id}, WorkflowRunRow)


async def list_generations(conn: Conn, *, tenant_id: UUID, root_run_id: UUID, limit: int) -> list[WorkflowRunRow]:
    """Return the generations of a run, in order."""
    params = {"tenant_id": tenant_id, "root_run_id": root_run_id, "limit": limit}
    return await fetch_all(conn, _SQL["list_generations"], params, WorkflowRunRow)


async def read_steering(
    conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID], are_branches: Sequence[bool]
) -> list[NodeResult]:
    """Return the results of these runs that steer what follows."""
    params = {"tenant_id": tenant_id, "run_ids": list(run_ids), "are_branches": list(are_branches)}
    return await fetch_all(conn, _SQL["read_steering"], params, NodeResult)


async def read_results(conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[NodeResult]:
    """Return the results of those of these runs that succeeded."""
    params = {"tenant_id": tenant_id, "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["read_results"], params, NodeResult)


async def read_instance_results(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, nodes: Sequence[str], most_bytes: int
) -> list[InstanceResult]:
    """Return the results of these fan-outs' instances, in order; no more than so many bytes of each fan-out."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "nodes": list(nodes), "most_bytes": most_bytes}
    return await fetch_all(conn, _SQL["read_instance_results"], params, InstanceResult)


async def read_facts(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> RunFacts:
    """Read what templates may say about a run."""
    return await fetch_one(conn, _SQL["read_facts"], {"tenant_id": tenant_id, "run_id": run_id}, RunFacts)


async def read_nodes(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, nodes: Sequence[str], instances: Sequence[int]
) -> list[NodeRow]:
    """Read these nodes and instances of a run."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "nodes": list(nodes), "instances": list(instances)}
    return await fetch_all(conn, _SQL["read_nodes"], params, NodeRow)


async def read_all_nodes(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> list[NodeRow]:
    """Read every node of a run, without instances."""
    return await fetch_all(conn, _SQL["read_all_nodes"], {"tenant_id": tenant_id, "run_id": run_id}, NodeRow)


async def list_instances(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, node: str, after: int, limit: int
) -> list[NodeRow]:
    """Read up to `limit` instances of a fan-out after this one."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "node": node, "after": after, "limit": limit}
    return await fetch_all(conn, _SQL["list_instances"], params, NodeRow)


async def read_held(
    conn: Conn, *, tenant_id: UUID, run_id: UUID, full_nodes: Sequence[str], limit: int
) -> list[NodeRow]:
    """Read what waits for room, in order."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "full_nodes": list(full_nodes), "limit": limit}
    return await fetch_all(conn, _SQL["read_held"], params, NodeRow)


async def read_all_held(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> list[NodeRow]:
    """Read everything of a run that waits for room or for its key."""
    return await fetch_all(conn, _SQL["read_all_held"], {"tenant_id": tenant_id, "run_id": run_id}, NodeRow)


async def count_instances(conn: Conn, *, tenant_id: UUID, run_id: UUID, node: str) -> list[StateCount]:
    """Count a fan-out's instances by their states."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "node": node}
    return await fetch_all(conn, _SQL["count_instances"], params, StateCount)


async def insert_nodes(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    nodes: Sequence[str],
    instances: Sequence[int],
    states: Sequence[str],
    tallies: Sequence[str],
    node_run_ids: Sequence[UUID | None],
    kept_run_ids: Sequence[UUID | None],
    takens: Sequence[str | None],
    reasons: Sequence[str | None],
    details: Sequence[str | None],
    are_held: Sequence[bool],
    concurrency_keys: Sequence[str | None],
    items: Sequence[str | None],
    instance_counts: Sequence[int | None],
    released_counts: Sequence[int],
    ended_counts: Sequence[int],
    decided_ats: Sequence[datetime | None],
    ended_ats: Sequence[datetime | None],
) -> int:
    """Write nodes that are not there yet. Tallies and taken nodes are array literals."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "nodes": list(nodes),
        "instances": list(instances),
        "states": list(states),
        "tallies": list(tallies),
        "node_run_ids": list(node_run_ids),
        "kept_run_ids": list(kept_run_ids),
        "takens": list(takens),
        "reasons": list(reasons),
        "details": list(details),
        "are_held": list(are_held),
        "concurrency_keys": list(concurrency_keys),
        "items": list(items),
        "instance_counts": list(instance_counts),
        "released_counts": list(released_counts),
        "ended_counts": list(ended_counts),
        "decided_ats": list(decided_ats),
        "ended_ats": list(ended_ats),
    }
    return await execute_count(conn, _SQL["insert_nodes"], params)


async def update_nodes(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    nodes: Sequence[str],
    instances: Sequence[int],
    states: Sequence[str],
    tallies: Sequence[str],
    node_run_ids: Sequence[UUID | None],
    takens: Sequence[str | None],
    reasons: Sequence[str | None],
    details: Sequence[str | None],
    are_held: Sequence[bool],
    concurrency_keys: Sequence[str | None],
    instance_counts: Sequence[int | None],
    released_counts: Sequence[int],
    ended_counts: Sequence[int],
    decided_ats: Sequence[datetime | None],
    ended_ats: Sequence[datetime | None],
) -> int:
    """Write what has changed of nodes. Tallies and taken nodes are array literals."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "nodes": list(nodes),
        "instances": list(instances),
        "states": list(states),
        "tallies": list(tallies),
        "node_run_ids": list(node_run_ids),
        "takens": list(takens),
        "reasons": list(reasons),
        "details": list(details),
        "are_held": list(are_held),
        "concurrency_keys": list(concurrency_keys),
        "instance_counts": list(instance_counts),
        "released_counts": list(released_counts),
        "ended_counts": list(ended_counts),
        "decided_ats": list(decided_ats),
        "ended_ats": list(ended_ats),
    }
    return await execute_count(conn, _SQL["update_nodes"], params)


async def release_nodes(
    conn: Conn,
    *,
    tenant_id: UUID,
    workflow_run_id: UUID,
    run_ids: Sequence[UUID],
    tasks: Sequence[str],
    inputs: Sequence[str],
    queues: Sequence[str | None],
    priorities: Sequence[int | None],
    start_deadlines: Sequence[float | None],
    policies: Sequence[str | None],
    details: Sequence[str],
    now: datetime,
) -> list[Released]:
    """Line up the runs that nodes are released as; return their queues. Inputs, policies and details are JSON text."""
    params = {
        "tenant_id": tenant_id,
        "workflow_run_id": workflow_run_id,
        "run_ids": list(run_ids),
        "tasks": list(tasks),
        "inputs": list(inputs),
        "queues": list(queues),
        "priorities": list(priorities),
        "start_deadlines": list(start_deadlines),
        "policies": list(policies),
        "details": list(details),
        "now": now,
    }
    return await fetch_all(conn, _SQL["release_nodes"], params, Released)


async def insert_run(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    workflow: str,
    version: int,
    root_run_id: UUID,
    generation: int,
    rerun_of: UUID | None,
    rerun_nodes: Sequence[str] | None,
    nesting: int,
    priority: int | None,
    lease_token: int | None,
    started_at: datetime | None,
    deadline_at: datetime | None,
) -> int:
    """Write a workflow's run; 0 when it is there already, or its generation is."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "workflow": workflow,
        "version": version,
        "root_run_id": root_run_id,
        "generation": generation,
        "rerun_of": rerun_of,
        "rerun_nodes": None if rerun_nodes is None else list(rerun_nodes),
        "nesting": nesting,
        "priority": priority,
        "lease_token": lease_token,
        "started_at": started_at,
        "deadline_at": deadline_at,
    }
    return await execute_count(conn, _SQL["insert_run"], params)


async def start_run(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    lease_token: int,
    priority: int | None,
    deadline_at: datetime | None,
    now: datetime,
) -> int:
    """Note that a rerun has started."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "lease_token": lease_token,
        "priority": priority,
        "deadline_at": deadline_at,
        "now": now,
    }
    return await execute_count(conn, _SQL["start_run"], params)


async def save_run(
    conn: Conn,
    *,
    tenant_id: UUID,
    run_id: UUID,
    halt: str | None,
    ordinary: Sequence[int],
    leaves: Sequence[int],
    finals: Sequence[int],
    live: int,
    look_at: datetime | None,
    ended_at: datetime | None,
) -> int:
    """Write how a run stands; its row is locked."""
    params = {
        "tenant_id": tenant_id,
        "run_id": run_id,
        "halt": halt,
        "ordinary": list(ordinary),
        "leaves": list(leaves),
        "finals": list(finals),
        "live": live,
        "look_at": look_at,
        "ended_at": ended_at,
    }
    return await execute_count(conn, _SQL["save_run"], params)


async def put_off(conn: Conn, *, tenant_id: UUID, run_id: UUID, until: datetime) -> int:
    """Look at a run again at that instant, and not before."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "until": until}
    return await execute_count(conn, _SQL["put_off"], params)


async def keep_instances(conn: Conn, *, tenant_id: UUID, run_id: UUID, rerun_of: UUID, nodes: Sequence[str]) -> int:
    """Copy the instances of these fan-outs from an earlier generation."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "rerun_of": rerun_of, "nodes": list(nodes)}
    return await execute_count(conn, _SQL["keep_instances"], params)


async def insert_rerun(conn: Conn, *, tenant_id: UUID, run_id: UUID, rerun_of: UUID, detail: str, now: datetime) -> int:
    """Line up the next generation of a run. `detail` is JSON text."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "rerun_of": rerun_of, "detail": detail, "now": now}
    return await execute_count(conn, _SQL["insert_rerun"], params)


async def read_starting(conn: Conn, *, tenant_ids: Sequence[UUID], run_ids: Sequence[UUID]) -> list[Starting]:
    """Read what is needed to start these runs."""
    params = {"tenant_ids": list(tenant_ids), "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["read_starting"], params, Starting)


async def find_due(conn: Conn, *, now: datetime) -> bool:
    """Return whether a workflow's run waits to be started."""
    return await fetch_one(conn, _SQL["find_due"], {"now": now}, bool)


async def next_due(conn: Conn, *, now: datetime) -> datetime | None:
    """Return when the next workflow's run becomes due."""
    return await fetch_optional(conn, _SQL["next_due"], {"now": now}, datetime)


async def find_looks(conn: Conn, *, now: datetime, limit: int) -> list[RunKey]:
    """Return up to `limit` runs that want to be looked at."""
    return await fetch_all(conn, _SQL["find_looks"], {"now": now, "limit": limit}, RunKey)


async def next_look(conn: Conn, *, now: datetime) -> datetime | None:
    """Return when the next run wants to be looked at."""
    return await fetch_optional(conn, _SQL["next_look"], {"now": now}, datetime)


async def find_cancelled(conn: Conn, *, limit: int) -> list[RunKey]:
    """Return up to `limit` runs that are to be halted because somebody asked for it."""
    return await fetch_all(conn, _SQL["find_cancelled"], {"limit": limit}, RunKey)


async def is_cancel_requested(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> bool:
    """Return whether somebody has asked for a running workflow's run to stop."""
    return await fetch_one(conn, _SQL["is_cancel_requested"], {"tenant_id": tenant_id, "run_id": run_id}, bool)


async def list_live_nodes(conn: Conn, *, tenant_id: UUID, run_id: UUID, limit: int) -> list[LiveNode]:
    """Return up to `limit` node runs of a run that have not ended."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "limit": limit}
    return await fetch_all(conn, _SQL["list_live_nodes"], params, LiveNode)


async def stop_waiting(
    conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID], reason: str, now: datetime
) -> list[UUID]:
    """End those of these runs that wait; return their ids."""
    params = {"tenant_id": tenant_id, "run_ids": list(run_ids), "reason": reason, "now": now}
    return await fetch_all(conn, _SQL["stop_waiting"], params, UUID)


async def stop_running(conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID], reason: str, now: datetime) -> int:
    """Ask the holders of these runs to stop; return how many were asked."""
    params = {"tenant_id": tenant_id, "run_ids": list(run_ids), "reason": reason, "now": now}
    return await execute_count(conn, _SQL["stop_running"], params)


async def is_replaced(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> bool:
    """Return whether a later run takes the place of this one by a policy that waits for nobody."""
    return await fetch_one(conn, _SQL["is_replaced"], {"tenant_id": tenant_id, "run_id": run_id}, bool)


async def lock_held_nodes(conn: Conn, *, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[HeldNode]:
    """Lock the leases that workers have of these runs, as far as nobody else has them locked."""
    params = {"tenant_id": tenant_id, "run_ids": list(run_ids)}
    return await fetch_all(conn, _SQL["lock_held_nodes"], params, HeldNode)


async def find_keyed(conn: Conn, *, limit: int) -> list[KeyedNode]:
    """Return nodes that wait for a key which nobody has, one for each key."""
    return await fetch_all(conn, _SQL["find_keyed"], {"limit": limit}, KeyedNode)


async def take_key(conn: Conn, *, tenant_id: UUID, key: str, node_run_id: UUID) -> int:
    """Take a concurrency key; 0 when somebody has it."""
    params = {"tenant_id": tenant_id, "key": key, "node_run_id": node_run_id}
    return await execute_count(conn, _SQL["take_key"], params)


async def free_keys(conn: Conn, *, tenant_ids: Sequence[UUID], node_run_ids: Sequence[UUID]) -> int:
    """Give back the keys of these runs."""
    params = {"tenant_ids": list(tenant_ids), "node_run_ids": list(node_run_ids)}
    return await execute_count(conn, _SQL["free_keys"], params)


async def list_live_states(conn: Conn, *, tenant_id: UUID, run_id: UUID, limit: int) -> list[LiveState]:
    """Return where up to `limit` node runs are that have not ended."""
    params = {"tenant_id": tenant_id, "run_id": run_id, "limit": limit}
    return await fetch_all(conn, _SQL["list_live_states"], params, LiveState)


async def read_pasts(conn: Conn, *, tenant_id: UUID, workflow: str, limit: int) -> list[NodePast]:
    """Return how long the nodes took in the latest `limit` runs of a workflow."""
    params = {"tenant_id": tenant_id, "workflow": workflow, "limit": limit}
    return await fetch_all(conn, _SQL["read_pasts"], params, NodePast)


async def count_fan_outs(conn: Conn, *, tenant_id: UUID, run_id: UUID) -> list[FanOutCount]:
    """Count the instances of a run's fan-outs by their states."""
    params = {"tenant_id": tenant_id, "run_id": run_id}
    return await fetch_all(conn, _SQL["count_fan_outs"], params, FanOutCount)


def columns(rows: Sequence[NodeRow]) -> dict[str, Any]:
    """Turn nodes into the arrays that `update_nodes` takes; `insert_nodes` takes two more."""

    def column(value: Callable[[NodeRow], Any]) -> list[Any]:
        return [value(row) for row in rows]

    return {
        "nodes": column(lambda n: n.node),
        "instances": column(lambda n: n.instance),
        "states": column(lambda n: str(n.state)),
        "tallies": column(lambda n: "{" + ",".join(map(str, n.tally)) + "}"),
        "node_run_ids": column(lambda n: n.node_run_id),
        "takens": column(lambda n: None if n.taken is None else "{" + ",".join(n.taken) + "}"),
        "reasons": column(lambda n: n.reason),
        "details": column(lambda n: n.detail),
        "are_held": column(lambda n: n.is_held),
        "concurrency_keys": column(lambda n: n.concurrency_key),
        "instance_counts": column(lambda n: n.instances),
        "released_counts": column(lambda n: n.instances_released),
        "ended_counts": column(lambda n: n.instances_ended),
        "decided_ats": column(lambda n: n.decided_at),
        "ended_ats": column(lambda n: n.ended_at),
    }
