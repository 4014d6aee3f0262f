"""From nodes to a graph: what is wrong is named with a code and a pointer, a cycle by its path.

Everything here costs nodes plus edges, whatever the shape; nothing enumerates paths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from everwhen.core.dag_values import MOST_FAULTS, Fault, Graph, Limits, Node, Workflow, WorkflowError
from everwhen.core.errors import quoted

MOST_SHOWN: Final = 20  # nodes of a cycle that are named in a message


def make_workflow(nodes: Sequence[Node], *, limits: Limits | None = None, **settings: Any) -> Workflow:
    """Check the nodes and return the workflow; `settings` are the other fields of `Workflow`.

    Raises:
        WorkflowError: with up to MOST_FAULTS faults, pointers into `{"nodes": […]}`.
    """
    return Workflow(nodes=tuple(nodes), graph=graph_of(nodes, limits or Limits()), **settings)


def graph_of(nodes: Sequence[Node], limits: Limits) -> Graph:
    """Check the nodes and return their graph; raise WorkflowError."""
    if len(nodes) > limits.nodes:
        raise WorkflowError(Fault("workflow.too_many_nodes", f"at most {limits.nodes:,} nodes", "/nodes"))
    edges = sum(len(node.needs) for node in nodes)
    if edges > limits.edges:
        raise WorkflowError(Fault("workflow.too_many_edges", f"at most {limits.edges:,} edges in all", "/nodes"))
    if faults := tuple(islice(_faults_of_edges(nodes), MOST_FAULTS)):
        raise WorkflowError(*faults)
    place = {node.id: index for index, node in enumerate(nodes)}
    downstream = _downstream(nodes)
    sorted_ = _sorted(nodes, downstream)
    if len(sorted_.order) < len(nodes):
        raise WorkflowError(_cycle(nodes, place, left=sorted_.left))
    if sorted_.depth > limits.depth:
        message = f"the longest path has {sorted_.depth:,} nodes; at most {limits.depth:,}"
        raise WorkflowError(Fault("workflow.too_deep", message, "/nodes"))
    finals = tuple(node.id for node in nodes if node.is_finally)
    ordinary = {node.id for node in nodes if not node.is_finally}
    return Graph(
        nodes={node.id: node for node in nodes},
        place=place,
        downstream=downstream,
        order=sorted_.order,
        depth=sorted_.depth,
        edges=edges,
        finals=finals,
        leaves=frozenset(node for node in ordinary if ordinary.isdisjoint(downstream[node])),
    )


def _faults_of_edges(nodes: Sequence[Node]) -> Iterator[Fault]:
    by_id: dict[str, Node] = {}
    for index, node in enumerate(nodes):
        if node.id in by_id:
            yield Fault("workflow.duplicate_node", f"the id {quoted(node.id)} is taken already", f"/nodes/{index}/id")
        by_id.setdefault(node.id, node)
    for index, node in enumerate(nodes):
        seen: set[str] = set()
        for number, need in enumerate(node.needs):
            fault = _fault_of_edge(node, need, by_id, seen)
            if fault is not None:
                yield Fault(fault[0], fault[1], f"/nodes/{index}/needs/{number}")
            seen.add(need)
    if nodes and all(node.is_finally for node in nodes):
        yield Fault("workflow.only_finally", "at least one node is not a finally-node", "/nodes/0/finally")


def _fault_of_edge(node: Node, need: str, by_id: dict[str, Node], seen: set[str]) -> tuple[str, str] | None:
    if need == node.id:
        return "workflow.self_edge", f"{quoted(need)} needs itself"
    if need in seen:
        return "workflow.duplicate_edge", f"{quoted(node.id)} needs {quoted(need)} twice"
    if need not in by_id:
        return "workflow.unknown_node", f"there is no node {quoted(need)}"
    if by_id[need].is_finally and not node.is_finally:
        return "workflow.needs_finally", f"{quoted(need)} is a finally-node; only finally-nodes may need it"
    return None


def _downstream(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for need in node.needs:
            found[need].append(node.id)
    return {node: tuple(others) for node, others in found.items()}


@dataclass(frozen=True, slots=True)
class _Sorted:
    order: tuple[str, ...]
    depth: int
    left: dict[str, int]  # nodes that are on a cycle or behind one, with the needs that were not met


def _sorted(nodes: Sequence[Node], downstream: dict[str, tuple[str, ...]]) -> _Sorted:
    """Take away, layer by layer, what needs nothing that is left."""
    left = {node.id: len(node.needs) for node in nodes}
    layer = [node.id for node in nodes if not node.needs]
    order: list[str] = []
    depth = 0
    while layer:
        depth += 1
        order += layer
        following: list[str] = []
        for node in layer:
            del left[node]
            for other in downstream[node]:
                left[other] -= 1
                if left[other] == 0:
                    following.append(other)
        layer = following
    return _Sorted(tuple(order), depth, left)


def _cycle(nodes: Sequence[Node], place: dict[str, int], *, left: dict[str, int]) -> Fault:
    """Name one cycle. Every node that is left needs another one that is left, so walking up must come round."""
    path: list[str] = []
    seen: dict[str, int] = {}
    at = next(node.id for node in nodes if node.id in left)
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = next(need for need in nodes[place[at]].needs if need in left)
    cycle = path[seen[at] :][::-1]  # from upstream to downstream
    start = min(range(len(cycle)), key=lambda index: place[cycle[index]])
    cycle = cycle[start:] + cycle[:start]
    first, last = nodes[place[cycle[0]]], cycle[-1]
    pointer = f"/nodes/{place[first.id]}/needs/{first.needs.index(last)}"
    return Fault("workflow.cycle", f"the nodes go round in a cycle: {_shown([*cycle, cycle[0]])}", pointer)


def _shown(path: list[str]) -> str:
    if len(path) > MOST_SHOWN:
        half = MOST_SHOWN // 2
        return " → ".join([*path[:half], f"… {len(path) - 2 * half:,} more …", *path[-half:]])
    return " → ".join(path)


def ancestors_of(graph: Graph) -> dict[str, int]:
    """Return for each node the set of everything upstream of it, as a bit mask over places."""
    masks: dict[str, int] = {}
    for node in graph.order:
        mask = 0
        for need in graph.nodes[node].needs:
            mask |= masks[need] | 1 << graph.place[need]
        masks[node] = mask
    return masks


def reachable(graph: Graph, start: Sequence[str]) -> set[str]:
    """Return the nodes themselves and everything downstream of them."""
    found = set(start)
    stack = list(found)
    while stack:
        for other in graph.downstream[stack.pop()]:
            if other not in found:
                found.add(other)
                stack.append(other)
    return found
