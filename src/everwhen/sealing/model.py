"""A tenant's key as it is kept."""

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedKey:
    """A tenant's key, wrapped by a sealing key of this name."""

    tenant_id: UUID
    wrapped: bytes = field(repr=False)
    wrapped_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedCount:
    """How many tenants' keys one sealing key wraps."""

    wrapped_by: str
    tenant_keys: int
