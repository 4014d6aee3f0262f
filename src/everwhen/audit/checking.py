"""Checking chains, those of a database or of an export, and reading them for an export.

A chain is read a page at a time, each in a transaction of its own: nothing that is there changes, and what comes
meanwhile comes at the end. So the head is read before the links, which have to reach it, and after them: then it may be
further, and may not be behind. What is kept at any time is one page, one chain's findings, and the anchors.
"""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import UTC
from typing import IO, Any, Final
from uuid import UUID

from everwhen.audit import store
from everwhen.audit.lines import LAST_SEQ, UnreadableLine, read_line, read_lines
from everwhen.audit.model import PLATFORM, ChainName, ChainRow, StoredHead
from everwhen.core.audit_checking import Anchor, Check, Kind, Link, Report
from everwhen.core.filters import moment
from everwhen.postgres.pool import Database

PAGE: Final = 500
EVENTS_PAGE: Final = 5000
MOST_LOST: Final = 100
MOST_FAULTS: Final = 100
FIRST: Final = UUID(int=0)
OWN: Final = "the chain's head"

Anchors = Mapping[UUID, Sequence[Anchor]]


async def list_chains(db: Database) -> list[ChainName]:
    """Return whose chains there are: by their heads, and by their links."""
    async with db.system() as conn:
        return await store.list_chains(conn)


async def find_head(db: Database, tenant_id: UUID) -> Anchor | None:
    """Return where a chain ends, as it says itself."""
    async with db.system() as conn:
        found = await store.find_head(conn, tenant_id=tenant_id)
    return None if found is None else _head(tenant_id, found)


async def read_chain(db: Database, tenant_id: UUID, *, first: int = 1) -> AsyncGenerator[Link]:
    """Yield the links of a chain from a place on, in order; of a place that is there twice the older epoch first."""
    seq: int | None = first
    epoch, event_id = FIRST, FIRST
    while seq is not None and seq <= LAST_SEQ:
        last = min(seq + PAGE - 1, LAST_SEQ)
        async with db.system() as conn:
            page = await store.read_chain(
                conn, tenant_id=tenant_id, seq=seq, epoch=epoch, event_id=event_id, last=last, limit=PAGE
            )
        for row in page:
            yield Link(seq=row.seq, epoch=row.epoch, hash=row.hash, record=row.record, agrees=agrees(row))
        if len(page) == PAGE:
            seq, epoch, event_id = page[-1].seq, page[-1].epoch, page[-1].event_id
            continue
        seq, epoch, event_id = last + 1, FIRST, FIRST
        if not page and seq <= LAST_SEQ:  # a gap, or the end
            async with db.system() as conn:
                seq = await store.find_place(conn, tenant_id=tenant_id, seq=seq)


async def read_strays(db: Database, tenant_id: UUID) -> AsyncGenerator[UUID]:
    """Yield the events that have no link and wait for none, and those that wait and are not there."""
    after = FIRST
    while True:
        async with db.system() as conn:
            page = await store.page_placed(conn, tenant_id=tenant_id, after=after, limit=EVENTS_PAGE)
        for event in page:
            if not event.is_placed:
                yield event.event_id
        if len(page) < EVENTS_PAGE:
            break
        after = page[-1].event_id
    async with db.system() as conn:
        lost = await store.find_lost(conn, tenant_id=tenant_id, limit=MOST_LOST)
    for event_id in lost:
        yield event_id


async def check_chain(db: Database, tenant_id: UUID, anchors: Anchors) -> Report:
    """Check the chain of a tenant as it stands in the database."""
    before = await find_head(db, tenant_id)
    check = Check(tenant_id, anchors.get(tenant_id, ()), own=before)
    async for found in read_chain(db, tenant_id):
        check.take(found)
    report = check.end(await find_head(db, tenant_id), is_growing=True)
    async for stray in read_strays(db, tenant_id):
        report.find(
            Kind.UNCHAINED, report.last, f"the event {stray} has no link and waits for none, or waits and is gone"
        )
    return report


def check_file(stream: IO[bytes], anchors: Anchors, *, only: UUID | None = None) -> Iterator[Report]:
    """Check each chain of an export, in the order in which they come; with `only`, that of one tenant.

    What cannot be read is told of the chain that it stands in or before; where there is none, of the platform's.
    """
    reading = _Reading(anchors)
    for number, line in read_lines(stream):
        try:
            tenant_id, said = read_line(line, source="the last line of the chain")
        except UnreadableLine as error:
            reading.fail(f"line {number}: {error}")
            continue
        if only in {None, tenant_id}:
            yield from reading.begin(tenant_id, number)
            reading.take(said, number)
    yield from reading.end()
    for tenant_id in anchors:
        if tenant_id not in reading.seen and only in {None, tenant_id}:
            yield Check(tenant_id, anchors[tenant_id]).end(None)


class _Reading:
    """How far a file is read: the chain that it is at, and its head once that has come."""

    def __init__(self, anchors: Anchors) -> None:
        self.seen: set[UUID] = set()
        self._anchors = anchors
        self._check: Check | None = None
        self._head: Anchor | None = None
        self._faults: list[str] = []  # of lines before any chain

    def fail(self, text: str) -> None:
        """A line cannot be read."""
        if self._check is not None:
            self._check.report.find(Kind.UNREADABLE, self._check.report.last, text)
        elif len(self._faults) < MOST_FAULTS:
            self._faults.append(text)

    def begin(self, tenant_id: UUID, number: int) -> Iterator[Report]:
        """Be at the chain of this tenant; yield the report on another one that ends by that."""
        if self._check is not None and self._check.report.tenant_id == tenant_id:
            return
        if self._check is not None:
            yield self._check.end(self._head)
        self._check, self._head = Check(tenant_id, self._anchors.get(tenant_id, ())), None
        self._tell_faults(self._check.report)
        if tenant_id in self.seen:
            self._check.report.find(Kind.DOUBLED, 0, f"line {number}: the chain began further up already")
        self.seen.add(tenant_id)

    def take(self, said: Link | Anchor, number: int) -> None:
        """Check the next line of the chain that this is at."""
        assert self._check is not None  # `begin` comes first
        if self._head is not None:
            self._check.report.find(Kind.DOUBLED, said.seq, f"line {number}: something comes behind the chain's head")
        if isinstance(said, Link):
            self._check.take(said)
        else:
            self._head = said

    def end(self) -> Iterator[Report]:
        """The file is at its end."""
        if self._check is not None:
            yield self._check.end(self._head)
        elif self._faults:
            report = Report(tenant_id=PLATFORM)
            self._tell_faults(report)
            yield report

    def _tell_faults(self, report: Report) -> None:
        for text in self._faults:
            report.find(Kind.UNREADABLE, 0, text)
        self._faults.clear()


def agrees(row: ChainRow) -> bool:
    """Whether the columns that repeat parts of a record say what it says."""
    if row.record is None:
        return True
    try:
        said: dict[str, Any] = json.loads(row.record)
        repeated = (said["id"], said["at"], *(said[name] for name in ("actor", "operation", "resource")))
        rest = (said["outcome"], said["request_id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    at = None if row.at is None else moment(row.at.astimezone(UTC))
    return (*repeated, *rest) == (
        str(row.event_id),
        at,
        row.actor,
        row.operation,
        row.resource,
        row.outcome,
        row.request_id,
    )


def _head(tenant_id: UUID, found: StoredHead) -> Anchor:
    return Anchor(tenant_id=tenant_id, seq=found.seq, epoch=found.epoch, hash=found.hash, source=OWN)
