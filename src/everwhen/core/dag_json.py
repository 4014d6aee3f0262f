"""Workflow definitions as JSON, in and out. Input is read strictly; every fault has a code and an RFC 6901 pointer.

docs/concepts/workflows.md is the contract. `defaults` are folded into the nodes when a definition is read, so what
`workflow_to_json` writes has none; reading it again gives an equal value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

from everwhen.core.dag_data import RESERVED
from everwhen.core.dag_graph import make_workflow
from everwhen.core.dag_reading import MOST_SECONDS, Reader, json_size
from everwhen.core.dag_references import reference_faults
from everwhen.core.dag_retry import read_retry
from everwhen.core.dag_values import (
    DEFAULT_ITEMS,
    MOST_DEFINITION_BYTES,
    MOST_FAULTS,
    MOST_INPUT_BYTES,
    MOST_ITEMS,
    MOST_NODES,
    Each,
    EmptyItems,
    Limits,
    Node,
    Success,
    TriggerRule,
    Workflow,
    WorkflowError,
)
from everwhen.core.errors import quoted
from everwhen.core.tags import TagError, canonical_tags

NODE_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", re.ASCII)
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)

_TASK_FIELDS: Final = (
    "queue",
    "priority",
    "retry",
    "timeout_seconds",
    "start_deadline_seconds",
    "total_deadline_seconds",
    "heartbeat_timeout_seconds",
    "concurrency_key",
)
NODE_KEYS: Final = frozenset(
    {"id", "needs", "rule", "task", "workflow", "input", "condition", "each", "finally", "branch", *_TASK_FIELDS}
)
TOP_KEYS: Final = frozenset(
    {"name", "description", "nodes", "defaults", "success", "fail_fast", "deadline_seconds", "max_parallel", "tags"}
)
EACH_KEYS: Final = frozenset({"items", "max_items", "max_parallel", "empty"})


def parse_workflow(data: object, *, limits: Limits | None = None) -> Workflow:
    """Read a definition from decoded JSON.

    Raises:
        WorkflowError: it is none, with up to MOST_FAULTS faults.
    """
    reader = _Reader()
    given = reader.mapping(data, "", TOP_KEYS)
    entries = reader.items(given, limits or Limits())
    defaults = reader.mapping(given.get("defaults", {}), "/defaults", frozenset({"rule", *_TASK_FIELDS}))
    common = reader.common(defaults, "/defaults")
    nodes = [reader.node(entry, f"/nodes/{index}", common) for index, entry in enumerate(entries)]
    settings = reader.settings(given)
    reader.stop()
    workflow = make_workflow(nodes, limits=limits, **settings)
    if faults := tuple(islice(reference_faults(workflow), MOST_FAULTS)):
        raise WorkflowError(*faults)
    return workflow


def workflow_to_json(workflow: Workflow) -> dict[str, Any]:
    """Return what `parse_workflow` reads back to an equal value; what is as it would be anyway is left out."""
    found: dict[str, Any] = {
        "name": workflow.name or None,
        "description": workflow.description or None,
        "success": None if workflow.success is Success.STRICT else workflow.success.value,
        "fail_fast": workflow.fail_fast or None,
        "deadline_seconds": workflow.deadline_seconds,
        "max_parallel": workflow.max_parallel,
        "tags": list(workflow.tags) or None,
        "nodes": [_node_to_json(node) for node in workflow.nodes],
    }
    return {key: value for key, value in found.items() if value is not None}


def _node_to_json(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": node.id,
        "task": node.task,
        "workflow": node.workflow,
        "needs": list(node.needs) or None,
        "rule": None if node.rule is usual_rule(is_finally=node.is_finally) else node.rule.value,
        "condition": node.condition,
        "input": node.input,
        "each": None if node.each is None else _each_to_json(node.each),
        "finally": node.is_finally or None,
        "branch": node.is_branch or None,
        "retry": None if node.retry is None else dict(node.retry),
        **{key: getattr(node, key) for key in _TASK_FIELDS if key != "retry"},
    }
    return {key: value for key, value in found.items() if value is not None}


def _each_to_json(each: Each) -> dict[str, Any]:
    found: dict[str, Any] = {"items": each.items}
    if each.max_items != DEFAULT_ITEMS:
        found["max_items"] = each.max_items
    if each.max_parallel is not None:
        found["max_parallel"] = each.max_parallel
    if each.empty is not EmptyItems.SKIP:
        found["empty"] = each.empty.value
    return found


def usual_rule(*, is_finally: bool) -> TriggerRule:
    """Return the rule of a node that names none."""
    return TriggerRule.ALL_DONE if is_finally else TriggerRule.ALL_SUCCESS


@dataclass(slots=True)
class _Reader(Reader):
    """Reads a definition's parts."""

    def items(self, given: Mapping[str, Any], limits: Limits) -> list[object]:
        entries = given.get("nodes")
        if not isinstance(entries, list) or not entries:
            self.refuse("nodes", "nodes is a list with at least one node", "/nodes")
        found = cast("list[object]", entries)
        if len(found) > limits.nodes:
            self.refuse("too_many_nodes", f"{len(found):,} nodes; at most {limits.nodes:,}", "/nodes")
        if json_size(given) > MOST_DEFINITION_BYTES:
            self.refuse("too_large", f"a definition has at most {MOST_DEFINITION_BYTES:,} bytes as JSON", "")
        return found

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": self.text(given, "name", "", pattern=NAME) or "",
            "description": self.description(given),
            "success": self.choice(given, "success", "", Success.STRICT),
            "fail_fast": self.flag(given, "fail_fast", ""),
            "deadline_seconds": self.seconds(given, "deadline_seconds", ""),
            "max_parallel": self.whole(given, "max_parallel", "", most=MOST_NODES),
            "tags": self.tags(given),
        }

    def tags(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        value = given.get("tags")
        if value is None:
            return ()
        if not isinstance(value, list):
            self.blame("tags", "tags is a list of texts", "/tags")
            return ()
        found = cast("list[Any]", value)
        try:
            return canonical_tags(each if isinstance(each, str) else "" for each in found)
        except TagError as error:
            self.blame("tags", error.message, "/tags" if error.index is None else f"/tags/{error.index}")
            return ()

    def common(self, given: Mapping[str, Any], pointer: str) -> dict[str, Any]:
        """Read the fields that a node and the defaults share."""
        found: dict[str, Any] = {
            "queue": self.text(given, "queue", pointer, pattern=NAME),
            "priority": self.whole(given, "priority", pointer, least=0, most=9),
            "retry": read_retry(self, given, pointer),
            "timeout_seconds": self.seconds(given, "timeout_seconds", pointer),
            "start_deadline_seconds": self.seconds(given, "start_deadline_seconds", pointer),
            "total_deadline_seconds": self.seconds(given, "total_deadline_seconds", pointer),
            "heartbeat_timeout_seconds": self.number(
                given, "heartbeat_timeout_seconds", pointer, least=1, most=MOST_SECONDS
            ),
            "concurrency_key": self.key_template(given, pointer),
        }
        if given.get("rule") is not None:
            found["rule"] = self.choice(given, "rule", pointer, TriggerRule.ALL_SUCCESS)
        return {key: value for key, value in found.items() if value is not None}

    def node(self, entry: object, pointer: str, defaults: Mapping[str, Any]) -> Node:
        given = self.mapping(entry, pointer, NODE_KEYS)
        is_finally = self.flag(given, "finally", pointer)
        fields = self.merged(given, pointer, {} if given.get("workflow") is not None else defaults)
        if "rule" not in fields:
            usual = usual_rule(is_finally=is_finally)
            fields["rule"] = usual if is_finally else defaults.get("rule", usual)
        node = Node(
            id=self.node_id(given, pointer),
            needs=self.needs(given, pointer),
            task=self.text(given, "task", pointer, pattern=NAME),
            workflow=self.text(given, "workflow", pointer, pattern=NAME),
            input=given.get("input"),
            condition=given.get("condition"),
            each=self.each(given, pointer),
            is_finally=is_finally,
            is_branch=self.flag(given, "branch", pointer),
            **fields,
        )
        self._fits(node, given, pointer)
        return node

    def merged(self, given: Mapping[str, Any], pointer: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Read what the defaults may fill in, and fill it in; a rule stays the node's own."""
        own = self.common(given, pointer)
        found = {key: value for key, value in defaults.items() if key != "rule"} | own
        if "retry" in own and "retry" in defaults:
            found["retry"] = {**defaults["retry"], **own["retry"]}
        return found

    def _fits(self, node: Node, given: Mapping[str, Any], pointer: str) -> None:
        if (given.get("task") is None) == (given.get("workflow") is None):
            self.blame("task", "a node has either a task or a workflow", f"{pointer}/task")
        if given.get("workflow") is not None:
            for key in sorted({"branch", *_TASK_FIELDS} & given.keys()):
                self.blame("sub_workflow", f"{key} is a task's; a sub-workflow has its own", f"{pointer}/{key}")
        if node.is_branch and node.each is not None:
            self.blame("branch", "a fan-out is no branch: which of its instances should choose?", f"{pointer}/branch")
        if json_size(node.input) > MOST_INPUT_BYTES:
            self.blame("input_too_large", f"input has at most {MOST_INPUT_BYTES:,} bytes as JSON", f"{pointer}/input")

    def key_template(self, given: Mapping[str, Any], pointer: str) -> Any:
        value = given.get("concurrency_key")
        is_one = value is None or (isinstance(value, str | int | dict) and not isinstance(value, bool))
        if not is_one:
            message = "a concurrency key is a text, a number or a template of one"
            self.blame("concurrency_key", message, f"{pointer}/concurrency_key")
        return cast("Any", value) if is_one else None

    def node_id(self, given: Mapping[str, Any], pointer: str) -> str:
        value = given.get("id")
        if not isinstance(value, str) or not NODE_ID.fullmatch(value):
            self.blame("id", "an id is letters, digits, _ and -, at most 100 of them", f"{pointer}/id")
        elif value in RESERVED:
            self.blame("id", f"{quoted(value)} is taken: references to it mean something else", f"{pointer}/id")
        return value if isinstance(value, str) else ""

    def needs(self, given: Mapping[str, Any], pointer: str) -> tuple[str, ...]:
        value = given.get("needs")
        if value is None:
            return ()
        if not isinstance(value, list):
            self.blame("needs", "needs is a list of ids", f"{pointer}/needs")
            return ()
        found = cast("list[Any]", value)
        for index, need in enumerate(found):
            if not isinstance(need, str):
                self.blame("needs", "needs is a list of ids, which are texts", f"{pointer}/needs/{index}")
        return tuple(need for need in found if isinstance(need, str))

    def each(self, given: Mapping[str, Any], pointer: str) -> Each | None:
        if given.get("each") is None:
            return None
        pointer = f"{pointer}/each"
        each = self.mapping(given["each"], pointer, EACH_KEYS)
        items = each.get("items")
        if not isinstance(items, list | dict):
            self.blame("items", "items is a list or a reference to one", f"{pointer}/items")
        return Each(
            items=cast("Any", items),
            max_items=self.whole(each, "max_items", pointer, most=MOST_ITEMS) or DEFAULT_ITEMS,
            max_parallel=self.whole(each, "max_parallel", pointer, most=MOST_ITEMS),
            empty=self.choice(each, "empty", pointer, EmptyItems.SKIP),
        )
