"""From reports to decisions: what a worker says, or the reaper finds, as events of the lifecycle, and back to columns.

The core decides each run; this module only carries values in and out of it, so that a batch is one read, a loop of
pure decisions, and one write.
"""

import functools
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, assert_never, cast
from uuid import UUID

import msgspec

from everwhen.core import lifecycle
from everwhen.core.claim_limits import waits_for
from everwhen.core.fingerprints import likeness, likeness_without_error
from everwhen.core.lifecycle import AttemptOutcome, EventKind, Refused, Run, RunState, Transition, resting_state
from everwhen.core.reasons import REPORTED, Reason
from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.core.zones import add
from everwhen.dispatch.model import MOST_ATTEMPTS, ExpiredLease, HeldLease, OverdueRun
from everwhen.worker.protocol import Report, RunError

Decision = Transition | Refused

_NO_RETRY: Final = RetryPolicy(max_attempts=1)
_READABLE_YEARS: Final = range(1970, 9999)
_UNWELL: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.LOST})

_JUDGED: Final = frozenset({"failed", "released"})

MOST_DEPTH: Final = 100
"""How deep a payload may be nested: PostgreSQL stores more, which nobody who asks for the run could read."""

_SUSPECT: Final = re.compile(rb"[0-9]{300}|[0-9][eE][+-]?[0-9]{3}")


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to close: the decision, and what the worker left with it as JSON text.

    `has_started` is known of an attempt that ended without a word: whether its worker had said that it began.
    """

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    transition: Transition
    error: str | None = None
    result: str | None = None
    started_at: datetime | None = None
    fingerprint: str | None = None
    has_started: bool | None = None


class _RetryJson(msgspec.Struct, frozen=True, kw_only=True):
    max_attempts: int
    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: str
    max_age_seconds: float | None = None  # policies stored before there was one have none
    non_retryable: tuple[str, ...] = ()


@functools.lru_cache(maxsize=4096)
def retry_policy(text: str | None) -> RetryPolicy | None:
    """Read a task's stored policy, None when it cannot be; the same few texts recur, so they are kept."""
    try:
        stored = msgspec.json.decode(text or "", type=_RetryJson)
        return RetryPolicy(
            max_attempts=stored.max_attempts,
            base=timedelta(seconds=stored.base_seconds),
            factor=stored.factor,
            cap=timedelta(seconds=stored.cap_seconds),
            jitter=Jitter(stored.jitter),
            max_age=None if stored.max_age_seconds is None else timedelta(seconds=stored.max_age_seconds),
            non_retryable=stored.non_retryable,
        )
    except (msgspec.DecodeError, ValueError, OverflowError):
        return None


def decide_report(report: Report, held: HeldLease | None, *, token: int, now: datetime, jitter: float) -> Decision:
    """Decide what a worker's report does; no lease means that the run is somebody else's, or nobody's, by now."""
    if held is None:
        return Refused(Reason.LEASE_LOST)
    return _decide(held, _event(report, token=token), now=now, jitter=jitter)


def decide_expiry(lease: ExpiredLease, *, now: datetime, jitter: float) -> Decision:
    """Decide what becomes of a run whose lease ran out."""
    return _decide(lease, _expiry(lease, now=now), now=now, jitter=jitter)


def decide_overdue(run: OverdueRun, *, shut_by: Reason | None = None, now: datetime) -> Decision:
    """Decide how a run ends that nobody began in time; `shut_by` is what its line has wanted."""
    state = resting_state(available_at=run.available_at, failures=run.failures, now=now)
    resting = Run(state=state, failures=run.failures, due_at=run.due_at, total_deadline=_total_deadline(run))
    policy = retry_policy(run.retry) or _NO_RETRY
    event = lifecycle.overdue(resting, expires_at=run.expires_at, policy=policy)
    decision = lifecycle.decide(resting, event, now=now, policy=policy, jitter=0.0)  # an end draws no jitter
    if isinstance(decision, Transition) and decision.reason is Reason.START_DEADLINE:
        return replace(decision, reason=waits_for(run.limit_group) or shut_by or decision.reason)  # no resource
    return decision


