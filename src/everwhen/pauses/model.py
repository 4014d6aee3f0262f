"""A pause: a queue of a tenant, or the whole tenant, from which nothing is handed out."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

WHOLE_TENANT: Final = ""
"""What stands in the place of a queue's name when all of a tenant's queues are paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause in force. `queue` is WHOLE_TENANT for all queues; without `paused_until` somebody has to end it."""

    queue: str
    reason: str
    paused_by: str
    paused_at: datetime
    paused_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseChange:
    """Who paused or resumed what, and why: one row for each, for ever."""

    change_id: int
    queue: str
    action: str
    changed_by: str
    reason: str | None
    paused_until: datetime | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPause:
    """A pause whose time has come."""

    tenant_id: UUID
    queue: str
    paused_until: datetime
