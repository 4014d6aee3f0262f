"""Receives payloads: a stream of unknown length becomes pieces in the depot, and its digest is known when it ends.

    arriving ──the last byte, and a transaction──> kept ──deleted──> doomed ──removed, twice──> (no row)
        └──aborted, or held no longer──────────────────────────────────^

Memory: one piece for each upload under way, and so many uploads at once that a process lets in. Disk: what a tenant has
uploads under way for is bounded by their number and by the most bytes of each; what is kept, by its quota.

Crash points, each harmless:

* Before the first byte: the row of the object says that something may come. Its hold runs out, the porter removes
  nothing, and the row goes.
* Between two bytes, by kill -9 or a lost connection: as above, and the porter removes the pieces.
* All bytes are there, and the transaction that makes a payload of them does not commit: as above.
* It commits, and the answer is lost: the same upload again finds the payload there, and its own object is doomed.

A writer that was stopped for long and goes on may write a piece after the porter was there. It holds its object only
until an instant; before each piece it renews the hold, and stops when that is refused. A piece that was under way at
that moment is found by the porter's second visit.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import psycopg

from everwhen import clock, failpoints
from everwhen.core.payloads import digest_of
from everwhen.core.quotas import Limit
from everwhen.errors import EverwhenError, InvalidInput, QuotaUsedUp, TooLarge, Unavailable
from everwhen.limits import quotas
from everwhen.payloads import store
from everwhen.payloads.depot import PIECE_BYTES, Depot
from everwhen.payloads.model import Staged
from everwhen.postgres.pool import Connection, Database

HOLD: Final = timedelta(minutes=2)
"""How long an object is its writer's without a word from it."""

