"""Reads the facts of one run: its history, its schedule as it was then, and what blocked its line meanwhile."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast
from uuid import UUID

from everwhen.claim_limits.telling import facts_of_line, limits_of_lines, why_parked
from everwhen.core.explaining import PLANNER_GRACE, Facts, RunFacts, Told, Tried
from everwhen.core.lifecycle import RunState
from everwhen.core.reasons import Reason
from everwhen.core.targets import SOURCE_NODE
from everwhen.core.timeline import Blocked
from everwhen.explaining import store
from everwhen.explaining.model import PauseChange, RevisionRow, TaskPolicy
from everwhen.fleets.telling import fit_facts, fleet_facts, live_workers
from everwhen.postgres.pool import Connection
from everwhen.queues import service as queues
from everwhen.runs import service as runs
from everwhen.runs.model import Attempt, RunEvent, ref_of
from everwhen.runs.service import RunView

MOST_EVENTS: Final = 2_000
MOST_BLOCKED: Final = 400
MOST_OBSERVED: Final = 1_000
MOST_CHANGES: Final = 200
MOST_NAMED: Final = 10
MOST_AHEAD: Final = 10_000

_POLICIES: Final = frozenset({"catch_up", "flex", "overlap", "timezone", "gap", "fold", "calendars"})


async def facts_of(conn: Connection, tenant_id: UUID, view: RunView) -> Facts:
    """Return everything that the account of a run is made from."""
    row = view.row
    events = await runs.history_of(conn, tenant_id=tenant_id, run_id=row.run_id, limit=MOST_EVENTS + 1)
    attempts = await runs.attempts_of(conn, tenant_id=tenant_id, run_id=row.run_id)
    run = _run_facts(view)
    if row.schedule_uid is not None and row.source == "schedule" and run.planned_at > run.due_at:
        run = await with_schedule(conn, tenant_id, row.schedule_uid, run)
    until = row.finished_at or conn.now
    blocked = await store.list_blocked(
        conn,
        tenant_id=tenant_id,
        queue=row.queue,
        task=row.task,
        since=run.intended_at,
        until=until,
        limit=MOST_BLOCKED,
    )
    changes = await store.list_pause_changes(
        conn, tenant_id=tenant_id, queue=row.queue, until=until, limit=MOST_CHANGES
    )
    observed = await store.list_observed(conn, since=run.intended_at, until=until, limit=MOST_OBSERVED)
    return Facts(
        run=run,
        events=await _with_names(conn, tenant_id, [_told(event) for event in events[:MOST_EVENTS]]),
        attempts=[tried(attempt) for attempt in attempts],
        blocked=await _with_numbers(
            conn,
            tenant_id,
            view,
            [
                Blocked(
                    reason=each.reason,
                    since=each.since,
                    until=each.until,
                    noticed_at=each.opened_at,
                    facts=json.loads(each.facts),
                )
                for each in blocked
            ],
        )
        + pauses_of(changes, now=conn.now)
        + await _parked(conn, tenant_id, view),
        observed=[(each.since, each.until) for each in observed],
        now=conn.now,
        is_cut=len(events) > MOST_EVENTS or len(blocked) >= MOST_BLOCKED,
    )


async def with_schedule(conn: Connection, tenant_id: UUID, schedule_uid: UUID, run: RunFacts) -> RunFacts:
    """Add what a run that was planned late needs of its schedule."""
    schedule = await store.get_generation(conn, tenant_id=tenant_id, schedule_uid=schedule_uid)
    action = await store.last_turn(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, at=run.intended_at)
    arrears = await store.find_arrears(conn, tenant_id=tenant_id, schedule_uid=schedule_uid, at=run.intended_at)
    decided_at = None
    if run.planned_at - run.due_at > PLANNER_GRACE:
        looked_at = run.planned_at if arrears is None else min(run.planned_at, arrears.found_at)
        decided_at = await store.decided_before(
            conn, tenant_id=tenant_id, schedule_uid=schedule_uid, at=run.intended_at, before=looked_at
        )
    return replace(
        run,
        decided_at=decided_at,
        created_at=None if schedule is None else schedule.created_at,
        was_paused=action == "paused",
        arrears=arrears,
    )


async def ahead_of(conn: Connection, tenant_id: UUID, view: RunView) -> dict[str, Any]:
    """Return numbers about the runs ahead of one that waits: how many, of which priorities, how long they take."""
    row = view.row
    if view.state is not RunState.WAITING or row.available_at is None:
        return {}
    found = await store.count_ahead(
        conn,
        tenant_id=tenant_id,
        queue=row.queue,
        priority=row.priority,
        available_at=row.available_at,
        run_id=row.run_id,
        now=conn.now,
        most=MOST_AHEAD,
    )
    ahead = sum(each.ahead for each in found)
    if not ahead:
        return {}
    seconds = await queues.seconds_until(conn, tenant_id=tenant_id, queue=row.queue, ahead=ahead)
    told: dict[str, Any] = {"ahead": ahead, "ahead_by_priority": {str(each.priority): each.ahead for each in found}}
    return told if seconds is None else told | {"ahead_seconds": round(seconds, 1)}


async def _parked(conn: Connection, tenant_id: UUID, view: RunView) -> list[Blocked]:
    """Return the limit that keeps a run that waits, if one does."""
    if view.state is not RunState.WAITING:
        return []
    waited = await why_parked(conn, tenant_id=tenant_id, run_id=view.row.run_id)
    if waited is None:
        return []
    facts: dict[str, Any] = {"queue": view.row.queue, **waited.facts}
    if waited.reason is Reason.WORKER_NO_CAPABILITY_MATCH:
        live = await live_workers(conn, tenant_id=tenant_id, queue=view.row.queue)
        facts |= fit_facts(view.row.task, waited.requires, live)
    since = waited.since or view.row.due_at
    return [Blocked(reason=waited.reason, since=since, until=None, noticed_at=since, facts=facts)]


async def _with_numbers(conn: Connection, tenant_id: UUID, view: RunView, blocked: list[Blocked]) -> list[Blocked]:
    """Tell a limit that keeps the line of a run that waits by its numbers of now; one that nobody noted yet as well."""
    row = view.row
    if view.state is not RunState.WAITING or row.available_at is None or row.available_at > conn.now:
        return blocked
    limits = (await limits_of_lines(conn, tenant_id, [row.queue])).get(row.queue)
    facts = {} if limits is None else facts_of_line(limits, now=conn.now)
    live = fleet_facts(await live_workers(conn, tenant_id=tenant_id, queue=row.queue))
    current = {**live, **facts}
    told = [
        replace(each, facts={**each.facts, **current[Reason(each.reason)]})
        if each.until is None and each.reason in current
        else each
        for each in blocked
    ]
    noted = {each.reason for each in blocked if each.until is None}
    return told + [
        Blocked(reason=reason, since=conn.now, until=None, noticed_at=conn.now, facts={"queue": row.queue, **said})
        for reason, said in facts.items()
        if reason not in noted
    ]


def pauses_of(changes: Sequence[PauseChange], *, now: datetime) -> list[Blocked]:
    """Return from when to when a queue and its tenant were paused; a second pause only changes its reason."""
    found: list[Blocked] = []
    for queue in ("", *{change.queue for change in changes if change.queue}):
        began: PauseChange | None = None
        for change in (each for each in changes if each.queue == queue):
            if change.action == "paused":
                began = began or change
            elif began is not None:
                found.append(_pause(began, until=change.changed_at, now=now))
                began = None
        if began is not None:
            found.append(_pause(began, until=None, now=now))
    return found


def _pause(began: PauseChange, *, until: datetime | None, now: datetime) -> Blocked:
    reason = Reason.QUEUE_PAUSED if began.queue else Reason.TENANT_PAUSED
    facts = {"why": began.reason} | ({"queue": began.queue} if began.queue else {})
    return Blocked(reason=reason, since=began.changed_at, until=until, noticed_at=now, facts=facts)


async def _with_names(conn: Connection, tenant_id: UUID, events: list[Told]) -> list[Told]:
    """Name the first run that each event says was in the way, as people name it."""
    names: dict[UUID, str] = {}
    told: list[Told] = []
    for event in events:
        other = _other_run(event.detail)
        if other is not None and other not in names and len(names) < MOST_NAMED:
            view = await runs.find_run(conn, tenant_id=tenant_id, run_id=other)
            names[other] = str(other) if view is None else ref_of(view.row) or str(other)
        name = None if other is None else names.get(other)
        told.append(event if name is None else replace(event, detail={**event.detail, "run": name}))
    return told


def _other_run(detail: Mapping[str, Any]) -> UUID | None:
    others: Any = detail.get("blocked_by") or [detail.get("into") or detail.get("by")]
    try:
        return UUID(str(others[0]))
    except (ValueError, TypeError, LookupError):
        return None


def policy_of(revision: RevisionRow | None, task: TaskPolicy | None) -> dict[str, Any]:
    """Return the rules that were in force: those of the schedule's revision, and the task's as they are now."""
    said: dict[str, Any] = {"revision": None, "changed_at": None, "changed_by": None, "schedule": {}, "task": {}}
    if revision is not None:
        spec: Mapping[str, Any] = json.loads(revision.spec)
        said |= {
            "revision": revision.revision,
            "changed_at": revision.changed_at,
            "changed_by": revision.changed_by,
            "schedule": {name: value for name, value in spec.items() if name in _POLICIES},
        }
    if task is not None:
        said["task"] = {
            "retry": json.loads(task.retry),
            "timeout_seconds": task.timeout_seconds,
            "heartbeat_timeout_seconds": task.heartbeat_timeout_seconds,
            "start_deadline_seconds": task.start_deadline_seconds,
            "total_deadline_seconds": task.total_deadline_seconds,
        }
    return said


def tried(attempt: Attempt) -> Tried:
    """Return an attempt as it is told, its error as one text."""
    return Tried(attempt=attempt.attempt, worker=attempt.worker, error=_error(attempt.error))


def without_errors(facts: Facts) -> Facts:
    """Return the facts for somebody who may not see what errors say."""
    return replace(facts, attempts=[replace(each, error=None) for each in facts.attempts])


def read_detail(text: str | None) -> dict[str, Any]:
    """Read an event's detail; nothing where it is none, or no object."""
    detail: Any = None if text is None else json.loads(text)
    return cast("dict[str, Any]", detail) if isinstance(detail, dict) else {}


