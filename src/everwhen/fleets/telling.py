"""What a run that waits is told of the workers of its queue, in numbers of now; for want of what one has expired."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.core.blockages import LiveFleet, slots_told
from everwhen.core.capability import Requirements, requirements_from_json
from everwhen.core.fitting import LiveWorker, why_unfit
from everwhen.core.fleets import LOST, Wish
from everwhen.core.reasons import Reason
from everwhen.fleets import store
from everwhen.fleets.model import LiveRow
from everwhen.postgres.pool import Connection

RunKey = tuple[UUID, str, str]
"""Whose run it is, where it waits, and of which task it is."""


async def live_workers(conn: Connection, *, tenant_id: UUID, queue: str) -> list[LiveRow]:
    """Return the live workers of a queue, the platform's among them, in the caller's transaction."""
    return await store.list_live(conn, tenant_id=tenant_id, queue=queue, lost=conn.now - LOST)


def fit_facts(task: str, requires: str | None, rows: Sequence[LiveRow]) -> dict[str, Any]:
    """Return why none of these takes a run of the task; `requires` is JSON text."""
    required = Requirements() if requires is None else requirements_from_json(json.loads(requires))
    return why_unfit(task, required, [_worker(row) for row in rows])


def fleet_facts(rows: Sequence[LiveRow]) -> dict[Reason, dict[str, Any]]:
    """Return the numbers of now of what a fleet as a whole may be wanting in; nothing where nobody announced itself."""
    if not rows:
        return {}
    draining = sum(row.is_draining for row in rows)
    cordoned = sum(row.wish == Wish.CORDONED and not row.is_stopping for row in rows)
    taking = [row for row in rows if row.is_taking]
    fleet = LiveFleet(workers=len(rows), slots=sum(row.slots for row in taking), cordoned=cordoned, draining=draining)
    held_back = {"workers": len(rows), "cordoned": cordoned, "draining": draining}
    return {
        Reason.WORKER_SLOTS_FULL: slots_told(fleet) if taking else {},
        Reason.WORKER_CORDONED: held_back,
        Reason.WORKER_DRAINING: held_back,
    }


async def find_wants(conn: Connection, runs: Sequence[RunKey], *, now: datetime) -> dict[RunKey, Reason]:
    """Return for want of what each of these runs waits, in the caller's transaction: a pause, or what was noted last.

    What was noted is the observer's word; where nobody observes, nothing but a pause is known.
    """
    if not runs:
        return {}
    found = await store.find_wants(
        conn,
        tenant_ids=[tenant_id for tenant_id, _, _ in runs],
        queues=[queue for _, queue, _ in runs],
        tasks=[task for _, _, task in runs],
        now=now,
    )
    return {(row.tenant_id, row.queue, row.task): Reason(row.reason) for row in found}


def _worker(row: LiveRow) -> LiveWorker:
    return LiveWorker(
        tasks=row.tasks,
        labels=json.loads(row.labels),
        resources=json.loads(row.resources),
        in_use=json.loads(row.in_use),
        is_taking=row.is_taking,
        has_slot=row.held < row.slots,
    )
