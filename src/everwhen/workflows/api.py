"""Workflows' definitions over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response

from everwhen.http.access import NAME_PATTERN, Access, Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Why
from everwhen.http.manners import reads
from everwhen.http.pages import (
    DEFAULT_ITEMS,
    Cursor,
    Limit,
    Page,
    filter_query,
    next_page,
    page_of,
    read_cursor,
    read_number,
)
from everwhen.http.preconditions import Change, Put, tag
from everwhen.workflows import definitions, model
from everwhen.workflows.model import WorkflowRow
from everwhen.workflows.wire import (
    CheckIn,
    CheckOut,
    WorkflowDefinitionOut,
    WorkflowIn,
    WorkflowItemOut,
    WorkflowOut,
    WorkflowVersionIn,
    WorkflowVersionOut,
    item_out,
    version_out,
    workflow_out,
)

router = APIRouter(route_class=ControlRoute, tags=["workflows"])

WorkflowName = Annotated[str, Path(pattern=NAME_PATTERN, description="The workflow's name.")]
Version = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of the version.")]
Where = Annotated[str, filter_query(definitions.WORKFLOWS)]

_LIST = "workflows"
_VERSIONS = "workflow-versions"
_IN_USE: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "It is in use; `used_by` says by what"}}


@router.post("/v1/tenants/{tenant}/workflows", status_code=201, responses={409: {"description": "The name is taken"}})
async def create_workflow(*, tenant: str, body: WorkflowIn, access: Editor, response: Response) -> WorkflowOut:
    """Make a workflow; its tasks, and the workflows inside of it, must be there."""
    made = await definitions.create_workflow(
        access.database,
        tenant_id=access.tenant_id,
        name=body.name,
        definition=body.definition,
        change=_change(access, body),
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/workflows/{made.name}"
    return _tagged(response, made)


@router.get("/v1/tenants/{tenant}/workflows")
async def list_workflows(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[WorkflowItemOut]:
    """List workflows by name."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await definitions.list_workflows(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=item_out)


@router.post("/v1/tenants/{tenant}/workflows/validate")
@reads
async def validate_workflow(*, body: CheckIn, access: Reader) -> CheckOut:
    """Check a definition as if it were applied, and keep nothing."""
    found = await definitions.check_definition(
        access.database, tenant_id=access.tenant_id, name=body.name, definition=body.definition
    )
    return CheckOut(nodes=len(found.nodes), edges=found.graph.edges, depth=found.graph.depth)


@router.get("/v1/tenants/{tenant}/workflows/{name}")
async def get_workflow(*, name: WorkflowName, access: Reader, response: Response) -> WorkflowOut:
    """Read a workflow with its latest definition."""
    return _tagged(response, await definitions.get_workflow(access.database, tenant_id=access.tenant_id, name=name))


@router.put(
    "/v1/tenants/{tenant}/workflows/{name}",
    responses={201: {"model": WorkflowOut, "description": "There was none, and it was made"}},
)
async def replace_workflow(
    *, name: WorkflowName, body: WorkflowVersionIn, access: Editor, expected: Put, response: Response
) -> WorkflowOut:
    """Write the next version, unless it says what the latest one says; or, with `If-None-Match: *`, make the first.

    Runs that have started keep theirs.
    """
    said: dict[str, Any] = {"definition": body.definition, "change": _change(access, body)}
    key: dict[str, Any] = {"tenant_id": access.tenant_id, "name": name, **said}
    if expected.absent:
        response.status_code = 201
        return _tagged(response, await definitions.put_new_workflow(access.database, **key))
    return _tagged(response, await definitions.replace_workflow(access.database, **key, expected=expected))


@router.delete("/v1/tenants/{tenant}/workflows/{name}", status_code=204, responses=_IN_USE)
async def delete_workflow(*, name: WorkflowName, access: Editor, expected: Change, reason: Why = None) -> None:  # noqa: ARG001  # the audit reads it
    """Give a workflow's name back; refused while schedules or workflows use it, or runs of it wait or run.

    What has run by its versions keeps them.
    """
    await definitions.delete_workflow(access.database, tenant_id=access.tenant_id, name=name, expected=expected)


@router.get("/v1/tenants/{tenant}/workflows/{name}/versions")
async def list_workflow_versions(
    *, request: Request, name: WorkflowName, access: Reader, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[WorkflowVersionOut]:
    """List versions, oldest first, with who wrote them and why."""
    after = read_number(cursor, of=_VERSIONS)
    found = await definitions.list_versions(
        access.database, tenant_id=access.tenant_id, name=name, after=after, limit=limit + 1
    )
    following = next_page(request, found, limit=limit, of=_VERSIONS, key=lambda version: str(version.version))
    return Page(items=[version_out(version) for version in found[:limit]], next=following)


@router.get("/v1/tenants/{tenant}/workflows/{name}/versions/{version}")
async def get_workflow_version(*, name: WorkflowName, version: Version, access: Reader) -> WorkflowDefinitionOut:
    """Read what a version says."""
    found = await definitions.get_definition(access.database, tenant_id=access.tenant_id, name=name, version=version)
    return WorkflowDefinitionOut(version=version, definition=found)


def _tagged(response: Response, row: WorkflowRow) -> WorkflowOut:
    tag(response, row.version)
    return workflow_out(row)


def _change(access: Access, body: WorkflowVersionIn) -> model.Change:
    has_owner = "owner" in body.model_fields_set
    return model.Change(by=access.principal.subject, reason=body.reason, owner=body.owner, has_owner=has_owner)
