"""Sealing and opening within a transaction of the caller's, and wrapping the tenants' keys anew.

A tenant's key is made with its first secret. A secret's bytes are the caller's to keep, beside what they belong to; its
name says what it is and where (`channel:<id>:password`), and its version rises whenever it is replaced.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from everwhen.errors import Unavailable
from everwhen.postgres.pool import Connection, Database
from everwhen.sealing import store
from everwhen.sealing.model import WrappedCount
from everwhen.sealing.ring import KeyRing, TenantKey, UnknownSealingKey, new_tenant_key, unwrap, wrap

BATCH: Final = 200
_BEFORE_ALL: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals what tenants entrust to the server. Without a ring it cannot, and says so."""

    ring: KeyRing | None

    async def seal(
        self, conn: Connection, tenant_id: UUID, secrets: Mapping[str, str], *, version: int = 1
    ) -> dict[str, bytes]:
        """Return each secret sealed, by its name; raise Unavailable when the installation has no sealing key."""
        if not secrets:
            return {}
        key = await self._find_key(conn, tenant_id) or await self._make_key(conn, tenant_id)
        return {name: key.seal(text, name=name, version=version) for name, text in secrets.items()}

    async def open(
        self, conn: Connection, tenant_id: UUID, sealed: Mapping[str, bytes], *, version: int = 1
    ) -> dict[str, str]:
        """Return each secret, by its name.

        Raises UnknownSealingKey, SealBroken, or Unavailable when the installation has no sealing key. Let what is
        returned go as soon as it is used.
        """
        if not sealed:
            return {}
        key = await self._find_key(conn, tenant_id)
        if key is None:
            raise UnknownSealingKey("The tenant's key is gone, and with it what it sealed; enter the secrets again.")
        return {name: key.open(held, name=name, version=version) for name, held in sealed.items()}

    async def _find_key(self, conn: Connection, tenant_id: UUID) -> TenantKey | None:
        ring = self._needed()
        found = await store.find_tenant_key(conn, tenant_id=tenant_id)
        if found is None:
            return None
        return unwrap(ring, tenant_id=tenant_id, wrapped=found.wrapped, wrapped_by=found.wrapped_by)

    async def _make_key(self, conn: Connection, tenant_id: UUID) -> TenantKey:
        ring, made = self._needed(), new_tenant_key(tenant_id)
        inserted = await store.insert_tenant_key(
            conn, tenant_id=tenant_id, wrapped=wrap(ring, made), wrapped_by=ring.first, now=conn.now
        )
        if inserted is not None:
            return made
        others = await self._find_key(conn, tenant_id)  # somebody else was first
        assert others is not None
        return others

    def _needed(self) -> KeyRing:
        if self.ring is None:
            raise Unavailable(
                "This installation keeps no secrets: its operator has yet to set EVERWHEN_SEALING_KEYS.",
                code="sealing.no_key",
            )
        return self.ring


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """How many tenants' keys were wrapped anew, and how many cannot be, by the name of the key that is missing."""

    rewrapped: int
    stuck: Mapping[str, int]


OnRewrapped = Callable[[Connection, int], Awaitable[None]]
"""Called in the transaction that wraps keys anew: (connection, how many)."""


async def rotate(
    db: Database, ring: KeyRing, *, batch: int = BATCH, on_rewrapped: OnRewrapped | None = None
) -> Rotated:
    """Wrap every tenant's key with the first key of the ring, a batch a transaction; safe in any number of copies.

    What another key wraps that is not in the ring is left as it is, and counted.
    """
    rewrapped, stuck, after = 0, dict[str, int](), _BEFORE_ALL
    while True:
        async with db.system() as conn:
            taken = await store.take_keys_of_others(conn, first=ring.first, after=after, batch=batch)
            if not taken:
                return Rotated(rewrapped=rewrapped, stuck=stuck)
            after = taken[-1].tenant_id
            known = [held for held in taken if held.wrapped_by in ring.keys]
            opened = [
                unwrap(ring, tenant_id=held.tenant_id, wrapped=held.wrapped, wrapped_by=held.wrapped_by)
                for held in known
            ]
            done = await store.rewrap_keys(
                conn,
                tenant_ids=[held.tenant_id for held in known],
                wrapped=[wrap(ring, key) for key in opened],
                wrapped_by=[held.wrapped_by for held in known],
                first=ring.first,
                now=conn.now,
            )
            if done and on_rewrapped is not None:
                await on_rewrapped(conn, len(done))
            rewrapped += len(done)
        for held in taken:
            if held.wrapped_by not in ring.keys:
                stuck[held.wrapped_by] = stuck.get(held.wrapped_by, 0) + 1


async def count_keys(db: Database) -> list[WrappedCount]:
    """How many tenants' keys each sealing key wraps."""
    async with db.system() as conn:
        return await store.count_by_sealing_key(conn)
