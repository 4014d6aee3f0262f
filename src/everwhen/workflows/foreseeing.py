"""When a workflow's run will end, and along which path: by how long its nodes took in the latest runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from everwhen.core.dag_predict import Blocked, Outlook, Past, Prediction, Present, blockers, outlook, predict
from everwhen.core.dag_values import NodeState, Workflow
from everwhen.postgres.pool import Connection
from everwhen.workflows import store
from everwhen.workflows.model import NodeRow, WorkflowRunRow

MOST_RUNS: Final = 20
MOST_ROWS: Final = 10_000
"""How many nodes of earlier runs are looked at: of a large workflow, only those of its latest runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The prediction, what each blocked node waits for, and whether the deadline will hold; None without one."""

    prediction: Prediction
    blocked: Mapping[str, Blocked]
    outlook: Outlook | None


async def foresee(
    conn: Connection, row: WorkflowRunRow, workflow: Workflow, nodes: Sequence[tuple[NodeRow, NodeState]]
) -> Foresight:
    """Look ahead from how the nodes stand now; of a run that has ended, along the path that it took."""
    runs = max(1, min(MOST_RUNS, MOST_ROWS // len(workflow.nodes)))
    found = await store.read_pasts(conn, tenant_id=row.tenant_id, workflow=row.workflow, limit=runs)
    past = {each.node: Past(median=_seconds(each.median), p90=_seconds(each.p90)) for each in found}
    present = {each.node: Present(state=state, since=each.decided_at, ended_at=each.ended_at) for each, state in nodes}
    prediction = predict(workflow, present, past, now=conn.now, start=row.started_at or conn.now)
    return Foresight(
        prediction=prediction,
        blocked=blockers(workflow, present, prediction),
        outlook=_outlook(row, prediction, conn.now),
    )


def _outlook(row: WorkflowRunRow, prediction: Prediction, now: datetime) -> Outlook | None:
    if row.deadline_at is None or row.ended_at is not None:
        return None
    return outlook(prediction, deadline_at=row.deadline_at, now=now)


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=max(0.0, value))
