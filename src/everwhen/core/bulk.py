"""Bulk operations: what an operation does next, how fast, and when it stops. Pure; the operator writes what is decided.

    planned ──> running ──> succeeded            everything was done, and every run has ended
                  │  ↑ │──> failed               the canary or too many others failed; it could not go on
               paused  └──> aborting ──> aborted
                                                 a person stopped it; `aborting` while its runs are cancelled

An operation is about `total` items, each of them *left*, *done* (a run was made, or asked to end) or *skipped* (nothing
was to be done any more). Of those done, `succeeded`, `dead` and `ended` (otherwise) count how their runs ended. What
changes a thing that is defined has no run to wait for: once it is done it has succeeded.

Invariants

1. done + skipped + left = total at every commit, and succeeded + dead + ended <= done.
2. The rate: in any stretch of time of `w` seconds at most `rate * (w + 1) + 1` items are done. `rate_at` is when the
   next one may be; it lies in the operation's row, so it holds over any number of copies of the operator.
3. The canary: until `canary` runs have all succeeded, no other one is made; any other end stops the operation.
4. What was stopped does nothing more.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from everwhen.core.reasons import Reason
from everwhen.core.tags import Tagged

BURST: Final = timedelta(seconds=1)
"""How much of what a slow operator left undone may be made up for at once."""

SHARE_FROM: Final = 10
"""From how many ended runs on their share of dead ones counts."""

FIRST_LOOK: Final = timedelta(seconds=1)
LAST_LOOK: Final = timedelta(seconds=60)


class OperationKind(StrEnum):
    """What an operation does with each of its items."""

    REDRIVE = "redrive"  # make a new run from a dead one
    BACKFILL = "backfill"  # make a run for an instant that has passed
    CANCEL_RUNS = "cancel_runs"  # end a run, or ask its worker to
    PAUSE_SCHEDULES = "pause_schedules"
    RESUME_SCHEDULES = "resume_schedules"
    TAG_SCHEDULES = "tag_schedules"  # give a schedule tags, beside those that it has
    UNTAG_SCHEDULES = "untag_schedules"
    DELETE_SCHEDULES = "delete_schedules"
    TAG_TASKS = "tag_tasks"
    UNTAG_TASKS = "untag_tasks"
    TAG_WORKFLOWS = "tag_workflows"
    UNTAG_WORKFLOWS = "untag_workflows"


class Verb(StrEnum):
    """What an operation does to things that are defined."""

    PAUSE = "pause"
    RESUME = "resume"
    TAG = "tag"
    UNTAG = "untag"
    DELETE = "delete"


MAKES_RUNS: Final = frozenset({OperationKind.REDRIVE, OperationKind.BACKFILL})

CHANGES: Final = {
    OperationKind.PAUSE_SCHEDULES: (Verb.PAUSE, Tagged.SCHEDULE),
    OperationKind.RESUME_SCHEDULES: (Verb.RESUME, Tagged.SCHEDULE),
    OperationKind.TAG_SCHEDULES: (Verb.TAG, Tagged.SCHEDULE),
    OperationKind.UNTAG_SCHEDULES: (Verb.UNTAG, Tagged.SCHEDULE),
    OperationKind.DELETE_SCHEDULES: (Verb.DELETE, Tagged.SCHEDULE),
    OperationKind.TAG_TASKS: (Verb.TAG, Tagged.TASK),
    OperationKind.UNTAG_TASKS: (Verb.UNTAG, Tagged.TASK),
    OperationKind.TAG_WORKFLOWS: (Verb.TAG, Tagged.WORKFLOW),
    OperationKind.UNTAG_WORKFLOWS: (Verb.UNTAG, Tagged.WORKFLOW),
}
"""Which kinds change things that are defined: how, and what."""

TAGGING: Final = frozenset({Verb.TAG, Verb.UNTAG})
EDITING: Final = frozenset(kind for kind, (verb, _) in CHANGES.items() if verb in {*TAGGING, Verb.DELETE})
"""Which of them change what is defined, so that they take the permission to edit."""


class OperationState(StrEnum):
    """Where an operation is."""

    PLANNED = "planned"  # accepted; its items are being listed
    RUNNING = "running"
    PAUSED = "paused"
    ABORTING = "aborting"  # makes nothing more; what it made is being cancelled
    SUCCEEDED = "succeeded"  # everything was done and has ended, in whatever way
    FAILED = "failed"  # it stopped itself
    ABORTED = "aborted"  # a person stopped it


FINISHED: Final = frozenset({OperationState.SUCCEEDED, OperationState.FAILED, OperationState.ABORTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How an operation holds back. None and 0 mean: not at all.

    `rate` is in items a second; `most_dead` and `most_dead_share` (0 to 1) stop it when that many of its ended runs are
    dead, or more than that share.
    """

    rate: float | None = None
    canary: int = 0
    most_dead: int | None = None
    most_dead_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an operation is, in items."""

    total: int
    done: int = 0
    skipped: int = 0
    succeeded: int = 0
    dead: int = 0
    ended: int = 0
    canary_passed: bool = True

    @property
    def left(self) -> int:
        """Items that nothing was decided about."""
        return self.total - self.done - self.skipped

    @property
    def under_way(self) -> int:
        """Items whose runs have not ended, as far as was seen."""
        return self.done - self.succeeded - self.dead - self.ended


@dataclass(frozen=True, slots=True)
class Do:
    """Take up to `most` items."""

    most: int


@dataclass(frozen=True, slots=True)
class Watch:
    """There is nothing to take now: look for the ends of runs."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The operation is over."""

    state: OperationState
    reason: Reason | None = None


