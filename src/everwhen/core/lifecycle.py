"""The life of a run: every (state, event) pair has an answer, and the answer is decided here.

States

    planned ──> waiting ──> running ──> succeeded
                  ^            │──────> dead            every allowed attempt has failed
                  │            │──────> cancelled
              retrying <───────┘
    planned, waiting, retrying ──> cancelled, expired   (start deadline, or total deadline before any failure)
    waiting, retrying, running ──> dead                 (total deadline, or the policy's maximum age, after a failure)
    skipped, missed, coalesced                          verdicts of the planner: born terminal

`planned` turns into `waiting`, and `retrying` back into `waiting`, by the passing of time alone: nothing is written at
the due instant, which is why it costs nothing. `resting_state` derives the word from what is stored.

Invariants

1. An end is final. No event moves a run out of a terminal state; the event is refused with `run.ended`.
2. Only the holder of the current lease token moves a running run. Tokens only grow, so a stale worker's report is
   refused with `lease.lost`, whatever it says, and leaves the run as it was.
3. Every attempt that a claim opened is closed exactly once, with an outcome, in the transaction that moves the run.
4. `failures` counts the attempts that the task or its worker lost; a released attempt costs none. A run is dead when
   `failures` reaches the policy's `max_attempts`.
5. No retry begins past the run's total deadline or its policy's maximum age. One whose back-off ends beyond either is
   dead at once, with that reason; one that is lined up carries the earlier of the two as the instant at which it is
   `overdue`, for workers may be short. A total deadline also ends the attempt that runs when it passes.
6. A wish to cancel never undoes a success: whoever commits first wins. It does prevent the next attempt.

Crash points

The decision takes effect in one transaction, guarded by what it assumed (the lease token, or the waiting row). If the
process dies before the commit, nothing happened: the lease runs out and the reaper decides anew. If it dies after the
commit, everything happened, and the worker's repeated report is refused as stale. If the assumption no longer holds,
the guarded statement touches no row, and the caller answers `lease.lost`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from everwhen.core.reasons import Reason
from everwhen.core.retry import RetryPolicy, delay, mends
from everwhen.core.zones import add

_ROUNDING: Final = timedelta(milliseconds=1)
"""Who computed an instant elsewhere may have rounded a fraction of a second in another way."""


class RunState(StrEnum):
    """Where a run is. Lateness is an attribute of a run, not a state."""

    PLANNED = "planned"  # written ahead; becomes waiting when it is due
    WAITING = "waiting"  # due; claimed by a worker next, cancelled, or expired
    RUNNING = "running"  # a worker holds its lease
    RETRYING = "retrying"  # an attempt failed; becomes waiting after its back-off
    SUCCEEDED = "succeeded"
    DEAD = "dead"  # its retry policy is exhausted; waits for a person
    CANCELLED = "cancelled"
    EXPIRED = "expired"  # its start deadline passed
    SKIPPED = "skipped"  # a policy chose not to run it
    MISSED = "missed"  # the system failed to run it
    COALESCED = "coalesced"  # another run stands for it


TERMINAL: Final = frozenset(RunState) - {RunState.PLANNED, RunState.WAITING, RunState.RUNNING, RunState.RETRYING}
RESTING: Final = frozenset({RunState.PLANNED, RunState.WAITING, RunState.RETRYING})


class EventKind(StrEnum):
    """What the append-only history of a run records; one row for one decision."""

    PLANNED = "planned"
    ROLLED = "rolled"  # a calendar moved it; the detail names the calendar and its version
    UNPLANNED = "unplanned"  # withdrawn before it was due, because its schedule changed
    HELD = "held"  # due, and its schedule's gate does not let it in yet
    ADMITTED = "admitted"  # its schedule's gate has let it in
    ADOPTED = "adopted"  # it was on its way when its schedule got a gate, which counts it from now on
    CLAIMED = "claimed"
    RETRYING = "retrying"
    RELEASED = "released"
    CANCEL_REQUESTED = "cancel_requested"
    REFUSED = "refused"  # a stale report, recorded and without effect
    LOG_ENDED = "log_ended"  # of what the attempt prints nothing more is kept: the tenant has no room
    ZOMBIE = "zombie"  # its executor has found that the attempt does nothing; once for each attempt
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    MISSED = "missed"
    COALESCED = "coalesced"


class AttemptOutcome(StrEnum):
    """How an attempt was closed."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"  # its lease expired
    RELEASED = "released"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a decision needs to know of a run. `due_at` counts only for a policy or a task that limits by it."""

    state: RunState
    failures: int = 0  # attempts that failed, timed out or were lost so far
    lease_token: int | None = None
    cancel_requested: bool = False
    due_at: datetime | None = None
    total_deadline: timedelta | None = None  # how long after due_at the run has to have ended, over all attempts


@dataclass(frozen=True, slots=True)
class Claimed:
    """A worker takes the run."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The holder of `lease_token` reports success."""

    lease_token: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The holder of `lease_token` reports a failure; it may forbid a retry, or ask for a later one.

    `classes` are the names of the error's class and of its bases. `reason` is what an executor knows of the cause.
    """

    lease_token: int
    retryable: bool = True
    retry_after: timedelta | None = None
    classes: Collection[str] = ()
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """The holder of `lease_token` gives the run back unfinished."""

    lease_token: int


@dataclass(frozen=True, slots=True)
class CancelConfirmed:
    """The holder of `lease_token` reports that it stopped because it was told to."""

    lease_token: int


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """The lease `lease_token` ran out without a word from its holder."""

    lease_token: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The attempt under `lease_token` ran past its execution time-out."""

    lease_token: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """The lease `lease_token` is taken back, whatever its holder does: another run takes the place of this one."""

    lease_token: int


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody asks for the run to be cancelled."""


@dataclass(frozen=True, slots=True)
class StartDeadlinePassed:
    """The run's start deadline is over."""


