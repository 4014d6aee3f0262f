"""Plays a workflow through with scripted outcomes and unlimited workers: what would become of every node, and when.

The decisions are those of `core/dag.py`, which is what production runs; only the workers are made up. Time is a number
in any unit, exact (whole numbers and fractions), so that what ends together ends together.

At one instant everything that ends is counted before anything is decided, in the order of the definition; nodes that
are released start at that instant. A cancel at an instant comes after what ends at it and before what would start at
it: it never undoes an end, and it does prevent the next attempt. What it stops is `cancelled` then and there; the
finally-nodes still have their turn.

With `given`, what references to `run` find, data is played, too: conditions are looked at and inputs resolved with the
scripted results, results skip their node and choose branches. A fan-out is played as one node that takes as long as its
instances do, `max_parallel` at a time; if one of them lacks its data, the node fails.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import takewhile
from typing import Any, Final

from everwhen.core.dag import Advance, Halt, NodeEnd, Progress, Standing, advance, halt, outcome, start
from everwhen.core.dag_data import Context
from everwhen.core.dag_opening import NotOpened, Opened, open_instance, open_node, read_end
from everwhen.core.dag_rules import NOTHING
from everwhen.core.dag_values import ENDED, Node, NodeState, Success, Workflow
from everwhen.core.lifecycle import RunState

Time = int | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How a node's attempts go. The last outcome stands for all further attempts.

    `taken` is a branch's choice where no data is played; `result` is what it returns where data is.
    """

    outcomes: tuple[NodeState, ...] = (NodeState.SUCCEEDED,)
    duration: Time = 1
    max_attempts: int = 1
    retry_delay: Time = 0
    taken: frozenset[str] | None = None
    result: Any = None

    @property
    def attempts(self) -> int:
        """How many attempts there are until one does not fail, or no more are allowed."""
        listed = self.outcomes[: self.max_attempts]
        failed = sum(1 for _ in takewhile(lambda state: state is NodeState.FAILED, listed))
        return failed + 1 if failed < len(listed) else self.max_attempts

    @property
    def state(self) -> NodeState:
        """How it ends if nothing stops it."""
        return self.outcomes[min(self.attempts, len(self.outcomes)) - 1]

    def ends_after(self) -> Time:
        """How long it takes from its start, retries included."""
        return self.attempts * self.duration + (self.attempts - 1) * self.retry_delay

    def attempts_within(self, time: Time) -> int:
        """How many attempts began strictly within `time` of its start."""
        if time <= 0:
            return 0
        period = self.duration + self.retry_delay
        return self.attempts if period == 0 else min(self.attempts, -(-time // period))


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What became of a node. `start` is None if it never started."""

    state: NodeState
    attempts: int
    start: Time | None
    end: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What became of every node, in the order of the definition, and of the run: strict, and by its leaves."""

    nodes: Mapping[str, Played]
    run: RunState
    run_leaf: RunState


USUAL: Final = Script()


def simulate(
    workflow: Workflow,
    scripts: Mapping[str, Script],
    *,
    cancel_at: Time | None = None,
    given: Mapping[str, Any] | None = None,
) -> Simulation:
    """Play the workflow through; a node without a script succeeds at its first attempt, after 1."""
    play = _Play(workflow, scripts, cancel_at, given)
    play.run()
    return play.result()


@dataclass(slots=True)
class _Play:
    workflow: Workflow
    scripts: Mapping[str, Script]
    cancel_at: Time | None
    given: Mapping[str, Any] | None
    standing: Standing = field(default_factory=Standing)
    states: dict[str, Progress] = field(default_factory=dict[str, Progress])
    started: dict[str, Time] = field(default_factory=dict[str, Time])
    played: dict[str, Played] = field(default_factory=dict[str, Played])
    ahead: list[tuple[Time, int]] = field(default_factory=list[tuple[Time, int]])  # ends: when, and whose place
    unopened: list[NodeEnd] = field(default_factory=list[NodeEnd])  # released, and not run after all
    lacking: set[str] = field(default_factory=set[str])  # fan-outs of which an instance lacks its data
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    ended: dict[str, NodeState] = field(default_factory=dict[str, NodeState])

    def run(self) -> None:
        self.states = {node.id: Progress() for node in self.workflow.nodes}
        self._take(start(self.workflow), at=0)
        while True:
            cancel_at = self.cancel_at
            if cancel_at is not None and (not self.ahead or self.ahead[0][0] > cancel_at):
                self._cancel(cancel_at)
            if not self.ahead:
                return
            self._end_next()

    def _end_next(self) -> None:
        at = self.ahead[0][0]
        ended: list[NodeEnd] = []
        while self.ahead and self.ahead[0][0] == at:
            node = self.workflow.nodes[heapq.heappop(self.ahead)[1]].id
            if node not in self.played and not self._is_prevented(node, at=at):
                end = self._end_of(node)
                self._close(node, end.state, at=at, attempts=self._script(node).attempts)
                ended.append(end)
        self._take(advance(self.workflow, self.states, ended, standing=self.standing), at=at)

    def _is_prevented(self, node: str, *, at: Time) -> bool:
        """Whether the attempt that would end a node now, without taking time, would begin at the very cancel."""
        if at != self.cancel_at or self.workflow.graph.nodes[node].is_finally:
            return False
        script = self._script(node)
        return script.attempts_within(at - self.started[node]) < script.attempts

    def _end_of(self, node: str) -> NodeEnd:
        script = self._script(node)
        if self.given is None:
            return NodeEnd(node=node, state=script.state, taken=script.taken)
        if node in self.lacking:
            return NodeEnd(node=node, state=NodeState.FAILED)
        end, _ = read_end(self.workflow, node, script.state, script.result)
        if end.state is NodeState.SUCCEEDED:
            self.results[node] = script.result
        return end

    def _cancel(self, at: Time) -> None:
        self.cancel_at = None
        if outcome(self.workflow, self.standing) is not None:
            return
        self._take(halt(self.workflow, self.states, standing=self.standing, why=Halt.CANCEL), at=at)
        stopped: list[NodeEnd] = []
        for node in self.workflow.nodes:
            if not node.is_finally and self.states[node.id].state is NodeState.WAITING:
                began = self.started.get(node.id)
                attempts = 0 if began is None else self._script(node.id).attempts_within(at - began)
                self._close(node.id, NodeState.CANCELLED, at=at, attempts=attempts)
                stopped.append(NodeEnd(node=node.id, state=NodeState.CANCELLED))
        self._take(advance(self.workflow, self.states, stopped, standing=self.standing), at=at)

    def _take(self, found: Advance, *, at: Time) -> None:
        self._apply(found, at=at)
        while self.unopened:
            ended, self.unopened = self.unopened, []
            for end in ended:
                self._close(end.node, end.state, at=at, attempts=0)
            self._apply(advance(self.workflow, self.states, ended, standing=self.standing), at=at)

    def _apply(self, found: Advance, *, at: Time) -> None:
        self.standing = found.standing
        for node, tally in found.tallies.items():
            self.states[node] = replace(self.states[node], tally=tally)
        for verdict in found.verdicts:
            if verdict.state in ENDED:
                self._close(verdict.node, verdict.state, at=at, attempts=0)
            else:
                self.states[verdict.node] = Progress(state=verdict.state, tally=NOTHING)
                self._start(verdict.node, at=at)

    def _start(self, node: str, *, at: Time) -> None:
        spec = self.workflow.graph.nodes[node]
        if self.cancel_at is not None and at >= self.cancel_at and not spec.is_finally:
            return
        rounds = 1 if self.given is None else self._rounds(spec, self.given)
        if rounds:
            self.started[node] = at
            heapq.heappush(self.ahead, (at + rounds * self._script(node).ends_after(), self.workflow.graph.place[node]))

    def _rounds(self, node: Node, given: Mapping[str, Any]) -> int:
        """Return how many times its script a node takes; 0 if it does not run after all."""
        context = Context(run=given, results=self.results, states=self.ended)
        opened = open_node(node, context)
        if isinstance(opened, NotOpened):
            self.unopened.append(NodeEnd(node=node.id, state=opened.state))
            return 0
        if node.each is None or isinstance(opened, Opened):
            return 1
        instances = [open_instance(node, context, index=i, item=item) for i, item in enumerate(opened.items)]
        if any(isinstance(instance, NotOpened) for instance in instances):
            self.lacking.add(node.id)
        return -(-len(instances) // (node.each.max_parallel or len(instances)))

    def _close(self, node: str, state: NodeState, *, at: Time, attempts: int) -> None:
        self.states[node] = Progress(state=state)
        self.ended[node] = state
        self.played[node] = Played(state=state, attempts=attempts, start=self.started.get(node), end=at)

    def _script(self, node: str) -> Script:
        return self.scripts.get(node, USUAL)

    def result(self) -> Simulation:
        run = outcome(self.workflow, self.standing, success=Success.STRICT)
        leaf = outcome(self.workflow, self.standing, success=Success.LEAF)
        assert run is not None
        assert leaf is not None
        nodes = {node.id: self.played[node.id] for node in self.workflow.nodes}
        return Simulation(nodes=nodes, run=run, run_leaf=leaf)
