"""Logs of attempts: a worker sends what its attempt prints, in numbered pieces, and whoever may see payloads reads it.

A piece is taken in two transactions, with the depot between them, so that no connection waits for the depot:

    reserve   the lease is held, the piece is the next one, a slot of the object is given out
    put       the bytes go to that slot, to which nobody has written
    append    the lease is still held, the piece is still the next one: the log grows

So a piece is there once, whoever sends it again: of two copies at once one finds the number taken, and is answered that
all is well. A worker whose lease is lost changes nothing, not even when its bytes were under way.

Crash points, each harmless:

* After *reserve*, or between *put* and *append*: a slot that nothing refers to; it goes with the log's object.
* After *append*, the answer being lost: the same piece again finds that it is there.
* The sweep forgets a log and leaves its object to the porter in one transaction; the porter removes whatever lies
  there, and looks again later for what was under way.

A log ends by itself: at so many bytes, or when all logs of the tenant take what they may, a line says that it does, and
what comes after is taken and dropped; the run goes on. That second end is an event of the run as well. The tenant's
bytes are read before a piece is put and counted when it is appended: what is under way meanwhile (a piece of each
attempt at most) may lie above the limit.
"""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen import failpoints
from everwhen.core.log_cap import Cut, Shared, fitted
from everwhen.core.quotas import Limit
from everwhen.core.reasons import Reason
from everwhen.dispatch.service import held_attempt
from everwhen.errors import Conflict, InvalidInput, NotFound, TooLarge
from everwhen.limits import quotas
from everwhen.logs import store
from everwhen.logs.model import Appended, LogHead, LogLimits, LogRow
from everwhen.payloads.depot import Depot
from everwhen.payloads.objects import leave_to_porter, open_object
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.sweeping import Sweep

