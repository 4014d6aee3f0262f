"""Lists of workflows' runs: of all workflows, those that are parts of others included, the newest first."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from everwhen.core.filters import Moment, Values, Vocabulary, Word, within
from everwhen.core.lifecycle import RunState
from everwhen.core.targets import workflow_of
from everwhen.lists import LAST_ID, Listed, read_filter, walk
from everwhen.postgres.pool import Database
from everwhen.runs import service as runs
from everwhen.workflows.listing import store
from everwhen.workflows.listing.model import RunHead, WorkflowRunItem

WORKFLOW_RUNS: Final = Vocabulary(
    fields={
        "workflow": Word(),
        "state": Word(choices=frozenset(RunState)),
        "source": Word(),
        "due": Moment(),
    },
    short=within("due"),
)
"""What a filter of workflows' runs says."""


async def list_workflow_runs(
    db: Database, *, tenant_id: UUID, before: UUID = LAST_ID, limit: int, where: str = ""
) -> Listed[WorkflowRunItem]:
    """Return up to `limit` runs with ids below `before` that the filter `where` finds; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        asked = read_filter(where, WORKFLOW_RUNS, now=conn.now)
        with_state = asked.term("state") is not None

        async def read(before: UUID, limit: int) -> Sequence[RunHead]:
            return await store.page_heads(
                conn, tenant_id=tenant_id, before=before, with_state=with_state, now=conn.now, limit=limit
            )

        found = await walk(read, start=before, key=lambda head: head.run_id, limit=limit, asked=asked, values=_said)
        run_ids = [head.run_id for head in found.rows]
        views = await runs.read_views(conn, tenant_id=tenant_id, run_ids=run_ids)
        begun = {each.run_id: each for each in await store.read_begun(conn, tenant_id=tenant_id, run_ids=run_ids)}
    rows = [WorkflowRunItem(run=view, begun=begun.get(view.row.run_id)) for view in views]
    return Listed(rows=rows, following=found.following, asked=asked)


def _said(head: RunHead) -> Values:
    return {
        "workflow": workflow_of(head.task),
        "state": head.state,
        "source": head.source,
        "due": head.due_at,
    }
