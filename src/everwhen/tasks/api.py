"""Tasks over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response

from everwhen.http.access import NAME_PATTERN, Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Why
from everwhen.http.pages import (
    DEFAULT_ITEMS,
    Cursor,
    Limit,
    Page,
    filter_query,
    page_of,
    read_cursor,
)
from everwhen.http.preconditions import Change, Put, tag
from everwhen.tasks import service
from everwhen.tasks.model import TASKS
from everwhen.tasks.wire import TaskChange, TaskIn, TaskOut, TaskReplacement, draft_of, task_out

router = APIRouter(route_class=ControlRoute, tags=["tasks"])

TaskName = Annotated[str, Path(pattern=NAME_PATTERN, description="The task's name.")]
Where = Annotated[str, filter_query(TASKS)]
_LIST = "tasks"
_IN_USE: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "It is in use; `used_by` says by what"}}


@router.post("/v1/tenants/{tenant}/tasks", status_code=201, responses={409: {"description": "The name is taken"}})
async def create_task(*, tenant: str, body: TaskIn, access: Editor, response: Response) -> TaskOut:
    """Make a task, and its tenant's line at the queue."""
    made = await service.create_task(access.database, tenant_id=access.tenant_id, draft=draft_of(body.name, body))
    response.headers["Location"] = f"/v1/tenants/{tenant}/tasks/{made.name}"
    tag(response, made.revision)
    return task_out(made)


@router.get("/v1/tenants/{tenant}/tasks")
async def list_tasks(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[TaskOut]:
    """List tasks by name."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_tasks(access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where)
    return page_of(request, found, of=_LIST, out=task_out)


@router.get("/v1/tenants/{tenant}/tasks/{name}")
async def get_task(*, name: TaskName, access: Reader, response: Response) -> TaskOut:
    """Read one task."""
    found = await service.get_task(access.database, tenant_id=access.tenant_id, name=name)
    tag(response, found.revision)
    return task_out(found)


@router.patch("/v1/tenants/{tenant}/tasks/{name}")
async def update_task(
    *, name: TaskName, body: TaskChange, access: Editor, expected: Change, response: Response
) -> TaskOut:
    """Change a task. Runs that wait already stay in their queue; failed attempts follow the new retry policy."""
    changes: dict[str, Any] = body.model_dump(exclude_unset=True)
    changed = await service.update_task(
        access.database, tenant_id=access.tenant_id, name=name, changes=changes, expected=expected
    )
    tag(response, changed.revision)
    return task_out(changed)


@router.put(
    "/v1/tenants/{tenant}/tasks/{name}",
    responses={201: {"model": TaskOut, "description": "There was none, and it was made"}},
)
async def replace_task(
    *, name: TaskName, body: TaskReplacement, access: Editor, expected: Put, response: Response
) -> TaskOut:
    """Say all that a task is, unless it is so already; or, with `If-None-Match: *`, make it."""
    key: dict[str, Any] = {"tenant_id": access.tenant_id, "draft": draft_of(name, body)}
    if expected.absent:
        response.status_code = 201
        made = await service.put_new_task(access.database, **key)
    else:
        has_owner = "owner" in body.model_fields_set
        made = await service.replace_task(access.database, **key, has_owner=has_owner, expected=expected)
    tag(response, made.revision)
    return task_out(made)


@router.delete("/v1/tenants/{tenant}/tasks/{name}", status_code=204, responses=_IN_USE)
async def delete_task(*, name: TaskName, access: Editor, expected: Change, reason: Why = None) -> None:  # noqa: ARG001  # the audit reads it
    """Give a task's name back; refused while schedules or workflows use it, or runs of it wait or run.

    What has run keeps its name, and dead runs can still be run anew.
    """
    await service.delete_task(access.database, tenant_id=access.tenant_id, name=name, expected=expected)
