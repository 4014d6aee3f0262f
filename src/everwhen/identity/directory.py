"""What the database knows of whoever knocks: asked by the edge, before it is known which tenant a request is for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.http.principal import Membership, Principal
from everwhen.http.revocations import News
from everwhen.http.roles import Role
from everwhen.identity import store
from everwhen.identity.model import FoundSession, FoundToken
from everwhen.postgres.pool import Database

MOST_MEMBERSHIPS: Final = 500
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDirectory:
    """The directory of one installation."""

    database: Database
    session_idle: timedelta = timedelta(minutes=30)

    async def find_service_token(self, secret_hash: bytes) -> Principal | None:
        """Return who a live service token stands for."""
        async with self.database.system() as conn:
            found = await store.find_service_token(conn, secret_hash=secret_hash, now=conn.now)
        return None if found is None else _service(found)

    async def find_dead_token(self, secret_hash: bytes) -> Principal | None:
        """Return who a service token stood for that has expired or was revoked."""
        async with self.database.system() as conn:
            found = await store.find_dead_token(conn, secret_hash=secret_hash, now=conn.now)
        return None if found is None else _service(found)

    async def find_session(self, secret_hash: bytes) -> Principal | None:
        """Return who a live session is of; a person's memberships are read anew."""
        async with self.database.system() as conn:
            idle_since = conn.now - self.session_idle
            found = await store.find_session(conn, secret_hash=secret_hash, now=conn.now, idle_since=idle_since)
        if found is None:
            return None
        stored: dict[str, Any] = json.loads(found.principal)
        members = await self.find_memberships(stored["subject"]) if stored["has_memberships"] else None
        return _session(found, stored, members)

    async def find_memberships(self, subject: str) -> Mapping[str, Membership]:
        """Return where this person is a member, by the tenants' names."""
        async with self.database.system() as conn:
            found = await store.find_memberships(conn, subject=subject, limit=MOST_MEMBERSHIPS)
        return {
            each.tenant: Membership(tenant_id=each.tenant_id, tenant=each.tenant, roles=known_roles(each.roles))
            for each in found
        }

    async def read_revocations(self, since: datetime | None) -> News:
        """Return what was revoked since then."""
        async with self.database.system() as conn:
            entries = await store.read_revocations(conn, since=since or _BEGINNING, now=conn.now)
            return News(entries=entries, now=conn.now)


def known_roles(names: list[str]) -> frozenset[Role]:
    """Return the roles that this version knows; a newer one may have stored others, which allow nothing here."""
    return frozenset(Role(name) for name in names if name in set(Role))


def stored_principal(principal: Principal) -> str:
    """Return what a session keeps of the principal that it was exchanged for."""
    return json.dumps({
        "subject": principal.subject,
        "tenant_id": None if principal.tenant_id is None else str(principal.tenant_id),
        "roles": sorted(principal.roles),
        "has_memberships": principal.memberships is not None,
        "token_id": principal.token_id,
        "issued_at": None if principal.issued_at is None else principal.issued_at.isoformat(),
    })  # fmt: skip


def _service(found: FoundToken) -> Principal:
    return Principal(
        subject=f"token:{found.name}",
        tenant_id=found.tenant_id,
        roles=known_roles(found.roles),
        queues=None if found.queues is None else frozenset(found.queues),
        tasks=None if found.tasks is None else frozenset(found.tasks),
        kind="service",
        token_id=str(found.token_id),
        issued_at=found.issued_at,
        expires_at=found.expires_at,
    )


def _session(found: FoundSession, stored: dict[str, Any], members: Mapping[str, Membership] | None) -> Principal:
    return Principal(
        subject=stored["subject"],
        tenant_id=None if stored["tenant_id"] is None else UUID(stored["tenant_id"]),
        roles=known_roles(stored["roles"]),
        memberships=members,
        kind="session",
        token_id=stored["token_id"],
        session_id=found.session_id,
        issued_at=None if stored["issued_at"] is None else datetime.fromisoformat(stored["issued_at"]),
        expires_at=found.expires_at,
    )
