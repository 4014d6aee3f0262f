"""The task service over HTTP: reading, disabling and deleting tasks. What takes a form is in `form_api`.

No path names a tenant: it is the token's.
"""

from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from everwhen.core.task_status import RunOutcome, TaskStatus
from everwhen.errors import InvalidInput
from everwhen.http.access import Access, OwnEditor, OwnOperator, OwnReader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, next_page, read_id
from everwhen.http.reasons import ReasonCode
from everwhen.lists import FIRST_ID, LAST_ID
from everwhen.postgres.pool import Connection
from everwhen.task_service.model import TaskView
from everwhen.task_service.service import TaskService, Told

router = APIRouter(route_class=ControlRoute, tags=["task service"])

_LIST: Final = "service_tasks"
_HISTORY: Final = "service_task_history"

Id = Annotated[UUID, Query(alias="id", description="The task's id.")]


class StatusIn(Wire):
    """A task, and whether it makes runs."""

    id: UUID | None = Field(default=None, description="The task's id, unless the query has it.")
    status: Literal["enable", "disable"]


class PayloadRef(BaseModel):
    """The executable."""

    digest: str
    name: str | None


class RunInHistory(BaseModel):
    """One run of a task."""

    run_id: UUID
    scheduled_at: Utc
    outcome: RunOutcome
    reason: ReasonCode | None
    started_at: Utc | None
    finished_at: Utc | None
    attempts: int


class ServiceTaskOut(BaseModel):
    """A task. `schedule` is empty for one that runs once, at `timestamp`."""

    id: UUID
    dedup_id: str
    user: str
    schedule: str
    timestamp: Utc | None
    priority: int
    payload: PayloadRef
    status: TaskStatus
    enabled: bool
    next_at: Utc | None
    created_at: Utc
    updated_at: Utc
    deleted_at: Utc | None


class ServiceTaskDetail(ServiceTaskOut):
    """A task with its runs, the newest first; `next` is the path of the page after."""

    history: list[RunInHistory]
    next: str | None


@router.get("/task")
async def get_service_task(
    *, request: Request, access: OwnReader, task_id: Id, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> ServiceTaskDetail:
    """Read a task with its history, also after its deletion."""
    before = read_id(cursor, of=_HISTORY, default=LAST_ID)
    view = await service_of(access).get(access.tenant_id, task_id, before=before, limit=limit + 1)
    following = next_page(request, view.history, limit=limit, of=_HISTORY, key=lambda run: str(run.run_id))
    return detail_out(view, limit=limit, following=following)


@router.get("/tasks")
async def list_service_tasks(
    *,
    request: Request,
    access: OwnReader,
    everybody: Annotated[bool, Query(alias="all", description="Other users' tasks as well.")] = False,
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> Page[ServiceTaskOut]:
    """List one's tasks, the oldest first."""
    after = read_id(cursor, of=_LIST, default=FIRST_ID)
    owner = None if everybody else access.principal.subject
    found = await service_of(access).list(access.tenant_id, owner=owner, after=after, limit=limit + 1)
    following = next_page(request, found, limit=limit, of=_LIST, key=lambda view: str(view.task.id))
    return Page(items=[task_out(view) for view in found[:limit]], next=following)


@router.put("/task/status")
async def set_service_task_status(
    *, access: OwnOperator, body: StatusIn, task_id: Annotated[UUID | None, Query(alias="id")] = None
) -> ServiceTaskOut:
    """Enable a task, or disable it: it makes no runs then, and what waits is cancelled. What runs goes on."""
    chosen = task_id or body.id
    if chosen is None:
        raise InvalidInput.at("/id", "Say which task.", code="field.missing")
    view = await service_of(access).set_status(
        access.tenant_id,
        chosen,
        by=access.principal.subject,
        is_enabled=body.status == "enable",
    )
    return task_out(view)


@router.delete("/task", status_code=204)
async def delete_service_task(*, access: OwnEditor, task_id: Id) -> None:
    """Delete a task: what waits is cancelled, what runs goes on, and the history stays."""
    await service_of(access).delete(access.tenant_id, task_id, by=access.principal.subject)


def service_of(access: Access) -> TaskService:
    """Return the task service of this server."""
    plane = access.plane
    return TaskService(
        database=plane.database,
        payloads=plane.payloads,
        on_ready=plane.on_ready,
        on_ended=plane.on_ended,
        told=_teller_of(access),
    )


def _teller_of(access: Access) -> Told:
    """Return what tells the audit of a change, in the transaction that makes it."""
    recorder = access.recorder

    async def tell(conn: Connection, before: TaskView | None, after: TaskView) -> None:
        if recorder is not None:  # the change is not only tried
            recorder.about(f"service-tasks/{after.task.id}", before=before and task_out(before))
            await recorder.write(conn, after=task_out(after))

    return tell


def task_out(view: TaskView) -> ServiceTaskOut:
    """Return a task as it goes out, without its history."""
    task = view.task
    return ServiceTaskOut(
        id=task.id,
        dedup_id=task.dedup_id,
        user=task.owner,
        schedule=task.cron,
        timestamp=task.run_at,
        priority=task.priority,
        payload=PayloadRef(digest=task.digest, name=task.payload_name),
        status=view.status,
        enabled=task.is_enabled,
        next_at=view.next_at,
        created_at=task.created_at,
        updated_at=task.updated_at,
        deleted_at=task.deleted_at,
    )


def detail_out(view: TaskView, *, limit: int = DEFAULT_ITEMS, following: str | None = None) -> ServiceTaskDetail:
    """Return a task as it goes out, with its history."""
    history = [
        RunInHistory(
            run_id=run.run_id,
            scheduled_at=run.scheduled_at,
            outcome=run.outcome,
            reason=run.reason,
            started_at=run.claimed_at,
            finished_at=run.finished_at,
            attempts=run.attempts,
        )
        for run in view.history[:limit]
    ]
    return ServiceTaskDetail(**task_out(view).model_dump(), history=history, next=following)
