"""Writes plans: runs with their places in the line, verdicts, spans and events, in the caller's transaction.

A run that is there already is left alone: its id is a pure function of its intention, so a second scheduler, or the
same one after a crash, arrives at the same rows and changes nothing.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from everwhen.core.planning import Cursor, IntendedRun, Plan, Span
from everwhen.postgres.pool import Connection
from everwhen.runs import store

_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)
_WEEK: Final = timedelta(weeks=1)

_known_weeks: set[tuple[str, datetime]] = set()
"""Weeks whose partitions are there, for each database: they are only ever added while a process lives."""

_made_weeks: dict[tuple[str, datetime], datetime] = {}
"""When the transaction began that made a week: until another one sees it, it may be rolled back."""


async def ensure_partitions(conn: Connection, instants: Iterable[datetime]) -> None:
    """Make the partitions that runs due at these instants need. Asks the database once a week and process.

    What this transaction itself makes is not remembered: it goes again if the transaction is rolled back.
    """
    database = f"{conn.info.host}:{conn.info.port}/{conn.info.dbname}"
    wanted = {(database, _MONDAY + (instant - _MONDAY) // _WEEK * _WEEK) for instant in instants}
    for key in sorted(wanted - _known_weeks):
        if await store.ensure_week(conn, instant=key[1]):
            _made_weeks[key] = conn.now
        elif _made_weeks.get(key) != conn.now:
            _known_weeks.add(key)


async def record_plans(
    conn: Connection, plans: Sequence[tuple[Cursor, Plan]], *, now: datetime, tz_version: str
) -> int:
    """Write what was planned, by which release of the tz database; return how many runs are new."""
    runs = [(cursor, run) for cursor, plan in plans for run in plan.runs]
    verdicts = [(cursor, run) for cursor, plan in plans for run in plan.verdicts]
    spans = [(cursor, span) for cursor, plan in plans for span in plan.spans]
    # The id of a run that a calendar has moved is made of its nominal instant.
    await ensure_partitions(
        conn, {run.due_at if run.detail is None else run.nominal_at for _, run in (*runs, *verdicts)}
    )
    written = await _insert_runs(conn, runs, now=now, tz_version=tz_version) if runs else 0
    if rolled := [(cursor, run) for cursor, run in runs if run.detail is not None]:
        await _insert_rolled(conn, rolled, now=now)
    if verdicts:
        await _insert_verdicts(conn, verdicts, now=now, tz_version=tz_version)
    if spans:
        await _insert_spans(conn, spans, now=now)
    return written


async def _insert_runs(
    conn: Connection, runs: Sequence[tuple[Cursor, IntendedRun]], *, now: datetime, tz_version: str
) -> int:
    return await store.insert_planned(
        conn,
        tenant_ids=[cursor.tenant_id for cursor, _ in runs],
        schedule_uids=[cursor.schedule_uid for cursor, _ in runs],
        run_ids=[run.run_id for _, run in runs],
        nominal_ats=[run.nominal_at for _, run in runs],
        due_ats=[run.due_at for _, run in runs],
        utc_offsets=[int(run.utc_offset.total_seconds()) for _, run in runs],
        tz_version=tz_version,
        now=now,
    )


async def _insert_rolled(conn: Connection, rolled: Sequence[tuple[Cursor, IntendedRun]], *, now: datetime) -> None:
    await store.insert_rolled(
        conn,
        tenant_ids=[cursor.tenant_id for cursor, _ in rolled],
        run_ids=[run.run_id for _, run in rolled],
        details=[run.detail for _, run in rolled],
        now=now,
    )


async def _insert_verdicts(
    conn: Connection, verdicts: Sequence[tuple[Cursor, IntendedRun]], *, now: datetime, tz_version: str
) -> None:
    await store.insert_verdicts(
        conn,
        tenant_ids=[cursor.tenant_id for cursor, _ in verdicts],
        schedule_uids=[cursor.schedule_uid for cursor, _ in verdicts],
        run_ids=[run.run_id for _, run in verdicts],
        nominal_ats=[run.nominal_at for _, run in verdicts],
        utc_offsets=[int(run.utc_offset.total_seconds()) for _, run in verdicts],
        states=[run.state.value for _, run in verdicts],
        reasons=["" if run.reason is None else run.reason.value for _, run in verdicts],
        details=[run.detail for _, run in verdicts],
        tz_version=tz_version,
        now=now,
    )


async def _insert_spans(conn: Connection, spans: Sequence[tuple[Cursor, Span]], *, now: datetime) -> None:
    await store.insert_spans(
        conn,
        tenant_ids=[cursor.tenant_id for cursor, _ in spans],
        schedule_uids=[cursor.schedule_uid for cursor, _ in spans],
        first_ats=[span.first_at for _, span in spans],
        last_ats=[span.last_at for _, span in spans],
        instants=[span.instants for _, span in spans],
        verdicts=[span.verdict.value for _, span in spans],
        reasons=[span.reason.value for _, span in spans],
        details=[span.detail for _, span in spans],
        now=now,
    )
