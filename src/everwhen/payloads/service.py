"""What can be done with payloads: put one in, look at them, read one, delete one.

A payload is one row for a tenant and a digest, whoever uploads it and how often. Rows are locked in this order: the
object, the payload, the tenant's count.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen import failpoints
from everwhen.core.filters import Moment, Vocabulary, Word, within
from everwhen.errors import Conflict, NotFound, Unavailable
from everwhen.lists import Listed, read_filter, walk
from everwhen.payloads import store
from everwhen.payloads.depot import Depot
from everwhen.payloads.model import Described, Payload, Staged, Usage
from everwhen.payloads.receiving import Announced, PayloadLimits, Receiver, hold_lost, quota_of, quota_used_up
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs

UNUSED: Final = timedelta(hours=1)
"""How long a payload that does not last may be there before something refers to it."""

PAYLOADS: Final = Vocabulary(fields={"name": Word(), "by": Word(), "created": Moment()}, short=within("created"))
"""What a filter of payloads says."""

MOST_NAMED: Final = 5
_ROUNDS: Final = 5

OnAdmitted = Callable[[Connection, Payload, bool], Awaitable[None]]
"""Called in the transaction that makes a payload, or finds it: (connection, payload, whether it is new)."""


async def nobody_hears(conn: Connection, payload: Payload, is_new: bool) -> None:  # noqa: FBT001  # as it is called
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The use-cases, on one database and one depot."""

    database: Database
    depot: Depot
    limits: PayloadLimits
    receiver: Receiver

    @classmethod
    def on(cls, database: Database, depot: Depot, limits: PayloadLimits | None = None) -> "Payloads":
        """Join the parts."""
        limits = limits or PayloadLimits()
        return cls(database=database, depot=depot, limits=limits, receiver=Receiver(database, depot, limits))

    async def upload(
        self,
        tenant_id: UUID,
        chunks: AsyncIterator[bytes],
        *,
        described: Described,
        length: int | None = None,
        digest: str | None = None,
        on_admitted: OnAdmitted = nobody_hears,
    ) -> tuple[Payload, bool]:
        """Make a payload of a stream; say whether it is new. See Receiver.receive for what it raises."""
        announced = Announced(by=described.by, length=length, digest=digest)
        async with self.receiver.arrivals(tenant_id) as arrivals:
            staged = await arrivals.receive(chunks, announced)
            return await self.admit_alone(tenant_id, staged, described, on_admitted=on_admitted)

    async def admit_alone(
        self, tenant_id: UUID, staged: Staged, described: Described, *, on_admitted: OnAdmitted = nobody_hears
    ) -> tuple[Payload, bool]:
        """Do as `admit` does, in a transaction of its own."""
        async with self.database.tenant(tenant_id) as conn:
            admitted = await self.admit(conn, tenant_id, staged, described)
            await on_admitted(conn, *admitted)
            failpoints.hit("upload.before_commit")
        failpoints.hit("upload.after_commit")
        return admitted

    async def admit(
        self, conn: Connection, tenant_id: UUID, staged: Staged, described: Described
    ) -> tuple[Payload, bool]:
        """Make a payload of what has arrived, in the caller's transaction; say whether it is new.

        When the transaction does not commit, the caller abandons the object. Raises Conflict when the quota is used up,
        and Unavailable when the upload was given up meanwhile.
        """
        if not await store.keep_object(conn, tenant_id=tenant_id, object_id=staged.object_id):
            raise hold_lost()
        for _ in range(_ROUNDS):
            made = await self._insert(conn, tenant_id, staged, described)
            if made is not None:
                await self._count_in(conn, tenant_id, made)
                return made, True
            known = await store.lock_payload(conn, tenant_id=tenant_id, digest=staged.digest)
            if known is None:
                continue  # it was deleted between the two statements
            await store.doom_object(conn, tenant_id=tenant_id, object_id=staged.object_id, now=conn.now)
            if described.lasting and known.look_at is not None:
                await store.lasts_from_now_on(conn, tenant_id=tenant_id, digest=staged.digest)
                known = replace(known, look_at=None)
            return known, False
        raise Unavailable("The payload comes and goes too fast; try again.", code="payload.busy")

    async def _insert(self, conn: Connection, tenant_id: UUID, staged: Staged, described: Described) -> Payload | None:
        return await store.insert_payload(
            conn,
            tenant_id=tenant_id,
            digest=staged.digest,
            object_id=staged.object_id,
            size_bytes=staged.size_bytes,
            pieces=staged.pieces,
            name=described.name,
            media_type=described.media_type,
            look_at=None if described.lasting else conn.now + UNUSED,
            by=described.by,
            now=conn.now,
        )

    async def _count_in(self, conn: Connection, tenant_id: UUID, made: Payload) -> None:
        most = await quota_of(conn, tenant_id, self.limits)
        if not await store.add_usage(conn, tenant_id=tenant_id, size_bytes=made.size_bytes, quota=most):
            used = await read_usage(conn, tenant_id=tenant_id)
            raise quota_used_up(most, used=used.size_bytes)

    async def get(self, tenant_id: UUID, digest: str) -> Payload:
        """Read what is known of a payload; raise NotFound."""
        async with self.database.tenant(tenant_id) as conn:
            found = await store.get_payload(conn, tenant_id=tenant_id, digest=digest)
        if found is None:
            raise unknown()
        return found

    async def list(self, tenant_id: UUID, *, after: str = "", limit: int, where: str = "") -> Listed[Payload]:
        """Return up to `limit` payloads after `after` that the filter `where` finds, by digest."""
        async with self.database.tenant(tenant_id) as conn:
            return await walk(
                lambda after, limit: store.list_payloads(conn, tenant_id=tenant_id, after=after, limit=limit),
                start=after,
                key=lambda row: row.digest,
                limit=limit,
                asked=read_filter(where, PAYLOADS, now=conn.now),
                values=lambda row: {"name": row.name, "by": row.created_by, "created": row.created_at},
            )

    async def usage(self, tenant_id: UUID) -> Usage:
        """Return what the tenant's payloads take."""
        async with self.database.tenant(tenant_id) as conn:
            return await read_usage(conn, tenant_id=tenant_id)

    async def content(self, tenant_id: UUID, payload: Payload) -> AsyncIterator[bytes]:
        """Return a payload's bytes, the first of them read already, so that a store that is away is found out now."""
        chunks = self.depot.read(tenant_id, payload.object_id, payload.pieces)
        first = await anext(chunks, b"")

        async def all_of_it() -> AsyncIterator[bytes]:
            yield first
            async for chunk in chunks:
                yield chunk

        return all_of_it()

    async def delete(self, tenant_id: UUID, digest: str) -> None:
        """Delete a payload; raise NotFound, and Conflict when a schedule or a run that may still start needs it."""
        async with self.database.tenant(tenant_id) as conn:
            payload = await store.lock_payload(conn, tenant_id=tenant_id, digest=digest)
            if payload is None:
                raise unknown()
            if user := await _who_needs(conn, tenant_id, digest):
                raise Conflict(f"The payload is needed by {user}.", code="payload.in_use")
            await remove(conn, tenant_id, payload)