def closing(report: Report, *, token: int, transition: Transition) -> Closing:
    """Join the decision with what the worker reported."""
    return Closing(
        tenant_id=report.tenant_id,
        run_id=report.run_id,
        lease_token=token,
        transition=transition,
        error=_error_json(report.error),
        result=payload_text(report.result),
        started_at=readable_instant(report.started_at),
        fingerprint=_fingerprint(transition, report.error),
    )


def closing_of_expired(lease: ExpiredLease, *, transition: Transition) -> Closing:
    """Join the decision with what is known of an attempt that ended without a word."""
    return Closing(
        tenant_id=lease.tenant_id,
        run_id=lease.run_id,
        lease_token=lease.lease_token,
        transition=transition,
        fingerprint=_fingerprint(transition, None),
        has_started=lease.started_at is not None,
    )


def columns(closings: Sequence[Closing]) -> dict[str, Any]:
    """Turn rows into the arrays that `close_attempts` takes."""
    ordered = sorted(closings, key=lambda closing: closing.run_id.int)
    transitions = [closing.transition for closing in ordered]
    words: dict[tuple[RunState, EventKind, Reason | None, AttemptOutcome | None], int] = {}
    verdicts = [words.setdefault((t.to, t.event, t.reason, t.outcome), len(words) + 1) for t in transitions]
    return {
        "tenant_ids": {closing.tenant_id for closing in ordered},
        "run_ids": [closing.run_id for closing in ordered],
        "tokens": [closing.lease_token for closing in ordered],
        "verdicts": verdicts,
        "states": [state.value for state, _, _, _ in words],
        "kinds": [kind.value for _, kind, _, _ in words],
        "reasons": [reason and reason.value for _, _, reason, _ in words],
        "outcomes": [outcome and outcome.value for _, _, _, outcome in words],
        "available_ats": _unless_empty([t.available_at for t in transitions]),
        "failures": _unless_empty([None if t.available_at is None else t.failures for t in transitions]),
        "errors": _unless_empty([closing.error for closing in ordered]),
        "results": _unless_empty([closing.result for closing in ordered]),
        "started_ats": _unless_empty([closing.started_at for closing in ordered]),
        "expires_ats": _unless_empty([t.expires_at for t in transitions]),
        "fingerprints": _unless_empty([closing.fingerprint for closing in ordered]),
        "details": _unless_empty([_event_detail(closing) for closing in ordered]),
    }


