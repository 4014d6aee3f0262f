"""What `everwhen workflow simulate` reads and writes: a graph with scripted outcomes, and what becomes of it.

    {"nodes": [{"id", "needs": [ids], "rule", "outcome": "success" | "failed" | "skipped" | [one per attempt],
                "duration", "max_attempts", "retry_delay", "finally", "take": [ids]}],
     "cancel_at": number | null, "fail_fast": true | false}

Only `id` is required. What else the whole object holds is left alone, so that a case may carry its title and what it
expects; what else a node holds is refused, so that a misspelt `needs` does not pass for a root.

A whole definition is read, too, as soon as a node names its `task` or `workflow`: checked as the API would, each node
with a script beside its own fields. Then data is played: `result` is what a node returns, `run` at the top what
references to the run find.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, cast

from everwhen.core.dag_data import RUN_FIELDS
from everwhen.core.dag_graph import make_workflow
from everwhen.core.dag_json import TOP_KEYS, parse_workflow
from everwhen.core.dag_reading import Reader
from everwhen.core.dag_simulate import Played, Script, Simulation, Time
from everwhen.core.dag_values import Limits, Node, NodeState, TriggerRule, Workflow
from everwhen.core.errors import quoted
from everwhen.core.lifecycle import RunState

LIMITS: Final = Limits(nodes=100_000, edges=1_000_000, depth=100_000)
MOST_TIME: Final = 10**15
MOST_ATTEMPTS: Final = 1_000_000
LONGEST_ID: Final = 200

_NODE_KEYS: Final = frozenset(
    {"id", "needs", "rule", "outcome", "duration", "max_attempts", "retry_delay", "finally", "take"}
)
_SCRIPT_KEYS: Final = frozenset({"outcome", "duration", "max_attempts", "retry_delay", "result"})
_OUTCOMES: Final = {"success": NodeState.SUCCEEDED, "failed": NodeState.FAILED, "skipped": NodeState.SKIPPED}
_WORDS: Final = {NodeState.SUCCEEDED: "success"}
_RUN_WORDS: Final = {RunState.SUCCEEDED: "success", RunState.DEAD: "failed", RunState.CANCELLED: "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """A graph, its nodes' scripts, and when somebody cancels it."""

    workflow: Workflow
    scripts: Mapping[str, Script]
    cancel_at: Time | None = None
    given: Mapping[str, Any] | None = None


def parse_scripted(data: object) -> Scripted:
    """Read decoded JSON; raise WorkflowError, pointers into it."""
    reader = _Reader()
    if not isinstance(data, dict):
        reader.refuse("type", "a simulation is a JSON object with nodes", "")
    given = cast("dict[str, Any]", data)
    entries = given.get("nodes")
    if not isinstance(entries, list):
        reader.refuse("nodes", "nodes is a list of nodes", "/nodes")
    found = cast("list[object]", entries)
    if len(found) > LIMITS.nodes:
        reader.refuse("too_many_nodes", f"{len(found):,} nodes; at most {LIMITS.nodes:,}", "/nodes")
    cancel_at = reader.time(given, "cancel_at", "")
    if any(isinstance(entry, dict) and {"task", "workflow"} & entry.keys() for entry in found):
        return _definition(reader, given, found, cancel_at)
    is_failing_fast = reader.flag(given, "fail_fast", "")
    read = [reader.scripted(entry, f"/nodes/{index}") for index, entry in enumerate(found)]
    reader.stop()
    workflow = make_workflow([node for node, _ in read], limits=LIMITS, fail_fast=is_failing_fast)
    _check_taken(reader, workflow, {node.id: script for node, script in read})
    return Scripted(workflow=workflow, scripts={node.id: script for node, script in read}, cancel_at=cancel_at)


def _definition(reader: "_Reader", given: Mapping[str, Any], entries: list[object], cancel_at: Time | None) -> Scripted:
    """Read a definition whose nodes have scripts beside their fields."""
    nodes = [cast("dict[str, Any]", entry) if isinstance(entry, dict) else {} for entry in entries]
    own = [_without_script(entry) for entry in entries]
    workflow = parse_workflow({**{key: value for key, value in given.items() if key in TOP_KEYS}, "nodes": own})
    run = reader.mapping(given.get("run", {}), "/run", RUN_FIELDS)
    scripts: dict[str, Script] = {}
    for index, (entry, node) in enumerate(zip(nodes, workflow.nodes, strict=True)):
        script = reader.script(entry, f"/nodes/{index}")
        if entry.get("max_attempts") is None and node.retry is not None:
            script = replace(script, max_attempts=node.retry.get("max_attempts", script.max_attempts))
        scripts[node.id] = script
    reader.stop()
    return Scripted(workflow=workflow, scripts=scripts, cancel_at=cancel_at, given=run)


