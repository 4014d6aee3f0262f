"""A payload: bytes that runs are given, too large for their input, by the digest of their content."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A payload of one tenant; `object_id` and `pieces` say where its bytes are.

    It stays until somebody deletes it, or, with a `look_at`, until nothing refers to it then or later.
    """

    digest: str
    object_id: UUID
    size_bytes: int
    pieces: int
    name: str | None
    media_type: str | None
    look_at: datetime | None
    created_by: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What has arrived whole, and is nobody's payload yet."""

    object_id: UUID
    digest: str
    size_bytes: int
    pieces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What its uploader says about a payload. One that is not `lasting` goes when nothing refers to it any more."""

    by: str
    name: str | None = None
    media_type: str | None = None
    lasting: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant's payloads take."""

    size_bytes: int
    payloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """An object whose pieces are to be removed."""

    tenant_id: UUID
    id: UUID
    doomed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """A payload that goes unless something refers to it."""

    tenant_id: UUID
    digest: str
