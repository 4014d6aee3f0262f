"""Calendars over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from everwhen.calendars import service
from everwhen.calendars.model import CalendarRow
from everwhen.calendars.wire import (
    CalendarIn,
    CalendarItemOut,
    CalendarOut,
    CalendarVersionIn,
    DefinitionOut,
    VersionOut,
    YearOut,
    calendar_out,
    day_out,
    draft_of,
    item_out,
    version_out,
)
from everwhen.core.calendars import FIRST_YEAR, LAST_YEAR
from everwhen.http.access import NAME_PATTERN, Editor, Reader
from everwhen.http.bodies import ControlRoute
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

router = APIRouter(route_class=ControlRoute, tags=["calendars"])

CalendarName = Annotated[str, Path(pattern=NAME_PATTERN, description="The calendar's name.")]
Where = Annotated[str, filter_query(service.CALENDARS)]
Version = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of the version.")]
Year = Annotated[int, Path(ge=FIRST_YEAR, le=LAST_YEAR, description="The year.")]

_LIST = "calendars"
_VERSIONS = "calendar-versions"


_REPLACED: dict[int | str, dict[str, Any]] = {
    201: {"model": CalendarOut, "description": "There was none, and it was made"},
    409: {"description": "Too many versions in force"},
}


@router.post("/v1/tenants/{tenant}/calendars", status_code=201, responses={409: {"description": "The name is taken"}})
async def create_calendar(*, tenant: str, body: CalendarIn, access: Editor, response: Response) -> CalendarOut:
    """Make a calendar."""
    draft = draft_of(body, by=access.principal.subject)
    made = await service.create_calendar(access.database, tenant_id=access.tenant_id, name=body.name, draft=draft)
    response.headers["Location"] = f"/v1/tenants/{tenant}/calendars/{made.name}"
    return _tagged(response, made)


@router.get("/v1/tenants/{tenant}/calendars")
async def list_calendars(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[CalendarItemOut]:
    """List calendars by name."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_calendars(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_LIST, out=item_out)


@router.get("/v1/tenants/{tenant}/calendars/{name}")
async def get_calendar(*, name: CalendarName, access: Reader, response: Response) -> CalendarOut:
    """Read a calendar with its latest version."""
    return _tagged(response, await service.get_calendar(access.database, tenant_id=access.tenant_id, name=name))


@router.put("/v1/tenants/{tenant}/calendars/{name}", responses=_REPLACED)
async def replace_calendar(
    *, name: CalendarName, body: CalendarVersionIn, access: Editor, expected: Put, response: Response
) -> CalendarOut:
    """Write the next version, unless it says what the latest one says; or, with `If-None-Match: *`, the first.

    Schedules that use it are planned anew.
    """
    key: dict[str, Any] = {
        "tenant_id": access.tenant_id,
        "name": name,
        "draft": draft_of(body, by=access.principal.subject),
    }
    if expected.absent:
        response.status_code = 201
        return _tagged(response, await service.put_new_calendar(access.database, **key))
    return _tagged(response, await service.replace_calendar(access.database, **key, expected=expected))


@router.delete(
    "/v1/tenants/{tenant}/calendars/{name}", status_code=204, responses={409: {"description": "A schedule uses it"}}
)
async def delete_calendar(*, name: CalendarName, access: Editor, expected: Change) -> None:
    """Delete a calendar that no schedule uses."""
    await service.delete_calendar(access.database, tenant_id=access.tenant_id, name=name, expected=expected)


@router.get("/v1/tenants/{tenant}/calendars/{name}/versions")
async def list_versions(
    *, request: Request, name: CalendarName, access: Reader, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[VersionOut]:
    """List versions, oldest first, with who wrote them and why."""
    after = read_number(cursor, of=_VERSIONS)
    found = await service.list_versions(
        access.database, tenant_id=access.tenant_id, name=name, after=after, limit=limit + 1
    )
    following = next_page(request, found, limit=limit, of=_VERSIONS, key=lambda version: str(version.version))
    return Page(items=[version_out(version) for version in found[:limit]], next=following)


@router.get("/v1/tenants/{tenant}/calendars/{name}/versions/{version}")
async def get_version(*, name: CalendarName, version: Version, access: Reader) -> DefinitionOut:
    """Read what a version says."""
    definition = await service.get_definition(access.database, tenant_id=access.tenant_id, name=name, version=version)
    return DefinitionOut(version=version, definition=definition)


@router.get("/v1/tenants/{tenant}/calendars/{name}/years/{year}")
async def get_year(*, name: CalendarName, year: Year, access: Reader) -> YearOut:
    """Show each day of a year."""
    found = await service.year_of(access.database, tenant_id=access.tenant_id, name=name, year=year)
    open_days = sum(bool(state.hours) for _, state in found)
    return YearOut(year=year, open_days=open_days, days=[day_out(day, state) for day, state in found])


def _tagged(response: Response, row: CalendarRow) -> CalendarOut:
    tag(response, row.version)
    return calendar_out(row)
