"""What the watch reads."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A run that may have to be told of."""

    tenant_id: UUID
    run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """An attempt that has run for far longer than such runs take; `patience` is how long it may report nothing new."""

    tenant_id: UUID
    run_id: UUID
    attempt: int
    patience: timedelta
    since: datetime
    progress: str
