"""From what was read to what rules look at, and to the occasion that a message tells."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast
from uuid import UUID

from everwhen.alerts.matching.model import RunFacts, ScheduleFacts, Signal
from everwhen.alerts.message import Occasion
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.alerting import End, Happening, Match
from everwhen.core.meanings import MEANINGS
from everwhen.core.sentences import sentence_of
from everwhen.core.targets import workflow_of

MOST_ERROR: Final = 2_000
"""How much of an error an alert carries: a message is no log."""

_SENTENCES: Final[Mapping[AlertKind, str]] = {
    AlertKind.RUN_SUCCEEDED: "The run succeeded.",
    AlertKind.RUN_ATTEMPT_FAILED: "An attempt failed.",
    AlertKind.RUN_DEAD: "The run is dead: no further attempt follows.",
    AlertKind.RUN_EXPIRED: "The run was not started in time.",
    AlertKind.RUN_LATE: "The run is late beyond its objective: it was due, and no worker has begun it.",
    AlertKind.RUN_MISSED: "The schedule's instant was missed.",
    AlertKind.RUN_SKIPPED: "A policy chose not to run it.",
    AlertKind.RUN_CANCELLED: "The run was cancelled.",
    AlertKind.RUN_RECOVERED: "The run succeeded, after failures in a row.",
    AlertKind.RUN_OVERDUE: "The run will miss its deadline, if it goes on as it does.",
    AlertKind.WORKFLOW_SUCCEEDED: "The workflow succeeded.",
    AlertKind.WORKFLOW_FAILED: "The workflow failed.",
    AlertKind.SCHEDULE_PAUSED: "The schedule paused itself, after too many failures in a row.",
    AlertKind.SCHEDULE_OVERDUE: "Nobody has planned the schedule's next instants.",
    AlertKind.QUEUE_UNATTENDED: "Runs of the queue are due, and no worker asks for them.",
    AlertKind.QUEUE_WAITING: "Due runs of the queue wait for longer than they should.",
    AlertKind.RUN_ZOMBIE: "The attempt holds its lease, and shows no progress for far longer than such runs take.",
    AlertKind.RUN_FLAPPING: "It fails and succeeds in turns; nothing more is told of it until it is calm.",
    AlertKind.CHANNEL_TEST: "This is a test of the channel.",
}
_REMEDIES: Final[Mapping[AlertKind, str]] = {
    AlertKind.RUN_LATE: "Add workers for the queue, or raise its limits.",
    AlertKind.RUN_OVERDUE: "See which of its nodes is behind, and whether it can be helped.",
    AlertKind.SCHEDULE_PAUSED: "Mend what the runs failed of, then resume the schedule.",
    AlertKind.SCHEDULE_OVERDUE: "See that a scheduler is running, and read the schedule's last error.",
    AlertKind.QUEUE_UNATTENDED: "Start a worker for the queue.",
    AlertKind.QUEUE_WAITING: "Add workers, or raise limits.",
    AlertKind.RUN_ZOMBIE: "Look at its worker; cancel the run if it hangs.",
    AlertKind.RUN_FLAPPING: "Compare a run that failed with one that succeeded.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read about signals, by key."""

    runs: Mapping[tuple[UUID, UUID], RunFacts]
    past: Mapping[tuple[UUID, UUID], list[End]]
    schedules: Mapping[tuple[UUID, UUID], ScheduleFacts]


def happening_of(signal: Signal, read: Read) -> Happening | None:
    """Return what a signal says; None when what it is about is gone."""
    if signal.run_id is not None:
        run = read.runs.get((signal.tenant_id, signal.run_id))
        return None if run is None else _of_run(signal, run, read.past.get((signal.tenant_id, signal.run_id), []))
    schedule = _schedule_of(signal, read)
    if signal.kind.startswith(("span.", "schedule.")) and schedule is None:
        return None
    return _of_subject(signal, schedule)


