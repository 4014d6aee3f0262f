"""The log of an attempt: what it printed, in pieces, in the order in which they were sent."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """Bytes of an attempt's log, of all logs of a tenant that has no limit of its own, and of one piece."""

    attempt_bytes: int = 16 * 1024 * 1024
    tenant_bytes: int = 10 * 1024**3
    piece_bytes: int = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """A log as it is written, locked."""

    object_id: UUID
    size_bytes: int
    pieces: int
    slots: int
    is_capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """How an attempt's log stands; `object_id` None: it has printed nothing. Open: the attempt runs, more may come."""

    attempt: int
    is_open: bool
    object_id: UUID | None
    size_bytes: int
    is_capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Where a piece is."""

    starts_at: int
    size_bytes: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What a log is after a piece of it has come; `pieces` is the number that the next one has."""

    pieces: int
    size_bytes: int
    is_capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """An object whose log is gone."""

    tenant_id: UUID
    object_id: UUID
