"""The picture of a workflow: well-formed whatever a definition says, bounded, and legible without its colours."""

import json
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.cli.workflow import workflow as command
from everwhen.core.dag_graph import make_workflow
from everwhen.core.dag_layout import BOX_GAP, MOST_BOXES, fold, layout
from everwhen.core.dag_values import Each, Node, NodeState
from everwhen.workflows.graph_svg import BACKGROUNDS, DARK, HUES, LIGHT, SIGNS, NodeView, render
from tests import colours

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*args, **kwargs):
    return ET.fromstring(render(*args, **kwargs))


def items(picture):
    return [group for group in picture.iter(f"{SVG}g") if group.get("role") == "listitem"]


def texts(picture):
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


DIAMOND = make_workflow(
    [
        Node(id="a", task="t"),
        Node(id="b", needs=("a",), task="t"),
        Node(id="c", needs=("a",), task="t"),
        Node(id="d", needs=("b", "c"), task="t"),
        Node(id="clean", is_finally=True, task="t"),
    ]
)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 25))
    nodes = []
    for index in range(count):
        needs = draw(st.lists(st.sampled_from(range(index)), max_size=3, unique=True)) if index else []
        nodes.append(Node(id=f"n{index}", needs=tuple(f"n{need}" for need in needs), task="t"))
    return make_workflow(nodes)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_edges_go_to_the_right_and_boxes_keep_their_distance(workflow):
    folded = fold(workflow)
    found = layout(folded)

    for above, below in folded.edges:
        assert found.boxes[above][0] < found.boxes[below][0]
    for (layer, down), (other_layer, other_down) in combinations(found.boxes.values(), 2):
        assert layer != other_layer or abs(down - other_down) >= BOX_GAP - 1e-6
    assert min(down for _, down in found.boxes.values()) >= 0
    assert sorted(node for box in folded.boxes for node in box.members) == sorted(workflow.graph.nodes)


def test_a_chain_and_a_diamond_are_drawn_as_anybody_would():
    chain = layout(fold(make_workflow([Node(id="a"), Node(id="b", needs=("a",)), Node(id="c", needs=("b",))])))
    diamond = layout(fold(DIAMOND)).boxes

    assert {down for _, down in chain.boxes.values()} == {0}
    assert diamond["a"][1] == diamond["d"][1] == (diamond["b"][1] + diamond["c"][1]) / 2
    assert diamond["clean"][0] == 3


def test_a_graph_that_needs_no_crossing_has_none():
    nodes = [Node(id=f"a{index}") for index in range(5)]
    nodes += [Node(id=f"b{index}", needs=(f"a{4 - index}",)) for index in range(5)]
    found = layout(fold(make_workflow(nodes))).boxes

    assert all(found[f"b{index}"][1] == found[f"a{4 - index}"][1] for index in range(5))


def fan(width):
    parts = [Node(id=f"part-{index}", needs=("split",)) for index in range(width)]
    return make_workflow([Node(id="split"), *parts, Node(id="join", needs=tuple(part.id for part in parts))])


def test_siblings_are_one_box_with_their_progress():
    views = {f"part-{index}": NodeView(state=NodeState.SUCCEEDED) for index in range(1_000)}
    views["part-3"] = NodeView(state=NodeState.FAILED)
    views["part-4"] = NodeView(state=NodeState.RUNNING)
    picture = drawn(fan(1_000), title="fan", views=views)

    assert len(items(picture)) == 3
    assert "part-0 +999" in texts(picture)
    assert "999/1,000, 1 failed" in texts(picture)
    assert "1 failed" in items(picture)[1].get("aria-label")


def test_a_node_of_the_critical_path_is_never_folded_away():
    picture = drawn(fan(20), title="fan", critical=["split", "part-7", "join"])
    heavy = [rect for rect in picture.iter(f"{SVG}rect") if " c" in rect.get("class", "")]

    assert len(items(picture)) == 4
    assert len(heavy) == 3


def test_a_fan_out_shows_its_instances():
    workflow = make_workflow([Node(id="t", each=Each(items=[1]), task="t")])
    parts = {NodeState.SUCCEEDED: 3, NodeState.FAILED: 1, NodeState.WAITING: 2}
    view = NodeView(state=NodeState.RUNNING, parts=parts)
    picture = drawn(workflow, title="x", views={"t": view})

    assert "running 4/6, 1 failed" in texts(picture)
    assert "1 failed, 2 waiting, 3 succeeded" in items(picture)[0].get("aria-label")


