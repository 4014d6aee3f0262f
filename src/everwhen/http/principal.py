"""Who a request is from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from everwhen.http.roles import Role

Kind = Literal["token", "service", "session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A person in one tenant."""

    tenant_id: UUID
    tenant: str
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who a request is from, and what the credential says about it.

    Without a tenant it is the platform's, or a person's whose rights are `memberships`, by the tenants' names; None: it
    has none. `queues` and `tasks` None mean every one of the tenant.
    """

    subject: str
    tenant_id: UUID | None
    roles: frozenset[Role]
    queues: frozenset[str] | None = None
    tasks: frozenset[str] | None = None
    memberships: Mapping[str, Membership] | None = None
    kind: Kind = "token"
    token_id: str = ""
    session_id: UUID | None = None
    issued_at: datetime | None = field(default=None, compare=False)
    expires_at: datetime | None = field(default=None, compare=False)
