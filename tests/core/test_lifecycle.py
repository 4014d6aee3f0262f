"""The life of a run: every (state, event) pair answered, and the essay's invariants under random events."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from everwhen.core.lifecycle import (
    RESTING,
    TERMINAL,
    AttemptOutcome,
    CancelConfirmed,
    CancelRequested,
    Claimed,
    Event,
    EventKind,
    Failed,
    LeaseExpired,
    Refused,
    Released,
    Run,
    RunState,
    StartDeadlinePassed,
    Succeeded,
    TimedOut,
    Transition,
    decide,
    resting_state,
)
from everwhen.core.reasons import Reason
from everwhen.core.retry import Jitter, RetryPolicy

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
POLICY = RetryPolicy(max_attempts=3, base=timedelta(seconds=10), jitter=Jitter.NONE)
TOKEN = 40
EVENTS: dict[str, Event] = {
    "claimed": Claimed(),
    "succeeded": Succeeded(TOKEN),
    "failed": Failed(TOKEN),
    "failed for good": Failed(TOKEN, retryable=False),
    "released": Released(TOKEN),
    "cancel confirmed": CancelConfirmed(TOKEN),
    "lease expired": LeaseExpired(TOKEN),
    "timed out": TimedOut(TOKEN),
    "cancel requested": CancelRequested(),
    "start deadline passed": StartDeadlinePassed(),
}
S = RunState
# What every event does in every state that is not terminal: the next state, or the reason of the refusal.
TABLE: dict[str, dict[RunState, RunState | Reason]] = {
    "claimed": {
        S.PLANNED: Reason.RUN_NOT_DUE,
        S.WAITING: S.RUNNING,
        S.RUNNING: Reason.RUN_ALREADY_CLAIMED,
        S.RETRYING: Reason.RUN_NOT_DUE,
    },
    "cancel requested": {S.PLANNED: S.CANCELLED, S.WAITING: S.CANCELLED, S.RUNNING: S.RUNNING, S.RETRYING: S.CANCELLED},
    "start deadline passed": {
        S.PLANNED: S.EXPIRED,
        S.WAITING: S.EXPIRED,
        S.RUNNING: Reason.RUN_ALREADY_CLAIMED,
        S.RETRYING: S.EXPIRED,
    },
    **{
        name: {**dict.fromkeys(RESTING, Reason.RUN_NOT_CLAIMED), S.RUNNING: to}
        for name, to in {
            "succeeded": S.SUCCEEDED,
            "failed": S.RETRYING,
            "failed for good": S.DEAD,
            "released": S.WAITING,
            "cancel confirmed": S.CANCELLED,
            "lease expired": S.RETRYING,
            "timed out": S.RETRYING,
        }.items()
    },
}


def answer(run: Run, event: Event) -> Transition | Refused:
    return decide(run, event, now=NOW, policy=POLICY, jitter=0.5)


def running(**known) -> Run:
    return Run(state=RunState.RUNNING, lease_token=TOKEN, **known)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(RunState, EVENTS)))
def test_every_state_answers_every_event(state: RunState, event: str) -> None:
    run = Run(state=state, lease_token=TOKEN if state is RunState.RUNNING else None)

    answered = answer(run, EVENTS[event])

    expected = Reason.RUN_ENDED if state in TERMINAL else TABLE[event][state]
    assert (answered.reason if isinstance(answered, Refused) else answered.to) == expected


def test_the_table_knows_every_event_and_every_live_state() -> None:
    assert set(TABLE) == set(EVENTS)
    assert {type(event) for event in EVENTS.values()} == set(Event.__args__)
    assert all(set(row) == set(RunState) - TERMINAL for row in TABLE.values())


@pytest.mark.parametrize("name", [name for name, event in EVENTS.items() if hasattr(event, "lease_token")])
def test_a_stale_token_moves_nothing(name: str) -> None:
    run = Run(state=RunState.RUNNING, lease_token=TOKEN + 1)

    assert answer(run, EVENTS[name]) == Refused(Reason.LEASE_LOST)


def test_the_last_allowed_failure_is_the_end() -> None:
    answered = answer(running(failures=2), Failed(TOKEN))

    assert answered == Transition(
        to=RunState.DEAD,
        event=EventKind.DEAD,
        reason=Reason.RETRY_EXHAUSTED,
        outcome=AttemptOutcome.FAILED,
        failures=3,
    )


def test_a_released_attempt_costs_no_retry() -> None:
    answered = answer(running(failures=2), Released(TOKEN))

    assert isinstance(answered, Transition)
    assert (answered.to, answered.failures, answered.available_at) == (RunState.WAITING, 2, NOW)


def test_a_retry_waits_for_its_back_off() -> None:
    answered = answer(running(failures=1), Failed(TOKEN))

    assert isinstance(answered, Transition)
    assert answered.available_at == NOW + timedelta(seconds=20)


@pytest.mark.parametrize(("asked", "waits"), [(1, 10), (60, 60), (99_999, 3600)])
def test_a_worker_may_ask_for_a_later_retry_up_to_the_cap(asked: int, waits: int) -> None:
    answered = answer(running(), Failed(TOKEN, retry_after=timedelta(seconds=asked)))

    assert isinstance(answered, Transition)
    assert answered.available_at == NOW + timedelta(seconds=waits)


@pytest.mark.parametrize("event", ["failed", "lease expired", "timed out", "released", "cancel confirmed"])
def test_a_wish_to_cancel_prevents_the_next_attempt(event: str) -> None:
    answered = answer(running(cancel_requested=True), EVENTS[event])

    assert isinstance(answered, Transition)
    assert (answered.to, answered.reason) == (RunState.CANCELLED, Reason.CANCEL_REQUESTED)


def test_a_success_beats_a_wish_to_cancel() -> None:
    answered = answer(running(cancel_requested=True), Succeeded(TOKEN))

    assert isinstance(answered, Transition)
    assert answered.to is RunState.SUCCEEDED


@given(after=st.integers(-5, 5), failures=st.integers(0, 3))
def test_a_resting_run_is_named_by_time_and_failures(after: int, failures: int) -> None:
    state = resting_state(available_at=NOW + timedelta(seconds=after), failures=failures, now=NOW)

    if after <= 0:
        assert state is RunState.WAITING
    else:
        assert state is (RunState.RETRYING if failures else RunState.PLANNED)


class LifeOfARun(RuleBasedStateMachine):
    """Random events, as the shell would bring them, against the invariants listed in the module's essay."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.run = Run(state=RunState.PLANNED)
        self.available_at: datetime | None = NOW + timedelta(seconds=5)
        self.tokens: list[int] = []
        self.open_attempts = 0
        self.closed = 0
        self.ends = 0

    def apply(self, event: Event) -> None:
        answered = decide(self.run, event, now=self.now, policy=POLICY, jitter=0.0)
        if isinstance(answered, Refused):
            return
        assert self.run.state not in TERMINAL
        if answered.event is EventKind.CLAIMED:
            self.tokens.append(len(self.tokens) + 1)
            self.open_attempts += 1
        if answered.outcome is not None:
            self.closed += 1
            self.open_attempts -= 1
        self.ends += answered.to in TERMINAL
        self.available_at = answered.available_at
        held = answered.to is RunState.RUNNING
        self.run = Run(
            state=answered.to,
            failures=answered.failures,
            lease_token=self.tokens[-1] if held else None,
            cancel_requested=held and (self.run.cancel_requested or answered.event is EventKind.CANCEL_REQUESTED),
        )

    @rule(seconds=st.integers(1, 7200))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        if self.available_at is not None and self.run.state in RESTING:
            state = resting_state(available_at=self.available_at, failures=self.run.failures, now=self.now)
            self.run = Run(state=state, failures=self.run.failures)

    @rule(event=st.sampled_from([Claimed(), CancelRequested(), StartDeadlinePassed()]))
    def somebody_acts(self, event: Event) -> None:
        self.apply(event)

    @precondition(lambda self: self.tokens)
    @rule(kind=st.sampled_from([Succeeded, Failed, Released, CancelConfirmed, LeaseExpired, TimedOut]), data=st.data())
    def somebody_reports(self, kind, data) -> None:
        before = self.run
        token = data.draw(st.sampled_from(self.tokens))

        self.apply(kind(token))

        if token != before.lease_token:
            assert self.run == before

    @invariant()
    def the_promises_hold(self) -> None:
        assert self.ends <= 1
        assert self.open_attempts == (self.run.state is RunState.RUNNING)
        assert self.open_attempts + self.closed == len(self.tokens)
        assert self.run.failures <= POLICY.max_attempts
        assert (self.run.failures == POLICY.max_attempts) <= (self.run.state in TERMINAL)


TestLifeOfARun = LifeOfARun.TestCase
