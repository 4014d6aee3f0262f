"""Tests of task code without a network: `Context.fake()` for plain calls, `run_task` for what a worker would report."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from everwhen.worker import outcomes
from everwhen.worker.context import Context, enter
from everwhen.worker.errors import ConfigurationError, InputMismatch
from everwhen.worker.leases import Lease
from everwhen.worker.protocol import Outcome, Report, RunError
from everwhen.worker.tasks import Task
from everwhen.worker.worker import Worker

__all__ = ["Context", "TaskOutcome", "run_task", "run_task_async"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What the server would be told: `result` is as it comes back from JSON."""

    outcome: Outcome
    result: Any
    error: RunError | None
    retryable: bool
    retry_after: timedelta | None


def run_task(worker: Worker, name: str, given: Any = None, *, context: Context | None = None) -> TaskOutcome:
    """Call a task with this input as the worker would, and return what it would report.

    Sync functions are called in this thread, async ones on a loop made for the purpose; inside a running loop, await
    `run_task_async`. Time-outs are not enforced. Raises ConfigurationError when the worker has no such task.
    """
    return asyncio.run(run_task_async(worker, name, given, context=context))


async def run_task_async(
    worker: Worker, name: str, given: Any = None, *, context: Context | None = None
) -> TaskOutcome:
    """Do as `run_task` does, on the running loop."""
    task = worker.tasks.get(name)
    if task is None:
        known = ", ".join(sorted(task.name for task in worker.tasks)) or "none"
        raise ConfigurationError(f"this worker has no task {name!r}; it has: {known}")
    context = context or Context.fake(task=name)
    report = await _call(task, _decoded(given), context)
    if report is None:  # the lease is lost: nothing would be reported
        raise ConfigurationError(f"the context of task {name!r} has lost its lease, so there is no report")
    return _outcome(report)


async def _call(task: Task, given: Any, context: Context) -> Report | None:
    lease: Lease = context._lease  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the two belong together
    try:
        arguments = task.bind(given, context)
    except InputMismatch as error:
        return outcomes.failed(lease, error, started_at=None)
    enter(context)
    try:
        value = task.function(**arguments)
        if task.is_async:
            value = await value
    except Exception as error:  # noqa: BLE001 - as the worker does
        return outcomes.failed(lease, error, started_at=None)
    return outcomes.succeeded(lease, value, started_at=None)


def _decoded(given: Any) -> Any:
    """Return the input as it would arrive: through JSON."""
    return msgspec.json.decode(msgspec.json.encode(given))


def _outcome(report: Report) -> TaskOutcome:
    after = report.retry_after_seconds
    return TaskOutcome(
        outcome=report.outcome,
        result=msgspec.json.decode(report.result),
        error=report.error,
        retryable=report.retryable,
        retry_after=None if after is None else timedelta(seconds=after),
    )
