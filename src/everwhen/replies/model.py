"""A reply: an answer that is kept under the caller's key, to be given again."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A request under a key. Keys of other callers and of other operations are other keys."""

    principal: str
    operation: str
    key: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer."""

    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenKey:
    """Whether nobody else holds the key now, and what is kept under it (None: nothing)."""

    is_free: bool
    fingerprint: bytes | None
    status: int | None
    headers: str | None
    body: bytes | None