async def read_usage(conn: Connection, *, tenant_id: UUID) -> Usage:
    """Return what the tenant's payloads take, in the caller's transaction."""
    return await store.read_usage(conn, tenant_id=tenant_id) or Usage(size_bytes=0, payloads=0)


async def remove_if_loose(conn: Connection, tenant_id: UUID, digest: str, *, now: datetime) -> bool:
    """Remove a payload that does not last, unless something refers to it: then look again later."""
    payload = await store.lock_payload(conn, tenant_id=tenant_id, digest=digest)
    if payload is None or payload.look_at is None or payload.look_at > now:
        return False
    if await _who_needs(conn, tenant_id, digest):
        await store.look_again(conn, tenant_id=tenant_id, digests=[digest], look_at=now + UNUSED)
        return False
    await remove(conn, tenant_id, payload)
    return True


async def remove(conn: Connection, tenant_id: UUID, payload: Payload) -> None:
    """Remove a payload that the caller has locked, and that nothing refers to."""
    await store.delete_payload(conn, tenant_id=tenant_id, digest=payload.digest)
    await store.doom_object(conn, tenant_id=tenant_id, object_id=payload.object_id, now=conn.now)
    await store.drop_usage(conn, tenant_id=tenant_id, size_bytes=payload.size_bytes)


def unknown() -> NotFound:
    """Return what is answered when there is no such payload, or it is somebody else's."""
    return NotFound("There is no payload of this digest.", code="payload.unknown")


async def _who_needs(conn: Connection, tenant_id: UUID, digest: str) -> str | None:
    """Name who refers to a payload that the caller has locked; None: nobody."""
    names = await store.find_users(conn, tenant_id=tenant_id, digest=digest, limit=MOST_NAMED)
    if names:
        return f"the schedule{'s' if len(names) > 1 else ''} {', '.join(names)}"
    run_id = await runs.find_in_need_of(conn, tenant_id=tenant_id, text=digest)
    return None if run_id is None else f"the run {run_id}"
