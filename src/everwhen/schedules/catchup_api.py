"""Catching up over HTTP: what it would come to, and how far it has come."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request

from everwhen.http.access import NAME_PATTERN, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.manners import reads
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, next_page, read_number
from everwhen.schedules import catching_up
from everwhen.schedules.wire_catchup import (
    ArrearsOut,
    CatchUpPreviewIn,
    CatchUpPreviewOut,
    arrears_out,
    preview_out,
    rule_of,
)

router = APIRouter(route_class=ControlRoute, tags=["schedules"])

ScheduleName = Annotated[str, Path(pattern=NAME_PATTERN, description="The schedule's name.")]

_NEWEST: Final = (1 << 63) - 1
_LIST: Final = "catch-up"


@router.get("/v1/tenants/{tenant}/schedules/{name}/catch-up")
async def list_catch_ups(
    *, request: Request, name: ScheduleName, access: Reader, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[ArrearsOut]:
    """List what a schedule has had to catch up on, the newest first, with how far it has come."""
    before = _NEWEST if cursor is None else read_number(cursor, of=_LIST)
    found = await catching_up.list_catch_ups(
        access.database, tenant_id=access.tenant_id, name=name, before=before, limit=limit + 1
    )
    following = next_page(request, found, limit=limit, of=_LIST, key=lambda row: str(row.arrears_id))
    return Page(items=[arrears_out(row) for row in found[:limit]], next=following)


@router.post(
    "/v1/tenants/{tenant}/schedules/{name}/catch-up/preview",
    responses={409: {"description": "It is about a pause, and there is none"}},
)
@reads
async def preview_catch_up(
    *, name: ScheduleName, access: Reader, body: CatchUpPreviewIn | None = None
) -> CatchUpPreviewOut:
    """Count what catching up would come to now, by the schedule's own rules or by another one; nothing is changed."""
    asked = body or CatchUpPreviewIn()
    found = await catching_up.preview_catch_up(
        access.database,
        tenant_id=access.tenant_id,
        name=name,
        cause=asked.cause,
        rule=None if asked.catch_up is None else rule_of(asked.catch_up),
        since=asked.since,
    )
    return preview_out(found)
