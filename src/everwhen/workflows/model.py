"""What is stored of workflows, of their runs, and of the nodes in them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.core.dag import Halt, NodeEnd, Progress, Standing
from everwhen.core.dag_rules import NOTHING, Tally
from everwhen.core.dag_values import NodeState

NO_INSTANCE: Final = -1
"""The instance of a node's own row; those of a fan-out count from 0."""

SOURCE_RERUN: Final = "rerun"
"""The source of a workflow's run that is a later generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changes something, and why. Where `has_owner` is not set, a workflow keeps its owner."""

    by: str
    reason: str | None = None
    owner: str | None = None
    has_owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRow:
    """A workflow with its latest definition, as JSON text."""

    name: str
    version: int
    owner: str | None
    definition: str
    changed_by: str
    reason: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowItem:
    """A workflow in a list."""

    name: str
    version: int
    tags: list[str]
    owner: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionItem:
    """A version in a list."""

    version: int
    changed_by: str
    reason: str | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestVersion:
    """The latest version of a workflow, with its definition as JSON text."""

    tenant_id: UUID
    workflow: str
    version: int
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetry:
    """A task's retry policy as JSON text."""

    name: str
    retry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRunRow:
    """A run of a workflow, beside its row in runs. The counts are in the order of `Tally`."""

    tenant_id: UUID
    run_id: UUID
    workflow: str
    version: int
    root_run_id: UUID
    generation: int
    rerun_of: UUID | None
    rerun_nodes: list[str] | None
    nesting: int
    priority: int | None
    lease_token: int | None
    started_at: datetime | None
    deadline_at: datetime | None
    halt: str | None
    ordinary: list[int]
    leaves: list[int]
    finals: list[int]
    live: int
    look_at: datetime | None
    ended_at: datetime | None

    def standing(self) -> Standing:
        """How its nodes ended so far."""
        return Standing(
            ordinary=tally_of(self.ordinary),
            leaves=tally_of(self.leaves),
            finals=tally_of(self.finals),
            halt=None if self.halt is None else Halt(self.halt),
        )


@dataclass(slots=True, kw_only=True)
class NodeRow:
    """A node of a run, or an instance of a fan-out, as it is or as it is to be written.

    `detail` and `item` are JSON text. A released node stays `waiting` here until its run has ended.
    """

    node: str
    instance: int = NO_INSTANCE
    state: str = NodeState.BLOCKED
    tally: list[int] = field(default_factory=lambda: counts_of(NOTHING))
    node_run_id: UUID | None = None
    kept_run_id: UUID | None = None
    taken: list[str] | None = None
    reason: str | None = None
    detail: str | None = None
    is_held: bool = False
    concurrency_key: str | None = None
    item: str | None = None
    instances: int | None = None
    instances_released: int = 0
    instances_ended: int = 0
    decided_at: datetime | None = None
    ended_at: datetime | None = None

    def progress(self) -> Progress:
        """What the core needs to know of it."""
        return Progress(
            state=NodeState(self.state),
            tally=tally_of(self.tally),
            taken=None if self.taken is None else frozenset(self.taken),
        )

    def end(self, end: NodeEnd, *, now: datetime, reason: str | None, detail: str | None = None) -> None:
        """Note how it ended."""
        self.state, self.is_held = end.state, False
        self.taken = None if end.taken is None else sorted(end.taken)
        self.reason, self.detail = reason, detail
        self.decided_at, self.ended_at = self.decided_at or now, now


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRef:
    """Which node of which workflow's run a run is."""

    tenant_id: UUID
    run_id: UUID
    node: str
    instance: int
    node_run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """A result as JSON text."""

    run_id: UUID
    result: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceResult:
    """The result of one instance of a fan-out, as JSON text."""

    node: str
    instance: int
    state: str
    result: str | None
    is_cut: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCount:
    """How many instances are in a state."""

    state: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What templates may say about the workflow's run. `input` is JSON text."""

    tenant: str
    schedule: str | None
    nominal_at: datetime | None
    due_at: datetime
    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """A run of a workflow that is about to start, and the run that it is inside of, if any."""

    tenant_id: UUID
    run_id: UUID
    source: str
    priority: int
    parent_nesting: int | None
    parent_priority: int | None
    has_row: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """The key of a workflow's run."""

    tenant_id: UUID
    run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """A node's run that has not ended."""

    node: str
    node_run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """The lease of a node's run, locked."""

    run_id: UUID
    lease_token: int
    failures: int
    claimed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """Where a node's run is: with a worker, or in the line."""

    node: str
    instance: int
    node_run_id: UUID
    worker: str | None
    attempt: int | None
    claimed_at: datetime | None
    available_at: datetime | None
    failures: int | None
    queue: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePast:
    """How long a node took in earlier runs, in seconds."""

    node: str
    median: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutCount:
    """How many instances of a fan-out are in a state."""

    node: str
    state: str
    is_held: bool
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedNode:
    """A node that waits for its concurrency key."""

    tenant_id: UUID
    run_id: UUID
    node: str
    instance: int
    concurrency_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A run that a node was released as, and the queue where it waits."""

    run_id: UUID
    queue: str


def tally_of(counts: Sequence[int]) -> Tally:
    """Read a tally's column."""
    succeeded, failed, skipped, upstream_failed, not_taken = counts
    return Tally(
        succeeded=succeeded, failed=failed, skipped=skipped, upstream_failed=upstream_failed, not_taken=not_taken
    )


def counts_of(tally: Tally) -> list[int]:
    """Return a tally as its column has it."""
    return [tally.succeeded, tally.failed, tally.skipped, tally.upstream_failed, tally.not_taken]
