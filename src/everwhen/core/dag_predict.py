"""When a workflow's run will end, along which path, what each node waits for, and whether a deadline will hold.

A node takes as long as it used to: `Past` has the median and the 90th percentile of its earlier runs, from release to
end, so that queueing and retries are in it. What has ended is a fact, what runs ends when its past says but not before
now, what is blocked starts when its trigger rule will let it. Open nodes are taken to succeed, conditions to hold and
branches to be taken; a node whose rule can no longer be met takes no time.

    ends_at     every node takes its median
    late_at     every node takes its 90th percentile: later than nine in ten runs would be, as not all are slow at once

Each costs nodes plus edges. `max_parallel` and the fleet's size are in the past durations, and nowhere else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from everwhen.core.dag_rules import NOTHING, Decision, Tally, decide_rule
from everwhen.core.dag_values import ENDED, Node, NodeState, TriggerRule, Workflow

MOST_BLOCKERS: Final = 20

_IMPATIENT: Final = frozenset({TriggerRule.ONE_SUCCESS, TriggerRule.ONE_FAILED, TriggerRule.ONE_DONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """How long a node took in earlier runs, from its release to its end."""

    median: timedelta
    p90: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Where a node is now. `since` is its release; both are None while it is blocked."""

    state: NodeState = NodeState.BLOCKED
    since: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """When a node starts and ends; `after` is the node whose end lets it start, None for a root."""

    starts_at: datetime
    ends_at: datetime
    late_at: datetime
    after: str | None
    state: NodeState  # what it is taken to end as


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """When the run ends, and along which path. `unknown` are open nodes without a past, taken to need no time."""

    ends_at: datetime
    late_at: datetime
    critical: tuple[str, ...]
    nodes: Mapping[str, Estimate]
    unknown: tuple[str, ...]


class Outlook(StrEnum):
    """Whether a deadline will hold."""

    ON_TIME = "on_time"
    AT_RISK = "at_risk"  # it will be missed if the nodes are slow
    LATE = "late"  # it will be missed if they are as fast as usual
    MISSED = "missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """What a blocked node waits for: needs that have not ended, the slowest first, and what all of that comes down to.

    `root` is the node that is under way, or waits for a worker, at the far end of the slowest line; None if the run
    stands still for another reason.
    """

    needs: tuple[str, ...]
    more: int
    root: str | None


def predict(
    workflow: Workflow, present: Mapping[str, Present], past: Mapping[str, Past], *, now: datetime, start: datetime
) -> Prediction:
    """Estimate a run that started at `start`; nodes that `present` leaves out are blocked."""
    found: dict[str, Estimate] = {}
    ordinary = [name for name in workflow.graph.order if not workflow.graph.nodes[name].is_finally]
    finals = [name for name in workflow.graph.order if workflow.graph.nodes[name].is_finally]
    frame = _Frame(present, past, now, start)
    for name in ordinary:
        found[name] = _estimate(workflow.graph.nodes[name], found, frame)
    whole = NOTHING
    for name in ordinary:
        whole = whole.plus(found[name].state)
    frame = _Frame(present, past, now, start, _latest(found, ordinary), whole)
    for name in finals:
        found[name] = _estimate(workflow.graph.nodes[name], found, frame)
    end = _latest(found, workflow.graph.order)
    unknown = tuple(
        name
        for name in workflow.graph.nodes
        if name not in past and _of(present, name).state not in ENDED and found[name].state is NodeState.SUCCEEDED
    )
    return Prediction(
        ends_at=found[end].ends_at,
        late_at=max(estimate.late_at for estimate in found.values()),
        critical=_path(found, end),
        nodes=found,
        unknown=unknown,
    )


def outlook(prediction: Prediction, *, deadline_at: datetime, now: datetime) -> Outlook:
    """Say whether a run that is still going on will make its deadline."""
    if now >= deadline_at:
        return Outlook.MISSED
    if prediction.ends_at > deadline_at:
        return Outlook.LATE
    return Outlook.AT_RISK if prediction.late_at > deadline_at else Outlook.ON_TIME


def blockers(workflow: Workflow, present: Mapping[str, Present], prediction: Prediction) -> dict[str, Blocked]:
    """Return what each blocked node waits for."""
    found: dict[str, Blocked] = {}
    graph = workflow.graph
    is_open = {name: _of(present, name).state not in ENDED for name in graph.order}
    ordinary = [name for name in graph.order if is_open[name] and not graph.nodes[name].is_finally]
    slowest = sorted(ordinary, key=lambda name: _slowness(prediction, name))[: MOST_BLOCKERS + 1]
    for name in sorted(graph.order, key=lambda name: graph.nodes[name].is_finally):
        if _of(present, name).state is not NodeState.BLOCKED:
            continue
        node = graph.nodes[name]
        needs = sorted((need for need in node.needs if is_open[need]), key=lambda need: _slowness(prediction, need))
        count = len(needs)
        if node.is_finally and ordinary:
            needs, count = slowest, len(ordinary)
        root = needs[0] if needs else None
        if root is not None and root in found:
            root = found[root].root
        found[name] = Blocked(needs=tuple(needs[:MOST_BLOCKERS]), more=max(0, count - MOST_BLOCKERS), root=root)
    return found


@dataclass(frozen=True, slots=True)
class _Frame:
    """What an estimate depends on beside its node: for a finally-node, the last ordinary one and all of their ends."""

    present: Mapping[str, Present]
    past: Mapping[str, Past]
    now: datetime
    start: datetime
    last: str | None = None
    whole: Tally | None = None


def _estimate(node: Node, found: Mapping[str, Estimate], frame: _Frame) -> Estimate:
    at = _of(frame.present, node.id)
    after = _released_by(node, found, frame)
    if at.state in ENDED:
        end = at.ended_at or frame.now
        return Estimate(starts_at=at.since or end, ends_at=end, late_at=end, after=after, state=at.state)
    usual = _usual(node, frame)
    if at.state is not NodeState.BLOCKED:
        since = at.since or frame.now
        ends = max(frame.now, since + usual.median)
        late = max(ends, since + usual.p90)
        return Estimate(starts_at=since, ends_at=ends, late_at=late, after=after, state=NodeState.SUCCEEDED)
    starts = max(frame.now, found[after].ends_at if after else frame.start)
    late = max(frame.now, found[after].late_at if after else frame.start)
    state = _expected(node, found, frame)
    if state is not NodeState.SUCCEEDED:
        return Estimate(starts_at=starts, ends_at=starts, late_at=late, after=after, state=state)
    ends = starts + usual.median
    return Estimate(starts_at=starts, ends_at=ends, late_at=max(ends, late + usual.p90), after=after, state=state)


def _usual(node: Node, frame: _Frame) -> Past:
    """How long the node takes: as it used to, and no longer than its own deadline lets it."""
    past = frame.past.get(node.id, Past(median=timedelta(0), p90=timedelta(0)))
    if node.total_deadline_seconds is None:
        return past
    most = timedelta(seconds=node.total_deadline_seconds)
    return Past(median=min(past.median, most), p90=min(past.p90, most))


def _released_by(node: Node, found: Mapping[str, Estimate], frame: _Frame) -> str | None:
    """Return the node at whose end this one is decided; a finally-node not before the last ordinary one's."""
    need = _decisive(node, found) if node.needs else None
    candidates = [name for name in (frame.last, need) if name is not None]
    return _latest(found, candidates) if candidates else None


