"""From reports to decisions: what a worker says, or the reaper finds, as events of the lifecycle, and back to columns.

The core decides each run; this module only carries values in and out of it, so that a batch is one read, a loop of
pure decisions, and one write.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never
from uuid import UUID

import msgspec

from everwhen.core import lifecycle
from everwhen.core.lifecycle import Refused, Run, RunState, Transition
from everwhen.core.reasons import Reason
from everwhen.core.retry import Jitter, RetryPolicy
from everwhen.dispatch.model import ExpiredLease, HeldLease
from everwhen.worker.protocol import Report, RunError

Decision = Transition | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """An attempt to close: the decision, and what the worker left with it as JSON text."""

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    transition: Transition
    error: str | None = None
    result: str | None = None
    started_at: datetime | None = None


class _RetryJson(msgspec.Struct, frozen=True, kw_only=True):
    max_attempts: int
    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: str


@functools.lru_cache(maxsize=4096)
def retry_policy(text: str) -> RetryPolicy:
    """Read a task's stored policy; the same few texts recur, so they are kept."""
    stored = msgspec.json.decode(text, type=_RetryJson)
    return RetryPolicy(
        max_attempts=stored.max_attempts,
        base=timedelta(seconds=stored.base_seconds),
        factor=stored.factor,
        cap=timedelta(seconds=stored.cap_seconds),
        jitter=Jitter(stored.jitter),
    )


def decide_report(report: Report, held: HeldLease | None, *, token: int, now: datetime, jitter: float) -> Decision:
    """Decide what a worker's report does; no lease means that the run is somebody else's, or nobody's, by now."""
    if held is None:
        return Refused(Reason.LEASE_LOST)
    run = _running(held)
    policy = retry_policy(held.retry)
    return lifecycle.decide(run, _event(report, token=token), now=now, policy=policy, jitter=jitter)


def decide_expiry(lease: ExpiredLease, *, now: datetime, jitter: float) -> Decision:
    """Decide what becomes of a run whose lease ran out."""
    kind = lifecycle.TimedOut if lease.timed_out else lifecycle.LeaseExpired
    policy = retry_policy(lease.retry)
    return lifecycle.decide(_running(lease), kind(lease.lease_token), now=now, policy=policy, jitter=jitter)


def closing(report: Report, *, token: int, transition: Transition) -> Closing:
    """Join the decision with what the worker reported."""
    return Closing(
        tenant_id=report.tenant_id,
        run_id=report.run_id,
        lease_token=token,
        transition=transition,
        error=_error_json(report.error),
        result=payload_text(report.result),
        started_at=report.started_at,
    )


def columns(closings: Sequence[Closing]) -> dict[str, list[Any]]:
    """Turn rows into the arrays that `close_attempts` takes."""

    def column(value: Callable[[Closing], Any]) -> list[Any]:
        return [value(each) for each in closings]

    return {
        "tenant_ids": column(lambda c: c.tenant_id),
        "run_ids": column(lambda c: c.run_id),
        "tokens": column(lambda c: c.lease_token),
        "states": column(lambda c: c.transition.to.value),
        "kinds": column(lambda c: c.transition.event.value),
        "reasons": column(lambda c: c.transition.reason and c.transition.reason.value),
        "outcomes": column(lambda c: c.transition.outcome and c.transition.outcome.value),
        "available_ats": column(lambda c: c.transition.available_at),
        "failures": column(lambda c: c.transition.failures),
        "errors": column(lambda c: c.error),
        "results": column(lambda c: c.result),
        "started_ats": column(lambda c: c.started_at),
    }


def payload_text(payload: msgspec.Raw) -> str | None:
    """Return a payload as JSON text, or None when there is none. Bytes that are no UTF-8 become replacement marks."""
    text = bytes(payload).decode("utf-8", "replace")
    return None if text == "null" else text


def parse_token(text: str) -> int:
    """Read a lease token; -1, which no lease has, stands for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 1 << 63 else -1


def _running(lease: HeldLease | ExpiredLease) -> Run:
    return Run(
        state=RunState.RUNNING,
        failures=lease.failures,
        lease_token=lease.lease_token,
        cancel_requested=lease.cancel_requested,
    )


def _event(report: Report, *, token: int) -> lifecycle.Reported:
    match report.outcome:
        case "succeeded":
            return lifecycle.Succeeded(token)
        case "failed":
            after = report.retry_after_seconds
            retry_after = None if after is None else timedelta(seconds=after)
            return lifecycle.Failed(token, retryable=report.retryable, retry_after=retry_after)
        case "released":
            return lifecycle.Released(token)
        case "cancelled":
            return lifecycle.CancelConfirmed(token)
        case _:
            assert_never(report.outcome)


def _error_json(error: RunError | None) -> str | None:
    return None if error is None else msgspec.json.encode(error).decode()


def keys(reports: Iterable[Report]) -> tuple[list[UUID], list[UUID]]:
    """Return the tenants and the runs of these reports, as two arrays."""
    pairs = [(report.tenant_id, report.run_id) for report in reports]
    return [tenant for tenant, _ in pairs], [run for _, run in pairs]
