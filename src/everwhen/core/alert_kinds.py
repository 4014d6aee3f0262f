"""What people can be told of, how much it matters, and which words of the history it is read from."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from everwhen.core.reasons import Severity


class AlertKind(StrEnum):
    """What people can be told of."""

    RUN_SUCCEEDED = "run.succeeded"
    RUN_ATTEMPT_FAILED = "run.attempt_failed"
    RUN_DEAD = "run.dead"  # its retries are exhausted
    RUN_EXPIRED = "run.expired"
    RUN_LATE = "run.late"  # beyond its schedule's objective
    RUN_MISSED = "run.missed"
    RUN_SKIPPED = "run.skipped"  # by a policy; the reason says which
    RUN_CANCELLED = "run.cancelled"
    RUN_RECOVERED = "run.recovered"  # succeeded after n failures in a row
    RUN_OVERDUE = "run.overdue"  # its deadline will be missed, if it goes on as it does
    WORKFLOW_SUCCEEDED = "workflow.succeeded"
    WORKFLOW_FAILED = "workflow.failed"
    SCHEDULE_PAUSED = "schedule.paused"  # by itself, after too many failures in a row
    SCHEDULE_OVERDUE = "schedule.overdue"  # nobody plans it
    QUEUE_UNATTENDED = "queue.unattended"  # a line without a live worker
    QUEUE_WAITING = "queue.waiting"  # due runs wait for longer than they should
    RUN_ZOMBIE = "run.zombie"  # holds its lease and does nothing
    RUN_FLAPPING = "run.flapping"  # its schedule fails and succeeds in turns: told once, in the place of each
    CHANNEL_TEST = "channel.test"  # what verifies a channel


HEARD_IN: Final[Mapping[AlertKind, frozenset[str]]] = {
    AlertKind.RUN_SUCCEEDED: frozenset({"run.succeeded"}),
    AlertKind.RUN_ATTEMPT_FAILED: frozenset({"attempt.failed"}),
    AlertKind.RUN_DEAD: frozenset({"run.dead"}),
    AlertKind.RUN_EXPIRED: frozenset({"run.expired"}),
    AlertKind.RUN_LATE: frozenset({"run.late"}),
    AlertKind.RUN_MISSED: frozenset({"run.missed", "span.missed"}),
    AlertKind.RUN_SKIPPED: frozenset({"run.skipped", "span.skipped"}),
    AlertKind.RUN_CANCELLED: frozenset({"run.cancelled"}),
    AlertKind.RUN_RECOVERED: frozenset({"run.succeeded"}),
    AlertKind.RUN_OVERDUE: frozenset({"run.overdue"}),
    AlertKind.WORKFLOW_SUCCEEDED: frozenset({"run.succeeded"}),
    AlertKind.WORKFLOW_FAILED: frozenset({"run.dead", "run.expired"}),
    AlertKind.SCHEDULE_PAUSED: frozenset({"schedule.paused"}),
    AlertKind.SCHEDULE_OVERDUE: frozenset({"finding.schedule.overdue", "finding.schedule.put_off"}),
    AlertKind.QUEUE_UNATTENDED: frozenset({"finding.line.unattended"}),
    AlertKind.QUEUE_WAITING: frozenset({"finding.line.waiting"}),
    AlertKind.RUN_ZOMBIE: frozenset({"run.zombie"}),
}
"""The words of the history that each kind is read from: what its subscription makes the triggers copy."""

SUBSCRIBABLE: Final = frozenset(HEARD_IN)
"""What a subscription may name; the others come by themselves."""

_ERRORS: Final = frozenset({
    AlertKind.RUN_DEAD,
    AlertKind.RUN_EXPIRED,
    AlertKind.RUN_MISSED,
    AlertKind.RUN_OVERDUE,
    AlertKind.RUN_ZOMBIE,
    AlertKind.WORKFLOW_FAILED,
    AlertKind.SCHEDULE_PAUSED,
    AlertKind.SCHEDULE_OVERDUE,
    AlertKind.QUEUE_UNATTENDED,
})  # fmt: skip
_FINE: Final = frozenset({
    AlertKind.RUN_SUCCEEDED,
    AlertKind.RUN_RECOVERED,
    AlertKind.WORKFLOW_SUCCEEDED,
    AlertKind.CHANNEL_TEST,
})  # fmt: skip


def severity_of(kind: AlertKind) -> Severity:
    """Say how much a person should care."""
    if kind in _ERRORS:
        return Severity.ERROR
    return Severity.INFO if kind in _FINE else Severity.WARNING


def words_of(kinds: Iterable[AlertKind]) -> list[str]:
    """Return every word of the history that these kinds are read from, in order."""
    return sorted({word for kind in kinds for word in HEARD_IN.get(kind, frozenset())})
