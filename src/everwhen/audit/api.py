"""The audit over HTTP.

A tenant's audit is its own; the platform's (tenants, revocations everywhere, sessions of people who are of no tenant)
has the same operations without a tenant in their path.
"""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field, JsonValue

from everwhen.audit import service
from everwhen.audit.model import PLATFORM, EventRow, Outcome
from everwhen.core.filters import MOST_TEXT
from everwhen.http.access import Auditor, Platform
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, next_page, read_id
from everwhen.postgres.pool import Database

router = APIRouter(route_class=ControlRoute, tags=["audit"])

_LIST: Final = "audit"

EventId = Annotated[UUID, Path(description="The event's id.")]
FilterText = Annotated[
    str | None,
    Query(
        max_length=MOST_TEXT,
        description="Such as `actor:ada resource:schedules/nightly since:7d`; fields: actor, operation, resource,"
        " outcome, request, at.",
    ),
]


class AuditEventOut(BaseModel):
    """Something that somebody did, or was refused. Of a change `before` and `after` have what differs."""

    id: UUID
    at: Utc
    actor: str = Field(description="Who: the subject of a token; `everwhen` where nobody ordered it.")
    credential: str = Field(description="`token`, `service`, `session`, `link`, `operation`, or `platform`: none.")
    token_id: str
    roles: list[str]
    address: str | None = Field(description="From where, as far as it can be believed.")
    agent: str | None
    operation: str
    resource: str
    outcome: Outcome
    request_id: str
    reason: str | None
    before: JsonValue
    after: JsonValue
    detail: JsonValue
    seq: int | None = Field(description="Its place in the tenant's chain; null: not sealed yet, which takes a second.")
    epoch: UUID | None
    hash: str | None


class AuditPage(BaseModel):
    """A page of events; `filter` is what was in force."""

    items: list[AuditEventOut]
    next: str | None
    filter: str


@router.get("/v1/tenants/{tenant}/audit")
async def list_audit(
    *,
    request: Request,
    access: Auditor,
    filter: FilterText = None,  # noqa: A002  # the parameter's name
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> AuditPage:
    """List who changed what, the newest first. A filter that leaves something to check looks back 90 days."""
    return await _page(request, access.database, access.tenant_id, filter or "", limit=limit, cursor=cursor)


@router.get("/v1/tenants/{tenant}/audit/events/{event}")
async def get_audit_event(*, event: EventId, access: Auditor) -> AuditEventOut:
    """Read one event."""
    return _out(await service.get_event(access.database, tenant_id=access.tenant_id, event_id=event))


@router.get("/v1/audit")
async def list_platform_audit(
    *,
    request: Request,
    access: Platform,
    filter: FilterText = None,  # noqa: A002  # the parameter's name
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> AuditPage:
    """List who changed what of the platform, the newest first. Needs the role platform."""
    return await _page(request, access.plane.database, PLATFORM, filter or "", limit=limit, cursor=cursor)


@router.get("/v1/audit/events/{event}")
async def get_platform_audit_event(*, event: EventId, access: Platform) -> AuditEventOut:
    """Read one event of the platform. Needs the role platform."""
    return _out(await service.get_event(access.plane.database, tenant_id=PLATFORM, event_id=event))


async def _page(
    request: Request, db: Database, tenant_id: UUID, text: str, *, limit: int, cursor: str | None
) -> AuditPage:
    before = read_id(cursor, of=_LIST, default=service.LAST_ID)
    found, meant = await service.list_events(db, tenant_id=tenant_id, text=text, before=before, limit=limit + 1)
    following = next_page(
        request, found, limit=limit, of=_LIST, key=lambda event: str(event.event_id), filter=meant or None
    )
    return AuditPage(items=[_out(event) for event in found[:limit]], next=following, filter=meant)


def _out(event: EventRow) -> AuditEventOut:
    said: dict[str, Any] = service.parse_record(event.record)
    at = datetime.fromisoformat(said.pop("at"))
    return AuditEventOut(
        **said, at=at, seq=event.seq, epoch=event.epoch, hash=None if event.hash is None else event.hash.hex()
    )
