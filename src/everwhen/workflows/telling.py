"""Why one node of a workflow's run stands where it stands, in words. Pure: over what was read of the run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from everwhen.core.dag_values import ENDED, UNWELL, Node, NodeState, TriggerRule, Workflow
from everwhen.core.reasons import Reason
from everwhen.core.sentences import sentence_of
from everwhen.workflows.service import NodeView

MOST_TOLD: Final = 5
"""How many nodes a headline names; all of them are listed besides."""

MOST_UPSTREAMS: Final = 1_000

_STOPPED: Final = UNWELL | {NodeState.UPSTREAM_FAILED, NodeState.SKIPPED}
_BY_UPSTREAMS: Final = frozenset({Reason.WORKFLOW_UPSTREAM_FAILED, Reason.WORKFLOW_RULE, Reason.WORKFLOW_BRANCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTelling:
    """The answer. `upstreams` are the nodes that it needs, of a finally-node all ordinary ones; some are still open."""

    view: NodeView
    headline: str
    upstreams: tuple[NodeView, ...]
    waits_for: tuple[NodeView, ...]


def tell(workflow: Workflow, nodes: Sequence[NodeView], name: str) -> NodeTelling:
    """Say why this node is where it is."""
    views = {each.node.id: each for each in nodes}
    view = views[name]
    upstreams = [views[need] for need in view.node.needs]
    if view.node.is_finally:
        others = [each for each in nodes if not each.node.is_finally and each.node.id not in view.node.needs]
        upstreams += others
    is_blocked = view.state is NodeState.BLOCKED
    waits_for = [each for each in upstreams if each.state not in ENDED] if is_blocked else []
    return NodeTelling(
        view=view,
        headline=" ".join(_sentences(workflow, view, upstreams, waits_for)),
        upstreams=tuple(upstreams[:MOST_UPSTREAMS]),
        waits_for=tuple(waits_for[:MOST_UPSTREAMS]),
    )


def _sentences(
    workflow: Workflow, view: NodeView, upstreams: Sequence[NodeView], waits_for: Sequence[NodeView]
) -> Iterable[str]:
    if view.state is NodeState.BLOCKED:
        yield _blocked(workflow, view.node, upstreams, waits_for)
        return
    state = view.state.value.replace("_", " ").capitalize()
    said = sentence_of(view.reason)
    yield f"{state}. {said}" if said else f"{state}."
    if view.reason == Reason.LIMIT_KEY and view.row.concurrency_key is not None:
        yield f"The key is {view.row.concurrency_key}."
    if view.reason in _BY_UPSTREAMS:
        stopped = [each for each in upstreams if each.state in _STOPPED] or upstreams
        yield f"{_named(stopped)}."
        if view.node.rule is not TriggerRule.ALL_SUCCESS:
            yield f"Its rule is {view.node.rule}."
    if view.row.node_run_id is not None:
        yield f"More: everwhen why {view.row.node_run_id}"


def _blocked(workflow: Workflow, node: Node, upstreams: Sequence[NodeView], waits_for: Sequence[NodeView]) -> str:
    if not waits_for:
        return "Blocked. What it waits for has ended; the conductor has not looked yet."
    if node.is_finally:
        count = f"{len(waits_for):,} of {workflow.ordinary:,} ordinary nodes"
    else:
        count = "its upstream" if len(upstreams) == 1 else f"{len(waits_for):,} of its {len(upstreams):,} upstreams"
    return f"Blocked: it waits for {count}: {_named(waits_for)}; its rule is {node.rule}."


def _named(nodes: Sequence[NodeView]) -> str:
    told = [f"{each.node.id} ({each.state.value.replace('_', ' ')})" for each in nodes[:MOST_TOLD]]
    more = len(nodes) - MOST_TOLD
    return ", ".join(told) + (f" and {more:,} more" if more > 0 else "")