def _unless_empty(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def payload_text(payload: msgspec.Raw) -> str | None:
    """Return a payload as JSON text, or None when there is none. Bytes that are no UTF-8 become replacement marks."""
    raw = bytes(payload)
    return None if raw == b"null" else raw.decode("utf-8", "replace")


def is_readable(payload: msgspec.Raw) -> bool:
    """Say whether whoever asks for the run can read this payload: no nesting and no number without end."""
    raw = bytes(payload)
    if raw == b"null":
        return True
    if raw.count(b"[") + raw.count(b"{") <= MOST_DEPTH and not _SUSPECT.search(raw):
        return True  # nearly always: a payload is parsed only when it looks odd
    try:
        value = json.loads(raw.decode("utf-8", "replace"), parse_int=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return False
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
    return not level


def _inside(value: object) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text[:20])
    return number


def reported_reason(code: str | None) -> Reason | None:
    """Return a reason that a worker gave; nothing where it is none, or none of those that are a worker's to give."""
    return next((reason for reason in REPORTED if reason == code), None)


def parse_token(text: str) -> int:
    """Read a lease token; -1, which no lease has, stands for what is none."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return -1
    return number if (number := int(text)) < 1 << 63 else -1


def _decide(
    lease: HeldLease | ExpiredLease,
    event: lifecycle.Reported | lifecycle.TotalDeadlinePassed,
    *,
    now: datetime,
    jitter: float,
) -> Decision:
    """Decide. A policy that cannot be read allows no retry, and says so: one bad task never stops a batch or a loop."""
    policy = retry_policy(lease.retry)
    decision = lifecycle.decide(_running(lease), event, now=now, policy=policy or _NO_RETRY, jitter=jitter)
    if isinstance(decision, Refused):
        return decision
    if policy is None and decision.reason is Reason.RETRY_EXHAUSTED:
        return replace(decision, reason=Reason.RETRY_UNREADABLE)
    if decision.available_at is not None and lease.attempt >= MOST_ATTEMPTS:
        dead, kind = RunState.DEAD, EventKind.DEAD
        return replace(decision, to=dead, event=kind, reason=Reason.RETRY_EXHAUSTED, available_at=None, expires_at=None)
    return decision


def _expiry(lease: ExpiredLease, *, now: datetime) -> lifecycle.Reported | lifecycle.TotalDeadlinePassed:
    if not lease.timed_out:
        return lifecycle.LeaseExpired(lease.lease_token)
    total = _total_deadline(lease)
    if total is not None and lease.due_at is not None and add(lease.due_at, total) <= now:
        return lifecycle.TotalDeadlinePassed(lease.lease_token)
    return lifecycle.TimedOut(lease.lease_token)


def _total_deadline(row: HeldLease | ExpiredLease | OverdueRun) -> timedelta | None:
    return None if row.total_deadline_seconds is None else timedelta(seconds=row.total_deadline_seconds)


def _fingerprint(transition: Transition, error: RunError | None) -> str | None:
    if transition.outcome is None or transition.outcome not in _UNWELL:
        return None
    if error is None:
        return likeness_without_error(transition.outcome).fingerprint
    return likeness(kind=error.type, message=error.message, traceback=error.traceback).fingerprint


def _event_detail(closing: Closing) -> str | None:
    """Return what an explanation needs of the event beyond its columns, as JSON text; nothing for a plain success."""
    is_retry = closing.transition.event is EventKind.RETRYING
    if closing.has_started is None and not is_retry:
        return None
    detail: dict[str, Any] = {} if closing.has_started is None else {"started": closing.has_started}
    if is_retry and closing.transition.available_at is not None:
        detail["available_at"] = closing.transition.available_at.astimezone(UTC).isoformat()
    return json.dumps(detail)


def readable_instant(at: datetime | None) -> datetime | None:
    """Return an instant that a worker said; nothing where it is none, or none that could be read back."""
    return at if at is not None and at.tzinfo is not None and at.year in _READABLE_YEARS else None


def _running(lease: HeldLease | ExpiredLease) -> Run:
    return Run(
        state=RunState.RUNNING,
        failures=lease.failures,
        lease_token=lease.lease_token,
        cancel_requested=lease.cancel_requested,
        due_at=lease.due_at,
        total_deadline=_total_deadline(lease),
    )


def _event(report: Report, *, token: int) -> lifecycle.Reported:
    match report.outcome:
        case "succeeded":
            return lifecycle.Succeeded(token)
        case "failed":
            after = report.retry_after_seconds
            retry_after = None if after is None else timedelta(seconds=after)
            classes = () if report.error is None else (report.error.type, *report.error.bases)
            return lifecycle.Failed(
                token,
                retryable=report.retryable,
                retry_after=retry_after,
                classes=classes,
                reason=reported_reason(report.reason),
            )
        case "released":
            return lifecycle.Released(token)
        case "cancelled":
            return lifecycle.CancelConfirmed(token)
        case _:
            assert_never(report.outcome)


def _error_json(error: RunError | None) -> str | None:
    return None if error is None else msgspec.json.encode(error).decode()


def is_judged(report: Report) -> bool:
    """Say whether the task's policy has a say in what this report does: one that does not end the run by itself."""
    return report.outcome in _JUDGED


def keys(reports: Iterable[Report]) -> tuple[list[UUID], list[UUID]]:
    """Return the tenants and the runs of these reports, as two arrays."""
    pairs = [(report.tenant_id, report.run_id) for report in reports]
    return [tenant for tenant, _ in pairs], [run for _, run in pairs]
