"""A worker in the test's own process: what each task does is a script, a function, or a worker's real tasks."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from everwhen.dispatch.api import refusal_of
from everwhen.dispatch.model import Lease
from everwhen.worker import Context, Worker
from everwhen.worker.outcomes import refused
from everwhen.worker.protocol import NOTHING, Outcome, Report, RunError
from everwhen.worker.testing import run_task_async

NO_TIME: Final = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What a scripted function is given: the run that it is to carry out. `input` is decoded JSON."""

    run_id: UUID
    task: str
    schedule: str | None
    nominal_at: datetime | None
    due_at: datetime
    attempt: int
    input: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeds:
    """The attempt succeeds after a while, with this result."""

    result: Any = None
    takes: timedelta = NO_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The attempt fails after a while."""

    error: str = "failed on purpose"
    retryable: bool = True
    takes: timedelta = NO_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Loses:
    """The worker dies in the middle of the attempt: nothing is reported, and the lease runs out."""


Step = Succeeds | Fails | Loses | Callable[[Claimed], Any]
Script = Step | Sequence[Step]
"""One step for every attempt, or a step for each attempt, the last one again for those that follow."""


@dataclass(slots=True)
class ScriptedWorker:
    """Knows what each task does; a task that it was told nothing of succeeds at once."""

    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    workers: list[Worker] = field(default_factory=list[Worker])

    async def carry_out(self, lease: Lease) -> tuple[Report | None, timedelta]:
        """Return what is to be reported (None: nothing ever), and how long the attempt takes."""
        if lease.task in self.scripts:
            return _report_of(lease, _step(self.scripts[lease.task], lease.attempt))
        for worker in self.workers:
            if worker.tasks.get(lease.task) is not None:
                return await _real(worker, lease), NO_TIME
        return _report_of(lease, Succeeds())


def _step(script: Script, attempt: int) -> Step:
    if isinstance(script, Succeeds | Fails | Loses) or callable(script):
        return script
    return script[min(attempt, len(script)) - 1]


def _report_of(lease: Lease, step: Step) -> tuple[Report | None, timedelta]:
    match step:
        case Loses():
            return None, NO_TIME
        case Succeeds(result=result, takes=takes):
            return _report(lease, "succeeded", result=result), takes
        case Fails(error=error, retryable=retryable, takes=takes):
            return _failure(lease, error="Failed", message=error, retryable=retryable), takes
        case _:
            return _called(lease, step), NO_TIME


def _called(lease: Lease, function: Callable[[Claimed], Any]) -> Report:
    try:
        return _report(lease, "succeeded", result=function(_claimed(lease)))
    except Exception as error:  # noqa: BLE001  # as a worker does
        return _failure(lease, error=type(error).__name__, message=str(error), retryable=True)


async def _real(worker: Worker, lease: Lease) -> Report:
    """Call the worker's own function with the run's input, in this process."""
    told: Mapping[str, Any] = {
        "run_id": lease.run_id,
        "task": lease.task,
        "queue": lease.queue,
        "attempt": lease.attempt,
        "max_attempts": lease.max_attempts,
        "claimed_at": lease.claimed_at,
        "due_at": lease.due_at,
        "nominal_at": lease.nominal_at,
        "schedule": lease.schedule,
    }
    done = await run_task_async(worker, lease.task, json.loads(lease.input), context=Context.fake(**told))
    after = None if done.retry_after is None else done.retry_after.total_seconds()
    report = Report(
        tenant_id=lease.tenant_id,
        run_id=lease.run_id,
        lease_token=str(lease.lease_token),
        outcome=done.outcome,
        result=msgspec.Raw(msgspec.json.encode(done.result)),
        error=done.error,
        retryable=done.retryable,
        retry_after_seconds=after,
    )
    too_large = refusal_of(report)
    return report if too_large is None else refused(report, too_large)


def cancelled(report: Report) -> Report:
    """Return what is reported of an attempt that was told to stop before it came to its end."""
    return msgspec.structs.replace(report, outcome="cancelled", result=NOTHING, error=None)


def _failure(lease: Lease, *, error: str, message: str, retryable: bool) -> Report:
    said = _report(lease, "failed", result=None)
    return msgspec.structs.replace(said, error=RunError(type=error, message=message), retryable=retryable)


def _report(lease: Lease, outcome: Outcome, *, result: Any) -> Report:
    report = Report(
        tenant_id=lease.tenant_id,
        run_id=lease.run_id,
        lease_token=str(lease.lease_token),
        outcome=outcome,
        result=NOTHING if result is None else msgspec.Raw(msgspec.json.encode(result)),
    )
    too_large = refusal_of(report)
    return report if too_large is None else refused(report, too_large)


def _claimed(lease: Lease) -> Claimed:
    return Claimed(
        run_id=lease.run_id,
        task=lease.task,
        schedule=lease.schedule,
        nominal_at=lease.nominal_at,
        due_at=lease.due_at,
        attempt=lease.attempt,
        input=json.loads(lease.input),
    )
