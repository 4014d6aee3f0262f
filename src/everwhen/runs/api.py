"""Runs over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel

from everwhen.core.lifecycle import RunState
from everwhen.errors import InvalidInput
from everwhen.http.access import NAME_PATTERN, Operator, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.manners import needs_key
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
from everwhen.runs import service
from everwhen.runs.listing.service import RUNS
from everwhen.runs.model import RunFilter
from everwhen.runs.wire import (
    AttemptsOut,
    CancelIn,
    EventOut,
    RunIn,
    RunOut,
    attempt_out,
    event_out,
    run_out,
)

router = APIRouter(route_class=ControlRoute, tags=["runs"])

RunRef = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9._@:+-]{1,280}$", description="A run's id, or `schedule@local time with offset`.")
]
_LIST = "runs"
_EVENTS = "events"


class RunQuery(BaseModel):
    """Which runs to list."""

    schedule: Annotated[str | None, Query(pattern=NAME_PATTERN)] = None
    task: Annotated[str | None, Query(pattern=NAME_PATTERN)] = None
    state: RunState | None = None
    filter: Annotated[str | None, filter_query(RUNS)] = None
    limit: Limit = DEFAULT_ITEMS
    cursor: Cursor = None


@router.post("/v1/tenants/{tenant}/runs", status_code=201)
@needs_key
async def request_run(*, tenant: str, body: RunIn, access: Operator, response: Response) -> RunOut:
    """Make a run, now or at an instant."""
    view = await service.request_run(
        access.database,
        tenant_id=access.tenant_id,
        request=body.request(),
        on_ready=access.plane.on_ready,
        on_ended=access.plane.on_ended,
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/runs/{view.row.run_id}"
    return run_out(view)


@router.get("/v1/tenants/{tenant}/runs")
async def list_runs(*, request: Request, access: Reader, query: Annotated[RunQuery, Query()]) -> Page[RunOut]:
    """List runs, the newest first, by one filter or by three plain fields.

    A filter that says neither when nor in which live state looks back a week; the answer's `filter` tells.
    """
    page: dict[str, Any] = {
        "tenant_id": access.tenant_id,
        "before": read_id(query.cursor, of=_LIST, default=LAST_ID),
        "limit": query.limit,
    }
    where = _where(query)
    if query.filter is None:
        found = await service.list_runs(access.database, where=where, **page)
    else:
        found = await service.find_runs(access.database, text=query.filter, **page)
    return page_of(request, found, of=_LIST, out=run_out)


@router.get("/v1/tenants/{tenant}/runs/{run}")
async def get_run(*, run: RunRef, access: Reader) -> RunOut:
    """Read one run."""
    return run_out(await service.get_run(access.database, tenant_id=access.tenant_id, ref=run))


@router.post("/v1/tenants/{tenant}/runs/{run}/cancel", responses={409: {"description": "The run ended in another way"}})
async def cancel_run(*, run: RunRef, access: Operator, body: CancelIn | None = None) -> RunOut:
    """End a run that waits, or ask the worker that holds it to stop."""
    view = await service.cancel_run(
        access.database,
        tenant_id=access.tenant_id,
        ref=run,
        by=access.principal.subject,
        reason=body and body.reason,
        on_ended=access.plane.on_ended,
    )
    return run_out(view)


@router.get("/v1/tenants/{tenant}/runs/{run}/events")
async def list_events(
    *, request: Request, run: RunRef, access: Reader, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[EventOut]:
    """List what was decided about a run, oldest first."""
    after = read_number(cursor, of=_EVENTS)
    found = await service.list_events(
        access.database, tenant_id=access.tenant_id, ref=run, after=after, limit=limit + 1
    )
    following = next_page(request, found, limit=limit, of=_EVENTS, key=lambda event: str(event.event_id))
    return Page(items=[event_out(event) for event in found[:limit]], next=following)


@router.get("/v1/tenants/{tenant}/runs/{run}/attempts")
async def list_attempts(*, run: RunRef, access: Reader) -> AttemptsOut:
    """List every attempt of a run, the open one last."""
    found = await service.list_attempts(access.database, tenant_id=access.tenant_id, ref=run)
    return AttemptsOut(items=[attempt_out(attempt) for attempt in found])


def _where(query: RunQuery) -> RunFilter:
    plain = RunFilter(schedule=query.schedule, task=query.task, state=query.state)
    if query.filter is not None and plain != RunFilter():
        detail = "Send either a filter or schedule, task and state: in a filter they are terms."
        raise InvalidInput.at("query:filter", detail, code="filter.twice")
    return plain
