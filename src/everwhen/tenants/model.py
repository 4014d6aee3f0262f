"""A tenant: the unit of isolation, limits and fairness."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Its name is unique over the installation and never changes; its id is in every key."""

    id: UUID
    name: str
    created_at: datetime
