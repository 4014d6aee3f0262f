"""Predictions against the simulator, which knows how it ends; blockers and deadlines by hand."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.dag_graph import make_workflow
from everwhen.core.dag_predict import MOST_BLOCKERS, Outlook, Past, Present, blockers, outlook, predict
from everwhen.core.dag_simulate import Script, simulate
from everwhen.core.dag_values import ENDED, Node, NodeState, TriggerRule
from tests.core.test_dag import workflows

START = datetime(2027, 3, 28, 2, 0, tzinfo=UTC)
RUNNING, WELL, FAILED, SKIPPED = NodeState.RUNNING, NodeState.SUCCEEDED, NodeState.FAILED, NodeState.SKIPPED


def at(minutes):
    return START + timedelta(minutes=minutes)


def usually(median, p90=None):
    return Past(median=timedelta(minutes=median), p90=timedelta(minutes=median if p90 is None else p90))


def seen(played, now):
    """What is known of a simulated run at an instant."""
    present = {}
    for node, found in played.nodes.items():
        since = None if found.start is None or found.start > now else at(found.start)
        if found.end <= now:
            present[node] = Present(state=found.state, since=since, ended_at=at(found.end))
        elif since is not None:
            present[node] = Present(state=RUNNING, since=since)
    return present


@st.composite
def runs(draw):
    workflow = draw(workflows(can_fail_fast=False))
    outcomes = st.sampled_from([WELL, WELL, FAILED, SKIPPED])
    scripts = {node.id: Script(outcomes=(draw(outcomes),), duration=draw(st.integers(0, 5))) for node in workflow.nodes}
    return workflow, scripts, draw(st.integers(0, 20))


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(runs())
def test_a_prediction_comes_true_if_nodes_take_what_they_used_to(drawn):
    workflow, scripts, now = drawn
    present = seen(simulate(workflow, scripts), now)
    # From here on everything goes well.
    ended = {node for node, found in present.items() if found.state in ENDED}
    hopeful = {node: script if node in ended else Script(duration=script.duration) for node, script in scripts.items()}
    played = simulate(workflow, hopeful)
    past = {node: usually(script.duration, 2 * script.duration) for node, script in scripts.items()}
    found = predict(workflow, present, past, now=at(now), start=START)

    for node, estimate in found.nodes.items():
        assert (estimate.state, estimate.ends_at) == (played.nodes[node].state, at(played.nodes[node].end))
        assert estimate.late_at >= estimate.ends_at >= estimate.starts_at
    assert found.ends_at == max(at(result.end) for result in played.nodes.values())
    assert found.unknown == ()


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None)
@given(runs())
def test_the_critical_path_is_a_path_without_a_gap(drawn):
    workflow, scripts, now = drawn
    present = seen(simulate(workflow, scripts), now)
    past = {node: usually(script.duration) for node, script in scripts.items()}
    found = predict(workflow, present, past, now=at(now), start=START)

    assert found.nodes[found.critical[-1]].ends_at == found.ends_at
    assert found.nodes[found.critical[0]].after is None
    for one, other in zip(found.critical, found.critical[1:], strict=False):
        node = workflow.graph.nodes[other]
        assert one in node.needs or node.is_finally
        assert found.nodes[other].starts_at >= found.nodes[one].ends_at or found.nodes[other].state is not WELL


LINE = make_workflow(
    [
        Node(id="quick"),
        Node(id="slow"),
        Node(id="join", needs=("quick", "slow")),
        Node(id="end", needs=("join",)),
        Node(id="clean", is_finally=True, rule=TriggerRule.ALL_DONE),
    ]
)
PAST = {"quick": usually(1), "slow": usually(10, 30), "join": usually(5, 6), "end": usually(2), "clean": usually(1)}


def test_the_slowest_line_is_the_critical_path_and_percentiles_add_up_along_it():
    found = predict(LINE, {}, PAST, now=START, start=START)

    assert found.critical == ("slow", "join", "end", "clean")
    assert (found.ends_at, found.late_at) == (at(18), at(39))


def test_a_node_that_takes_longer_than_usual_ends_now_at_the_earliest():
    present = {"quick": Present(state=WELL, since=START, ended_at=at(1)), "slow": Present(state=RUNNING, since=START)}
    found = predict(LINE, present, PAST, now=at(25), start=START)

    assert (found.nodes["slow"].ends_at, found.nodes["slow"].late_at) == (at(25), at(30))
    assert found.ends_at == at(33)


def test_an_impatient_node_starts_with_the_first_of_its_needs():
    nodes = [Node(id="quick"), Node(id="slow"), Node(id="n", needs=("slow", "quick"), rule=TriggerRule.ONE_SUCCESS)]
    found = predict(make_workflow(nodes), {}, PAST | {"n": usually(20)}, now=START, start=START)

    assert (found.nodes["n"].starts_at, found.nodes["n"].after) == (at(1), "quick")
    assert found.critical == ("quick", "n")


def test_a_node_without_a_past_is_named():
    found = predict(LINE, {"quick": Present(state=WELL, since=START, ended_at=at(1))}, {}, now=at(1), start=START)

    assert found.unknown == ("slow", "join", "end", "clean")
    assert found.ends_at == at(1)


def test_what_cannot_run_any_more_takes_no_time():
    present = {"slow": Present(state=FAILED, since=START, ended_at=at(3))}
    found = predict(LINE, present | {"quick": Present(state=RUNNING, since=START)}, PAST, now=at(3), start=START)

    assert found.nodes["join"].state is NodeState.UPSTREAM_FAILED
    assert found.ends_at == at(4)


@pytest.mark.parametrize(
    ("deadline", "now", "expected"),
    [
        (at(40), START, Outlook.ON_TIME),
        (at(39), START, Outlook.ON_TIME),
        (at(38), START, Outlook.AT_RISK),
        (at(18), START, Outlook.AT_RISK),
        (at(17), START, Outlook.LATE),
        (at(5), at(5), Outlook.MISSED),
    ],
)
def test_a_deadline_is_warned_about_before_it_is_missed(deadline, now, expected):
    assert outlook(predict(LINE, {}, PAST, now=START, start=START), deadline_at=deadline, now=now) is expected


def test_a_blocked_node_names_its_needs_and_what_they_come_down_to():
    present = {"quick": Present(state=RUNNING, since=START), "slow": Present(state=NodeState.RETRYING, since=START)}
    found = blockers(LINE, present, predict(LINE, present, PAST, now=START, start=START))

    assert set(found) == {"join", "end", "clean"}
    assert (found["join"].needs, found["join"].root) == (("slow", "quick"), "slow")
    assert (found["end"].needs, found["end"].root) == (("join",), "slow")
    assert (found["clean"].needs, found["clean"].root) == (("end", "join", "slow", "quick"), "slow")


def test_a_finally_node_waits_for_others_of_its_kind_when_the_ordinary_ones_have_ended():
    workflow = make_workflow([Node(id="a"), Node(id="f", is_finally=True), Node(id="g", is_finally=True, needs=("f",))])
    present = {
        "a": Present(state=WELL, since=START, ended_at=START),
        "f": Present(state=NodeState.WAITING, since=START),
    }
    found = blockers(workflow, present, predict(workflow, present, {}, now=START, start=START))

    assert {name: (blocked.needs, blocked.root) for name, blocked in found.items()} == {"g": (("f",), "f")}


def test_a_join_of_many_names_the_slowest_few_and_counts_the_rest():
    parts = [Node(id=f"p{index}") for index in range(100)]
    workflow = make_workflow([*parts, Node(id="join", needs=tuple(part.id for part in parts))])
    present = {part.id: Present(state=RUNNING, since=START) for part in parts}
    past = {part.id: usually(index) for index, part in enumerate(parts)}
    found = blockers(workflow, present, predict(workflow, present, past, now=START, start=START))["join"]

    assert (found.needs[0], found.root, len(found.needs), found.more) == ("p99", "p99", MOST_BLOCKERS, 80)
