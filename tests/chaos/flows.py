"""The workflows of chaos: what they are, and whether each of their runs went as its definition says.

A node ends as its input says, whatever the attempt, so that what becomes of a run that nobody halts follows from the
version that it keeps. The judge asks the database how each node ended, `simulate` how it had to, and the witness what
was executed, and when.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  # a run of chaos is drawn by its printed seed
from typing import Any
from uuid import UUID

from tests.chaos.judge import CLOCKS_APART, Execution, Verdict
from tests.system.fleet import Fleet
from tests.system.graphs import expected, graph

FIRST = "n0"
"""A root of every workflow: its execution is the witness of the workflow's run."""

INNER = {"nodes": [{"id": FIRST, "task": "scripted"}, {"id": "n1", "task": "scripted", "needs": [FIRST]}]}
COMPOSED = {
    "nodes": [
        {"id": FIRST, "task": "scripted"},
        {"id": "part", "task": "scripted", "needs": [FIRST], "each": {"items": [1, 2, 3], "max_parallel": 2}},
        {"id": "inner", "workflow": "inner", "needs": [FIRST]},
        {"id": "keyed", "task": "scripted", "needs": ["part", "inner"], "concurrency_key": "only-one"},
        {"id": "clean", "task": "scripted", "finally": True},
    ],
    "max_parallel": 3,
}
IMPATIENT = frozenset({"one_success", "one_failed", "one_done"})
DRAWN = ("flow-a", "flow-b")
"""The workflows whose definitions are drawn anew while they run."""


def definitions(random: Random) -> dict[str, dict[str, Any]]:
    """Return the first versions; a sub-workflow comes before whoever has it."""
    return {
        "inner": INNER,
        "composed": COMPOSED,
        "hasty": {**draw(random), "fail_fast": True},
        **{name: draw(random) for name in DRAWN},
    }


def draw(random: Random) -> dict[str, Any]:
    """Draw a definition of eight nodes."""
    return graph(random, 8)


@dataclass(frozen=True, kw_only=True)
class Node:
    """How a node of a run ended by the database. `run_id` None: it was not released, or it is a fan-out."""

    state: str
    run_id: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class FlowRun:
    """A workflow's run by the database."""

    run_id: UUID
    workflow: str
    version: int
    generation: int = 1
    halt: str | None = None
    state: str = "succeeded"
    nodes: Mapping[str, Node] = field(default_factory=dict)


def read_runs(fleet: Fleet) -> list[FlowRun]:
    """Read every workflow's run with its nodes."""
    nodes: dict[UUID, dict[str, Node]] = defaultdict(dict)
    for run_id, name, state, node_run_id in fleet.fetch(
        "select run_id, node, state, node_run_id from everwhen.workflow_nodes where instance < 0"
    ):
        nodes[run_id][name] = Node(state=state, run_id=node_run_id)
    return [
        FlowRun(
            run_id=run_id,
            workflow=workflow,
            version=version,
            generation=generation,
            halt=halt,
            state=state,
            nodes=nodes[run_id],
        )
        for run_id, workflow, version, generation, halt, state in fleet.fetch(
            "select w.run_id, w.workflow, w.version, w.generation, w.halt, e.state from everwhen.workflow_runs w"
            " left join everwhen.run_ends e using (tenant_id, run_id) where w.started_at is not null"
        )
    ]


def read_definitions(fleet: Fleet) -> dict[tuple[str, int], dict[str, Any]]:
    """Read every version."""
    found = fleet.fetch("select workflow, version, definition::text from everwhen.workflow_versions")
    return {(workflow, version): json.loads(definition) for workflow, version, definition in found}


def judge_flows(
    verdict: Verdict,
    runs: Sequence[FlowRun],
    definitions: Mapping[tuple[str, int], Mapping[str, Any]],
    executions: Mapping[UUID, Sequence[Execution]],
) -> None:
    """Hold every workflow's run against the version that it keeps, and against the witness."""
    wanted: dict[tuple[str, int], dict[str, str]] = {}
    for run in runs:
        definition = definitions[run.workflow, run.version]
        names = {node["id"] for node in definition["nodes"]}
        if set(run.nodes) != names:
            verdict.blame("a run has other nodes than its version", [run.run_id])
            continue
        verdict.figures[f"workflow runs {run.state}"] += 1
        if run.generation == 1 and run.halt is None:
            wanted.setdefault((run.workflow, run.version), expected(definition))
            _judge_ends(verdict, run, wanted[run.workflow, run.version])
        _judge_executions(verdict, run, definition, executions)
    kept = Counter(run.workflow for run in runs if run.version > 1)
    verdict.figures["workflow runs of a later version"] += kept.total()


def _judge_ends(verdict: Verdict, run: FlowRun, wanted: Mapping[str, str]) -> None:
    found = {name: node.state for name, node in run.nodes.items()} | {"run": run.state}
    if found != wanted:
        differ = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
        verdict.blame("a node ended otherwise than simulated", [f"{run.workflow} {run.run_id}: {differ}"])
    verdict.figures["workflow runs that ended as simulated"] += found == wanted


def _judge_executions(
    verdict: Verdict, run: FlowRun, definition: Mapping[str, Any], executions: Mapping[UUID, Sequence[Execution]]
) -> None:
    """Nothing that is said to be done was not done, and nothing began before what it waits for had ended."""
    for node in definition["nodes"]:
        at = run.nodes[node["id"]]
        mine = executions.get(at.run_id, ()) if at.run_id else ()
        if "task" in node and at.run_id and at.state == "succeeded" and not any(e.ended for e in mine):
            verdict.blame("a node succeeded, but nobody did it", [f"{run.run_id} {node['id']}"])
        verdict.figures["executions of nodes"] += len(mine)
        if not mine or node.get("rule") in IMPATIENT:
            continue
        began = min(e.began for e in mine)
        for need in node.get("needs", ()):
            upstream = run.nodes[need].run_id
            before = () if upstream is None else executions.get(upstream, ())
            last = max(before, key=lambda e: e.token, default=None)
            if last is not None and last.ended is not None and began < last.ended - CLOCKS_APART:
                verdict.blame("a node began before its upstream had ended", [f"{run.run_id} {node['id']} ← {need}"])


def credited(
    runs: Sequence[FlowRun], executions: Mapping[UUID, Sequence[Execution]]
) -> dict[UUID, Sequence[Execution]]:
    """Return the executions of each workflow's run: those of its first node."""
    firsts = {run.run_id: run.nodes[FIRST].run_id for run in runs if FIRST in run.nodes}
    return {run_id: executions.get(first, ()) for run_id, first in firsts.items() if first is not None}