@dataclass(frozen=True, slots=True)
class TotalDeadlinePassed:
    """The run's total deadline is over: while it rests (no token), or during the attempt under `lease_token`."""

    lease_token: int | None = None


@dataclass(frozen=True, slots=True)
class RetryAgePassed:
    """The run failed before, and is older by now than its policy allows for another attempt."""


Reported = Succeeded | Failed | Released | CancelConfirmed | LeaseExpired | TimedOut | Revoked
Overdue = StartDeadlinePassed | TotalDeadlinePassed | RetryAgePassed
Event = Claimed | Reported | CancelRequested | Overdue


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What to write. `available_at` is set when the run rests again; `outcome` when an attempt is closed.

    `expires_at` is set when the run may not begin again from then on.
    """

    to: RunState
    event: EventKind
    reason: Reason | None = None
    outcome: AttemptOutcome | None = None
    available_at: datetime | None = None
    failures: int = 0
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The event changes nothing; `reason` says why."""

    reason: Reason


def resting_state(*, available_at: datetime, failures: int, now: datetime) -> RunState:
    """Name the state of a run that nobody holds: it waits for its instant, for its back-off, or for a worker."""
    if available_at <= now:
        return RunState.WAITING
    return RunState.RETRYING if failures else RunState.PLANNED


def overdue(run: Run, *, expires_at: datetime, policy: RetryPolicy) -> Overdue:
    """Say which of its deadlines a run that nobody holds has passed, when `expires_at`, the first of them, has."""
    bound = add(expires_at, _ROUNDING)
    if _is_at_or_before(_ends_by(run), bound):
        return TotalDeadlinePassed()
    if run.failures and _is_at_or_before(_retries_until(run, policy), bound):
        return RetryAgePassed()
    return StartDeadlinePassed()


def decide(run: Run, event: Event, *, now: datetime, policy: RetryPolicy, jitter: float) -> Transition | Refused:
    """Answer what `event` does to `run`; pure, total, and the only place where a run's next state is chosen."""
    if run.state in TERMINAL:
        return Refused(Reason.RUN_ENDED)
    match event:
        case Claimed():
            return _claim(run)
        case CancelRequested():
            return _request_cancel(run)
        case StartDeadlinePassed() | TotalDeadlinePassed() | RetryAgePassed():
            return _end_overdue(run, event)
        case _:
            return _close(run, event, now=now, policy=policy, jitter=jitter)


