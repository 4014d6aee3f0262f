"""The words of the task service for what happened to a run, and for how a task stands over all its runs.

The states of a run are ours and finer; this is the one place where they become the service's seven. A run waits for a
resource when it is due and nothing but a worker, a slot or its turn is missing. One that nobody took in time ended for
want of a resource.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from everwhen.core.lifecycle import RunState


class TaskStatus(StrEnum):
    """How a task stands."""

    CREATED = "created"  # nothing of it is due yet, and nothing has run
    WAITING = "waiting"  # a run of it is planned, held back, or waits for its next attempt
    WAITING_FOR_RESOURCE = "waiting_for_resource"  # a run is due, and no worker has taken it
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    NO_RESOURCE = "no_resource"  # no worker took it in time


class RunOutcome(StrEnum):
    """What became of one run: a status, or one of two that are no status of a task."""

    PLANNED = "planned"
    WAITING = "waiting"
    WAITING_FOR_RESOURCE = "waiting_for_resource"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    NO_RESOURCE = "no_resource"
    CANCELLED = "cancelled"  # a change, a disabling or a deletion came first
    SKIPPED = "skipped"  # a rule chose not to run it


_OUTCOMES: Final = {
    RunState.PLANNED: RunOutcome.PLANNED,
    RunState.WAITING: RunOutcome.WAITING_FOR_RESOURCE,
    RunState.RUNNING: RunOutcome.RUNNING,
    RunState.RETRYING: RunOutcome.WAITING,
    RunState.SUCCEEDED: RunOutcome.SUCCESS,
    RunState.DEAD: RunOutcome.FAILED,
    RunState.CANCELLED: RunOutcome.CANCELLED,
    RunState.EXPIRED: RunOutcome.NO_RESOURCE,
    RunState.SKIPPED: RunOutcome.SKIPPED,
    RunState.MISSED: RunOutcome.FAILED,
    RunState.COALESCED: RunOutcome.SKIPPED,
}
_LIVE: Final = (
    (RunOutcome.RUNNING, TaskStatus.RUNNING),
    (RunOutcome.WAITING_FOR_RESOURCE, TaskStatus.WAITING_FOR_RESOURCE),
    (RunOutcome.WAITING, TaskStatus.WAITING),
)
_ENDED: Final = {
    RunOutcome.SUCCESS: TaskStatus.SUCCESS,
    RunOutcome.FAILED: TaskStatus.FAILED,
    RunOutcome.NO_RESOURCE: TaskStatus.NO_RESOURCE,
}


def outcome_of(state: RunState, *, is_held: bool = False) -> RunOutcome:
    """Return what became of a run; one that a rule holds back while it is due waits, but for no resource."""
    if state is RunState.WAITING and is_held:
        return RunOutcome.WAITING
    return _OUTCOMES[state]


def status_of(outcomes: Iterable[RunOutcome]) -> TaskStatus:
    """Return how a task stands whose runs have these outcomes, the newest first.

    What is live counts before what has ended, and of that the newest; what is planned counts when nothing else does.
    """
    found = list(outcomes)
    for outcome, status in _LIVE:
        if outcome in found:
            return status
    for outcome in found:
        if outcome in _ENDED:
            return _ENDED[outcome]
    return TaskStatus.WAITING if RunOutcome.PLANNED in found else TaskStatus.CREATED
