"""A tenant's templates as their rows are."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateItem:
    """A template without its source."""

    kind: str
    part: str
    bytes: int
    updated_by: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRow:
    """A template."""

    kind: str
    part: str
    source: str
    revision: int
    updated_by: str
    updated_at: datetime