def ended_facts(facts: Facts) -> dict[str, Any]:
    """Return what the sentence about a run's end needs: who asked for it, what the last error was, which deadline."""
    run = facts.run
    last = next((event for event in reversed(facts.events) if event.kind == run.state), None)
    detail = dict(last.detail) if last is not None else {}
    why = detail.pop("reason", None)
    error = next((each.error for each in reversed(facts.attempts) if each.error), None)
    said: dict[str, Any] = {**detail, "attempts": run.attempts, "attempt": run.attempts, "error": error, "why": why}
    said["queue"] = run.queue
    if run.expires_at is not None:
        said["deadline"] = run.expires_at
    if facts.attempts:
        said["worker"] = facts.attempts[-1].worker
    return said


def _run_facts(view: RunView) -> RunFacts:
    row = view.row
    return RunFacts(
        state=view.state,
        source=row.source,
        queue=row.queue,
        intended_at=row.due_at if row.nominal_at is None else min(row.nominal_at, row.due_at),
        due_at=row.due_at,
        planned_at=row.planned_at,
        attempts=row.attempts,
        reason=row.reason,
        available_at=row.available_at,
        expires_at=row.expires_at,
    )


def _told(event: RunEvent) -> Told:
    return Told(
        kind=event.kind, at=event.at, attempt=event.attempt, reason=event.reason, detail=read_detail(event.detail)
    )


def _error(text: str | None) -> str | None:
    error = read_detail(text)
    return f"{error.get('type', 'Error')}: {error.get('message', '')}".removesuffix(": ") if error else None


def node_of(facts: Facts) -> tuple[str, str] | None:
    """Return (workflow's run, node) of a run that is a workflow's node, as it was told when it was released."""
    if facts.run.source != SOURCE_NODE or not facts.events:
        return None
    told = facts.events[0].detail
    return str(told.get("workflow_run")), str(told.get("node"))
