"""Workflows, as operations change them. Their tags are a part of their definition, so a change of them is a version."""

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import BaseModel

from everwhen.core.bulk import Verb
from everwhen.core.filters import Filter
from everwhen.lists import Listed
from everwhen.operations.kinds.protocol import Found, Standing, Wish
from everwhen.postgres.pool import Connection
from everwhen.workflows import definitions
from everwhen.workflows.model import Change
from everwhen.workflows.wire import workflow_out


class Workflows:
    """See `Things`."""

    vocabulary = definitions.WORKFLOWS
    folder = "workflows"
    told_as: Mapping[Verb, str] = {Verb.TAG: "replace_workflow", Verb.UNTAG: "replace_workflow"}

    async def find(self, conn: Connection, tenant_id: UUID, asked: Filter, *, after: str, limit: int) -> Listed[Found]:
        page = await definitions.walk_workflows(conn, tenant_id=tenant_id, asked=asked, after=after, limit=limit)
        rows = [Found(name=row.name, uid=None, created_at=row.created_at) for row in page.rows]
        return Listed(rows=rows, following=page.following, asked=asked)

    async def lock(self, conn: Connection, tenant_id: UUID, items: Sequence[tuple[str, UUID | None]]) -> None:
        for name in sorted(name for name, _ in items):
            await definitions.lock_workflow(conn, tenant_id=tenant_id, name=name)

    async def stand(self, conn: Connection, tenant_id: UUID, name: str, uid: UUID | None) -> Standing | None:  # noqa: ARG002
        row = await definitions.lock_workflow(conn, tenant_id=tenant_id, name=name)
        if row is None:
            return None
        tags = json.loads(row.definition).get("tags", ())
        says = {"tag": tags, "updated": row.updated_at}
        return Standing(name=name, uid=None, created_at=row.created_at, says=says, tags=tags, row=row)

    def already(self, verb: Verb, now: Standing) -> bool:  # noqa: ARG002
        return False

    async def look(self, conn: Connection, tenant_id: UUID, now: Standing) -> BaseModel:
        (row,) = await definitions.find_workflows(conn, tenant_id=tenant_id, names=[now.name])
        return workflow_out(row)

    async def change(self, conn: Connection, tenant_id: UUID, now: Standing, wish: Wish) -> None:
        definition = json.loads(now.row.definition) | {"tags": list(wish.tags)}
        change = Change(by=wish.by, reason=wish.reason)
        await definitions.change_workflow(conn, now.row, definition, tenant_id=tenant_id, change=change)
