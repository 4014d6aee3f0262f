"""What a check finds."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that breaks a promise."""

    tenant_id: UUID
    subject: str
    detail: str