PIECES_AT_ONCE: Final = 64
MOST_PIECES_DROPPED: Final = 50_000
USUAL: Final = LogLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who writes: whoever holds a run by this token, at one of these queues (None: any)."""

    tenant_id: UUID
    run_id: UUID
    token: int
    queues: Collection[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    attempt: int
    slot: int
    data: bytes
    cut: Cut | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The use-cases, on one database and one depot."""

    database: Database
    depot: Depot
    limits: LogLimits = USUAL

    async def append(self, writer: Writer, piece: int, data: bytes) -> Appended:
        """Take a piece of an attempt's log, unless it is there already; return how the log stands.

        Raises InvalidInput for an empty piece, TooLarge, NotFound when the lease does not hold, Conflict when an
        earlier piece is missing, Unavailable.
        """
        if not data:
            raise InvalidInput("A piece of a log has at least one byte.", code="log.empty")
        if len(data) > self.limits.piece_bytes:
            raise TooLarge(f"A piece of a log has at most {self.limits.piece_bytes} bytes.", code="log.piece_too_large")
        object_id, found = await self._reserve(writer, piece, data)
        if isinstance(found, Appended):
            return found
        await self.depot.put(writer.tenant_id, object_id, found.slot, found.data)
        failpoints.hit("log.after_put")
        return await self._append(writer, piece, found)

    async def head(self, tenant_id: UUID, ref: str, attempt: int | None) -> LogHead:
        """Say how the log of an attempt stands, of the latest for None; raise NotFound."""
        async with self.database.tenant(tenant_id) as conn:
            run = await runs.read_run(conn, tenant_id=tenant_id, ref=ref)
            return await _head(conn, tenant_id, run.row.run_id, attempt)

    async def read(self, tenant_id: UUID, head: LogHead, *, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield a log's bytes from `start` up to `end`; raise Unavailable."""
        if head.object_id is None:
            return
        while start < end:
            async with self.database.tenant(tenant_id) as conn:
                found = await store.list_pieces(
                    conn, tenant_id=tenant_id, object_id=head.object_id, offset=start, limit=PIECES_AT_ONCE
                )
            if not found:
                return  # it was swept meanwhile
            for piece in found:
                data = await self.depot.piece(tenant_id, head.object_id, piece.slot)
                yield data[start - piece.starts_at : end - piece.starts_at]
                start = piece.starts_at + piece.size_bytes
                if start >= end:
                    return

    async def _reserve(self, writer: Writer, piece: int, data: bytes) -> tuple[UUID, Appended | _Place]:
        async with self.database.tenant(writer.tenant_id) as conn:
            attempt = await _attempt(conn, writer)
            log = await self._locked(conn, writer, attempt)
            if log.is_capped or piece < log.pieces:
                return log.object_id, _appended(log)
            if piece > log.pieces:
                detail = f"The next piece of this log is {log.pieces}; send that first."
                raise Conflict(detail, code="log.gap", told={"pieces": log.pieces})
            await store.take_slot(conn, tenant_id=writer.tenant_id, run_id=writer.run_id, attempt=attempt)
            shared, most = await self._shared(conn, writer.tenant_id), self.limits.attempt_bytes
            kept, cut = fitted(data, size=log.size_bytes, pieces=log.pieces, most=most, shared=shared)
            return log.object_id, _Place(attempt=attempt, slot=log.slots, data=kept, cut=cut)

    async def _shared(self, conn: Connection, tenant_id: UUID) -> Shared:
        limits = await quotas.read(conn, tenant_id=tenant_id)
        used = await store.read_bytes(conn, tenant_id=tenant_id)
        return Shared(used=used, most=limits.of(Limit.LOG_BYTES, usual=self.limits.tenant_bytes))

    async def _locked(self, conn: Connection, writer: Writer, attempt: int) -> LogRow:
        tenant_id, run_id = writer.tenant_id, writer.run_id
        log = await store.lock_log(conn, tenant_id=tenant_id, run_id=run_id, attempt=attempt)
        if log is not None:
            return log
        object_id = await open_object(conn, tenant_id=tenant_id, by=f"run {run_id}")
        opened = await store.insert_log(
            conn, tenant_id=tenant_id, run_id=run_id, attempt=attempt, object_id=object_id, now=conn.now
        )
        if not opened:
            await leave_to_porter(conn, tenant_ids=[tenant_id], object_ids=[object_id])
        log = await store.lock_log(conn, tenant_id=tenant_id, run_id=run_id, attempt=attempt)
        assert log is not None  # logs of attempts that run are not swept
        return log

    async def _append(self, writer: Writer, piece: int, place: _Place) -> Appended:
        async with self.database.tenant(writer.tenant_id) as conn:
            await _attempt(conn, writer)
            await store.append_piece(
                conn,
                tenant_id=writer.tenant_id,
                run_id=writer.run_id,
                attempt=place.attempt,
                piece=piece,
                slot=place.slot,
                size_bytes=len(place.data),
                is_capped=place.cut is not None,
                reason=Reason.QUOTA_LOG_BYTES if place.cut is Cut.TENANT else None,
                now=conn.now,
            )
            log = await store.lock_log(conn, tenant_id=writer.tenant_id, run_id=writer.run_id, attempt=place.attempt)
            assert log is not None  # as above
            return _appended(log)


async def read_bytes(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many bytes all logs of the tenant take."""
    return await store.read_bytes(conn, tenant_id=tenant_id)


def sweep_after(kept: timedelta) -> Sweep:
    """Return what removes logs that were opened longer ago than that, and whose attempts have ended."""

    async def sweep(conn: Connection, *, now: datetime, limit: int) -> int:
        found = await store.drop_old(conn, before=now - kept, most_pieces=MOST_PIECES_DROPPED, limit=limit)
        await leave_to_porter(
            conn, tenant_ids=[each.tenant_id for each in found], object_ids=[each.object_id for each in found]
        )
        return len(found)

    return sweep


async def all_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what comes, the first of it read already: so that a depot that is away is found out before an answer."""
    first = await anext(chunks, b"")

    async def rest() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return rest()


async def _attempt(conn: Connection, writer: Writer) -> int:
    attempt = await held_attempt(
        conn, tenant_id=writer.tenant_id, run_id=writer.run_id, token=writer.token, queues=writer.queues
    )
    if attempt is None:
        raise not_held()
    return attempt


async def _head(conn: Connection, tenant_id: UUID, run_id: UUID, attempt: int | None) -> LogHead:
    found = await store.find_log(conn, tenant_id=tenant_id, run_id=run_id, attempt=attempt)
    if found is None:
        raise NotFound("The run has no such attempt.", code="attempt.unknown")
    return found


def not_held() -> NotFound:
    """Return what is answered when there is no such run, or the lease does not hold: nobody learns which."""
    return NotFound("There is no such run, or the lease does not hold.", code="lease.lost")


def _appended(log: LogRow) -> Appended:
    return Appended(pieces=log.pieces, size_bytes=log.size_bytes, is_capped=log.is_capped)
