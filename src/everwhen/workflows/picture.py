"""A workflow's run as a picture: how its nodes stand, for `graph_svg` to draw."""

from everwhen.core.dag_values import NodeState
from everwhen.core.targets import workflow_of
from everwhen.errors import Conflict
from everwhen.runs.model import ref_of
from everwhen.workflows import graph_svg
from everwhen.workflows.service import NodeView, WorkflowRunView


def picture_of(view: WorkflowRunView) -> str:
    """Return the picture as SVG text; raise Conflict for a run that has not started, and so has no version yet."""
    if view.workflow is None:
        raise Conflict("The workflow's run has not started, so it has no graph yet.", code="workflow.not_started")
    name = workflow_of(view.run.row.task) or ""
    title = f"{name} · {ref_of(view.run.row) or view.run.row.run_id} · {view.run.state}"
    critical = () if view.foresight is None else view.foresight.prediction.critical
    views = {each.node.id: _drawn(each) for each in view.nodes}
    return graph_svg.render(view.workflow, title=title, views=views or None, critical=critical)


def _drawn(node: NodeView) -> graph_svg.NodeView:
    parts = {NodeState(state): count for state, count in node.instances.items()}
    attempt = node.live and node.live.attempt
    note = f"attempt {attempt}" if attempt is not None and attempt > 1 else ""
    return graph_svg.NodeView(state=node.state, note=note, parts=parts or None)
