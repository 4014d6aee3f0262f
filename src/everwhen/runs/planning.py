"""Writes plans: runs with their places in the line, verdicts, spans and events, in the caller's transaction.

A run that is there already is left alone: its id is a pure function of its intention, so a second scheduler, or the
same one after a crash, arrives at the same rows and changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from everwhen.core.arrears_steps import CaughtUp, Step
from everwhen.core.planning import Cursor, IntendedRun, Plan, Span
from everwhen.core.quotas import count_by_day, within
from everwhen.core.reasons import Reason
from everwhen.limits import quotas
from everwhen.overlap.service import GATEKEEPER_TOPIC
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import notify
from everwhen.postgres.weeks import Weeks
from everwhen.runs import store

_WEEKS: Final = Weeks(store.ensure_week)


async def ensure_partitions(conn: Connection, instants: Iterable[datetime]) -> None:
    """Make the partitions that runs due at these instants need."""
    await _WEEKS.ensure(conn, instants)


async def record_plans(
    conn: Connection, plans: Sequence[tuple[Cursor, Plan]], *, now: datetime, tz_version: str
) -> int:
    """Write what was planned, by which release of the tz database; return how many runs are new.

    What is over a tenant's runs of a day is written as skipped; that is asked once for all plans.
    """
    if short := await quotas.use_runs(conn, count_by_day(plans)):
        plans = within(plans, short)
    runs = [(cursor, run) for cursor, plan in plans for run in plan.runs]
    verdicts = [(cursor, run) for cursor, plan in plans for run in plan.verdicts]
    spans = [(cursor, span) for cursor, plan in plans for span in plan.spans]
    await ensure_partitions(conn, {_id_instant(run) for _, run in (*runs, *verdicts)})
    written = await _insert_runs(conn, runs, now=now, tz_version=tz_version) if runs else 0
    if rolled := [(cursor, run) for cursor, run in runs if run.detail is not None]:
        await _insert_rolled(conn, rolled, now=now)
    if verdicts:
        await _insert_verdicts(conn, verdicts, now=now, tz_version=tz_version)
    if spans:
        await _insert_spans(conn, spans, now=now)
    return written


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUpStep:
    """A step of some arrears, with what its rows are to say: the revision, and as JSON text what it is about."""

    step: Step
    revision: int
    detail: str


async def record_caught_up(conn: Connection, steps: Sequence[CaughtUpStep], *, now: datetime, tz_version: str) -> int:
    """Write what steps of arrears came to; return how many runs are new."""
    runs = [(made, caught) for made in steps for caught in made.step.runs]
    verdicts = [(made, run) for made in steps for run in made.step.verdicts]
    instants = {_id_instant(caught.run) for _, caught in runs} | {_id_instant(run) for _, run in verdicts}
    await ensure_partitions(conn, instants)
    written = await _insert_caught_up(conn, runs, now=now, tz_version=tz_version) if runs else 0
    rolled = [(made.step.rest, caught.run) for made, caught in runs if caught.run.detail is not None]
    if rolled:
        await store.insert_rolled(
            conn,
            tenant_ids=[rest.tenant_id for rest, _ in rolled],
            run_ids=[run.run_id for _, run in rolled],
            details=[run.detail for _, run in rolled],
            now=now,
        )
    if verdicts:
        await _insert_caught_up_verdicts(conn, verdicts, now=now, tz_version=tz_version)
    if spans := [(_cursor_of(made), span) for made in steps for span in made.step.spans]:
        await _insert_spans(conn, spans, now=now)
    return written


def _id_instant(run: IntendedRun) -> datetime:
    # The id of a run that a calendar has moved is made of its nominal instant.
    return run.due_at if run.detail is None else run.nominal_at


def _cursor_of(made: CaughtUpStep) -> Cursor:
    rest = made.step.rest
    return Cursor(
        tenant_id=rest.tenant_id, schedule_uid=rest.schedule_uid, timing=rest.timing, decided_until=rest.after
    )


async def _insert_caught_up(
    conn: Connection, runs: Sequence[tuple[CaughtUpStep, CaughtUp]], *, now: datetime, tz_version: str
) -> int:
    await notify(conn, [GATEKEEPER_TOPIC])  # they may be behind the gate of their schedule, and due
    return await store.insert_caught_up(
        conn,
        tenant_ids=[made.step.rest.tenant_id for made, _ in runs],
        schedule_uids=[made.step.rest.schedule_uid for made, _ in runs],
        revisions=[made.revision for made, _ in runs],
        run_ids=[caught.run.run_id for _, caught in runs],
        nominal_ats=[caught.run.nominal_at for _, caught in runs],
        due_ats=[caught.run.due_at for _, caught in runs],
        available_ats=[caught.available_at for _, caught in runs],
        utc_offsets=[int(caught.run.utc_offset.total_seconds()) for _, caught in runs],
        priorities=[made.step.rest.rule.priority if caught.late else None for made, caught in runs],
        priority_offsets=[made.step.rest.rule.priority_offset if caught.late else 0 for made, caught in runs],
        stands_fors=[caught.stands_for for _, caught in runs],
        reasons=[Reason.CATCHUP_PACED if caught.late and caught.available_at > now else None for _, caught in runs],
        details=[made.detail if caught.late else None for made, caught in runs],
        tz_version=tz_version,
        now=now,
    )


async def _insert_caught_up_verdicts(
    conn: Connection, verdicts: Sequence[tuple[CaughtUpStep, IntendedRun]], *, now: datetime, tz_version: str
) -> None:
    await store.insert_caught_up_verdicts(
        conn,
        tenant_ids=[made.step.rest.tenant_id for made, _ in verdicts],
        schedule_uids=[made.step.rest.schedule_uid for made, _ in verdicts],
        revisions=[made.revision for made, _ in verdicts],
        run_ids=[run.run_id for _, run in verdicts],
        nominal_ats=[run.nominal_at for _, run in verdicts],
        utc_offsets=[int(run.utc_offset.total_seconds()) for _, run in verdicts],
        states=[run.state.value for _, run in verdicts],
        reasons=["" if run.reason is None else run.reason.value for _, run in verdicts],
        details=[run.detail for _, run in verdicts],
        tz_version=tz_version,
        now=now,
    )


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
        due_ats=[run.due_at for _, run in verdicts],
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
