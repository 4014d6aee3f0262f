"""Runs that are made from something else: from a dead run (a redrive), or for an instant that has passed (a backfill).

One place makes them, in the caller's transaction, so that whatever has to happen when a run is lined up happens here:
its partition, its place in the line, its event, and the wake-up of who waits at its queue. Their ids are pure functions
of what they are made from and of what makes them: made again after a crash, they are there already.

The schedules are shared before their runs are written: a schedule that is given a gate meanwhile adopts the runs, or
the runs find the gate, whoever comes first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from everwhen.core.backfill import VerdictSpan
from everwhen.core.flex import MOST_WINDOW
from everwhen.core.ids import instant_of
from everwhen.core.overlap import OverlapWish
from everwhen.core.zones import add
from everwhen.overlap.service import GATEKEEPER_TOPIC
from everwhen.postgres.pool import Connection
from everwhen.postgres.wakeups import notify
from everwhen.runs import store
from everwhen.runs.model import LinedUp
from everwhen.runs.planning import ensure_partitions
from everwhen.runs.service import OnReady


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Who makes runs and why; `operation_id` None: one run, by hand.

    `overlap` is about the other runs of a schedule that lets only so many run at once: wait for room, be treated as the
    schedule's own, or run beside them.
    """

    tenant_id: UUID
    by: str
    reason: str | None = None
    operation_id: UUID | None = None
    overlap: OverlapWish = OverlapWish.WAIT

    @property
    def is_free(self) -> bool:
        """Whether its runs pass by the gate of their schedule."""
        return self.overlap is OverlapWish.IGNORE

    @property
    def is_patient(self) -> bool:
        """Whether its runs wait for room, whatever the schedule's policy does."""
        return self.overlap is OverlapWish.WAIT

    @property
    def detail(self) -> str:
        """What the event of each run says, as JSON text."""
        told: dict[str, Any] = {"by": self.by, "reason": self.reason, "operation_id": self.operation_id}
        return json.dumps({name: str(value) for name, value in told.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Which schedule is filled, at which priority, by which release of the tz database."""

    schedule_uid: UUID
    priority: int
    tz_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastInstant:
    """An instant to fill, with the id of its run."""

    run_id: UUID
    nominal_at: datetime
    utc_offset: timedelta


async def make_redriven(
    conn: Connection,
    making: Making,
    pairs: Sequence[tuple[UUID, UUID]],
    *,
    priority: int | None = None,
    input_text: str | None = None,
    on_ready: OnReady | None = None,
) -> set[UUID]:
    """Make runs from dead ones, given as (dead run, id of the new run); return the ids of those that are new.

    The caller has taken the dead letters. `input_text` replaces the input of the dead run.
    """
    await ensure_partitions(conn, {instant_of(run_id) for _, run_id in pairs})
    origins = [origin for origin, _ in pairs]
    await store.share_schedules_of(conn, tenant_id=making.tenant_id, run_ids=origins)
    made = await store.insert_redriven(
        conn,
        tenant_id=making.tenant_id,
        origin_run_ids=origins,
        run_ids=[run_id for _, run_id in pairs],
        priority=priority,
        input=input_text,
        operation_id=making.operation_id,
        detail=making.detail,
        is_free=making.is_free,
        is_patient=making.is_patient,
        now=conn.now,
    )
    return await _lined_up(conn, making, made, on_ready)


async def make_backfilled(
    conn: Connection,
    making: Making,
    instants: Sequence[PastInstant],
    filling: Filling,
    *,
    on_ready: OnReady | None = None,
) -> set[UUID]:
    """Make runs of a schedule for past instants; return the ids of those that are new."""
    assert making.operation_id is not None
    await ensure_partitions(conn, {instant_of(each.run_id) for each in instants})
    await store.share_schedules(conn, tenant_id=making.tenant_id, schedule_uids=[filling.schedule_uid])
    made = await store.insert_backfilled(
        conn,
        tenant_id=making.tenant_id,
        schedule_uid=filling.schedule_uid,
        run_ids=[each.run_id for each in instants],
        nominal_ats=[each.nominal_at for each in instants],
        utc_offsets=[int(each.utc_offset.total_seconds()) for each in instants],
        priority=filling.priority,
        operation_id=making.operation_id,
        tz_version=filling.tz_version,
        detail=making.detail,
        is_free=making.is_free,
        is_patient=making.is_patient,
        now=conn.now,
    )
    return await _lined_up(conn, making, made, on_ready)


async def _lined_up(conn: Connection, making: Making, made: Sequence[LinedUp], on_ready: OnReady | None) -> set[UUID]:
    await notify(conn, [GATEKEEPER_TOPIC] if made else [])  # they may be behind the gate of their schedule
    for queue in sorted({each.queue for each in made}) if on_ready else ():
        assert on_ready is not None
        await on_ready(conn, making.tenant_id, queue)
    return {each.run_id for each in made}


async def outcomes_of(
    conn: Connection, *, tenant_id: UUID, schedule_uid: UUID, first_at: datetime, last_at: datetime
) -> tuple[dict[datetime, list[str]], list[VerdictSpan]]:
    """Return what became of a schedule's instants from one to another: of runs by instant, and in spans."""
    key: dict[str, Any] = {"tenant_id": tenant_id, "schedule_uid": schedule_uid}
    found: dict[datetime, list[str]] = {}
    for each in await store.find_outcomes(
        conn, **key, first_at=first_at, last_at=last_at, first_id_at=first_at, last_id_at=add(last_at, MOST_WINDOW)
    ):
        found.setdefault(each.nominal_at, []).append(each.outcome)
    return found, await store.find_spans(conn, **key, first_at=first_at, last_at=last_at)
