"""A model of the hot path: `core.lifecycle` and plain dicts, no SQL. The machine holds the real store against it.

The core decides here as it does there; what the model adds is what the shell's statements have to do with a decision:
which lease a token names, when a lease ends, what a failure writes into the line. It is written from the documentation
of those statements, not from their text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from everwhen.core import lifecycle
from everwhen.core.claim_limits import Rate
from everwhen.core.lifecycle import AttemptOutcome, Event, EventKind, Refused, Run, RunState, Transition
from everwhen.core.retry import RetryPolicy
from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS

GRACE = timedelta(seconds=DEADLINE_GRACE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTask:
    """The limits of the one task that the machine's runs are of, in seconds."""

    retry: RetryPolicy
    timeout: float | None = None
    start_deadline: float | None = None
    total_deadline: float | None = None
    heartbeat: float | None = None
    max_in_flight: int | None = None
    rate: Rate | None = None
    one_a_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLease:
    token: int
    claimed_at: datetime
    until: datetime
    deadline_at: datetime | None
    cancel_requested: bool = False
    started: bool = False


@dataclass(slots=True, kw_only=True)
class ModelRun:
    """A run wherever it is: in the line (`available_at`), under a lease, or ended."""

    run_id: UUID
    priority: int
    key: str
    due_at: datetime
    available_at: datetime | None
    expires_at: datetime | None
    attempts: int = 0
    failures: int = 0
    lease: ModelLease | None = None
    ended: RunState | None = None
    reason: str | None = None
    tokens: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=lambda: [EventKind.PLANNED.value])
    refused: set[str] = field(default_factory=set)


