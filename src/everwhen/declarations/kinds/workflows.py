"""Workflows as files declare them: by their latest version."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from everwhen.core.dag_json import workflow_to_json
from everwhen.declarations.kinds.protocol import Claim
from everwhen.declarations.kinds.reading import read_spec
from everwhen.declarations.model import Declaration, Kind, Present
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import Expected
from everwhen.workflows import definitions
from everwhen.workflows.model import Change, WorkflowRow
from everwhen.workflows.wire import WorkflowFields

_NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A definition as it was sent, which could be read, and as it would be stored."""

    name: str
    definition: Mapping[str, Any]
    normal: Mapping[str, Any]
    parts: Sequence[str]
    change: Change


class Workflows:
    """See `Things`."""

    def read(self, name: str, spec: Mapping[str, Any], claim: Claim) -> Drafted:
        definition = read_spec(WorkflowFields, spec).definition
        workflow = definitions.read_definition(name, definition)
        return Drafted(
            name=name,
            definition=definition,
            normal=_normal(workflow_to_json(workflow)),
            parts=sorted({node.workflow for node in workflow.nodes if node.workflow is not None}),
            change=Change(by=claim.by, owner=claim.owner, has_owner=claim.is_meant),
        )

    def normal(self, draft: Drafted, present: Present | None) -> Mapping[str, Any]:  # noqa: ARG002
        return draft.normal

    def needs(self, draft: Drafted) -> Sequence[str]:
        return draft.parts

    def parts(self, present: Present) -> Sequence[str]:
        nodes = present.normal["definition"]["nodes"]
        return sorted({node["workflow"] for node in nodes if node.get("workflow") is not None})

    def notes(self, draft: Drafted, present: Present) -> Sequence[str]:  # noqa: ARG002
        return ()

    async def named(self, conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[Present]:
        return [_present(row) for row in await definitions.find_workflows(conn, tenant_id=tenant_id, names=names)]

    async def page(
        self, conn: Connection, tenant_id: UUID, *, owner: str | None, after: str, limit: int
    ) -> list[Present]:
        found = await definitions.page_workflows(conn, tenant_id=tenant_id, owner=owner, after=after, limit=limit)
        return [_present(row) for row in found]

    async def put(self, whole: Database, tenant_id: UUID, draft: Drafted, *, present: Present | None) -> None:
        said: dict[str, Any] = {"name": draft.name, "definition": draft.definition, "change": draft.change}
        if present is None:
            await definitions.create_workflow(whole, tenant_id=tenant_id, **said)
        else:
            expected = Expected(revisions=frozenset({present.revision}))
            await definitions.replace_workflow(whole, tenant_id=tenant_id, **said, expected=expected)

    async def delete(self, whole: Database, tenant_id: UUID, present: Present) -> None:
        expected = Expected(revisions=frozenset({present.revision}))
        await definitions.delete_workflow(whole, tenant_id=tenant_id, name=present.name, expected=expected)

    def declared(self, present: Present) -> Declaration:
        return Declaration(
            kind=Kind.WORKFLOW,
            name=present.name,
            revision=present.revision,
            owner=present.owner,
            spec=present.normal,
        )


def _present(row: WorkflowRow) -> Present:
    return Present(
        kind=Kind.WORKFLOW,
        name=row.name,
        revision=row.version,
        owner=row.owner,
        normal=_normal(json.loads(row.definition)),
        row=row,
    )


def _normal(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition without the name that the document has."""
    return {"definition": {field: value for field, value in definition.items() if field != _NAME}}