def _decisive(node: Node, found: Mapping[str, Estimate]) -> str:
    """Return the need that settles a rule: the last, or for an impatient one the first that is what it looks for."""
    if node.rule in _IMPATIENT:
        for need in sorted(node.needs, key=lambda need: found[need].ends_at):
            if decide_rule(node.rule, NOTHING.plus(found[need].state), total=len(node.needs)) is Decision.RUN:
                return need
    return _latest(found, node.needs)


def _expected(node: Node, found: Mapping[str, Estimate], frame: _Frame) -> NodeState:
    tally, total = NOTHING, len(node.needs)
    for need in node.needs:
        tally = tally.plus(found[need].state)
    if node.is_finally and not node.needs and frame.whole is not None:
        tally, total = frame.whole, frame.whole.ended
    match decide_rule(node.rule, tally, total=total):
        case Decision.SKIP:
            return NodeState.SKIPPED
        case Decision.UPSTREAM_FAILED:
            return NodeState.UPSTREAM_FAILED
        case _:
            return NodeState.SUCCEEDED


def _latest(found: Mapping[str, Estimate], names: Iterable[str]) -> str:
    """Return the name whose estimate ends last; the first of equals."""
    return max(names, key=lambda name: found[name].ends_at)


def _path(found: Mapping[str, Estimate], end: str) -> tuple[str, ...]:
    path = [end]
    while (before := found[path[-1]].after) is not None:
        path.append(before)
    return tuple(reversed(path))


def _slowness(prediction: Prediction, name: str) -> tuple[float, float]:
    estimate = prediction.nodes[name]
    return -estimate.ends_at.timestamp(), -estimate.late_at.timestamp()


def _of(present: Mapping[str, Present], name: str) -> Present:
    return present.get(name, _BLOCKED)


_BLOCKED: Final = Present()
