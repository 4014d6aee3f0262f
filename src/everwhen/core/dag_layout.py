"""Where to draw each node of a workflow: layers from left to right, few crossings, straight lines where it can be.

The method is Sugiyama's: a layer is the longest path from a root; an edge over several layers becomes a chain of
bends; sweeps of barycentres order the layers, and the order with the fewest crossings wins; then each layer is moved as
near to its neighbours as its order and its gaps allow (isotonic regression, which is exact). It is deterministic.

Before that, siblings with the same upstreams and the same downstreams are folded into one box, so a fan-out to a
thousand and back is three boxes. What is still too large is cut off, from the far end, and the drawing says so.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from everwhen.core.dag_values import Workflow

FOLD_AT: Final = 6  # siblings from which on they are one box
MOST_BOXES: Final = 1_000
MOST_EDGES: Final = 5_000
MOST_BENDS: Final = 5_000
SWEEPS: Final = 12
LARGE: Final = 400  # from this many points on, fewer sweeps do
SWEEPS_OF_LARGE: Final = 6

BOX_GAP: Final = 64.0
BEND_GAP: Final = 20.0

Point = tuple[float, float]  # a layer, and how far down


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One node, or several that stand for each other, named by the first."""

    id: str
    members: tuple[str, ...]
    is_finally: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The boxes and the edges between them, and how many nodes and edges were left out."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[str, str], ...]
    nodes_left_out: int = 0
    edges_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Positions of boxes, and the bends of each edge between its ends: (layer, how far down)."""

    boxes: Mapping[str, Point]
    bends: Mapping[tuple[str, str], tuple[Point, ...]]
    layers: int
    height: float
    first_final: int | None  # the layer from which on there are finally-nodes only


def fold(workflow: Workflow, *, apart: Iterable[str] = (), most: int = MOST_BOXES) -> Folded:
    """Fold siblings into boxes; `apart` are nodes that are drawn by themselves whatever their siblings."""
    graph, alone = workflow.graph, set(apart)
    groups: dict[object, list[str]] = {}
    for node in graph.order:
        spec = graph.nodes[node]
        is_plain = not (spec.is_branch or spec.each or node in alone)
        key = (spec.is_finally, frozenset(spec.needs), graph.downstream[node]) if is_plain else node
        groups.setdefault(key, []).append(node)
    kept: list[list[str]] = []
    for group in groups.values():
        kept += [group] if len(group) >= FOLD_AT else [[node] for node in group]
    place = {node: index for index, node in enumerate(graph.order)}
    kept.sort(key=lambda group: place[group[0]])
    drawn = kept[:most]
    boxes = tuple(
        Box(id=group[0], members=tuple(group), is_finally=graph.nodes[group[0]].is_finally) for group in drawn
    )
    box_of = {node: box.id for box in boxes for node in box.members}
    edges = dict.fromkeys(
        (box_of[need], box.id) for box in boxes for need in graph.nodes[box.id].needs if need in box_of
    )
    return Folded(
        boxes=boxes,
        edges=tuple(edges)[:MOST_EDGES],
        nodes_left_out=sum(map(len, kept[most:])),
        edges_left_out=max(0, len(edges) - MOST_EDGES),
    )


def layout(folded: Folded) -> Layout:
    """Place the boxes."""
    levels, first_final = _levels(folded)
    points = _Points.of(folded, levels)
    rows = _ordered(points)
    down = _moved(points, rows)
    least = min(down.values(), default=0.0)
    at = {name: (float(level), down[name] - least) for name, level in points.level.items()}
    return Layout(
        boxes={box.id: at[box.id] for box in folded.boxes},
        bends={edge: tuple(at[bend] for bend in bends) for edge, bends in points.bends.items()},
        layers=len(rows),
        height=max((y for _, y in at.values()), default=0.0),
        first_final=first_final,
    )


def _levels(folded: Folded) -> tuple[dict[str, int], int | None]:
    """Return each box's layer; boxes come in topological order. Finally-boxes stand behind everything else."""
    before: dict[str, list[str]] = {box.id: [] for box in folded.boxes}
    for above, below in folded.edges:
        before[below].append(above)
    levels: dict[str, int] = {}
    for box in folded.boxes:
        if not box.is_finally:
            levels[box.id] = 1 + max((levels[other] for other in before[box.id]), default=-1)
    behind = 1 + max(levels.values(), default=-1)
    for box in folded.boxes:
        if box.is_finally:
            levels[box.id] = max(behind, 1 + max((levels[other] for other in before[box.id]), default=-1))
    return levels, behind if any(box.is_finally for box in folded.boxes) else None


