"""What follows when nodes of a workflow's run end: who is released, who is skipped, who cannot run any more.

A node starts `blocked`. Each edge tells it once how its upstream ended, and the node counts: a `Tally` of its upstreams
by how they ended is all that its trigger rule looks at, so one ended node costs as much as it has edges, whatever the
size of the graph. Nothing walks paths.

    released                     its rule is met: `waiting`, and from there its run's own states
    skipped · upstream_failed    its rule cannot be met any more; this is an end, and travels on along its edges

When is a node decided? The three `one_…` rules release as soon as they are met. Everything else, and every decision not
to run, waits until all upstreams have ended. So the decision depends on how the upstreams ended and never on the order
in which they did, and it is made exactly once: only a blocked node is decided, and a later end only counts.

For a rule a node that was cancelled or expired counts as failed. A node without upstreams runs, whatever its rule.

Branches. A node's result may name the downstream nodes to take (`NodeEnd.taken`). An edge that is not taken counts as
skipped; a node of which no edge was taken is skipped, whatever its rule. A join behind a branch therefore needs no path
search: it hears `skipped` from the side that was not taken, and its rule says what that means.

Finally-nodes stand apart: they are decided when every ordinary node has ended, whatever happened, also after a cancel.
Then their rule (`all_done` unless said otherwise) looks at their needs, or, without needs, at all ordinary nodes: a
finally-node with `one_failed` and no needs handles the failure of the whole.

A halt (fail-fast after the first failure, a cancel, the deadline of the whole) releases no ordinary node any more: what
is blocked becomes `cancelled`, what runs is awaited, and then the finally-nodes have their turn. It happens once in a
run's life and costs the graph once.

How a store uses it. `Standing` is a few counters of the run's own row; `Progress` is one node's row. In the transaction
that ends nodes, under the lock of the run's row: `step` with the direct downstream rows gives the verdicts and the new
tallies; the verdicts that are ends make the next wave, until there is none. Two upstreams that end at the same time
serialise at that lock, and the second one finds both counted. A process that dies before the commit has changed
nothing; after the commit nothing is left to do. `advance` is the same over a mapping that has every row it may touch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from everwhen.core.dag_graph import reachable
from everwhen.core.dag_rules import NOTHING, Decision, Tally, decide_rule
from everwhen.core.dag_values import ENDED, UNWELL, Node, NodeState, Success, Workflow
from everwhen.core.lifecycle import RunState


class Halt(StrEnum):
    """Why no ordinary node is released any more."""

    FAIL_FAST = "fail_fast"
    CANCEL = "cancel"
    DEADLINE = "deadline"


class Cause(StrEnum):
    """Why a node is what a verdict says."""

    RULE = "rule"  # its trigger rule and its upstreams
    NOT_TAKEN = "not_taken"  # no branch took it
    HALT = "halt"  # the run's halt


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run as a whole, in counters: how its ordinary, its leaf and its finally-nodes ended so far."""

    ordinary: Tally = NOTHING
    leaves: Tally = NOTHING
    finals: Tally = NOTHING
    halt: Halt | None = None

    def plus(self, workflow: Workflow, node: str, state: NodeState) -> "Standing":
        """Count one more end."""
        if workflow.graph.nodes[node].is_finally:
            return replace(self, finals=self.finals.plus(state))
        leaves = self.leaves.plus(state) if node in workflow.graph.leaves else self.leaves
        return replace(self, ordinary=self.ordinary.plus(state), leaves=leaves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One node of a run: its state, how its upstreams ended so far, and which branches its own result took."""

    state: NodeState = NodeState.BLOCKED
    tally: Tally = NOTHING
    taken: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnd:
    """A node that ended. `taken` are the downstream nodes that its result chose; None takes all."""

    node: str
    state: NodeState
    taken: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """What becomes of a node: `waiting` releases it; `skipped`, `upstream_failed` and `cancelled` end it."""

    node: str
    state: NodeState
    cause: Cause = Cause.RULE


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What to write: the verdicts in the order of the definition, every tally that changed, the run's standing."""

    verdicts: tuple[NodeVerdict, ...]
    tallies: Mapping[str, Tally]
    standing: Standing


def start(workflow: Workflow) -> Advance:
    """Return the first verdicts of a run: the nodes without needs are released."""
    released = [node for node in workflow.nodes if not node.needs and not node.is_finally]
    verdicts = tuple(NodeVerdict(node=node.id, state=NodeState.WAITING) for node in released)
    return Advance(verdicts=verdicts, tallies={}, standing=Standing())


def advance(
    workflow: Workflow, states: Mapping[str, Progress], finished: Sequence[NodeEnd], *, standing: Standing
) -> Advance:
    """Return everything that follows, directly and indirectly, from nodes that ended.

    `states` holds the rows as they were before. Read are those of nodes that need one that ends, the finally-nodes'
    when the last ordinary node ends, and all when the run fails fast. `standing` is the run's before these ends. Each
    node ends once: to leave out a second end of the same node is the caller's part.
    """
    return _Walk(workflow, states, standing).run(finished)


def step(
    workflow: Workflow, states: Mapping[str, Progress], finished: Sequence[NodeEnd], *, standing: Standing
) -> Advance:
    """Return only the first wave of `advance`: the nodes that need one that ended, and finally-nodes if it is time.

    The verdicts that are ends (`ends_of`) are the next wave's `finished`, with these tallies and this standing.
    `states` holds at least `rows_of_step`. When `standing.halt` has changed, the run failed fast: call `halt` after the
    last wave.
    """
    walk = _Walk(workflow, states, standing)
    walk.wave(finished)
    return walk.result()


def rows_of_step(workflow: Workflow, finished: Iterable[NodeEnd], *, standing: Standing) -> set[str]:
    """Return the ids of the rows that `step` reads."""
    ended = list(finished)
    rows = {other for end in ended for other in workflow.graph.downstream[end.node]}
    ordinary = sum(not workflow.graph.nodes[end.node].is_finally for end in ended)
    if standing.ordinary.ended < workflow.ordinary <= standing.ordinary.ended + ordinary:
        rows.update(workflow.graph.finals)
    return rows


def ends_of(verdicts: Iterable[NodeVerdict]) -> list[NodeEnd]:
    """Return the verdicts that end their node, as ends."""
    return [NodeEnd(node=verdict.node, state=verdict.state) for verdict in verdicts if verdict.state in ENDED]


def halt(workflow: Workflow, states: Mapping[str, Progress], *, standing: Standing, why: Halt) -> Advance:
    """Release no ordinary node any more: return the verdict `cancelled` for all that are blocked.

    What waits, runs or retries is the caller's to cancel or to await; `states` holds every node. A run that is halted
    already stays halted for its first reason, but that a cancel or the deadline outranks fail-fast.
    """
    first = standing.halt
    if first is None or first is Halt.FAIL_FAST:
        standing = replace(standing, halt=why)
    walk = _Walk(workflow, states, standing)
    walk.cancel_blocked()
    return walk.result()


@dataclass(slots=True)
class _Walk:
    """One call's working state: what has changed so far, over rows that stay as they are."""

    workflow: Workflow
    states: Mapping[str, Progress]
    standing: Standing
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    verdicts: dict[str, NodeVerdict] = field(default_factory=dict[str, NodeVerdict])

    def run(self, finished: Sequence[NodeEnd]) -> Advance:
        halted = self.standing.halt
        wave: Sequence[NodeEnd] = finished
        while wave:
            wave = ends_of(self.wave(wave))
        if self.standing.halt is not halted:
            self.cancel_blocked()
        return self.result()

    def result(self) -> Advance:
        place = self.workflow.graph.place
        verdicts = tuple(sorted(self.verdicts.values(), key=lambda verdict: place[verdict.node]))
        return Advance(verdicts=verdicts, tallies=self.tallies, standing=self.standing)

    def cancel_blocked(self) -> None:
        """Cancel every blocked ordinary node, and let the finally-nodes have their turn if nothing is left."""
        nodes = [node for node in self.workflow.nodes if not node.is_finally and self.is_blocked(node.id)]
        for node in nodes:
            self.verdicts[node.id] = NodeVerdict(node=node.id, state=NodeState.CANCELLED, cause=Cause.HALT)
        wave = [NodeEnd(node=node.id, state=NodeState.CANCELLED) for node in nodes]
        while wave:
            wave = ends_of(self.wave(wave))

    def wave(self, finished: Sequence[NodeEnd]) -> list[NodeVerdict]:
        """Count these ends and return the verdicts that follow directly."""
        was_open = self._finals_may_run()
        touched = [self.workflow.graph.nodes[node] for node in self._count(finished)]
        decided = [self.decide(node) for node in touched if not node.is_finally]
        if self._finals_may_run():
            decided += [self.decide(node) for node in (touched if was_open else self._finals()) if node.is_finally]
        return [verdict for verdict in decided if verdict is not None]

    def settle(self) -> list[NodeVerdict]:
        """Decide whatever can be decided of rows that were made anew, and return what ends by that."""
        finals = self._finals() if self._finals_may_run() else []
        ordinary = [node for node in self.workflow.nodes if not node.is_finally]
        decided = [self.decide(node) for node in (*ordinary, *finals)]
        return [verdict for verdict in decided if verdict is not None]

    def _finals_may_run(self) -> bool:
        return self.standing.ordinary.ended >= self.workflow.ordinary

    def _finals(self) -> list[Node]:
        return [self.workflow.graph.nodes[final] for final in self.workflow.graph.finals]

    def _count(self, finished: Sequence[NodeEnd]) -> dict[str, None]:
        """Count ends along their edges; return the nodes that heard of one, in order."""
        touched: dict[str, None] = {}
        for end in finished:
            self.standing = self.standing.plus(self.workflow, end.node, end.state)
            for other in self.workflow.graph.downstream[end.node]:
                taken = end.state is not NodeState.SUCCEEDED or end.taken is None or other in end.taken
                self.tallies[other] = self.tally(other).plus(end.state, taken=taken)
                touched[other] = None
            if self._fails_fast(end):
                self.standing = replace(self.standing, halt=Halt.FAIL_FAST)
        return touched

    def _fails_fast(self, end: NodeEnd) -> bool:
        if not self.workflow.fail_fast or self.standing.halt is not None or end.state not in UNWELL:
            return False
        return not self.workflow.graph.nodes[end.node].is_finally

    def decide(self, node: Node) -> NodeVerdict | None:
        """Decide a node if it is blocked and its rule has an answer."""
        if not self.is_blocked(node.id):
            return None
        tally, total = self.tally(node.id), len(node.needs)
        if node.is_finally and not node.needs:
            tally, total = self.standing.ordinary, self.workflow.ordinary
        match decide_rule(node.rule, tally, total=total):
            case Decision.RUN if node.is_finally or self.standing.halt is None:
                state = NodeState.WAITING
            case Decision.SKIP:
                state = NodeState.SKIPPED
            case Decision.UPSTREAM_FAILED:
                state = NodeState.UPSTREAM_FAILED
            case _:  # open; or the run is halted, and the node is cancelled with all that is blocked
                return None
        cause = Cause.NOT_TAKEN if 0 < total == tally.not_taken else Cause.RULE
        verdict = NodeVerdict(node=node.id, state=state, cause=cause)
        self.verdicts[node.id] = verdict
        return verdict

    def is_blocked(self, node: str) -> bool:
        """Whether a node is undecided so far."""
        return node not in self.verdicts and self.states[node].state is NodeState.BLOCKED

    def tally(self, node: str) -> Tally:
        """How a node's upstreams ended so far."""
        found = self.tallies.get(node)
        return self.states[node].tally if found is None else found


def outcome(workflow: Workflow, standing: Standing, *, success: Success | None = None) -> RunState | None:
    """Return how the workflow's run ended; None while a node is open.

    Strict: `dead` if any node failed or could not run because of a failure. Leaf: if one of the leaves did, or a
    finally-node. Halted by a cancel: `cancelled`, unless everything had gone well by then; by the deadline: `dead`.
    """
    if standing.ordinary.ended + standing.finals.ended < len(workflow.nodes):
        return None
    anything = standing.ordinary.unwell + standing.finals.unwell
    if standing.halt is Halt.CANCEL:
        return RunState.CANCELLED if anything else RunState.SUCCEEDED
    if (success or workflow.success) is Success.LEAF:
        halted = standing.ordinary.unwell if standing.halt is not None else 0
        return RunState.DEAD if standing.leaves.unwell + standing.finals.unwell + halted else RunState.SUCCEEDED
    return RunState.DEAD if anything else RunState.SUCCEEDED


def node_state_of(state: RunState) -> NodeState:
    """Return a node's state by its run's: of a task, or of a sub-workflow."""
    return _NODE_STATES[state]


_NODE_STATES: Final = {
    RunState.PLANNED: NodeState.WAITING,
    RunState.WAITING: NodeState.WAITING,
    RunState.RUNNING: NodeState.RUNNING,
    RunState.RETRYING: NodeState.RETRYING,
    RunState.SUCCEEDED: NodeState.SUCCEEDED,
    RunState.DEAD: NodeState.FAILED,
    RunState.CANCELLED: NodeState.CANCELLED,
    RunState.EXPIRED: NodeState.EXPIRED,
    RunState.SKIPPED: NodeState.SKIPPED,
    RunState.MISSED: NodeState.EXPIRED,
    RunState.COALESCED: NodeState.SKIPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A new generation: the nodes that begin anew, all rows as they then are, and what is decided at once."""

    reset: tuple[str, ...]
    states: Mapping[str, Progress]
    advance: Advance


def rerun(workflow: Workflow, states: Mapping[str, Progress], nodes: Sequence[str]) -> Rerun:
    """Begin again from nodes of an ended run: they, everything downstream of them, and the finally-nodes.

    Everything else keeps its end. A node is decided by its rule, as ever: begun again below a failure that stays, it is
    `upstream_failed` again.
    """
    reset = reachable(workflow.graph, [*nodes, *workflow.graph.finals])
    kept = {node.id: states[node.id] for node in workflow.nodes if node.id not in reset}
    fresh: dict[str, Progress] = {node: Progress() for node in reset} | kept
    standing = Standing()
    for node, progress in kept.items():
        standing = standing.plus(workflow, node, progress.state)
        for other in reset.intersection(workflow.graph.downstream[node]):
            taken = progress.state is not NodeState.SUCCEEDED or progress.taken is None or other in progress.taken
            fresh[other] = replace(fresh[other], tally=fresh[other].tally.plus(progress.state, taken=taken))
    return Rerun(
        reset=tuple(node for node in workflow.graph.order if node in reset),
        states=fresh,
        advance=_settle(workflow, fresh, standing),
    )


def _settle(workflow: Workflow, states: Mapping[str, Progress], standing: Standing) -> Advance:
    """Decide every blocked node that can be decided, and what follows from it."""
    walk = _Walk(workflow, states, standing)
    return walk.run(ends_of(walk.settle()))
