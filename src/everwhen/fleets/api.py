"""Workers over HTTP, a tenant's and the platform's: who works, what each holds, and orders to take nothing more."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from everwhen.core.fleets import Wish
from everwhen.fleets import service
from everwhen.fleets.model import HeldRun, Worker
from everwhen.http.access import Access, Operator, Platform, PlatformAccess, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Sentence, Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_id
from everwhen.lists import FIRST_ID

router = APIRouter(route_class=ControlRoute, tags=["workers"])

WorkerId = Annotated[UUID, Path(description="The worker's id, as the list shows it.")]
Where = Annotated[str, filter_query(service.WORKERS)]

_LIST: Final = "workers"


class WorkerDrainIn(Wire):
    """Why a worker is to take nothing more."""

    reason: Sentence | None = None
    exit: bool = Field(default=False, description="End its process, with 0, once it holds nothing.")


class WorkerOrderIn(Wire):
    """Why."""

    reason: Sentence | None = None


class WorkerOut(BaseModel):
    """A worker that has announced itself, as it said with its last beat."""

    id: UUID
    name: str = Field(description="Two processes may have one name; they have two ids.")
    state: Literal["active", "cordoned", "draining", "drained", "stopping", "lost"] = Field(
        description="`drained`: it has heard, and holds nothing. `lost`: it was not seen for half a minute."
    )
    queues: list[str]
    tasks: list[str] | None = Field(description="Null: it takes any.")
    slots: int
    held: int = Field(description="Runs that it holds.")
    labels: dict[str, str]
    resources: dict[str, float]
    in_use: dict[str, float] = Field(description="What its runs take of its resources.")
    version: str | None = Field(description="Of its application.")
    sdk: str | None
    host: str | None
    pid: int | None
    announced_at: Utc
    seen_at: Utc
    exits: bool = Field(description="Its process ends once it is drained.")
    ordered_by: str | None = Field(description="Who drained, cordoned or uncordoned it last.")
    order_reason: str | None
    ordered_at: Utc | None


class HeldRunOut(BaseModel):
    """A run under a lease of a worker of this name."""

    run: UUID
    task: str
    queue: str
    attempt: int
    claimed_at: Utc
    started_at: Utc | None
    lease_until: Utc


class WorkerWithRunsOut(WorkerOut):
    """A worker, with runs that it holds."""

    runs: list[HeldRunOut] = Field(
        description=f"The {service.MOST_HELD} oldest that are leased to its name, by the database."
    )


@router.get("/v1/tenants/{tenant}/workers")
async def list_workers(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[WorkerOut]:
    """List the tenant's workers, in the order in which they came; lost ones for a day."""
    after = read_id(cursor, of=_LIST, default=FIRST_ID)
    found = await service.list_workers(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=_out)


@router.get("/v1/tenants/{tenant}/workers/{worker}")
async def get_worker(*, worker: WorkerId, access: Reader) -> WorkerWithRunsOut:
    """Show a worker, with runs that it holds."""
    return _view_out(await service.get_worker(access.database, tenant_id=access.tenant_id, worker_id=worker))


@router.post("/v1/tenants/{tenant}/workers/{worker}/drain")
async def drain_worker(*, worker: WorkerId, access: Operator, body: WorkerDrainIn | None = None) -> WorkerOut:
    """Give a worker nothing more; it finishes what it has, and says when it is empty."""
    return await _order(access, worker, Wish.DRAINING, body)


@router.post("/v1/tenants/{tenant}/workers/{worker}/cordon")
async def cordon_worker(*, worker: WorkerId, access: Operator, body: WorkerOrderIn | None = None) -> WorkerOut:
    """Give a worker nothing more, and let it stay."""
    return await _order(access, worker, Wish.CORDONED, body)


@router.post("/v1/tenants/{tenant}/workers/{worker}/uncordon")
async def uncordon_worker(*, worker: WorkerId, access: Operator, body: WorkerOrderIn | None = None) -> WorkerOut:
    """Give a worker runs again that was cordoned or drained."""
    return await _order(access, worker, Wish.ACTIVE, body)


@router.get("/v1/workers")
async def list_shared_workers(
    *, request: Request, access: Platform, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[WorkerOut]:
    """List the platform's workers, which take the runs of all tenants. Needs the role platform."""
    after = read_id(cursor, of=_LIST, default=FIRST_ID)
    found = await service.list_workers(access.plane.database, tenant_id=None, after=after, limit=limit, where=where)
    return page_of(request, found, of=_LIST, out=_out)


@router.get("/v1/workers/{worker}")
async def get_shared_worker(*, worker: WorkerId, access: Platform) -> WorkerWithRunsOut:
    """Show a worker of the platform, with runs that it holds. Needs the role platform."""
    return _view_out(await service.get_worker(access.plane.database, tenant_id=None, worker_id=worker))


@router.post("/v1/workers/{worker}/drain")
async def drain_shared_worker(*, worker: WorkerId, access: Platform, body: WorkerDrainIn | None = None) -> WorkerOut:
    """Give a worker of the platform nothing more. Needs the role platform."""
    return await _order(access, worker, Wish.DRAINING, body)


@router.post("/v1/workers/{worker}/cordon")
async def cordon_shared_worker(*, worker: WorkerId, access: Platform, body: WorkerOrderIn | None = None) -> WorkerOut:
    """Give a worker of the platform nothing more, and let it stay. Needs the role platform."""
    return await _order(access, worker, Wish.CORDONED, body)


@router.post("/v1/workers/{worker}/uncordon")
async def uncordon_shared_worker(*, worker: WorkerId, access: Platform, body: WorkerOrderIn | None = None) -> WorkerOut:
    """Give a worker of the platform runs again. Needs the role platform."""
    return await _order(access, worker, Wish.ACTIVE, body)


async def _order(
    access: Access | PlatformAccess, worker: UUID, wish: Wish, body: WorkerDrainIn | WorkerOrderIn | None
) -> WorkerOut:
    order = service.Order(
        wish=wish,
        by=access.principal.subject,
        why=body and body.reason,
        exits=isinstance(body, WorkerDrainIn) and body.exit,
    )
    tenant_id = access.tenant_id if isinstance(access, Access) else None
    return _out(await service.order(access.plane.database, tenant_id=tenant_id, worker_id=worker, order=order))


def _out(worker: Worker) -> WorkerOut:
    row = worker.row
    return WorkerOut(
        id=row.worker_id,
        name=row.name,
        state=worker.state.value,
        queues=row.queues,
        tasks=row.tasks,
        slots=row.slots,
        held=row.held,
        labels=worker.labels,
        resources=worker.resources,
        in_use=worker.in_use,
        version=row.version,
        sdk=row.sdk,
        host=row.host,
        pid=row.pid,
        announced_at=row.announced_at,
        seen_at=row.last_seen_at,
        exits=row.exits,
        ordered_by=row.wished_by,
        order_reason=row.wished_why,
        ordered_at=row.wished_at,
    )


def _view_out(view: service.WorkerView) -> WorkerWithRunsOut:
    return WorkerWithRunsOut(**_out(view.worker).model_dump(), runs=[_held_out(run) for run in view.held])


def _held_out(run: HeldRun) -> HeldRunOut:
    return HeldRunOut(
        run=run.run_id,
        task=run.task,
        queue=run.queue,
        attempt=run.attempt,
        claimed_at=run.claimed_at,
        started_at=run.started_at,
        lease_until=run.lease_until,
    )
