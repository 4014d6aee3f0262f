"""The worker SDK: write tasks, run them in a fleet.

    from everwhen.worker import Context, Worker

    worker = Worker()

    @worker.task("report")
    def report(ctx: Context, region: str = "eu") -> dict[str, str]:
        return {"region": region}

`everwhen worker module:worker` runs it. Nothing of the server is imported here.
"""

from everwhen.worker.branching import Branch
from everwhen.worker.context import Context, current_context
from everwhen.worker.errors import (
    AttemptEnded,
    AttemptTimedOut,
    CancelRequested,
    ConfigurationError,
    DuplicateTask,
    LeaseLost,
    NoRetry,
    PayloadBroken,
    PayloadUnknown,
    Retry,
    Skip,
    WorkerError,
)
from everwhen.worker.worker import Worker

__all__ = [
    "AttemptEnded",
    "AttemptTimedOut",
    "Branch",
    "CancelRequested",
    "ConfigurationError",
    "Context",
    "DuplicateTask",
    "LeaseLost",
    "NoRetry",
    "PayloadBroken",
    "PayloadUnknown",
    "Retry",
    "Skip",
    "Worker",
    "WorkerError",
    "current_context",
]
