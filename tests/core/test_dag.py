"""What follows from ends, as properties over random graphs: order, once, in waves, and at what cost."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.dag import (
    Cause,
    Halt,
    NodeEnd,
    Progress,
    Standing,
    advance,
    ends_of,
    halt,
    node_state_of,
    outcome,
    rerun,
    rows_of_step,
    start,
    step,
)
from everwhen.core.dag_graph import make_workflow
from everwhen.core.dag_values import ENDED, Node, NodeState, Success, TriggerRule
from everwhen.core.lifecycle import RunState

WELL, FAILED, SKIPPED, UPSTREAM = (
    NodeState.SUCCEEDED,
    NodeState.FAILED,
    NodeState.SKIPPED,
    NodeState.UPSTREAM_FAILED,
)
RUN_ENDS = [WELL, FAILED, SKIPPED, NodeState.CANCELLED, NodeState.EXPIRED]


class Run:
    """A run in memory: rows and counters as a store keeps them, and who has been released and not ended."""

    def __init__(self, workflow):
        self.workflow = workflow
        self.rows = {node.id: Progress() for node in workflow.nodes}
        self.standing = Standing()
        self.open = []
        self.decided = []
        self.take(start(workflow))

    def take(self, found):
        self.standing = found.standing
        for node, tally in found.tallies.items():
            self.rows[node] = replace(self.rows[node], tally=tally)
        for verdict in found.verdicts:
            assert self.rows[verdict.node].state is NodeState.BLOCKED
            self.decided.append(verdict.node)
            self.rows[verdict.node] = replace(self.rows[verdict.node], state=verdict.state)
            if verdict.state is NodeState.WAITING:
                self.open.append(verdict.node)

    def end(self, *ends):
        for end in ends:
            self.open.remove(end.node)
            self.rows[end.node] = replace(self.rows[end.node], state=end.state, taken=end.taken)
        self.take(advance(self.workflow, self.rows, ends, standing=self.standing))

    def end_in_steps(self, *ends):
        for end in ends:
            self.open.remove(end.node)
            self.rows[end.node] = replace(self.rows[end.node], state=end.state, taken=end.taken)
        before, wave = self.standing.halt, list(ends)
        while wave:
            loaded = {node: self.rows[node] for node in rows_of_step(self.workflow, wave, standing=self.standing)}
            found = step(self.workflow, loaded, wave, standing=self.standing)
            self.take(found)
            wave = ends_of(found.verdicts)
        if self.standing.halt is not before:
            self.take(halt(self.workflow, self.rows, standing=self.standing, why=self.standing.halt))

    def states(self):
        return {node: row.state for node, row in self.rows.items()}


@st.composite
def workflows(draw, *, can_fail_fast=True):
    count = draw(st.integers(1, 10))
    finals = draw(st.integers(0, 2))
    nodes = []
    for index in range(count + finals):
        is_finally = index >= count
        needs = draw(st.lists(st.sampled_from(range(index)), max_size=4, unique=True)) if index else []
        rule = draw(st.sampled_from(TriggerRule))
        nodes.append(Node(id=f"n{index}", needs=tuple(f"n{need}" for need in needs), rule=rule, is_finally=is_finally))
    fail_fast = can_fail_fast and draw(st.booleans())
    return make_workflow(nodes, fail_fast=fail_fast)


@st.composite
def scripted(draw):
    """A workflow, and how each of its nodes ends if it is released, with the branches that it takes."""
    workflow = draw(workflows())
    ends = {}
    for node in workflow.nodes:
        following = workflow.graph.downstream[node.id]
        taken = draw(st.none() | st.frozensets(st.sampled_from(following))) if following else None
        ends[node.id] = NodeEnd(node=node.id, state=draw(st.sampled_from(RUN_ENDS)), taken=taken)
    return workflow, ends


def played(workflow, ends, pick, *, in_steps=False, together=1):
    run = Run(workflow)
    while run.open:
        some = [ends[node] for node in pick(list(run.open), together)]
        (run.end_in_steps if in_steps else run.end)(*some)
    return run


def first(nodes, count):
    """The first by name: which node ends next must not depend on the order in which the waves released them."""
    return sorted(nodes)[:count]


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(scripted(), st.randoms(use_true_random=False), st.integers(1, 3))
def test_the_order_and_the_company_of_the_ends_change_no_state(drawn, chance, together):
    workflow, ends = drawn
    workflow = replace(workflow, fail_fast=False)

    def pick(nodes, count):
        return chance.sample(nodes, min(count, len(nodes)))

    one, other = played(workflow, ends, first), played(workflow, ends, pick, together=together)
    assert one.states() == other.states()
    assert one.standing == other.standing


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(scripted(), st.randoms(use_true_random=False))
def test_every_node_is_decided_exactly_once_and_the_run_ends(drawn, chance):
    workflow, ends = drawn
    run = played(workflow, ends, lambda nodes, _: [chance.choice(nodes)])

    assert sorted(run.decided) == sorted(run.rows)
    assert set(run.states().values()) <= ENDED
    assert outcome(workflow, run.standing) is not None


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(scripted(), st.integers(1, 3))
def test_wave_by_wave_with_only_the_rows_it_asks_for_is_the_same(drawn, together):
    workflow, ends = drawn
    one = played(workflow, ends, first, together=together)
    other = played(workflow, ends, first, in_steps=True, together=together)

    assert one.states() == other.states()
    assert one.standing == other.standing
    assert {node: row.tally for node, row in one.rows.items()} == {node: row.tally for node, row in other.rows.items()}


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(scripted(), st.integers(0, 6))
def test_after_a_halt_no_ordinary_node_is_released_and_the_finally_nodes_are_decided(drawn, after):
    workflow, ends = drawn
    workflow = replace(workflow, fail_fast=False)
    run = Run(workflow)
    for _ in range(after):
        if run.open:
            run.end(ends[run.open[0]])
    before = set(run.decided)
    run.take(halt(workflow, run.rows, standing=run.standing, why=Halt.CANCEL))
    while run.open:
        run.end(ends[run.open[0]])

    finals = set(workflow.graph.finals)
    for node in set(run.decided) - before - finals:
        assert run.rows[node].state is NodeState.CANCELLED
    assert sorted(run.decided) == sorted(run.rows)
    assert outcome(workflow, run.standing) in {RunState.CANCELLED, RunState.SUCCEEDED}


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(scripted(), st.data())
def test_a_rerun_with_the_same_ends_comes_to_the_same_states(drawn, data):
    workflow, ends = drawn
    workflow = replace(workflow, fail_fast=False)
    run = played(workflow, ends, first)
    states = run.states()
    chosen = data.draw(st.lists(st.sampled_from(sorted(states)), min_size=1, max_size=2, unique=True))
    again = rerun(workflow, run.rows, chosen)

    assert set(chosen) <= set(again.reset)
    run.rows, run.decided, run.open = dict(again.states), [], []
    run.take(again.advance)
    while run.open:
        run.end(ends[run.open[-1]])
    assert sorted(run.decided) == sorted(again.reset)
    assert run.states() == states


class Counting(Mapping):
    """Rows that count how often one is read."""

    def __init__(self, rows):
        self.rows = rows
        self.reads = 0

    def __getitem__(self, key):
        self.reads += 1
        return self.rows[key]

    def __iter__(self):
        raise AssertionError("an end must not look at all rows")

    def __len__(self):
        raise AssertionError("an end must not look at all rows")


@pytest.mark.parametrize("size", [100, 1_000, 10_000])
def test_an_end_reads_as_many_rows_as_it_has_edges_whatever_the_size_of_the_graph(size):
    nodes = [Node(id="n0")] + [Node(id=f"n{index}", needs=(f"n{(index - 1) // 2}",)) for index in range(1, size)]
    workflow = make_workflow(nodes)
    rows = Counting({node.id: Progress() for node in nodes})
    found = advance(workflow, rows, [NodeEnd(node="n3", state=WELL)], standing=Standing())

    assert [verdict.node for verdict in found.verdicts] == ["n7", "n8"]
    assert rows.reads == 4


def ladder(rungs):
    nodes = [Node(id="d0")]
    for index in range(rungs):
        nodes += [
            Node(id=f"l{index}", needs=(f"d{index}",)),
            Node(id=f"r{index}", needs=(f"d{index}",)),
            Node(id=f"d{index + 1}", needs=(f"l{index}", f"r{index}")),
        ]
    return make_workflow(nodes)


def test_a_ladder_of_diamonds_has_more_paths_than_anybody_could_walk_and_each_edge_is_counted_once():
    workflow = ladder(40)  # 2^40 paths
    run = Run(workflow)
    run.end(NodeEnd(node="d0", state=FAILED))

    assert set(run.states().values()) == {FAILED, UPSTREAM}
    assert sum(row.tally.ended for row in run.rows.values()) == workflow.graph.edges
    assert outcome(workflow, run.standing) is RunState.DEAD


def test_a_skip_cascade_through_a_long_chain_needs_no_recursion():
    nodes = [Node(id="n0"), *(Node(id=f"n{index}", needs=(f"n{index - 1}",)) for index in range(1, 5_000))]
    run = Run(make_workflow(nodes))
    run.end(NodeEnd(node="n0", state=SKIPPED))

    assert set(run.states().values()) == {SKIPPED}
    assert outcome(run.workflow, run.standing) is RunState.SUCCEEDED


def test_a_verdict_says_whether_a_rule_a_branch_or_a_halt_decided():
    nodes = [Node(id="a"), Node(id="b", needs=("a",)), Node(id="c", needs=("a",)), Node(id="d", needs=("b",))]
    run = Run(make_workflow(nodes))
    found = advance(
        run.workflow,
        run.rows,
        [NodeEnd(node="a", state=WELL, taken=frozenset({"b"}))],
        standing=Standing(),
    )
    halted = halt(run.workflow, run.rows, standing=Standing(), why=Halt.CANCEL)

    assert {verdict.node: (verdict.state, verdict.cause) for verdict in found.verdicts} == {
        "b": (NodeState.WAITING, Cause.RULE),
        "c": (SKIPPED, Cause.NOT_TAKEN),
    }
    assert {verdict.cause for verdict in halted.verdicts} == {Cause.HALT}


def test_a_cancel_and_a_deadline_outrank_failing_fast_and_nothing_outranks_them():
    workflow = make_workflow([Node(id="a")])
    rows = {"a": Progress(state=NodeState.RUNNING)}

    def after(before, why):
        return halt(workflow, rows, standing=Standing(halt=before), why=why).standing.halt

    assert after(Halt.FAIL_FAST, Halt.CANCEL) is Halt.CANCEL
    assert after(Halt.DEADLINE, Halt.CANCEL) is Halt.DEADLINE
    assert after(Halt.CANCEL, Halt.FAIL_FAST) is Halt.CANCEL


@pytest.mark.parametrize(
    ("ends", "reason", "strict", "leaf"),
    [
        ({"a": WELL, "h": WELL}, None, RunState.SUCCEEDED, RunState.SUCCEEDED),
        ({"a": SKIPPED, "h": SKIPPED}, None, RunState.SUCCEEDED, RunState.SUCCEEDED),
        ({"a": FAILED, "h": WELL}, None, RunState.DEAD, RunState.SUCCEEDED),
        ({"a": WELL, "h": FAILED}, None, RunState.DEAD, RunState.DEAD),
        ({"a": UPSTREAM, "h": WELL}, None, RunState.DEAD, RunState.SUCCEEDED),
        ({"a": NodeState.EXPIRED, "h": WELL}, None, RunState.DEAD, RunState.SUCCEEDED),
        ({"a": FAILED, "h": WELL}, Halt.FAIL_FAST, RunState.DEAD, RunState.DEAD),
        ({"a": WELL, "h": NodeState.CANCELLED}, Halt.CANCEL, RunState.CANCELLED, RunState.CANCELLED),
        ({"a": WELL, "h": WELL}, Halt.CANCEL, RunState.SUCCEEDED, RunState.SUCCEEDED),
        ({"a": WELL, "h": NodeState.CANCELLED}, Halt.DEADLINE, RunState.DEAD, RunState.DEAD),
        ({"a": WELL}, None, None, None),
    ],
)
def test_the_runs_own_state(ends, reason, strict, leaf):
    workflow = make_workflow([Node(id="a"), Node(id="h", needs=("a",), rule=TriggerRule.ALL_DONE)])
    standing = Standing(halt=reason)
    for node, state in ends.items():
        standing = standing.plus(workflow, node, state)

    assert outcome(workflow, standing, success=Success.STRICT) is strict
    assert outcome(workflow, standing, success=Success.LEAF) is leaf


def test_a_finally_node_that_failed_is_a_failure_for_both():
    workflow = make_workflow([Node(id="a"), Node(id="f", is_finally=True, rule=TriggerRule.ALL_DONE)])
    standing = Standing().plus(workflow, "a", WELL).plus(workflow, "f", FAILED)

    assert {outcome(workflow, standing, success=success) for success in Success} == {RunState.DEAD}


def test_a_branch_that_failed_takes_nobody_and_fails_everybody():
    run = Run(make_workflow([Node(id="a", is_branch=True), Node(id="b", needs=("a",)), Node(id="c", needs=("a",))]))
    run.end(NodeEnd(node="a", state=FAILED, taken=frozenset({"b"})))

    assert run.states() == {"a": FAILED, "b": UPSTREAM, "c": UPSTREAM}


@pytest.mark.parametrize("state", RunState)
def test_every_state_of_a_run_is_one_of_a_node(state):
    assert isinstance(node_state_of(state), NodeState)
