"""Workflows' runs over HTTP: they are runs, so `/runs` knows them, too; here they have nodes."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response

from everwhen.core.targets import workflow_of
from everwhen.http.access import Operator, Reader
from everwhen.http.auditing import audited
from everwhen.http.bodies import ControlRoute
from everwhen.http.pages import (
    DEFAULT_ITEMS,
    Cursor,
    Limit,
    Page,
    filter_query,
    next_page,
    page_of,
    read_id,
    read_number,
)
from everwhen.lists import LAST_ID
from everwhen.runs.api import RunRef
from everwhen.runs.wire import CancelIn
from everwhen.workflows import service
from everwhen.workflows.listing import service as listing
from everwhen.workflows.model import Change
from everwhen.workflows.picture import picture_of
from everwhen.workflows.service import WorkflowRunView
from everwhen.workflows.telling import tell
from everwhen.workflows.wire import (
    InstanceOut,
    NodeExplanationOut,
    RerunIn,
    WorkflowRunItemOut,
    WorkflowRunOut,
    instance_out,
    node_explanation_out,
    workflow_run_item_out,
    workflow_run_out,
)

router = APIRouter(route_class=ControlRoute, tags=["workflows"])

NodePath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$", description="The node's id.")]

SVG_HEADERS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}

Where = Annotated[str, filter_query(listing.WORKFLOW_RUNS)]

_LIST = "workflow-runs"
_INSTANCES = "instances"


@router.get("/v1/tenants/{tenant}/workflow-runs")
async def list_workflow_runs(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[WorkflowRunItemOut]:
    """List workflows' runs, the newest first; those that are parts of others are among them (`source:workflow`)."""
    before = read_id(cursor, of=_LIST, default=LAST_ID)
    found = await listing.list_workflow_runs(
        access.database, tenant_id=access.tenant_id, before=before, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=workflow_run_item_out)


@router.get("/v1/tenants/{tenant}/workflow-runs/{run}")
async def get_workflow_run(*, run: RunRef, access: Reader) -> WorkflowRunOut:
    """Read a workflow's run: its nodes, where each stands, and what blocks it now."""
    return _out(await service.get_workflow_run(access.database, tenant_id=access.tenant_id, ref=run))


@router.get(
    "/v1/tenants/{tenant}/workflow-runs/{run}/graph.svg",
    response_class=Response,
    responses={200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}},
)
async def draw_workflow_run(*, run: RunRef, access: Reader) -> Response:
    """Draw a workflow's run: its graph in layers, each node with its state, the critical path drawn heavier."""
    view = await service.get_workflow_run(access.database, tenant_id=access.tenant_id, ref=run)
    return Response(picture_of(view), media_type="image/svg+xml", headers=SVG_HEADERS)


@router.get(
    "/v1/tenants/{tenant}/workflow-runs/{run}/nodes/{node}/explain",
    responses={409: {"description": "The run has not started"}},
)
async def explain_node(*, run: RunRef, node: NodePath, access: Reader) -> NodeExplanationOut:
    """Say why a node stands where it stands: which upstreams it waits for, or kept it from running."""
    view = await service.get_node(access.database, tenant_id=access.tenant_id, ref=run, node=node)
    assert view.workflow is not None  # it has nodes
    return node_explanation_out(tell(view.workflow, view.nodes, node))


@router.get("/v1/tenants/{tenant}/workflow-runs/{run}/nodes/{node}/instances")
async def list_instances(
    *,
    request: Request,
    run: RunRef,
    node: NodePath,
    access: Reader,
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> Page[InstanceOut]:
    """List the instances of a fan-out, in order."""
    after = read_number(cursor, of=_INSTANCES) - 1  # the cursor counts from 1, so that 0 stands for none
    found = await service.list_instances(
        access.database, tenant_id=access.tenant_id, ref=run, node=node, after=after, limit=limit + 1
    )
    following = next_page(request, found, limit=limit, of=_INSTANCES, key=lambda row: str(row.instance + 1))
    return Page(items=[instance_out(row) for row in found[:limit]], next=following)


@router.post(
    "/v1/tenants/{tenant}/workflow-runs/{run}/cancel", responses={409: {"description": "The run ended in another way"}}
)
@audited(seen_by="get_run")
async def cancel_workflow_run(*, run: RunRef, access: Operator, body: CancelIn | None = None) -> WorkflowRunOut:
    """Stop what runs and what waits; the finally-nodes still run."""
    view = await service.cancel_workflow_run(
        access.database,
        tenant_id=access.tenant_id,
        ref=run,
        change=Change(by=access.principal.subject, reason=body and body.reason),
        on_ended=access.plane.on_ended,
    )
    return _out(view)


@router.post(
    "/v1/tenants/{tenant}/workflow-runs/{run}/rerun",
    status_code=201,
    responses={409: {"description": "It has not ended, is not the latest generation, or nothing of it failed"}},
)
@audited(seen_by="get_run")
async def rerun_workflow_run(
    *, tenant: str, run: RunRef, access: Operator, response: Response, body: RerunIn | None = None
) -> WorkflowRunOut:
    """Run a part of an ended run again, as the next generation; the earlier one stays as it is."""
    view = await service.rerun_workflow_run(
        access.database,
        tenant_id=access.tenant_id,
        ref=run,
        nodes=[] if body is None else body.nodes,
        change=Change(by=access.principal.subject, reason=body and body.reason),
        on_ready=access.plane.on_ready,
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/workflow-runs/{view.run.row.run_id}"
    return _out(view)


def _out(view: WorkflowRunView) -> WorkflowRunOut:
    return workflow_run_out(view, workflow=workflow_of(view.run.row.task) or "")