class Model:
    """What ought to be there, and what each use-case ought to answer."""

    def __init__(self, task: ModelTask) -> None:
        self.task = task
        self.runs: dict[UUID, ModelRun] = {}
        self.max_in_flight = task.max_in_flight
        self.full_at: datetime | None = None
        self.lags = False  # until the reaper has looked, a place may stand empty

    def plan(self, run_id: UUID, *, due_at: datetime, priority: int, key: str) -> None:
        limits = [each for each in (self.task.start_deadline, self.task.total_deadline) if each is not None]
        expires_at = due_at + timedelta(seconds=min(limits)) if limits else None
        self.runs[run_id] = ModelRun(
            run_id=run_id, priority=priority, key=key, due_at=due_at, available_at=due_at, expires_at=expires_at
        )

    def claimable(self, now: datetime) -> list[ModelRun]:
        """The runs that a claim may take, in the order in which it takes them."""
        due = [
            run
            for run in self.runs.values()
            if run.available_at is not None
            and run.available_at <= now
            and (run.expires_at is None or run.expires_at > now)
        ]
        return sorted(due, key=_place)

    def takeable(self, limit: int, now: datetime) -> list[ModelRun]:
        """The runs that a claim takes within the limits; of keys it is only known that it takes no more."""
        held = [run for run in self.runs.values() if run.lease is not None]
        rate = self.task.rate
        most = [limit] + ([] if self.max_in_flight is None else [max(0, self.max_in_flight - len(held))])
        most += [] if rate is None else [rate.left(self.full_at, now)]
        keys, taken = {run.key for run in held}, list[ModelRun]()
        for run in self.claimable(now):
            if len(taken) < min(most) and not (self.task.one_a_key and run.key in keys):
                taken.append(run)
                keys.add(run.key)
        return taken

    def claim(self, run_id: UUID, *, token: int, now: datetime, lease_seconds: float) -> ModelLease:
        run = self.runs[run_id]
        answer = self._decide(run, lifecycle.Claimed(), now=now)
        assert isinstance(answer, Transition)
        ends = [now + timedelta(seconds=self.task.timeout)] if self.task.timeout is not None else []
        if self.task.total_deadline is not None:
            ends.append(run.due_at + timedelta(seconds=self.task.total_deadline))
        deadline_at = min(ends, default=None)
        until = self._lease_until(now, lease_seconds, deadline_at)
        lease = ModelLease(token=token, claimed_at=now, until=until, deadline_at=deadline_at)
        run.available_at, run.lease, run.attempts = None, lease, run.attempts + 1
        run.tokens.append(token)
        run.kinds.append(answer.event.value)
        if self.task.rate is not None:
            self.full_at = self.task.rate.taken(self.full_at, now, 1)
        return lease

    def renew(self, run_id: UUID, *, token: int, now: datetime, lease_seconds: float, began: bool) -> ModelLease | None:
        """Return the lease as it is afterwards, None when the token does not hold it."""
        run = self.runs[run_id]
        if run.lease is None or run.lease.token != token:
            return None
        until = self._lease_until(now, lease_seconds, run.lease.deadline_at)
        run.lease = replace(run.lease, until=until, started=run.lease.started or began)
        return run.lease

    def report(self, run_id: UUID, event: Event, *, token: int, now: datetime, jitter: float) -> str:
        """Return the run's new state, or the refusal's code."""
        run = self.runs[run_id]
        if run.lease is None:
            run.refused.add(str(token))
            return "lease.lost"
        answer = self._decide(run, event, now=now, jitter=jitter)
        if isinstance(answer, Refused):
            run.refused.add(str(token))
            return answer.reason.value
        self._close(run, answer)
        return answer.to.value

    def reap(self, now: datetime, *, jitter: float) -> int:
        """Close what ran out; return how many."""
        gone = [run for run in self.runs.values() if run.lease is not None and run.lease.until <= now]
        for run in gone:
            assert run.lease is not None
            token, deadline_at = run.lease.token, run.lease.deadline_at
            event: Event = lifecycle.LeaseExpired(token)
            if deadline_at is not None and deadline_at <= now:
                event = lifecycle.TimedOut(token)
                total = self.task.total_deadline
                if total is not None and run.due_at + timedelta(seconds=total) <= now:
                    event = lifecycle.TotalDeadlinePassed(token)
            answer = self._decide(run, event, now=now, jitter=jitter)
            assert isinstance(answer, Transition)
            self._close(run, answer)
        return len(gone)

    def expire(self, now: datetime) -> int:
        """End what nobody began in time; return how many."""
        late = [
            run
            for run in self.runs.values()
            if run.available_at is not None and run.expires_at is not None and run.expires_at <= now
        ]
        for run in late:
            assert run.expires_at is not None
            event = lifecycle.overdue(self._run(run, now), expires_at=run.expires_at, policy=self.task.retry)
            answer = self._decide(run, event, now=now)
            assert isinstance(answer, Transition)
            self._end(run, answer)
        return len(late)

    def cancel(self, run_id: UUID, *, now: datetime) -> str:
        """Return the run's state afterwards, or `conflict`."""
        run = self.runs[run_id]
        if run.ended is RunState.CANCELLED:
            return "cancelled"
        answer = self._decide(run, lifecycle.CancelRequested(), now=now)
        if isinstance(answer, Refused):
            return "conflict"
        if run.lease is None:
            self._end(run, answer)
            return answer.to.value
        if not run.lease.cancel_requested:
            run.lease = replace(run.lease, cancel_requested=True)
            run.kinds.append(answer.event.value)
        return "running"

    def _lease_until(self, now: datetime, seconds: float, deadline_at: datetime | None) -> datetime:
        granted = min(seconds, self.task.heartbeat or seconds)
        until = now + timedelta(seconds=granted)
        return until if deadline_at is None else min(until, deadline_at + GRACE)

    def _close(self, run: ModelRun, answer: Transition) -> None:
        assert answer.outcome is not None
        run.lease, run.failures = None, answer.failures
        run.outcomes.append(answer.outcome.value)
        if answer.available_at is None:
            self._end(run, answer)
            return
        limits = [each for each in (run.expires_at, answer.expires_at) if each is not None]
        run.available_at, run.expires_at = answer.available_at, min(limits, default=None)
        run.kinds.append(answer.event.value)

    @staticmethod
    def _end(run: ModelRun, answer: Transition) -> None:
        assert run.ended is None
        run.ended, run.reason = answer.to, answer.reason and answer.reason.value
        run.lease = run.available_at = None
        run.kinds.append(answer.event.value)

    def _decide(self, run: ModelRun, event: Event, *, now: datetime, jitter: float = 0.0) -> Transition | Refused:
        return lifecycle.decide(self._run(run, now), event, now=now, policy=self.task.retry, jitter=jitter)

    def _run(self, run: ModelRun, now: datetime) -> Run:
        return Run(
            state=state_of(run, now),
            failures=run.failures,
            lease_token=run.lease and run.lease.token,
            cancel_requested=run.lease is not None and run.lease.cancel_requested,
            due_at=run.due_at,
            total_deadline=None if self.task.total_deadline is None else timedelta(seconds=self.task.total_deadline),
        )


def state_of(run: ModelRun, now: datetime) -> RunState:
    """Name where a run is."""
    if run.ended is not None:
        return run.ended
    if run.available_at is None:
        return RunState.RUNNING
    return lifecycle.resting_state(available_at=run.available_at, failures=run.failures, now=now)


def places(runs: Sequence[ModelRun]) -> list[tuple[int, datetime]]:
    """Where in the line runs are: those with one place may be taken in any order."""
    return sorted(map(_place, runs))


def _place(run: ModelRun) -> tuple[int, datetime]:
    assert run.available_at is not None
    return -run.priority, run.available_at


UNWELL = frozenset({AttemptOutcome.FAILED.value, AttemptOutcome.TIMED_OUT.value, AttemptOutcome.LOST.value})
