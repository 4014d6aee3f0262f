"""What a workflow is: nodes, the edges between them, and the words for how each stands. Values only; no decisions.

`core/dag.py` decides, `core/dag_graph.py` checks that the nodes make a directed acyclic graph, `core/dag_json.py` reads
and writes definitions. A `Workflow` is made by `dag_graph.make_workflow`, which is what guarantees its graph.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

MOST_NODES: Final = 10_000
MOST_EDGES: Final = 100_000
MOST_DEPTH: Final = 5_000
MOST_ITEMS: Final = 10_000
DEFAULT_ITEMS: Final = 1_000
MOST_INPUT_BYTES: Final = 65_536
MOST_DEFINITION_BYTES: Final = 1_048_576
MOST_NESTED: Final = 8  # sub-workflows in sub-workflows
MOST_FAULTS: Final = 20


class TriggerRule(StrEnum):
    """Which ends of its upstreams let a node run."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_SKIPPED = "all_skipped"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"


class NodeState(StrEnum):
    """Where a node of a workflow's run is."""

    BLOCKED = "blocked"  # undecided: upstreams that its rule needs have not ended
    WAITING = "waiting"  # released: its run waits for a worker
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # its run is dead
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"  # it could not run because of a failure
    CANCELLED = "cancelled"
    EXPIRED = "expired"


ENDED: Final = frozenset(NodeState) - {NodeState.BLOCKED, NodeState.WAITING, NodeState.RUNNING, NodeState.RETRYING}


UNWELL: Final = frozenset({NodeState.FAILED, NodeState.CANCELLED, NodeState.EXPIRED})  # ended, and not well


class Success(StrEnum):
    """Which nodes decide the workflow's own state."""

    STRICT = "strict"  # every node
    LEAF = "leaf"  # the nodes that nothing follows


class EmptyItems(StrEnum):
    """What a fan-out over an empty list does."""

    SKIP = "skip"
    SUCCEED = "succeed"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a definition: a stable code, a sentence, an RFC 6901 pointer."""

    code: str
    message: str
    pointer: str


class WorkflowError(Exception):
    """A definition that cannot be accepted.

    Attributes:
        faults: what is wrong, in the order of the definition; at least one, at most MOST_FAULTS.
    """

    def __init__(self, *faults: Fault) -> None:
        """Blame at least one place."""
        super().__init__(faults[0].message)
        self.faults = faults[:MOST_FAULTS]

    @property
    def code(self) -> str:
        """The first fault's code."""
        return self.faults[0].code

    @property
    def message(self) -> str:
        """The first fault's sentence."""
        return self.faults[0].message

    @property
    def pointer(self) -> str:
        """The first fault's place."""
        return self.faults[0].pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """A fan-out: one instance of the node for each item of a list.

    `items` is a list or a template that gives one (`{"$ref": …}`); more than `max_items` fail the node; at most
    `max_parallel` instances are released at a time.
    """

    items: Any
    max_items: int = DEFAULT_ITEMS
    max_parallel: int | None = None
    empty: EmptyItems = EmptyItems.SKIP


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One task, or one sub-workflow, in a workflow. What is None is the task's own."""

    id: str
    needs: tuple[str, ...] = ()
    rule: TriggerRule = TriggerRule.ALL_SUCCESS
    task: str | None = None
    workflow: str | None = None
    input: Any = None
    condition: Any = None
    each: Each | None = None
    is_finally: bool = False
    is_branch: bool = False
    queue: str | None = None
    priority: int | None = None
    retry: Mapping[str, Any] | None = None
    timeout_seconds: float | None = None
    start_deadline_seconds: float | None = None
    total_deadline_seconds: float | None = None
    heartbeat_timeout_seconds: float | None = None
    concurrency_key: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """What follows from the nodes' needs, worked out once: every look-up of a decision is a look-up in a dict."""

    nodes: Mapping[str, Node]
    place: Mapping[str, int]  # a node's place in the definition
    downstream: Mapping[str, tuple[str, ...]]  # in the order of the definition
    order: tuple[str, ...]  # topological; among equals in the order of the definition
    depth: int  # nodes on the longest path
    edges: int
    finals: tuple[str, ...]  # the finally-nodes
    leaves: frozenset[str]  # ordinary nodes that no ordinary node needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A checked definition; made by `make_workflow` only."""

    nodes: tuple[Node, ...]
    graph: Graph = field(compare=False, repr=False)
    name: str = ""
    description: str = ""
    success: Success = Success.STRICT
    fail_fast: bool = False
    deadline_seconds: float | None = None
    max_parallel: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def ordinary(self) -> int:
        """How many nodes are no finally-nodes."""
        return len(self.nodes) - len(self.graph.finals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a graph may be."""

    nodes: int = MOST_NODES
    edges: int = MOST_EDGES
    depth: int = MOST_DEPTH