def decide(progress: Progress, limits: Limits, *, rate_at: datetime, now: datetime, batch: int) -> Do | Watch | Stop:
    """Say what a running operation does next; at most `batch` items at once."""
    if reason := _trouble(progress, limits):
        return Stop(OperationState.FAILED, reason)
    if progress.left == 0:
        return Watch() if progress.under_way else Stop(OperationState.SUCCEEDED)
    most = min(batch, progress.left, allowance(limits.rate, rate_at=rate_at, now=now, batch=batch))
    if not progress.canary_passed:
        most = min(most, limits.canary - progress.done)
    return Do(most) if most > 0 else Watch()


def passes_canary(progress: Progress, limits: Limits) -> bool:
    """Say whether the first runs have all succeeded, or there is nothing to wait for."""
    return progress.canary_passed or progress.succeeded >= limits.canary


def allowance(rate: float | None, *, rate_at: datetime, now: datetime, batch: int) -> int:
    """Return how many items the rate allows now, at most `batch`."""
    if rate is None:
        return batch
    if now < rate_at:
        return 0
    waited = min(now - rate_at, BURST)
    return min(batch, int(waited.total_seconds() * rate) + 1)


def paced(rate: float | None, *, rate_at: datetime, now: datetime, taken: int) -> datetime:
    """Return when the next item may be taken, after `taken` were at `now`."""
    if rate is None or taken == 0:
        return rate_at
    return max(rate_at, now - BURST) + timedelta(seconds=taken / rate)


def next_look(step: Do | Watch, *, limits: Limits, rate_at: datetime, moved_at: datetime, now: datetime) -> datetime:
    """Return when the operator looks at the operation again: more rarely, the longer nothing has happened."""
    if isinstance(step, Do):
        return now if limits.rate is None else max(now, rate_at)
    idle = min(max((now - moved_at) / 10, FIRST_LOOK), LAST_LOOK)
    return now + idle


def seconds_left(progress: Progress, *, rate: float | None, elapsed: timedelta) -> float | None:
    """Estimate how long the rest takes, by the rate or by the speed so far; None while there is none."""
    if progress.left == 0:
        return 0.0
    if rate is not None:
        return progress.left / rate
    taken = progress.done + progress.skipped
    return elapsed.total_seconds() * progress.left / taken if taken else None


def fold_keys(digest: bytes, keys: Iterable[bytes]) -> bytes:
    """Go on with a digest of items in their order; how they were divided into batches does not matter."""
    for key in keys:
        digest = hashlib.sha256(digest + key).digest()
    return digest


def _trouble(progress: Progress, limits: Limits) -> Reason | None:
    if not progress.canary_passed and progress.dead + progress.ended:
        return Reason.OPERATION_CANARY_FAILED
    if limits.most_dead is not None and progress.dead >= limits.most_dead:
        return Reason.OPERATION_TOO_MANY_DEAD
    over = progress.succeeded + progress.dead + progress.ended
    if limits.most_dead_share is not None and over >= SHARE_FROM and progress.dead > limits.most_dead_share * over:
        return Reason.OPERATION_TOO_MANY_DEAD
    return None