RENEW_SECONDS: Final = 20.0
UPLOAD_SECONDS: Final = 3_600.0
MOST_ARRIVING: Final = 8
"""How many uploads of one tenant may be under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadLimits:
    """Bytes of one payload and of a tenant's payloads together, and how many uploads a process lets in at once."""

    payload_bytes: int = 256 * 1024 * 1024
    tenant_bytes: int = 10 * 1024**3
    uploads: int = 16
    piece_bytes: int = PIECE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What a client says ahead of its bytes: who it is, how many they are and which digest they have, if it does."""

    by: str
    length: int | None = None
    digest: str | None = None


class Receiver:
    """The one way in."""

    def __init__(self, database: Database, depot: Depot, limits: PayloadLimits) -> None:
        self._database = database
        self._depot = depot
        self._limits = limits
        self._under_way = 0

    async def receive(self, tenant_id: UUID, chunks: AsyncIterator[bytes], announced: Announced) -> Staged:
        """Store what arrives, and return what it was; the caller admits it, or abandons it.

        Raises TooLarge at the limit, whatever was announced; InvalidInput when it is not what was announced; Conflict
        when the quota is used up or too many uploads are under way; Unavailable.
        """
        self._refuse_length(announced.length)
        with self._place():
            object_id = await self._open(tenant_id, announced)
            async with self._abandoned_on_failure(tenant_id, object_id), asyncio.timeout(UPLOAD_SECONDS):
                return await self._write(tenant_id, object_id, chunks, announced)

    @asynccontextmanager
    async def arrivals(self, tenant_id: UUID) -> AsyncGenerator["Arrivals"]:
        """Receive in a block: what it has not admitted when it ends, however it ends, is abandoned."""
        arrivals = Arrivals(self, tenant_id)
        try:
            yield arrivals
        finally:
            for object_id in arrivals.object_ids:
                await self.abandon(tenant_id, object_id)

    async def abandon(self, tenant_id: UUID, object_id: UUID) -> None:
        """Leave an object to the porter, unless it was kept. Without the database that happens by itself, later."""
        with contextlib.suppress(psycopg.Error, EverwhenError, OSError):
            async with self._database.tenant(tenant_id) as conn:
                await store.abandon_object(conn, tenant_id=tenant_id, object_id=object_id, now=conn.now)

    @asynccontextmanager
    async def _abandoned_on_failure(self, tenant_id: UUID, object_id: UUID) -> AsyncGenerator[None]:
        try:
            yield
        except TimeoutError as error:
            await self.abandon(tenant_id, object_id)
            raise InvalidInput("The upload took too long.", code="payload.too_slow") from error
        except BaseException:
            await self.abandon(tenant_id, object_id)
            raise

    async def _open(self, tenant_id: UUID, announced: Announced) -> UUID:
        async with self._database.tenant(tenant_id) as conn:
            await store.ensure_usage(conn, tenant_id=tenant_id)
            usage = await store.lock_usage(conn, tenant_id=tenant_id)
            most = await quota_of(conn, tenant_id, self._limits)
            if usage.size_bytes + (announced.length or 0) > most:
                raise quota_used_up(most, used=usage.size_bytes)
            if await store.count_arriving(conn, tenant_id=tenant_id) >= MOST_ARRIVING:
                detail = f"{MOST_ARRIVING} uploads of this tenant are under way; try again when one has ended."
                raise Unavailable(detail, code="payload.busy")
            object_id = clock.new_id(conn.now)
            await store.insert_object(
                conn, tenant_id=tenant_id, object_id=object_id, by=announced.by, now=conn.now, until=conn.now + HOLD
            )
            return object_id

    async def _write(
        self, tenant_id: UUID, object_id: UUID, chunks: AsyncIterator[bytes], announced: Announced
    ) -> Staged:
        """Cut the stream into pieces. What has arrived of a piece is all that is kept in memory."""
        sha256, size, pieces, piece = hashlib.sha256(), 0, 0, bytearray()
        most = self._limits.piece_bytes
        hold = _Hold(self._database, tenant_id, object_id)
        async for chunk in chunks:
            size += len(chunk)
            self._refuse_length(size)
            sha256.update(chunk)
            piece += chunk
            await hold.renew_in_time()
            while len(piece) >= most:
                await self._depot.put(tenant_id, object_id, pieces, bytes(piece[:most]))
                failpoints.hit("upload.after_piece")
                pieces += 1
                del piece[:most]
        if piece:
            await self._depot.put(tenant_id, object_id, pieces, bytes(piece))
            pieces += 1
        digest = digest_of(sha256.hexdigest())
        _refuse_otherwise(announced, size=size, digest=digest)
        await hold.renew()
        return Staged(object_id=object_id, digest=digest, size_bytes=size, pieces=pieces)

    def _refuse_length(self, length: int | None) -> None:
        if length is not None and length > self._limits.payload_bytes:
            raise TooLarge(f"A payload has at most {self._limits.payload_bytes} bytes.", code="payload.too_large")

    @contextlib.contextmanager
    def _place(self) -> Generator[None]:
        if self._under_way >= self._limits.uploads:
            raise Unavailable("Too many uploads are under way on this server; try again.", code="payload.busy")
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1


class Arrivals:
    """What a block has received."""

    def __init__(self, receiver: Receiver, tenant_id: UUID) -> None:
        self._receiver = receiver
        self._tenant_id = tenant_id
        self.object_ids: list[UUID] = []

    async def receive(self, chunks: AsyncIterator[bytes], announced: Announced) -> Staged:
        """Do as Receiver.receive does."""
        staged = await self._receiver.receive(self._tenant_id, chunks, announced)
        self.object_ids.append(staged.object_id)
        return staged


class _Hold:
    """A writer's hold on its object, renewed while it writes."""

    def __init__(self, database: Database, tenant_id: UUID, object_id: UUID) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._object_id = object_id
        self._renewed = asyncio.get_running_loop().time()

    async def renew_in_time(self) -> None:
        """Renew it when it is time to; raise Unavailable when it is lost."""
        if asyncio.get_running_loop().time() >= self._renewed + RENEW_SECONDS:
            await self.renew()

    async def renew(self) -> None:
        """Renew it; raise Unavailable when it is lost."""
        self._renewed = asyncio.get_running_loop().time()
        async with self._database.tenant(self._tenant_id) as conn:
            held = await store.hold_object(
                conn, tenant_id=self._tenant_id, object_id=self._object_id, until=conn.now + HOLD
            )
        if not held:
            raise hold_lost()


async def quota_of(conn: Connection, tenant_id: UUID, limits: PayloadLimits) -> int:
    """Return how many bytes the tenant's payloads may take together."""
    return (await quotas.read(conn, tenant_id=tenant_id)).of(Limit.PAYLOAD_BYTES, usual=limits.tenant_bytes)


def quota_used_up(most: int, *, used: int) -> QuotaUsedUp:
    """Return what is answered when a payload does not fit."""
    detail = f"The tenant's payloads may take {most:,} bytes together: delete what is not needed any more."
    return QuotaUsedUp(detail, code="quota.payload_bytes", told={"limit": most, "used": used})


def hold_lost() -> Unavailable:
    """Return what is answered to a writer that was away for too long."""
    return Unavailable("The upload stood still for too long and was given up; send it again.", code="payload.given_up")


def _refuse_otherwise(announced: Announced, *, size: int, digest: str) -> None:
    if announced.length is not None and announced.length != size:
        detail = f"{size} bytes arrived, {announced.length} were announced."
        raise InvalidInput.at("header:Content-Length", detail, code="payload.length")
    if announced.digest is not None and announced.digest != digest:
        raise InvalidInput.at("query:digest", f"What arrived has the digest {digest}.", code="payload.digest")
