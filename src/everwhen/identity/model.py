"""Service tokens, members, revocations and sessions, as the database has them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class TokenState(StrEnum):
    """Whether a service token holds."""

    LIVE = "live"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceToken:
    """A token that a tenant has given to a program. Its secret is nowhere."""

    token_id: UUID
    name: str
    roles: list[str]
    queues: list[str] | None
    tasks: list[str] | None
    created_by: str
    created_at: datetime
    issued_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None

    def state(self, now: datetime) -> TokenState:
        """Say whether it holds."""
        if self.revoked_at is not None:
            return TokenState.REVOKED
        return TokenState.LIVE if self.expires_at > now else TokenState.EXPIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWish:
    """A service token to make."""

    name: str
    roles: list[str]
    queues: list[str] | None
    tasks: list[str] | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundToken:
    """Whose a service token is, and what it may be used for."""

    tenant_id: UUID
    token_id: UUID
    name: str
    roles: list[str]
    queues: list[str] | None
    tasks: list[str] | None
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A person in one tenant."""

    subject: str
    roles: list[str]
    revision: int
    added_by: str
    added_at: datetime
    changed_by: str
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMembership:
    """One of the tenants that a person is a member of."""

    tenant_id: UUID
    tenant: str
    roles: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """A token by its id, or a subject's tokens that were issued by then: they hold no longer."""

    kind: str
    value: str
    issued_until: datetime
    reason: str
    revoked_by: str
    revoked_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationWish:
    """What to revoke, by whom and why. `issued_until` None: up to now."""

    kind: str
    value: str
    reason: str
    by: str
    issued_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession:
    """A live session; `principal` is JSON text."""

    session_id: UUID
    principal: str
    created_at: datetime
    expires_at: datetime