def _without_script(entry: object) -> object:
    if not isinstance(entry, dict):
        return entry
    node = cast("dict[str, Any]", entry)
    return {key: value for key, value in node.items() if key not in _SCRIPT_KEYS}


def simulation_to_json(found: Simulation) -> dict[str, Any]:
    """Return what `simulate` prints."""
    return {
        "nodes": {node: _played_to_json(played) for node, played in found.nodes.items()},
        "run": _RUN_WORDS[found.run],
        "run_leaf": _RUN_WORDS[found.run_leaf],
    }


def _played_to_json(played: Played) -> dict[str, Any]:
    return {
        "state": _WORDS.get(played.state, played.state.value),
        "attempts": played.attempts,
        "start": None if played.start is None else _number(played.start),
        "end": _number(played.end),
    }


def _number(time: Time) -> int | float:
    if isinstance(time, int):
        return time
    return int(time) if time.denominator == 1 else float(time)


def _check_taken(reader: "_Reader", workflow: Workflow, scripts: Mapping[str, Script]) -> None:
    for index, node in enumerate(workflow.nodes):
        for number, name in enumerate(sorted(scripts[node.id].taken or ())):
            if name not in workflow.graph.downstream[node.id]:
                message = f"{quoted(name)} is not directly downstream of {quoted(node.id)}"
                reader.blame("branch", message, f"/nodes/{index}/take/{number}")
    reader.stop()


class _Reader(Reader):
    """Reads a simulation's parts."""

    def scripted(self, entry: object, pointer: str) -> tuple[Node, Script]:
        given = self.mapping(entry, pointer, _NODE_KEYS)
        is_finally = self.flag(given, "finally", pointer)
        usual = TriggerRule.ALL_DONE if is_finally else TriggerRule.ALL_SUCCESS
        taken = self.ids(given, "take", pointer) if given.get("take") is not None else None
        node = Node(
            id=self.id(given.get("id"), f"{pointer}/id"),
            needs=self.ids(given, "needs", pointer),
            rule=self.choice(given, "rule", pointer, usual),
            is_finally=is_finally,
            is_branch=taken is not None,
        )
        return node, replace(self.script(given, pointer), taken=None if taken is None else frozenset(taken))

    def script(self, given: Mapping[str, Any], pointer: str) -> Script:
        attempts = self.whole(given, "max_attempts", pointer, most=MOST_ATTEMPTS)
        return Script(
            outcomes=self.outcomes(given, pointer),
            duration=_or(self.time(given, "duration", pointer), 1),
            max_attempts=1 if attempts is None else attempts,
            retry_delay=_or(self.time(given, "retry_delay", pointer), 0),
            result=given.get("result"),
        )

    def id(self, value: object, pointer: str) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_ID or not value.isprintable():
            self.blame("id", f"an id is a printable text of 1 to {LONGEST_ID} characters", pointer)
            return ""
        return value

    def ids(self, given: Mapping[str, Any], key: str, pointer: str) -> tuple[str, ...]:
        value = given.get(key)
        if value is not None and not isinstance(value, list):
            self.blame(key, f"{key} is a list of ids", f"{pointer}/{key}")
            return ()
        found = cast("list[object]", value or [])
        return tuple(self.id(item, f"{pointer}/{key}/{index}") for index, item in enumerate(found))

    def outcomes(self, given: Mapping[str, Any], pointer: str) -> tuple[NodeState, ...]:
        value = given.get("outcome")
        if value is None:
            return (NodeState.SUCCEEDED,)
        is_list = isinstance(value, list)
        listed = cast("list[object]", value if is_list else [value])
        if not listed:
            self.blame("outcome", "outcome lists one outcome an attempt, so at least one", f"{pointer}/outcome")
        for index, item in enumerate(listed):
            if not isinstance(item, str) or item not in _OUTCOMES:
                where = f"{pointer}/outcome/{index}" if is_list else f"{pointer}/outcome"
                self.blame("outcome", f"an outcome is one of {', '.join(_OUTCOMES)}", where)
        known = [item for item in listed if isinstance(item, str) and item in _OUTCOMES]
        return tuple(_OUTCOMES[item] for item in known) or (NodeState.SUCCEEDED,)

    def time(self, given: Mapping[str, Any], key: str, pointer: str) -> Time | None:
        value = given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TIME:
            self.blame("range", f"{key} is a number from 0 to {MOST_TIME:,}", f"{pointer}/{key}")
            return None
        # A decimal is taken as it is written: 0.1 and 0.2 make 0.3.
        return value if isinstance(value, int) else Fraction(repr(value))


def _or(value: Time | None, default: Time) -> Time:
    return default if value is None else value
