"""Findings and punctuality over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

import json
from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, JsonValue

from everwhen.core.punctuality import MOST_OBJECTIVE_SECONDS, Punctuality
from everwhen.http.access import NAME_PATTERN, Editor, Platform, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_number
from everwhen.http.preconditions import Change, tag
from everwhen.postgres.pool import Database
from everwhen.sentinel import service
from everwhen.sentinel.model import MEANINGS, Finding, FindingKind
from everwhen.sentinel.service import PunctualityView

router = APIRouter(route_class=ControlRoute, tags=["findings"])

ScheduleName = Annotated[str, Path(pattern=NAME_PATTERN, description="The schedule's name.")]
_LIST: Final = "findings"


class FindingQuery(BaseModel):
    """Which findings to list."""

    state: Literal["open", "all"] = "open"
    filter: Annotated[str, filter_query(service.FINDINGS)] = ""
    limit: Limit = DEFAULT_ITEMS
    cursor: Cursor = None


class FindingOut(BaseModel):
    """Something that is, or was, amiss. `subject` is the schedule's name or the queue."""

    id: int
    tenant: str
    kind: FindingKind
    sentence: str
    remedy: str
    subject: str
    since: Utc = Field(description="When it began, by the facts.")
    opened_at: Utc = Field(description="When it was noticed.")
    seen_at: Utc
    closed_at: Utc | None = Field(description="When it was noticed to be over; null: it goes on.")
    detail: dict[str, JsonValue]


class PeriodOut(BaseModel):
    """The last days together. Percentiles are upper bounds; null: unknown, or beyond a day."""

    days: int
    runs: int
    on_time: int
    late: int
    never_started: int
    ratio: float | None
    p50_seconds: float | None
    p99_seconds: float | None


class PunctualityOut(BaseModel):
    """How punctual a schedule's runs start. What became due after `measured_until` is not counted yet."""

    objective_seconds: float
    measured_until: Utc | None
    periods: list[PeriodOut]


class ObjectiveIn(Wire):
    """How late a start may be and still be on time."""

    objective_seconds: Annotated[float, Field(gt=0, le=MOST_OBJECTIVE_SECONDS)]


@router.get("/v1/tenants/{tenant}/findings")
async def list_findings(
    *, request: Request, access: Reader, query: Annotated[FindingQuery, Query()]
) -> Page[FindingOut]:
    """List what is amiss with a tenant's schedules and queues, the newest first."""
    return await _page(request, query, access.database, tenant_id=access.tenant_id)


@router.get("/v1/findings")
async def list_all_findings(
    *, request: Request, access: Platform, query: Annotated[FindingQuery, Query()]
) -> Page[FindingOut]:
    """List what is amiss in the whole installation, the newest first. Needs the role platform."""
    return await _page(request, query, access.plane.database, tenant_id=None)


@router.get("/v1/tenants/{tenant}/schedules/{name}/punctuality")
async def get_punctuality(*, name: ScheduleName, access: Reader, response: Response) -> PunctualityOut:
    """Say how many of a schedule's runs started within its objective, in the last 7 and 30 days."""
    view = await service.get_punctuality(access.database, tenant_id=access.tenant_id, name=name)
    tag(response, view.revision)
    return _out(view)


@router.put("/v1/tenants/{tenant}/schedules/{name}/punctuality")
async def set_objective(
    *, name: ScheduleName, body: ObjectiveIn, access: Editor, expected: Change, response: Response
) -> PunctualityOut:
    """Say how late a schedule's runs may start; what was counted stays as it was judged."""
    view = await service.set_objective(
        access.database,
        tenant_id=access.tenant_id,
        name=name,
        objective_seconds=body.objective_seconds,
        expected=expected,
    )
    tag(response, view.revision)
    return _out(view)


@router.get("/metrics", response_class=PlainTextResponse)
async def get_metrics(request: Request, access: Platform) -> Response:
    """Return this process's metrics for Prometheus, as plain text or OpenMetrics. Needs the role platform."""
    body, media_type = await service.collect_metrics(access.plane.database, accept=request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": media_type})


async def _page(request: Request, query: FindingQuery, db: Database, *, tenant_id: UUID | None) -> Page[FindingOut]:
    before = read_number(query.cursor, of=_LIST) or service.NEWEST
    found = await service.list_findings(
        db, tenant_id=tenant_id, is_open=query.state == "open", before=before, limit=query.limit, where=query.filter
    )
    return page_of(request, found, of=_LIST, out=_finding)


def _finding(found: Finding) -> FindingOut:
    kind = FindingKind(found.kind)
    sentence, remedy = MEANINGS[kind]
    return FindingOut(
        id=found.finding_id,
        tenant=found.tenant,
        kind=kind,
        sentence=sentence,
        remedy=remedy,
        subject=found.subject,
        since=found.since,
        opened_at=found.opened_at,
        seen_at=found.seen_at,
        closed_at=found.closed_at,
        detail=json.loads(found.detail),
    )


def _out(view: PunctualityView) -> PunctualityOut:
    return PunctualityOut(
        objective_seconds=view.objective_seconds,
        measured_until=view.measured_until,
        periods=[_period(days, counted) for days, counted in view.periods.items()],
    )


def _period(days: int, counted: Punctuality) -> PeriodOut:
    return PeriodOut(
        days=days,
        runs=counted.runs,
        on_time=counted.on_time,
        late=counted.late,
        never_started=counted.never_started,
        ratio=counted.ratio,
        p50_seconds=counted.p50_seconds,
        p99_seconds=counted.p99_seconds,
    )
