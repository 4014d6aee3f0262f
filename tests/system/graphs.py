"""Random graphs whose nodes end as their input says, and what `simulate` says becomes of them."""

from collections.abc import Mapping
from random import Random  # noqa: TID251  # a run of a test is drawn by its seed, which a failure names
from typing import Any

from everwhen.core.dag_json import parse_workflow
from everwhen.core.dag_simulate import Script, simulate
from everwhen.core.dag_values import NodeState, TriggerRule

NODES = 20
OUTCOMES = {"success": NodeState.SUCCEEDED, "failed": NodeState.FAILED, "skipped": NodeState.SKIPPED}


def graph(rng: Random, nodes_in_all: int = NODES) -> dict[str, Any]:
    """Draw edges, rules and outcomes; the last two nodes are finally-nodes."""
    nodes: list[dict[str, Any]] = []
    for number in range(nodes_in_all):
        is_finally = number >= nodes_in_all - 2
        earlier = [f"n{other}" for other in range(min(number, nodes_in_all - 2))]
        needs = [] if number < 3 or is_finally else rng.sample(earlier, rng.choice((1, 1, 2, 3)))
        outcome = rng.choices(tuple(OUTCOMES), weights=(8, 1, 1))[0]
        node = {"id": f"n{number}", "task": "scripted", "needs": sorted(needs), "input": {"outcome": outcome}}
        if needs:
            node["rule"] = rng.choice(tuple(TriggerRule)).value
        nodes.append({**node, **({"finally": True} if is_finally else {})})
    return {"nodes": nodes}


def expected(definition: Mapping[str, Any]) -> dict[str, str]:
    """What `simulate` says becomes of every node, and of the run."""
    scripts = {
        node["id"]: Script(outcomes=(OUTCOMES[(node.get("input") or {}).get("outcome", "success")],))
        for node in definition["nodes"]
    }
    found = simulate(parse_workflow(definition), scripts)
    return {node: played.state.value for node, played in found.nodes.items()} | {"run": found.run.value}
