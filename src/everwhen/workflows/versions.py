"""Versions of workflows as the core reads them, kept in the process: a version never changes once it is written."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from everwhen.core.dag_data import RESERVED, RUN, Reference, scan_condition, scan_template
from everwhen.core.dag_json import parse_workflow
from everwhen.core.dag_values import Node, Workflow
from everwhen.errors import NotFound
from everwhen.postgres.pool import Connection
from everwhen.workflows.catalogue import store as catalogue

MOST_KEPT: Final = 256
MOST_NODES_KEPT: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What a node's templates and its condition refer to."""

    results: frozenset[str]
    states: frozenset[str]
    facts: bool


@dataclass(slots=True)
class Version:
    """A version, with what its nodes read; worked out once for each."""

    workflow: Workflow
    _reads: dict[tuple[str, bool], Reads] = field(default_factory=dict[tuple[str, bool], Reads])

    def reads(self, node: str, *, is_instance: bool = False) -> Reads:
        """Return what a node refers to; an instance of a fan-out has done with the condition and the list."""
        key = (node, is_instance)
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = _reads(self.workflow.graph.nodes[node], is_instance=is_instance)
        return found


_kept: "OrderedDict[tuple[UUID, str, int], Version]" = OrderedDict()


async def load_version(conn: Connection, *, tenant_id: UUID, workflow: str, version: int) -> Version:
    """Return a version; asks the database once in the process's life, as a rule."""
    key = (tenant_id, workflow, version)
    found = _kept.get(key)
    if found is not None:
        _kept.move_to_end(key)
        return found
    text = await catalogue.get_definition(conn, tenant_id=tenant_id, workflow=workflow, version=version)
    if text is None:
        raise NotFound("The workflow has no such version.", code="workflow.unknown")
    return keep_version(tenant_id, workflow, version, definition=text)


def keep_version(tenant_id: UUID, workflow: str, version: int, *, definition: str) -> Version:
    """Read a stored definition and keep what it says; raise WorkflowError when this release cannot."""
    made = _kept[tenant_id, workflow, version] = Version(parse_workflow(json.loads(definition)))
    nodes = sum(len(each.workflow.nodes) for each in _kept.values())
    while len(_kept) > MOST_KEPT or (nodes > MOST_NODES_KEPT and len(_kept) > 1):
        _, dropped = _kept.popitem(last=False)
        nodes -= len(dropped.workflow.nodes)
    return made


def _reads(node: Node, *, is_instance: bool) -> Reads:
    references = list(_references(node, is_instance=is_instance))
    named = [(each.root, _part(each)) for each in references if each.root not in RESERVED]
    return Reads(
        results=frozenset(root for root, part in named if part == "result"),
        states=frozenset(root for root, _ in named),
        facts=any(each.root == RUN for each in references),
    )


def _references(node: Node, *, is_instance: bool) -> Iterator[Reference]:
    templates: list[Any] = [node.input, node.concurrency_key]
    if not is_instance and node.condition is not None:
        yield from scan_condition(node.condition, "")[0]
    if not is_instance and node.each is not None:
        templates.append(node.each.items)
    for template in templates:
        if template is not None:
            yield from scan_template(template, "")[0]


def _part(reference: Reference) -> str:
    return str(reference.path[1]) if len(reference.path) > 1 else ""