def _claim(run: Run) -> Transition | Refused:
    if run.state is RunState.RUNNING:
        return Refused(Reason.RUN_ALREADY_CLAIMED)
    if run.state is not RunState.WAITING:
        return Refused(Reason.RUN_NOT_DUE)
    return Transition(to=RunState.RUNNING, event=EventKind.CLAIMED, failures=run.failures)


def _request_cancel(run: Run) -> Transition | Refused:
    if run.state is RunState.RUNNING:  # the worker is told by its next heartbeat; its answer ends the run
        return Transition(
            to=RunState.RUNNING,
            event=EventKind.CANCEL_REQUESTED,
            reason=Reason.CANCEL_REQUESTED,
            failures=run.failures,
        )
    return _end(RunState.CANCELLED, Reason.CANCEL_REQUESTED, run)


def _end_overdue(run: Run, event: Overdue) -> Transition | Refused:
    match event:
        case StartDeadlinePassed():
            return _expire(run)
        case TotalDeadlinePassed():
            return _end_at_deadline(run, event)
        case RetryAgePassed():
            return _end_at_age(run)


def _expire(run: Run) -> Transition | Refused:
    if run.state is RunState.RUNNING:
        return Refused(Reason.RUN_ALREADY_CLAIMED)
    return _end(RunState.EXPIRED, Reason.START_DEADLINE, run)


def _end_at_deadline(run: Run, event: TotalDeadlinePassed) -> Transition | Refused:
    if event.lease_token is None:
        if run.state is RunState.RUNNING:
            return Refused(Reason.RUN_ALREADY_CLAIMED)
        # Without a failure nothing is to be mended: nobody ran it in time. With one it waits for a person.
        return _end(RunState.DEAD if run.failures else RunState.EXPIRED, Reason.DEADLINE_TOTAL, run)
    if run.state is not RunState.RUNNING:
        return Refused(Reason.RUN_NOT_CLAIMED)
    if event.lease_token != run.lease_token:
        return Refused(Reason.LEASE_LOST)
    state, reason = RunState.DEAD, Reason.DEADLINE_TOTAL
    if run.cancel_requested:
        state, reason = RunState.CANCELLED, Reason.CANCEL_REQUESTED
    return _end(state, reason, run, AttemptOutcome.TIMED_OUT, failures=run.failures + 1)


def _end_at_age(run: Run) -> Transition | Refused:
    if run.state is RunState.RUNNING:
        return Refused(Reason.RUN_ALREADY_CLAIMED)
    if run.state is RunState.PLANNED:  # it has not failed, and age ends only retries
        return Refused(Reason.RUN_NOT_DUE)
    return _end(RunState.DEAD, Reason.RETRY_MAX_AGE, run)


def _close(run: Run, event: Reported, *, now: datetime, policy: RetryPolicy, jitter: float) -> Transition | Refused:
    if run.state is not RunState.RUNNING:
        return Refused(Reason.RUN_NOT_CLAIMED)
    if run.lease_token != event.lease_token:
        return Refused(Reason.LEASE_LOST)
    match event:
        case Succeeded():
            outcome = AttemptOutcome.SUCCEEDED
            return Transition(to=RunState.SUCCEEDED, event=EventKind.SUCCEEDED, outcome=outcome, failures=run.failures)
        case CancelConfirmed() | Revoked():
            is_wish = isinstance(event, CancelConfirmed)
            reason = Reason.CANCEL_REQUESTED if is_wish else Reason.OVERLAP_CANCELLED_OTHER
            return _end(RunState.CANCELLED, reason, run, AttemptOutcome.CANCELLED)
        case Released():
            return _give_back(run, now=now, policy=policy)
        case Failed() | LeaseExpired() | TimedOut():
            return _retry_or_end(run, _loss(event, policy), now=now, policy=policy, jitter=jitter)


@dataclass(frozen=True, slots=True)
class _Loss:
    outcome: AttemptOutcome
    reason: Reason
    retryable: bool = True
    retry_after: timedelta | None = None


