"""Tasks over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field, Strict, model_validator

from everwhen.core.retry import (
    MAX_AGE_LIMIT,
    MAX_ATTEMPTS_LIMIT,
    MAX_DELAY,
    MOST_CLASS_NAME,
    MOST_NON_RETRYABLE,
    Jitter,
    RetryPolicy,
)
from everwhen.http.access import NAME_PATTERN, Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import MOST_SECONDS, Name, PositiveSeconds, Priority, Tags, Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, TagFilter, next_page, read_cursor
from everwhen.http.preconditions import Change, tag
from everwhen.tasks import service
from everwhen.tasks.model import Task, TaskDraft, retry_from_json, retry_to_json

router = APIRouter(route_class=ControlRoute, tags=["tasks"])

TaskName = Annotated[str, Path(pattern=NAME_PATTERN, description="The task's name.")]
Attempts = Annotated[int, Strict(), Field(ge=1, le=MAX_ATTEMPTS_LIMIT)]
Delay = Annotated[float, Strict(), Field(ge=0, le=MAX_DELAY.total_seconds(), allow_inf_nan=False)]
Factor = Annotated[float, Strict(), Field(ge=1, le=100, allow_inf_nan=False)]
MaxAge = Annotated[
    float,
    Strict(),
    Field(gt=0, le=MAX_AGE_LIMIT.total_seconds(), allow_inf_nan=False),
]
ClassName = Annotated[str, Field(min_length=1, max_length=MOST_CLASS_NAME, pattern=r"^[\x21-\x7e\u00a1-\uffff]+$")]
ClassNames = Annotated[list[ClassName], Field(max_length=MOST_NON_RETRYABLE)]
Heartbeat = Annotated[float, Strict(), Field(ge=1, le=MOST_SECONDS, allow_inf_nan=False)]

_LIST = "tasks"
_DEFAULT = retry_to_json(RetryPolicy())


class RetryFields(Wire):
    """How often and how fast a failed attempt is tried again: `base * factor ^ (n - 1)` seconds, at most the cap."""

    max_attempts: Attempts = _DEFAULT["max_attempts"]
    base_seconds: Delay = _DEFAULT["base_seconds"]
    factor: Factor = _DEFAULT["factor"]
    cap_seconds: Delay = _DEFAULT["cap_seconds"]
    jitter: Jitter = Jitter(_DEFAULT["jitter"])
    max_age_seconds: MaxAge | None = Field(
        default=None, description="No retry begins when the run is older than this, counted from when it was due."
    )
    non_retryable: ClassNames = Field(
        default_factory=list[str],
        description="Classes of errors that no retry mends, as the worker reports them; bases count, too.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.policy()
        return self

    def policy(self) -> RetryPolicy:
        """Return the policy; raise ValueError when the numbers do not fit together."""
        return retry_from_json(self.model_dump())


class RetryChange(Wire):
    """The fields of the retry policy to change; what is left out stays."""

    max_attempts: Attempts = Field(default_factory=int)
    base_seconds: Delay = Field(default_factory=float)
    factor: Factor = Field(default_factory=float)
    cap_seconds: Delay = Field(default_factory=float)
    jitter: Jitter = Field(default_factory=lambda: Jitter.NONE)
    max_age_seconds: MaxAge | None = None
    non_retryable: ClassNames = Field(default_factory=list[str])


class TaskIn(Wire):
    """A task to make."""

    name: Name
    queue: Name = "default"
    priority: Priority = 5
    retry: RetryFields = Field(default_factory=RetryFields)
    timeout_seconds: PositiveSeconds | None = Field(default=None, description="The longest that one attempt may run.")
    start_deadline_seconds: PositiveSeconds | None = Field(
        default=None, description="How long after it is due a run may still start; later it expires."
    )
    total_deadline_seconds: PositiveSeconds | None = Field(
        default=None, description="How long after it is due a run has to have ended, over all its attempts."
    )
    heartbeat_timeout_seconds: Heartbeat | None = Field(
        default=None, description="How long a worker may be silent: no lease is longer, whatever the worker asks for."
    )
    tags: Tags = ()


class TaskChange(Wire):
    """The fields of a task to change; what is left out stays."""

    queue: Name = Field(default_factory=str)
    priority: Priority = Field(default_factory=int)
    retry: RetryChange = Field(default_factory=RetryChange)
    timeout_seconds: PositiveSeconds | None = None
    start_deadline_seconds: PositiveSeconds | None = None
    total_deadline_seconds: PositiveSeconds | None = None
    heartbeat_timeout_seconds: Heartbeat | None = None
    tags: Tags = ()


class RetryOut(BaseModel):
    """The retry policy in force."""

    max_attempts: int
    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: Jitter
    max_age_seconds: float | None
    non_retryable: list[str]


class TaskOut(BaseModel):
    """A task."""

    name: str
    queue: str
    priority: int
    retry: RetryOut
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    total_deadline_seconds: float | None
    heartbeat_timeout_seconds: float | None
    tags: list[str]
    revision: int
    created_at: Utc
    updated_at: Utc


@router.post("/v1/tenants/{tenant}/tasks", status_code=201, responses={409: {"description": "The name is taken"}})
async def create_task(*, tenant: str, body: TaskIn, access: Editor, response: Response) -> TaskOut:
    """Make a task, and its tenant's line at the queue."""
    draft = TaskDraft(
        name=body.name,
        queue=body.queue,
        priority=body.priority,
        retry=body.retry.policy(),
        timeout_seconds=body.timeout_seconds,
        start_deadline_seconds=body.start_deadline_seconds,
        total_deadline_seconds=body.total_deadline_seconds,
        heartbeat_timeout_seconds=body.heartbeat_timeout_seconds,
        tags=body.tags,
    )
    made = await service.create_task(access.database, tenant_id=access.tenant_id, draft=draft)
    response.headers["Location"] = f"/v1/tenants/{tenant}/tasks/{made.name}"
    tag(response, made.revision)
    return _out(made)


@router.get("/v1/tenants/{tenant}/tasks")
async def list_tasks(
    *, request: Request, access: Reader, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None, where: TagFilter = None
) -> Page[TaskOut]:
    """List tasks by name."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_tasks(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit + 1, where=where
    )
    following = next_page(request, found, limit=limit, of=_LIST, key=lambda task: task.name)
    return Page(items=[_out(task) for task in found[:limit]], next=following)


@router.get("/v1/tenants/{tenant}/tasks/{name}")
async def get_task(*, name: TaskName, access: Reader, response: Response) -> TaskOut:
    """Read one task."""
    found = await service.get_task(access.database, tenant_id=access.tenant_id, name=name)
    tag(response, found.revision)
    return _out(found)


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
    return _out(changed)


def _out(task: Task) -> TaskOut:
    return TaskOut(
        name=task.name,
        queue=task.queue,
        priority=task.priority,
        retry=RetryOut(**retry_to_json(task.retry)),
        timeout_seconds=task.timeout_seconds,
        start_deadline_seconds=task.start_deadline_seconds,
        total_deadline_seconds=task.total_deadline_seconds,
        heartbeat_timeout_seconds=task.heartbeat_timeout_seconds,
        tags=list(task.tags),
        revision=task.revision,
        created_at=task.created_at,
        updated_at=task.updated_at,
    )
