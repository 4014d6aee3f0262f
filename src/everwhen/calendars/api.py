"""Calendars over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

import json
from datetime import date
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field, JsonValue

from everwhen.calendars import service
from everwhen.calendars.model import CalendarDraft, CalendarItem, CalendarRow, VersionItem
from everwhen.core.calendar_json import hours_to_json, parse_date, parse_definition
from everwhen.core.calendars import CLOSED, FIRST_YEAR, LAST_YEAR, OPEN, DayState
from everwhen.http.access import NAME_PATTERN, Access, Editor, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Name, Sentence, Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, next_page, read_cursor, read_number
from everwhen.http.preconditions import Change, Put, tag

router = APIRouter(route_class=ControlRoute, tags=["calendars"])

CalendarName = Annotated[str, Path(pattern=NAME_PATTERN, description="The calendar's name.")]
Version = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of the version.")]
Year = Annotated[int, Path(ge=FIRST_YEAR, le=LAST_YEAR, description="The year.")]

_LIST = "calendars"
_VERSIONS = "calendar-versions"


class VersionIn(Wire):
    """A version of a calendar."""

    definition: dict[str, JsonValue] = Field(
        description="`week`: the weekdays that are open, or their hours; `days`: `date`, `until`, `hours`, `label`."
    )
    effective_from: Annotated[str, Field(max_length=10)] | None = Field(
        default=None, description="The first date that it is meant for; null: all dates."
    )
    reason: Sentence | None = Field(default=None, description="Why; kept with the version.")


class CalendarIn(VersionIn):
    """A calendar to make."""

    name: Name


class CalendarItemOut(BaseModel):
    """A calendar; `version` is the latest one."""

    name: str
    version: int
    effective_from: date | None
    created_at: Utc
    updated_at: Utc


class CalendarOut(CalendarItemOut):
    """A calendar with the definition of its latest version."""

    definition: dict[str, JsonValue]


class VersionOut(BaseModel):
    """A version; one that is not in force decides about no day any more."""

    version: int
    effective_from: date | None
    is_in_force: bool
    changed_by: str
    reason: str | None
    changed_at: Utc


class DefinitionOut(BaseModel):
    """What a version says."""

    version: int
    definition: dict[str, JsonValue]


class DayOut(BaseModel):
    """A day: `part` is open in some hours only."""

    date: date
    state: Literal["open", "closed", "part"]
    hours: JsonValue
    label: str
    version: int


class YearOut(BaseModel):
    """A year by the versions in force on each day."""

    year: int
    open_days: int
    days: list[DayOut]


_REPLACED: dict[int | str, dict[str, Any]] = {
    201: {"model": CalendarOut, "description": "There was none, and it was made"},
    409: {"description": "Too many versions in force"},
}


@router.post("/v1/tenants/{tenant}/calendars", status_code=201, responses={409: {"description": "The name is taken"}})
async def create_calendar(*, tenant: str, body: CalendarIn, access: Editor, response: Response) -> CalendarOut:
    """Make a calendar."""
    draft = _draft(access, body)
    made = await service.create_calendar(access.database, tenant_id=access.tenant_id, name=body.name, draft=draft)
    response.headers["Location"] = f"/v1/tenants/{tenant}/calendars/{made.name}"
    return _tagged(response, made)


@router.get("/v1/tenants/{tenant}/calendars")
async def list_calendars(
    *, request: Request, access: Reader, limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[CalendarItemOut]:
    """List calendars by name."""
    after = read_cursor(cursor, of=_LIST) or ""
    found = await service.list_calendars(access.database, tenant_id=access.tenant_id, after=after, limit=limit + 1)
    following = next_page(request, found, limit=limit, of=_LIST, key=lambda calendar: calendar.name)
    return Page(items=[_item_out(calendar) for calendar in found[:limit]], next=following)


@router.get("/v1/tenants/{tenant}/calendars/{name}")
async def get_calendar(*, name: CalendarName, access: Reader, response: Response) -> CalendarOut:
    """Read a calendar with its latest version."""
    return _tagged(response, await service.get_calendar(access.database, tenant_id=access.tenant_id, name=name))


@router.put("/v1/tenants/{tenant}/calendars/{name}", responses=_REPLACED)
async def replace_calendar(
    *, name: CalendarName, body: VersionIn, access: Editor, expected: Put, response: Response
) -> CalendarOut:
    """Write the next version, or, with `If-None-Match: *`, the first; schedules that use it are planned anew."""
    key: dict[str, Any] = {"tenant_id": access.tenant_id, "name": name, "draft": _draft(access, body)}
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
    return Page(items=[_version_out(version) for version in found[:limit]], next=following)


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
    return YearOut(year=year, open_days=open_days, days=[_day_out(day, state) for day, state in found])


def _draft(access: Access, body: VersionIn) -> CalendarDraft:
    given = body.effective_from
    return CalendarDraft(
        definition=parse_definition(body.definition),
        effective_from=None if given is None else parse_date(given, "effective_from"),
        changed_by=access.principal.subject,
        reason=body.reason,
    )


def _tagged(response: Response, row: CalendarRow) -> CalendarOut:
    tag(response, row.version)
    return _out(row)


def _out(row: CalendarRow) -> CalendarOut:
    definition: dict[str, Any] = json.loads(row.definition)
    return CalendarOut(
        name=row.name,
        version=row.version,
        effective_from=row.effective_from,
        definition=definition,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _item_out(item: CalendarItem) -> CalendarItemOut:
    return CalendarItemOut(
        name=item.name,
        version=item.version,
        effective_from=item.effective_from,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _version_out(item: VersionItem) -> VersionOut:
    return VersionOut(
        version=item.version,
        effective_from=item.effective_from,
        is_in_force=item.is_in_force,
        changed_by=item.changed_by,
        reason=item.reason,
        changed_at=item.changed_at,
    )


def _day_out(day: date, state: DayState) -> DayOut:
    kind: Literal["open", "closed", "part"] = (
        "open" if state.hours == OPEN else "closed" if state.hours == CLOSED else "part"
    )
    hours: Any = hours_to_json(state.hours)
    return DayOut(date=day, state=kind, hours=hours, label=state.label, version=state.version)
