"""What calendars look like on the wire, in both directions."""

import json
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, JsonValue

from everwhen.calendars.model import CalendarDraft, CalendarItem, CalendarRow, VersionItem
from everwhen.core.calendar_json import hours_to_json, parse_date, parse_definition
from everwhen.core.calendars import CLOSED, OPEN, DayState
from everwhen.http.fields import Name, Owner, Sentence, Utc, Wire


class CalendarFields(Wire):
    """What a calendar is, but for its name."""

    definition: dict[str, JsonValue] = Field(
        description="`week`: the weekdays that are open, or their hours; `days`: `date`, `until`, `hours`, `label`."
    )
    effective_from: Annotated[str, Field(max_length=10)] | None = Field(
        default=None, description="The first date that it is meant for; null: all dates."
    )


class CalendarVersionIn(CalendarFields):
    """A version of a calendar."""

    owner: Owner | None = Field(default=None, description="Who declares the calendar; left out, that stays.")
    reason: Sentence | None = Field(default=None, description="Why; kept with the version.")


class CalendarIn(CalendarVersionIn):
    """A calendar to make."""

    name: Name


class CalendarItemOut(BaseModel):
    """A calendar; `version` is the latest one."""

    name: str
    version: int
    owner: str | None = Field(description="Who declares it; null: nobody, it was made by hand.")
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


def draft_of(body: CalendarFields, *, by: str) -> CalendarDraft:
    """Return the draft of a version; raise TriggerError."""
    given = body.effective_from
    said = body if isinstance(body, CalendarVersionIn) else None
    return CalendarDraft(
        definition=parse_definition(body.definition),
        effective_from=None if given is None else parse_date(given, "effective_from"),
        changed_by=by,
        reason=said and said.reason,
        owner=said and said.owner,
        has_owner="owner" in body.model_fields_set,
    )


def calendar_out(row: CalendarRow) -> CalendarOut:
    """Return a calendar as the wire has it."""
    definition: dict[str, Any] = json.loads(row.definition)
    return CalendarOut(
        name=row.name,
        version=row.version,
        owner=row.owner,
        effective_from=row.effective_from,
        definition=definition,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def item_out(item: CalendarItem) -> CalendarItemOut:
    """Return a calendar of a list as the wire has it."""
    return CalendarItemOut(
        name=item.name,
        version=item.version,
        owner=item.owner,
        effective_from=item.effective_from,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def version_out(item: VersionItem) -> VersionOut:
    """Return a version as the wire has it."""
    return VersionOut(
        version=item.version,
        effective_from=item.effective_from,
        is_in_force=item.is_in_force,
        changed_by=item.changed_by,
        reason=item.reason,
        changed_at=item.changed_at,
    )


def day_out(day: date, state: DayState) -> DayOut:
    """Return a day as the wire has it."""
    kind: Literal["open", "closed", "part"] = (
        "open" if state.hours == OPEN else "closed" if state.hours == CLOSED else "part"
    )
    hours: Any = hours_to_json(state.hours)
    return DayOut(date=day, state=kind, hours=hours, label=state.label, version=state.version)