@dataclass(slots=True)
class _Points:
    """Boxes and bends alike, with the neighbours that each has one layer up and one layer down."""

    level: dict[str, int]
    bends: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    up: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    down: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    is_bend: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, folded: Folded, levels: Mapping[str, int]) -> "_Points":
        found = cls(level=dict(levels), up={name: [] for name in levels}, down={name: [] for name in levels})
        for above, below in folded.edges:
            found.add(above, below)
        return found

    def add(self, above: str, below: str) -> None:
        between = range(self.level[above] + 1, self.level[below])
        if len(between) + len(self.is_bend) > MOST_BENDS:
            between = range(0)  # drawn straight through, and no neighbour of anybody
        bends = [f"{above}\0{below}\0{level}" for level in between]
        self.bends[above, below] = bends
        if not bends and self.level[below] - self.level[above] > 1:
            return
        last = above
        for bend, level in zip(bends, between, strict=True):
            self.level[bend], self.up[bend], self.down[bend] = level, [], []
            self.is_bend.add(bend)
            self._join(last, bend)
            last = bend
        self._join(last, below)

    def _join(self, above: str, below: str) -> None:
        self.down[above].append(below)
        self.up[below].append(above)

    def gap(self, one: str, other: str) -> float:
        gaps = [BEND_GAP if name in self.is_bend else BOX_GAP for name in (one, other)]
        return sum(gaps) / 2


def _ordered(points: _Points) -> list[list[str]]:
    """Return the layers, each in the order that gave the fewest crossings."""
    rows: list[list[str]] = [[] for _ in range(max(points.level.values(), default=-1) + 1)]
    for name, level in points.level.items():
        rows[level].append(name)
    best, fewest = [list(row) for row in rows], _crossings(rows, points)
    for sweep in range(SWEEPS if len(points.level) < LARGE else SWEEPS_OF_LARGE):
        if fewest == 0:
            break
        is_down = sweep % 2 == 0
        for index in range(1, len(rows)) if is_down else range(len(rows) - 2, -1, -1):
            _sort(rows[index], rows[index - 1 if is_down else index + 1], points.up if is_down else points.down)
        if (count := _crossings(rows, points)) < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def _sort(row: list[str], fixed: list[str], neighbours: Mapping[str, list[str]]) -> None:
    place = {name: index for index, name in enumerate(fixed)}
    own = {name: index for index, name in enumerate(row)}

    def barycentre(name: str) -> float:
        near = neighbours[name]
        return sum(place[other] for other in near) / len(near) if near else own[name]

    row.sort(key=barycentre)


def _crossings(rows: Sequence[list[str]], points: _Points) -> int:
    """Count the pairs of edges that cross between neighbouring layers: inversions, found by insertion."""
    total = 0
    for row, following in pairwise(rows):
        place = {name: index for index, name in enumerate(following)}
        seen: list[int] = []
        for name in row:
            ends = sorted(place[other] for other in points.down[name])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _moved(points: _Points, rows: Sequence[list[str]]) -> dict[str, float]:
    """Return how far down each point is: near the mean of its neighbours, in the order of its layer."""
    offsets = [_offsets(row, points) for row in rows]
    at = {
        name: offset for row, found in zip(rows, offsets, strict=True) for name, offset in zip(row, found, strict=True)
    }
    for sweep in range(SWEEPS if len(at) < LARGE else SWEEPS_OF_LARGE):
        for index in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            row = rows[index]
            sides = (points.up, points.down) if sweep >= 2 else ((points.up, points.down)[sweep],)
            wished = [_mean([at[other] for side in sides for other in side[name]], at[name]) for name in row]
            free = _isotonic([wish - offset for wish, offset in zip(wished, offsets[index], strict=True)])
            for name, value, offset in zip(row, free, offsets[index], strict=True):
                at[name] = value + offset
    return at


def _offsets(row: Sequence[str], points: _Points) -> list[float]:
    """Return the least distance of each point from its layer's first."""
    found = [0.0] if row else []
    for one, other in pairwise(row):
        found.append(found[-1] + points.gap(one, other))
    return found


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _isotonic(values: Sequence[float]) -> list[float]:
    """Return the nearest values that do not decrease: neighbours that would cross meet at their mean."""
    blocks: list[tuple[float, int]] = []  # sum, count
    for value in values:
        total, count = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            other, more = blocks.pop()
            total, count = total + other, count + more
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]
