"""Draws a workflow, or a run of one: boxes in layers from left to right, each with its state as a word, a sign, a hue.

Nobody needs the colours: the sign and the word say the same, and a screen reader is given a list of nodes with what
each needs. The picture follows the reader's light or dark setting. The critical path is drawn heavier. Siblings are
folded, and what is too large is cut off and said to be (`core/dag_layout.py`), so that the picture has a bounded size.
Whatever a definition calls its nodes is escaped here and nowhere else.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_markup
from itertools import pairwise
from typing import Final

from everwhen.core.dag_layout import Box, Folded, Layout, fold, layout
from everwhen.core.dag_values import ENDED, NodeState, TriggerRule, Workflow

_BOX_WIDTH, _BOX_HEIGHT = 204, 44
_COLUMN = 276
_MARGIN, _TOP, _BOTTOM = 28, 84, 64
_ROUNDING: Final = 8
# How much fits beside a sign, in a wide font; without one there is room for a few more.
_MOST_LETTERS: Final = 18
_MOST_SMALL: Final = 24
_MORE: Final = 4

# Filled signs are drawn on a disc of the state's colour; 16 by 16, stroked.
SIGNS: Final = {
    NodeState.BLOCKED: "M5 8h.01M8 8h.01M11 8h.01",
    NodeState.WAITING: "M8 4v4l2.6 1.6",
    NodeState.RUNNING: "M6.2 4.6 11.4 8 6.2 11.4z",
    NodeState.RETRYING: "M11.5 8a3.5 3.5 0 1 1-1.1-2.6M11.6 3.4v2.3H9.3",
    NodeState.SUCCEEDED: "m4.6 8.3 2.3 2.3 4.5-5",
    NodeState.FAILED: "m5.2 5.2 5.6 5.6m0-5.6-5.6 5.6",
    NodeState.SKIPPED: "m4.4 5 3 3-3 3m4-6 3 3-3 3",
    NodeState.UPSTREAM_FAILED: "M8 11.8V4.6M4.9 7.6 8 4.5l3.1 3.1",
    NodeState.CANCELLED: "M4.8 8h6.4",
    NodeState.EXPIRED: "M5 4h6L5 12h6z",
}
# Hue by meaning; distances between them, and contrasts, are checked for every kind of colour vision.
HUES: Final = {
    NodeState.BLOCKED: "quiet",
    NodeState.WAITING: "quiet",
    NodeState.RUNNING: "running",
    NodeState.RETRYING: "late",
    NodeState.SUCCEEDED: "succeeded",
    NodeState.FAILED: "dead",
    NodeState.SKIPPED: "quiet",
    NodeState.UPSTREAM_FAILED: "missed",
    NodeState.CANCELLED: "quiet",
    NodeState.EXPIRED: "missed",
}
LIGHT: Final = {
    "succeeded": "#179696", "running": "#244ECC", "dead": "#9B120C", "late": "#B5820C", "missed": "#5A2A47",
    "quiet": "#6B7480",
}  # fmt: skip
DARK: Final = {
    "succeeded": "#96EDC7", "running": "#4883D5", "dead": "#CD6153", "late": "#F1B620", "missed": "#E4C6FC",
    "quiet": "#8A94A3",
}  # fmt: skip
BACKGROUNDS: Final = {"light": "#FFFFFF", "dark": "#0F1319"}

_STYLE: Final = """
svg{font:12px ui-sans-serif,system-ui,-apple-system,"Segoe UI",sans-serif}.p{fill:#FFFFFF}
text{fill:#1B1F24}.m{fill:#57606A}.h{font-size:16px;font-weight:600}.l{font-weight:600;font-size:13px}.k{font-size:11px}
.b{fill:#F6F7F9;stroke:#C9CFD7}.e{fill:none;stroke:#AAB2BD;stroke-width:1.5}.a{fill:#AAB2BD}.d{stroke-dasharray:4 4}
.c{stroke:#1B1F24;stroke-width:2.5}.ca{fill:#1B1F24}.g{fill:none;stroke:#FFFFFF;stroke-width:1.8;stroke-linecap:round;
stroke-linejoin:round}.f{stroke:#C9CFD7;stroke-dasharray:2 5}LIGHT
@media (prefers-color-scheme:dark){.p{fill:#0F1319}text{fill:#E6EAF0}.m{fill:#9AA4B2}
.b{fill:#171C24;stroke:#39424F}.e{stroke:#55606E}.a{fill:#55606E}.c{stroke:#E6EAF0}.ca{fill:#E6EAF0}
.g{stroke:#0F1319}.f{stroke:#39424F}DARK}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node of a run, as it is drawn. `parts` are a fan-out's instances, counted by state; `note` stands in small."""

    state: NodeState
    note: str = ""
    parts: Mapping[NodeState, int] | None = None


def render(
    workflow: Workflow, *, title: str, views: Mapping[str, NodeView] | None = None, critical: Sequence[str] = ()
) -> str:
    """Return the picture as SVG text: of a definition, or with `views` of a run. `critical` is its critical path."""
    folded = fold(workflow, apart=critical)
    picture = _Picture(workflow, folded, layout(folded), views or {}, tuple(critical))
    return picture.text(title)


def summary(workflow: Workflow, views: Mapping[str, NodeView]) -> str:
    """Return in a sentence or two how large a workflow is and how its nodes stand."""
    graph = workflow.graph
    text = f"{len(workflow.nodes):,} nodes, {graph.edges:,} edges, {graph.depth:,} deep."
    if views:
        counts = Counter(view.state for view in views.values())
        text += " " + ", ".join(f"{counts[state]:,} {_word(state)}" for state in NodeState if counts[state]) + "."
    return text


@dataclass(frozen=True, slots=True)
class _Picture:
    workflow: Workflow
    folded: Folded
    layout: Layout
    views: Mapping[str, NodeView]
    critical: tuple[str, ...]

    def text(self, title: str) -> str:
        width = max(2 * _MARGIN + (self.layout.layers - 1) * _COLUMN + _BOX_WIDTH, 560)
        height = _TOP + self.layout.height + _BOX_HEIGHT + _BOTTOM
        told = summary(self.workflow, self.views)
        size = f'viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}"'
        return "".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="figure" aria-labelledby="t d">',
                f'<title id="t">{_escaped(title)}</title><desc id="d">{_escaped(told)}{_escaped(self._note())}</desc>',
                f"<style>{_style()}</style>",
                '<rect class="p" width="100%" height="100%"/>',
                f'<text class="h" x="{_MARGIN}" y="34">{_escaped(title)}</text>',
                f'<text class="m" x="{_MARGIN}" y="54">{_escaped(told)}</text>',
                *self._finals(height),
                '<g aria-hidden="true">',
                *self._edges(),
                '</g><g role="list" aria-label="Nodes">',
                *(self._box(box) for box in self.folded.boxes),
                "</g>",
                *self._footer(height),
                "</svg>",
            )
        )

    def _finals(self, height: float) -> Iterator[str]:
        if self.layout.first_final is None:
            return
        x = _MARGIN + self.layout.first_final * _COLUMN - (_COLUMN - _BOX_WIDTH) / 2
        yield f'<path class="f" d="M{_n(x)} {_TOP - 20}V{_n(height - _BOTTOM + 12)}"/>'
        yield f'<text class="m" x="{_n(x + 8)}" y="{_TOP - 10}">finally</text>'

    def _edges(self) -> Iterator[str]:
        heavy = set(pairwise(self.critical))
        edges = sorted(self.folded.edges, key=heavy.__contains__)  # the critical path lies on top
        for edge in edges:
            above, below = edge
            x, y = self._at(above)
            points = [(x + _BOX_WIDTH, y)]
            for level, down in self.layout.bends.get(edge, ()):
                left, middle = _MARGIN + level * _COLUMN, _TOP + down + _BOX_HEIGHT / 2
                points += [(left, middle), (left + _BOX_WIDTH, middle)]
            end_x, end_y = self._at(below)
            points.append((end_x - 7, end_y))
            is_heavy = edge in heavy
            dashed = " d" if self._is_idle(below) else ""
            yield f'<path class="e{" c" if is_heavy else ""}{dashed}" d="{_curve(points)}"/>'
            yield f'<path class="{"ca" if is_heavy else "a"}" d="M{_n(end_x)} {_n(end_y)}l-8-4v8z"/>'

    def _is_idle(self, node: str) -> bool:
        view = self.views.get(node)
        return view is not None and view.state in {NodeState.SKIPPED, NodeState.UPSTREAM_FAILED, NodeState.CANCELLED}

    def _at(self, box: str) -> tuple[float, float]:
        """Return the middle of a box's left side."""
        level, down = self.layout.boxes[box]
        return _MARGIN + level * _COLUMN, _TOP + down + _BOX_HEIGHT / 2

    def _box(self, box: Box) -> str:
        x, middle = self._at(box.id)
        y = middle - _BOX_HEIGHT / 2
        counts = self._counts(box)
        state = _leading(counts)
        classes = "b" + (" c" if box.id in self.critical else "") + (" d" if state is NodeState.BLOCKED else "")
        told = self._told(box, counts)
        stacked = len(box.members) > 1 or self.workflow.graph.nodes[box.id].each is not None
        behind = f'<rect class="b" x="5" y="5" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="{_ROUNDING}"/>'
        text_x, more = (14, _MORE) if state is None else (38, 0)
        label = _cut(box.id if len(box.members) == 1 else f"{box.id} +{len(box.members) - 1:,}", _MOST_LETTERS + more)
        small = _begun(self._small(box, counts), _MOST_SMALL + more)
        return "".join(
            (
                f'<g role="listitem" aria-label="{_escaped(told)}" transform="translate({_n(x)} {_n(y)})">',
                f"<title>{_escaped(told)}</title>",
                behind if stacked else "",
                f'<rect class="{classes}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="{_ROUNDING}"/>',
                "" if state is None else _sign(state),
                f'<text class="l" x="{text_x}" y="19" aria-hidden="true">{_escaped(label)}</text>',
                f'<text class="m k" x="{text_x}" y="35" aria-hidden="true">{_escaped(small)}</text></g>',
            )
        )

    def _counts(self, box: Box) -> Counter[NodeState]:
        counts: Counter[NodeState] = Counter()
        for member in box.members:
            view = self.views.get(member)
            if view is not None:
                counts[view.state] += 1
        return counts

    def _small(self, box: Box, counts: Counter[NodeState]) -> str:
        if len(box.members) > 1:
            return _progress(counts) if counts else f"{len(box.members):,} alike"
        view = self.views.get(box.id)
        if view is None:
            return _kind(self.workflow, box.id)
        if view.parts:
            return f"{_word(view.state)} {_progress(Counter(view.parts))}"
        return f"{_word(view.state)} · {view.note}" if view.note else _word(view.state)

    def _told(self, box: Box, counts: Counter[NodeState]) -> str:
        """Return all there is to say about a box, for a tooltip and a screen reader."""
        if len(box.members) > 1:
            names = ", ".join(box.members[:3])
            return f"{len(box.members):,} nodes alike: {names}, …. {_listed(counts)}".strip()
        spec, view = self.workflow.graph.nodes[box.id], self.views.get(box.id)
        said = [f"{box.id}: {_kind(self.workflow, box.id)}"]
        if view is not None:
            said.append(_word(view.state) + (f", {view.note}" if view.note else ""))
            said += [_listed(Counter(view.parts))] if view.parts else []
        if spec.needs:
            more = f" and {len(spec.needs) - 5:,} more" if len(spec.needs) > 5 else ""
            said.append(f"needs {', '.join(spec.needs[:5])}{more}")
        if box.id in self.critical:
            said.append("on the critical path")
        return ". ".join(said)

    def _note(self) -> str:
        said = ""
        if self.folded.nodes_left_out:
            said += f" {self.folded.nodes_left_out:,} more nodes are not drawn."
        if self.folded.edges_left_out:
            said += f" {self.folded.edges_left_out:,} more edges are not drawn."
        return said

    def _footer(self, height: float) -> Iterator[str]:
        """Say what is not drawn, and what the signs mean that are."""
        y = height - 26
        x: float = _MARGIN
        present = {state for box in self.folded.boxes if (state := _leading(self._counts(box)))}
        for state in NodeState:
            if state in present:
                yield f'<g aria-hidden="true" transform="translate({_n(x - 12)} {_n(y - 26)})">{_sign(state)}'
                yield f'<text class="m" x="38" y="26">{_word(state)}</text></g>'
                x += 46 + 6.4 * len(_word(state))
        if note := self._note().strip():
            yield f'<text class="m" x="{_MARGIN}" y="{_n(height - 8)}">{_escaped(note)}</text>'


def _leading(counts: Counter[NodeState]) -> NodeState | None:
    """Return the state that a box shows: the most urgent of its members'."""
    return next((state for state in _URGENCY if counts[state]), None)


_URGENCY: Final = (
    NodeState.FAILED,
    NodeState.EXPIRED,
    NodeState.RETRYING,
    NodeState.RUNNING,
    NodeState.WAITING,
    NodeState.BLOCKED,
    NodeState.UPSTREAM_FAILED,
    NodeState.CANCELLED,
    NodeState.SUCCEEDED,
    NodeState.SKIPPED,
)


def _listed(counts: Counter[NodeState]) -> str:
    return ", ".join(f"{counts[state]:,} {_word(state)}" for state in _URGENCY if counts[state])


def _progress(counts: Counter[NodeState]) -> str:
    ended = sum(count for state, count in counts.items() if state in ENDED)
    failed = sum(counts[state] for state in (NodeState.FAILED, NodeState.EXPIRED))
    return f"{ended:,}/{counts.total():,}" + (f", {failed:,} failed" if failed else " ended")


def _kind(workflow: Workflow, node: str) -> str:
    spec = workflow.graph.nodes[node]
    name = spec.workflow or spec.task
    said = ["workflow" if spec.workflow else "task" if spec.task else "node"]
    if name is not None and name != node:
        said = [f"{said[0]} {name}"]
    usual = TriggerRule.ALL_DONE if spec.is_finally else TriggerRule.ALL_SUCCESS
    said += ["fan-out"] if spec.each else []
    said += ["branch"] if spec.is_branch else []
    said += [spec.rule.value] if spec.rule is not usual else []
    said += ["if …"] if spec.condition is not None else []
    return " · ".join(said)


def _word(state: NodeState) -> str:
    return state.value.replace("_", " ")


def _sign(state: NodeState) -> str:
    hue = HUES[state]
    disc = f'<circle class="s-{hue}" cx="20" cy="22" r="10"/>'
    return f'{disc}<path class="g" transform="translate(12 14)" d="{SIGNS[state]}"/>'


def _cut(text: str, most: int) -> str:
    """Shorten in the middle: names that differ often differ at their ends."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def _escaped(text: str) -> str:
    """Return text for XML, which has no place for control characters; they are shown as something that is not there."""
    return escape_markup("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text))


def _begun(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through points that leaves and enters each of them level."""
    (x, y), *others = points
    path = [f"M{_n(x)} {_n(y)}"]
    for next_x, next_y in others:
        if abs(next_y - y) < 0.5:
            path.append(f"H{_n(next_x)}")
        else:
            middle = (x + next_x) / 2
            path.append(f"C{_n(middle)} {_n(y)} {_n(middle)} {_n(next_y)} {_n(next_x)} {_n(next_y)}")
        x, y = next_x, next_y
    return "".join(path)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _style() -> str:
    light, dark = (
        "".join(f".s-{hue}{{fill:{colour}}}" for hue, colour in colours.items()) for colours in (LIGHT, DARK)
    )
    return _STYLE.replace("LIGHT", light).replace("DARK", dark).replace("\n", "")