def occasion_of(happening: Happening, found: Match, signal: Signal, read: Read, *, base: str) -> Occasion:
    """Return the occasion that tells of a match. `base` is where the tenant's things are found."""
    detail = _detail(signal)
    run = None if signal.run_id is None else read.runs.get((signal.tenant_id, signal.run_id))
    schedule = _schedule_of(signal, read)
    facts = happening.facts
    reason = facts.get("reason")
    meaning = MEANINGS.get(reason or "")
    return Occasion(
        occasion_id=found.occasion_id,
        kind=found.kind,
        at=signal.at,
        subject=_subject(facts, signal),
        schedule=facts.get("schedule"),
        task=None if run is None or happening.is_workflow else run.task,
        workflow=facts.get("workflow"),
        queue=facts.get("queue"),
        tags=happening.tags,
        run_id=signal.run_id,
        attempt=signal.attempt,
        attempts=run and (run.attempts or run.most_attempts),
        nominal_at=run.nominal_at if run else _instant(detail, "first_at"),
        due_at=run and run.due_at,
        zone=(run and run.zone) or (schedule and schedule.zone),
        reason=reason,
        sentence=_sentence(found.kind, reason, detail),
        remedy=_REMEDIES.get(found.kind) or (meaning.remedy if meaning else ""),
        error=(run and run.error) or _text(detail, "error"),
        fingerprint=run and run.fingerprint,
        in_a_row=found.in_a_row,
        count=int(detail.get("instants", 1)),
        link=_link(facts, signal, base),
    )


def _of_run(signal: Signal, run: RunFacts, past: list[End]) -> Happening:
    own = workflow_of(run.task)
    key = str(run.run_id) if signal.attempt is None else f"{run.run_id}/{signal.attempt}"
    return Happening(
        tenant_id=signal.tenant_id,
        word=signal.kind,
        at=signal.at,
        key=key,
        run_id=run.run_id,
        attempt=signal.attempt,
        is_workflow=own is not None,
        facts={
            "schedule": run.schedule,
            "task": None if own else run.task,
            "workflow": own or run.workflow,
            "queue": None if own else run.queue,
            "source": run.source,
            "reason": run.reason,
            "fingerprint": run.fingerprint,
            "run": str(run.run_id),
        },
        tags=tuple(sorted(set(run.tags))),
        past=past,
    )


def _of_subject(signal: Signal, schedule: ScheduleFacts | None) -> Happening:
    detail, subject = _detail(signal), signal.subject or ""
    of_a_queue = signal.kind.startswith("finding.line.")
    return Happening(
        tenant_id=signal.tenant_id,
        word=signal.kind,
        at=signal.at,
        key=f"{subject}/{detail.get('finding_id') or detail.get('revision') or detail.get('first_at') or ''}",
        facts={
            "schedule": schedule.name if schedule else None if of_a_queue else subject,
            "task": schedule.task if schedule and not workflow_of(schedule.task) else None,
            "workflow": workflow_of(schedule.task) if schedule else None,
            "queue": subject if of_a_queue else None,
            "reason": None if signal.kind.startswith("schedule.") else _text(detail, "reason"),
        },
        tags=tuple(sorted(set(schedule.tags))) if schedule else (),
    )


def _schedule_of(signal: Signal, read: Read) -> ScheduleFacts | None:
    """A finding names its schedule; everything else has its uid."""
    uid = schedule_uid_of(signal)
    return None if uid is None else read.schedules.get((signal.tenant_id, uid))


def schedule_uid_of(signal: Signal) -> UUID | None:
    """Return the uid of the schedule that a signal without a run is about."""
    if signal.run_id is not None:
        return None
    text = signal.subject if signal.kind.startswith(("span.", "schedule.")) else _detail(signal).get("schedule_uid")
    try:
        return UUID(str(text)) if text else None
    except ValueError:
        return None


def _subject(facts: Mapping[str, str | None], signal: Signal) -> str:
    return facts.get("schedule") or facts.get("workflow") or facts.get("task") or facts.get("queue") or signal.kind


def _sentence(kind: AlertKind, reason: str | None, detail: Mapping[str, Any]) -> str:
    if kind is AlertKind.SCHEDULE_PAUSED:
        return _text(detail, "reason") or _SENTENCES[kind]
    own = _SENTENCES[kind]
    if kind in {AlertKind.RUN_FLAPPING, AlertKind.RUN_LATE, AlertKind.RUN_OVERDUE, AlertKind.RUN_ZOMBIE}:
        return own
    return sentence_of(reason) or own


def _link(facts: Mapping[str, str | None], signal: Signal, base: str) -> str:
    if signal.run_id is not None:
        return f"{base}/runs/{signal.run_id}"
    if facts.get("schedule"):
        return f"{base}/schedules/{facts['schedule']}"
    return f"{base}/findings" if facts.get("queue") else base


def _detail(signal: Signal) -> dict[str, Any]:
    found: Any = json.loads(signal.detail) if signal.detail else {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _text(detail: Mapping[str, Any], name: str) -> str | None:
    value = detail.get(name)
    return str(value)[:MOST_ERROR] if value else None


def _instant(detail: Mapping[str, Any], name: str) -> datetime | None:
    value = detail.get(name)
    return datetime.fromisoformat(value) if isinstance(value, str) else None