def _loss(event: Failed | LeaseExpired | TimedOut, policy: RetryPolicy) -> _Loss:
    match event:
        case Failed():
            retryable = event.retryable and mends(policy, event.classes)
            usual = Reason.ATTEMPT_FAILED if retryable else Reason.ATTEMPT_NOT_RETRYABLE
            return _Loss(AttemptOutcome.FAILED, event.reason or usual, retryable, event.retry_after)
        case LeaseExpired():
            return _Loss(AttemptOutcome.LOST, Reason.LEASE_EXPIRED)
        case TimedOut():
            return _Loss(AttemptOutcome.TIMED_OUT, Reason.ATTEMPT_TIMED_OUT)


def _give_back(run: Run, *, now: datetime, policy: RetryPolicy) -> Transition:
    if run.cancel_requested:
        return _end(RunState.CANCELLED, Reason.CANCEL_REQUESTED, run, AttemptOutcome.RELEASED)
    return Transition(  # past its total deadline, too: `expires_at` keeps it from being claimed, and ends it
        to=RunState.WAITING,
        event=EventKind.RELEASED,
        reason=Reason.ATTEMPT_RELEASED,
        outcome=AttemptOutcome.RELEASED,
        available_at=now,
        failures=run.failures,
        expires_at=_begins_until(run, policy) if run.failures else _ends_by(run),
    )


def _retry_or_end(run: Run, loss: _Loss, *, now: datetime, policy: RetryPolicy, jitter: float) -> Transition:
    failures = run.failures + 1
    if run.cancel_requested:
        return _end(RunState.CANCELLED, Reason.CANCEL_REQUESTED, run, loss.outcome, failures=failures)
    if not loss.retryable:
        return _end(RunState.DEAD, loss.reason, run, loss.outcome, failures=failures)
    if failures >= policy.max_attempts:
        return _end(RunState.DEAD, Reason.RETRY_EXHAUSTED, run, loss.outcome, failures=failures)
    wait = delay(policy, failures=failures, jitter=jitter)
    if loss.retry_after is not None:  # the worker knows better when to come back, but never for longer than the cap
        wait = min(max(wait, loss.retry_after), policy.cap)
    if too_late := _too_late(run, policy, now + wait):
        return _end(RunState.DEAD, too_late, run, loss.outcome, failures=failures)
    return Transition(
        to=RunState.RETRYING,
        event=EventKind.RETRYING,
        reason=loss.reason,
        outcome=loss.outcome,
        available_at=now + wait,
        failures=failures,
        expires_at=_begins_until(run, policy),
    )


def _too_late(run: Run, policy: RetryPolicy, begins_at: datetime) -> Reason | None:
    """Say what forbids an attempt at that instant: of two deadlines that do, the earlier one."""
    passed = [
        (limit, reason)
        for limit, reason in (
            (_ends_by(run), Reason.DEADLINE_TOTAL),
            (_retries_until(run, policy), Reason.RETRY_MAX_AGE),
        )
        if limit is not None and limit <= begins_at
    ]
    return min(passed)[1] if passed else None


def _begins_until(run: Run, policy: RetryPolicy) -> datetime | None:
    """Return from which instant on no retry begins."""
    return min((limit for limit in (_ends_by(run), _retries_until(run, policy)) if limit is not None), default=None)


def _ends_by(run: Run) -> datetime | None:
    return _later(run.due_at, run.total_deadline)


def _retries_until(run: Run, policy: RetryPolicy) -> datetime | None:
    return _later(run.due_at, policy.max_age)


def _later(due_at: datetime | None, limit: timedelta | None) -> datetime | None:
    return None if due_at is None or limit is None else add(due_at, limit)


def _is_at_or_before(limit: datetime | None, instant: datetime) -> bool:
    return limit is not None and limit <= instant


def _end(
    state: RunState, reason: Reason, run: Run, outcome: AttemptOutcome | None = None, *, failures: int | None = None
) -> Transition:
    return Transition(
        to=state,
        event=EventKind(state.value),
        reason=reason,
        outcome=outcome,
        failures=run.failures if failures is None else failures,
    )
