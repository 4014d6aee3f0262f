"""A calendar as it is stored: versions that are written once. What they mean is in `core.calendars`."""

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from everwhen.core.calendars import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarDraft:
    """What a caller decides about a version, and why. Without a date it holds for all dates.

    `owner` is the calendar's own; where `has_owner` is not set, a calendar that is there keeps its.
    """

    definition: Definition
    effective_from: date | None = None
    changed_by: str
    reason: str | None = None
    owner: str | None = None
    has_owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarRow:
    """A calendar with its latest version. `definition` is JSON text."""

    name: str
    version: int
    owner: str | None
    effective_from: date | None
    definition: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarItem:
    """A calendar without its definition, as lists show it."""

    name: str
    version: int
    owner: str | None
    effective_from: date | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionItem:
    """A version without its definition. One that is not in force decides about no day."""

    version: int
    effective_from: date | None
    is_in_force: bool
    changed_by: str
    reason: str | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarKey:
    """Which calendar, at which version: what it says never changes."""

    tenant_id: UUID
    name: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InForceRow:
    """A version that decides about some day. `definition` is JSON text."""

    tenant_id: UUID
    calendar: str
    version: int
    effective_from: date | None
    definition: str
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarChange:
    """A changed calendar, and up to which user its schedules have been planned anew.

    `version` was the latest before it `changed_at`; None in what an older server has written.
    """

    tenant_id: UUID
    calendar: str
    after_uid: UUID
    version: int | None
    changed_at: datetime | None
