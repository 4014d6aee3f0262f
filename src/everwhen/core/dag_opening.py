"""What happens to a node at its two ends: what its run is given when it is released, and what its result says.

Released, a node's condition is looked at, its input and its concurrency key are resolved, a fan-out's list is cut into
instances. Any of it can find that the node does not run after all: it is skipped, or it fails because data is missing;
that is an end like any other, and goes back into `advance`.

A result can steer what follows. `{"$skip": "why"}` makes the node skipped though its run succeeded. A branch's result
names the downstream nodes to take: `"id"`, `["id", …]`, or either of them under `"$branch"` of an object.

A fan-out is one node to its downstream. Its instances are called `id[0]`, `id[1]`, …; it ends when all of them have.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from everwhen.core.dag import NodeEnd
from everwhen.core.dag_data import Context, DataError, holds, resolve
from everwhen.core.dag_values import ENDED, MOST_INPUT_BYTES, EmptyItems, Node, NodeState, Workflow
from everwhen.core.errors import quoted

LONGEST_KEY: Final = 200

_INSTANCE: Final = re.compile(r"(?P<node>.+)\[(?P<index>0|[1-9][0-9]{0,8})\]", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A node, or an instance of one, that runs, with what it is given."""

    input: Any
    concurrency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEach:
    """A fan-out that runs: one instance for each item, in order."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOpened:
    """A node that ends without a run. `code` and `message` say why."""

    state: NodeState
    code: str
    message: str


def open_node(node: Node, context: Context) -> Opened | OpenedEach | NotOpened:
    """Say what a released node's run is given. `context` holds the results of all nodes upstream."""
    try:
        if node.condition is not None and not holds(node.condition, context):
            return NotOpened(state=NodeState.SKIPPED, code="workflow.condition", message="its condition is not met")
        return _opened(node, context) if node.each is None else _opened_each(node, context)
    except DataError as error:
        return NotOpened(state=NodeState.FAILED, code=error.code, message=error.message)


def open_instance(node: Node, context: Context, *, index: int, item: Any) -> Opened | NotOpened:
    """Say what one instance of a fan-out is given."""
    try:
        return _opened(node, replace(context, item=item, index=index))
    except DataError as error:
        return NotOpened(state=NodeState.FAILED, code=error.code, message=error.message)


def _opened(node: Node, context: Context) -> Opened:
    value = resolve(node.input, context)
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))
    if size > MOST_INPUT_BYTES:
        raise DataError("workflow.input_too_large", f"the input has {size:,} bytes; at most {MOST_INPUT_BYTES:,}")
    return Opened(input=value, concurrency_key=_key(resolve(node.concurrency_key, context)))


def _key(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if not 1 <= len(text) <= LONGEST_KEY or not text.isprintable():
        message = f"a concurrency key is a number or a printable text of at most {LONGEST_KEY} characters"
        raise DataError("workflow.concurrency_key", message)
    return text


def _opened_each(node: Node, context: Context) -> OpenedEach | NotOpened:
    each = node.each
    assert each is not None
    items = resolve(each.items, context)
    if not isinstance(items, list):
        raise DataError("workflow.items", f"{quoted(node.id)} fans out over a list, and this is none")
    found = tuple(cast("list[Any]", items))
    if len(found) > each.max_items:
        message = f"{quoted(node.id)} fans out over {len(found):,} items; max_items is {each.max_items:,}"
        raise DataError("workflow.too_many_items", message)
    if not found:
        state = NodeState.SKIPPED if each.empty is EmptyItems.SKIP else NodeState.SUCCEEDED
        return NotOpened(state=state, code="workflow.no_items", message="its list is empty")
    return OpenedEach(items=found)


def read_end(workflow: Workflow, node: str, state: NodeState, result: Any = None) -> tuple[NodeEnd, DataError | None]:
    """Return how a node ended, given how its run ended and its result; the error when the result names no branch.

    A branch whose result cannot be read has failed: nobody knows what was to follow.
    """
    if state is not NodeState.SUCCEEDED:
        return NodeEnd(node=node, state=state), None
    if isinstance(result, dict) and list(cast("dict[str, Any]", result)) == ["$skip"]:
        return NodeEnd(node=node, state=NodeState.SKIPPED), None
    if not workflow.graph.nodes[node].is_branch:
        return NodeEnd(node=node, state=state), None
    try:
        return NodeEnd(node=node, state=state, taken=_taken(workflow, node, result)), None
    except DataError as error:
        return NodeEnd(node=node, state=NodeState.FAILED), error


def _taken(workflow: Workflow, node: str, result: Any) -> frozenset[str]:
    chosen: Any = result
    if isinstance(result, dict):
        chosen = cast("dict[str, Any]", result).get("$branch")
    names = [chosen] if isinstance(chosen, str) else cast("list[Any]", chosen)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DataError("workflow.branch", f"{quoted(node)} is a branch; its result names the nodes to take")
    following = workflow.graph.downstream[node]
    for name in names:
        if name not in following:
            raise DataError("workflow.branch", f"{quoted(node)} takes {quoted(name)}, which is not directly downstream")
    return frozenset(names)


def instance_id(node: str, index: int) -> str:
    """Return the name of one instance of a fan-out."""
    return f"{node}[{index}]"


def parse_instance(name: str) -> tuple[str, int] | None:
    """Return the node and the index of an instance's name; None for a node's."""
    found = _INSTANCE.fullmatch(name)
    return (found["node"], int(found["index"])) if found else None


def next_instances(*, total: int, released: int, in_flight: int, max_parallel: int | None) -> range:
    """Return the indexes of the instances to release now; instances are released in order."""
    room = total if max_parallel is None else max(0, max_parallel - in_flight)
    return range(released, min(total, released + room))


def fan_out_state(counts: Mapping[NodeState, int], *, total: int) -> NodeState | None:
    """Return the fan-out's state by its instances' states; None until all have ended.

    One failure is a failure; else one that was cancelled makes it cancelled; it is skipped if all of them are.
    """
    if sum(count for state, count in counts.items() if state in ENDED) < total:
        return None
    if any(counts.get(state, 0) for state in (NodeState.FAILED, NodeState.UPSTREAM_FAILED, NodeState.EXPIRED)):
        return NodeState.FAILED
    if counts.get(NodeState.CANCELLED, 0):
        return NodeState.CANCELLED
    return NodeState.SKIPPED if counts.get(NodeState.SKIPPED, 0) == total > 0 else NodeState.SUCCEEDED
