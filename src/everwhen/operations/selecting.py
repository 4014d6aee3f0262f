"""What an operation is about: the same answer for a dry run, for its execution, and for the operator.

Runs are selected by a filter *as of* an instant: only dead runs that had ended, and only live runs that had been
planned, before it. So what arrives after the dry run is not touched. Instants are selected from a schedule's range in
steps, each in a transaction of its own, so that a year of minutes holds nobody up.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.core.backfill import Instant, is_wanted, next_instants, spanned
from everwhen.core.bulk import OperationKind, fold_keys
from everwhen.core.errors import TriggerError
from everwhen.core.filters import Filter, FilterError, Term, ordered, parse
from everwhen.core.ids import unix_milliseconds
from everwhen.core.lifecycle import RESTING, RunState
from everwhen.core.triggers import Timing
from everwhen.errors import Conflict, InvalidInput
from everwhen.operations.model import Backfill
from everwhen.postgres.pool import Connection, Database
from everwhen.runs import service as runs
from everwhen.runs.derived import outcomes_of
from everwhen.runs.listing import service as listing
from everwhen.runs.model import RunFilter
from everwhen.schedules import service as schedules

MOST_RUNS: Final = 100_000
"""How many runs one operation is about at most."""

MOST_INSTANTS: Final = 600_000
"""How many instants one backfill fills at most: a year of minutes, and no million."""

_LIVE: Final = frozenset({*RESTING, RunState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The runs that an operation is about, in its order; `filter` is the one in force. `whole`: there are no more."""

    filter: Filter
    run_ids: Sequence[UUID]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Instants to fill, in time's order, and up to where was looked."""

    instants: Sequence[Instant]
    until: datetime


def read_bulk_filter(kind: OperationKind, text: str, *, as_of: datetime) -> Filter:
    """Read the filter of an operation, with what its kind implies; raise InvalidInput.

    A redrive takes open letters unless the filter names others; a cancel takes runs that have not ended.
    """
    try:
        asked = parse(text, listing.RUNS, now=as_of)
        if kind is OperationKind.REDRIVE:
            implied = [Term("state", ":", RunState.DEAD), Term("letter", ":", "open")]
            terms = [*asked.terms, *(term for term in implied if asked.term(term.name) is None)]
            asked = ordered(terms, listing.RUNS)
            _require_state(asked, frozenset({RunState.DEAD}), "only dead runs are redriven")
        else:
            _require_state(asked, _LIVE, "a run that has ended cannot be cancelled")
        return listing.effective(asked, now=as_of)
    except FilterError as error:
        detail = f"{error.message} (at character {error.position + 1})"
        raise InvalidInput.at("/filter", detail, code=error.code) from error


async def select_runs(
    conn: Connection, *, tenant_id: UUID, kind: OperationKind, asked: Filter, as_of: datetime
) -> Selected:
    """Return the runs that an effective filter finds as of an instant, oldest first, at most MOST_RUNS."""
    where = listing.run_filter(asked)
    found: set[UUID] = set()
    for part in _parts(kind, where, as_of):
        of = await runs.asked_for(conn, tenant_id, part)
        found |= set(await listing.all_ids(conn, of, most=MOST_RUNS + 1 - len(found)))
    run_ids = sorted(found)
    return Selected(filter=asked, run_ids=run_ids[:MOST_RUNS], whole=len(run_ids) <= MOST_RUNS)


def digest_runs(run_ids: Sequence[UUID]) -> bytes:
    """Return the digest of runs in this order."""
    return fold_keys(b"", (run_id.bytes for run_id in run_ids))


def digest_instants(digest: bytes, instants: Sequence[Instant]) -> bytes:
    """Go on with a digest of instants."""
    return fold_keys(digest, (unix_milliseconds(each.nominal_at).to_bytes(8) for each in instants))


async def each_chunk(db: Database, *, tenant_id: UUID, backfill: Backfill) -> AsyncGenerator[Chunk]:
    """Look through the range of a backfill, in steps."""
    after = first_look(backfill)
    while after < backfill.end - timedelta(microseconds=1):
        async with db.tenant(tenant_id) as conn:
            chunk = await next_chunk(conn, tenant_id=tenant_id, backfill=backfill, after=after)
        yield chunk
        after = chunk.until


def first_look(backfill: Backfill) -> datetime:
    """Return the instant after which a backfill begins to look."""
    return backfill.start - timedelta(microseconds=1)


async def next_chunk(conn: Connection, *, tenant_id: UUID, backfill: Backfill, after: datetime) -> Chunk:
    """Return the next instants of a backfill that are to be filled.

    Raises Conflict when the schedule is gone, or cannot be read.
    """
    timing = await timing_of(conn, tenant_id=tenant_id, backfill=backfill)
    found, until = await asyncio.to_thread(next_instants, timing, after=after, before=backfill.end)
    if not found:
        return Chunk(instants=(), until=until)
    outcomes, spans = await outcomes_of(
        conn,
        tenant_id=tenant_id,
        schedule_uid=backfill.schedule_uid,
        first_at=found[0].nominal_at,
        last_at=found[-1].nominal_at,
    )
    wanted = [
        each
        for each in found
        if is_wanted(
            [*outcomes.get(each.nominal_at, ()), *spanned(each.nominal_at, spans)],
            include=backfill.include,
            only=backfill.only,
        )
    ]
    return Chunk(instants=wanted, until=until)


async def timing_of(conn: Connection, *, tenant_id: UUID, backfill: Backfill) -> Timing:
    """Return when the schedule of a backfill fires, by its present revision."""
    schedule = await schedules.read_schedule(conn, tenant_id=tenant_id, name=backfill.schedule)
    if schedule.uid != backfill.schedule_uid:
        raise Conflict("The schedule was deleted, and another one has its name.", code="schedule.unknown")
    try:
        return await schedules.bound(conn, tenant_id=tenant_id, timing=schedule.spec.timing)
    except TriggerError as error:
        raise Conflict(
            "This version cannot read the schedule's spec: delete it, and make it anew.", code="schedule.unreadable"
        ) from error


def _require_state(asked: Filter, allowed: frozenset[RunState], why: str) -> None:
    state = asked.term("state")
    if state is not None and state.value not in allowed:
        raise FilterError(f"state: {why}", code="filter.unserved", position=state.position)


def _parts(kind: OperationKind, where: RunFilter, as_of: datetime) -> list[RunFilter]:
    """Return the lists that together hold what is meant."""
    if kind is OperationKind.REDRIVE:
        before = as_of if where.ended_before is None else min(as_of, where.ended_before)
        return [replace(where, ended_before=before)]
    states = sorted(_LIVE) if where.state is None else [where.state]
    return [replace(where, state=state, planned_before=as_of) for state in states]
