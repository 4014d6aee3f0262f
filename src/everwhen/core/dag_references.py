"""What templates and conditions refer to must be upstream: checked when a definition is read, with pointers."""

from collections.abc import Callable, Iterator
from typing import Any

from everwhen.core.dag_data import INDEX, ITEM, NODE_FIELDS, RUN, RUN_FIELDS, Reference, scan_condition, scan_template
from everwhen.core.dag_graph import ancestors_of
from everwhen.core.dag_values import Fault, Node, Workflow
from everwhen.core.errors import quoted

Scan = Callable[[Any, str], tuple[list[Reference], list[Fault]]]


def reference_faults(workflow: Workflow) -> Iterator[Fault]:
    """Yield what is wrong with the nodes' templates and conditions, in order."""
    upstream = _Upstream(workflow)
    for index, node in enumerate(workflow.nodes):
        for part, value, scan in _parts(node):
            references, faults = scan(value, f"/nodes/{index}/{part}")
            yield from faults
            has_item = node.each is not None and part in {"input", "concurrency_key"}
            for reference in references:
                fault = _fault(reference, node, upstream, has_item=has_item)
                if fault is not None:
                    yield Fault(f"workflow.{fault[0]}", fault[1], reference.pointer)


def _parts(node: Node) -> Iterator[tuple[str, Any, Scan]]:
    if node.condition is not None:
        yield "condition", node.condition, scan_condition
    if node.input is not None:
        yield "input", node.input, scan_template
    if node.each is not None:
        yield "each/items", node.each.items, scan_template
    if node.concurrency_key is not None:
        yield "concurrency_key", node.concurrency_key, scan_template


def _fault(reference: Reference, node: Node, upstream: "_Upstream", *, has_item: bool) -> tuple[str, str] | None:
    root, path = reference.root, reference.path
    match root:
        case "run":
            return None if len(path) == 1 else _field_fault(RUN, str(path[1]), sorted(RUN_FIELDS))
        case "item" | "index" if has_item:
            return ("reference", "index is a number and has no parts") if root == INDEX and len(path) > 1 else None
        case "item" | "index":
            known = f"{ITEM} and {INDEX} stand only in the input and the concurrency key of a node with each"
            return "reference", known
        case _ if root not in upstream.workflow.graph.nodes:
            return "unknown_node", f"there is no node {quoted(root)}"
        case _ if not upstream.has(node, root):
            return "not_upstream", f"{quoted(root)} is not upstream of {quoted(node.id)}; add it to needs"
        case _:
            return _field_fault(root, str(path[1]) if len(path) > 1 else "", sorted(NODE_FIELDS))


def _field_fault(root: str, name: str, known: list[str]) -> tuple[str, str] | None:
    if name in known:
        return None
    return "reference", f"{quoted(root)} has {', '.join(known)}" + (f", and no {quoted(name)}" if name else "")


class _Upstream:
    """Who is upstream of whom; worked out as a whole, and only when a reference skips a level."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self._masks: dict[str, int] | None = None

    def has(self, node: Node, other: str) -> bool:
        graph = self.workflow.graph
        if other in node.needs or (node.is_finally and not graph.nodes[other].is_finally):
            return True
        if self._masks is None:
            self._masks = ancestors_of(graph)
        return bool(self._masks[node.id] >> graph.place[other] & 1)