def test_every_state_has_a_word_and_a_sign_and_no_two_signs_are_alike():
    workflow = make_workflow([Node(id=state.value) for state in NodeState][:5])
    picture = drawn(workflow, title="x", views={node.id: NodeView(state=NodeState(node.id)) for node in workflow.nodes})

    for item, node in zip(items(picture), workflow.nodes, strict=True):
        assert node.id.replace("_", " ") in [text.text for text in item.iter(f"{SVG}text")]
        assert SIGNS[NodeState(node.id)] in {path.get("d") for path in item.iter(f"{SVG}path")}
    assert len(set(SIGNS.values())) == len(SIGNS) == len(HUES) == len(NodeState)


def test_it_has_a_title_a_sentence_and_a_list():
    picture = drawn(DIAMOND, title="nightly <load>", views={"a": NodeView(state=NodeState.RUNNING, note="42 s")})

    assert picture.find(f"{SVG}title").text == "nightly <load>"
    assert picture.find(f"{SVG}desc").text == "5 nodes, 4 edges, 3 deep. 1 running."
    assert picture.get("aria-labelledby") == "t d"
    assert items(picture)[0].get("aria-label") == "a: task t. running, 42 s"
    assert items(picture)[4].get("aria-label") == "d: task t. needs b, c"
    assert "finally" in texts(picture)


HOSTILE = [
    "<script>",
    '"><g onload="x',
    "&amp;",
    "]]>",
    "'",
    "--",
    "a" * 100,
    "\u202eabc",
    "\x01\ud800",
    "\U0001f600" * 40,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_a_node_is_called_is_text(text):
    nodes = [Node(id=text, task=text), Node(id="b", needs=(text,), workflow=text)]
    views = {text: NodeView(state=NodeState.RUNNING, note=text)}
    picture = drawn(make_workflow(nodes), title=text, views=views)

    assert {element.tag for element in picture.iter()} <= {
        f"{SVG}{tag}" for tag in ("svg", "title", "desc", "style", "text", "g", "rect", "path", "circle")
    }
    assert not [name for element in picture.iter() for name in element.keys() if name.startswith("on")]  # noqa: SIM118


def test_what_is_too_large_is_cut_off_and_said_to_be():
    chain = [Node(id="n0"), *(Node(id=f"n{index}", needs=(f"n{index - 1}",)) for index in range(1, MOST_BOXES + 500))]
    text = render(make_workflow(chain), title="long")
    picture = ET.fromstring(text)

    assert len(items(picture)) == MOST_BOXES
    assert "500 more nodes are not drawn." in texts(picture)
    assert len(text) < 1_000_000


def test_too_many_edges_are_cut_off_and_said_to_be():
    nodes = [Node(id=f"n{i}", needs=tuple(f"n{j}" for j in range(max(0, i - 20), i))) for i in range(400)]
    text = render(make_workflow(nodes), title="dense")

    assert "2,790 more edges are not drawn." in text
    assert len(text) < 1_500_000


@pytest.mark.parametrize(("hues", "background"), [(LIGHT, BACKGROUNDS["light"]), (DARK, BACKGROUNDS["dark"])])
def test_the_hues_of_the_states_can_be_told_apart_with_every_kind_of_colour_vision(hues, background):
    loud = {name: colour for name, colour in hues.items() if name != "quiet"}
    for vision in colours.VISIONS:
        for one, other in combinations(loud.values(), 2):
            assert colours.difference(colours.lab(one, vision), colours.lab(other, vision)) >= 15
    assert all(colours.contrast(colour, background) >= 3 for colour in hues.values())


def test_the_check_of_hues_finds_the_traffic_light_out():
    red, green = "#dc2626", "#16a34a"

    assert colours.difference(colours.lab(red, "deutan"), colours.lab(green, "deutan")) < 15


def test_the_command_draws_a_file_and_says_what_is_wrong_with_one(tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"name": "nightly", "nodes": [{"id": "a", "task": "t"}]}))
    bad.write_text(json.dumps({"nodes": [{"id": "a", "task": "t", "needs": ["a"]}]}))
    fine = CliRunner().invoke(command, ["graph", str(good)])
    wrong = CliRunner().invoke(command, ["graph", str(bad)])
    absent = CliRunner().invoke(command, ["graph", str(tmp_path / "absent.json")])
    piped = CliRunner().invoke(command, ["graph", "-", "--title", "piped"], input="[")

    assert ET.fromstring(fine.stdout).find(f"{SVG}title").text == "nightly"
    assert (wrong.exit_code, absent.exit_code, piped.exit_code) == (2, 2, 2)
    assert "/nodes/0/needs/0: 'a' needs itself (workflow.self_edge)" in wrong.stderr
    assert "input.json" in piped.stderr
