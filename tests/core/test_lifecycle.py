"""The life of a run: every (state, event) pair answered, and the essay's invariants under random events."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from everwhen.core.history import EDGES
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
    RetryAgePassed,
    Revoked,
    Run,
    RunState,
    StartDeadlinePassed,
    Succeeded,
    TimedOut,
    TotalDeadlinePassed,
    Transition,
    decide,
    overdue,
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
    "revoked": Revoked(TOKEN),
    "cancel requested": CancelRequested(),
    "start deadline passed": StartDeadlinePassed(),
    "total deadline passed": TotalDeadlinePassed(),
    "attempt at the total deadline": TotalDeadlinePassed(TOKEN),
    "retry age passed": RetryAgePassed(),
}
S, R = RunState, Reason
COLUMNS = (
    S.PLANNED,
    S.WAITING,
    S.RUNNING,
    S.RETRYING,
    S.SUCCEEDED,
    S.DEAD,
    S.CANCELLED,
    S.EXPIRED,
    S.SKIPPED,
    S.MISSED,
    S.COALESCED,
)
OVER = (R.RUN_ENDED,) * 7
NOT_HELD = R.RUN_NOT_CLAIMED
# What every event does in every state: the next state, or the reason of the refusal. A run that retries has failed
# once, the others never. Written out, so that each pair was thought of; whoever adds a state or an event answers here.
TABLE: dict[str, tuple[RunState | Reason, ...]] = {
    #                                 planned        waiting        running                retrying
    "claimed":                       (R.RUN_NOT_DUE, S.RUNNING,     R.RUN_ALREADY_CLAIMED, R.RUN_NOT_DUE, *OVER),
    "succeeded":                     (NOT_HELD,      NOT_HELD,      S.SUCCEEDED,           NOT_HELD,      *OVER),
    "failed":                        (NOT_HELD,      NOT_HELD,      S.RETRYING,            NOT_HELD,      *OVER),
    "failed for good":               (NOT_HELD,      NOT_HELD,      S.DEAD,                NOT_HELD,      *OVER),
    "released":                      (NOT_HELD,      NOT_HELD,      S.WAITING,             NOT_HELD,      *OVER),
    "cancel confirmed":              (NOT_HELD,      NOT_HELD,      S.CANCELLED,           NOT_HELD,      *OVER),
    "lease expired":                 (NOT_HELD,      NOT_HELD,      S.RETRYING,            NOT_HELD,      *OVER),
    "timed out":                     (NOT_HELD,      NOT_HELD,      S.RETRYING,            NOT_HELD,      *OVER),
    "revoked":                       (NOT_HELD,      NOT_HELD,      S.CANCELLED,           NOT_HELD,      *OVER),
    "cancel requested":              (S.CANCELLED,   S.CANCELLED,   S.RUNNING,             S.CANCELLED,   *OVER),
    "start deadline passed":         (S.EXPIRED,     S.EXPIRED,     R.RUN_ALREADY_CLAIMED, S.EXPIRED,     *OVER),
    "total deadline passed":         (S.EXPIRED,     S.EXPIRED,     R.RUN_ALREADY_CLAIMED, S.DEAD,        *OVER),
    "attempt at the total deadline": (NOT_HELD,      NOT_HELD,      S.DEAD,                NOT_HELD,      *OVER),
    "retry age passed":              (R.RUN_NOT_DUE, S.DEAD,        R.RUN_ALREADY_CLAIMED, S.DEAD,        *OVER),
}  # fmt: skip


def answer(run: Run, event: Event) -> Transition | Refused:
    return decide(run, event, now=NOW, policy=POLICY, jitter=0.5)


def running(**known) -> Run:
    return Run(state=RunState.RUNNING, lease_token=TOKEN, **known)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(RunState, EVENTS)))
def test_every_state_answers_every_event(state: RunState, event: str) -> None:
    run = Run(
        state=state,
        failures=int(state is RunState.RETRYING),
        lease_token=TOKEN if state is RunState.RUNNING else None,
    )

    answered = answer(run, EVENTS[event])

    expected = TABLE[event][COLUMNS.index(state)]
    assert (answered.reason if isinstance(answered, Refused) else answered.to) == expected
    assert isinstance(expected, Reason) == isinstance(answered, Refused)


def unanswered(states: Iterable[RunState], kinds: Iterable[type], table: Mapping[str, Sequence[object]]) -> list[str]:
    """Say which states and which kinds of events the table does not answer."""
    without = [f"the state {state}" for state in states if state not in COLUMNS]
    known = {type(EVENTS[name]) for name in table}
    without += [f"the event {kind.__name__}" for kind in kinds if kind not in known]
    return without + [f"{name}: {len(row)} answers" for name, row in table.items() if len(row) != len(COLUMNS)]


def test_the_table_answers_every_state_and_every_event() -> None:
    assert unanswered(RunState, get_args(Event), TABLE) == []
    assert set(TABLE) == set(EVENTS)


def test_a_new_state_or_event_and_a_lost_answer_are_found() -> None:
    """The check itself: what it says of a state, an event and an answer that are not there."""
    states = [*RunState, cast("RunState", "frozen")]
    table = {name: row for name, row in TABLE.items() if name != "claimed"} | {"released": TABLE["released"][:-1]}

    assert unanswered(states, [*get_args(Event), int], table) == [
        "the state frozen",
        "the event Claimed",
        "the event int",
        "released: 10 answers",
    ]


def test_every_way_to_an_end_is_an_edge_of_the_history() -> None:
    """What is decided can be written: the fold of the events allows each transition of the table."""
    for name, row in TABLE.items():
        for state, to in zip(COLUMNS, row, strict=True):
            if isinstance(to, Reason):
                continue
            run = Run(state=state, failures=int(state is S.RETRYING), lease_token=TOKEN if state is S.RUNNING else None)
            answered = answer(run, EVENTS[name])
            assert isinstance(answered, Transition)
            edge = EDGES[answered.event]
            assert state in edge.since, name
            assert to in ((state,) if edge.stays else (edge.to, S.WAITING)), name


@pytest.mark.parametrize("name", [name for name, event in EVENTS.items() if getattr(event, "lease_token", None)])
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


# Limits over all attempts -------------------------------------------------------------------------------------------

MINUTE = timedelta(minutes=1)
AGING = replace(POLICY, max_attempts=9, max_age=10 * MINUTE)


def limited(policy: RetryPolicy, event: Event, *, age: timedelta, total: timedelta | None = None, **known):
    run = running(due_at=NOW - age, total_deadline=total, **known)
    return decide(run, event, now=NOW, policy=policy, jitter=0.5)


@pytest.mark.parametrize(
    ("age", "total", "answered"),
    [
        (9 * MINUTE, None, (S.RETRYING, R.ATTEMPT_FAILED)),
        (10 * MINUTE - timedelta(seconds=11), None, (S.RETRYING, R.ATTEMPT_FAILED)),
        (10 * MINUTE - timedelta(seconds=10), None, (S.DEAD, R.RETRY_MAX_AGE)),  # its back-off is 10 seconds
        (11 * MINUTE, None, (S.DEAD, R.RETRY_MAX_AGE)),
        (4 * MINUTE, 5 * MINUTE, (S.RETRYING, R.ATTEMPT_FAILED)),
        (5 * MINUTE - timedelta(seconds=10), 5 * MINUTE, (S.DEAD, R.DEADLINE_TOTAL)),
        (11 * MINUTE, 11 * MINUTE, (S.DEAD, R.RETRY_MAX_AGE)),  # of two that have passed the earlier one is named
        (11 * MINUTE, 9 * MINUTE, (S.DEAD, R.DEADLINE_TOTAL)),
    ],
)
@pytest.mark.parametrize("event", ["failed", "lease expired", "timed out"])
def test_no_retry_begins_past_the_maximum_age_or_the_total_deadline(event, age, total, answered) -> None:
    found = limited(AGING, EVENTS[event], age=age, total=total)

    assert isinstance(found, Transition)
    reason = R.ATTEMPT_FAILED if found.to is S.RETRYING else found.reason
    assert (found.to, reason) == answered
    assert (found.available_at is None, found.expires_at is None) == (found.to is S.DEAD,) * 2


def test_what_a_worker_asks_for_does_not_get_a_retry_past_the_maximum_age() -> None:
    found = limited(AGING, Failed(TOKEN, retry_after=5 * MINUTE), age=6 * MINUTE)

    assert isinstance(found, Transition)
    assert (found.to, found.reason) == (S.DEAD, R.RETRY_MAX_AGE)


@pytest.mark.parametrize(
    ("total", "expires_in"), [(None, 9 * MINUTE), (5 * MINUTE, 4 * MINUTE), (30 * MINUTE, 9 * MINUTE)]
)
def test_a_retry_carries_the_instant_from_which_it_may_not_begin(total, expires_in) -> None:
    found = limited(AGING, Failed(TOKEN), age=MINUTE, total=total)

    assert isinstance(found, Transition)
    assert found.expires_at == NOW + expires_in


def test_what_is_given_back_carries_its_limits_into_the_line() -> None:
    old = limited(AGING, Released(TOKEN), age=60 * MINUTE)
    late = limited(AGING, Released(TOKEN), age=60 * MINUTE, total=59 * MINUTE)
    failed = limited(AGING, Released(TOKEN), age=60 * MINUTE, total=59 * MINUTE, failures=1)

    assert isinstance(old, Transition)
    assert isinstance(late, Transition)
    assert isinstance(failed, Transition)
    assert (old.to, old.expires_at) == (S.WAITING, None)
    assert (late.to, late.expires_at, late.failures) == (S.WAITING, NOW - MINUTE, 0)
    assert (failed.to, failed.expires_at, failed.failures) == (S.WAITING, NOW - 50 * MINUTE, 1)


def test_a_wish_to_cancel_and_an_error_for_good_are_named_before_any_deadline() -> None:
    for_good = limited(AGING, Failed(TOKEN, retryable=False), age=60 * MINUTE)
    cancelled = limited(AGING, TotalDeadlinePassed(TOKEN), age=60 * MINUTE, cancel_requested=True)

    assert isinstance(for_good, Transition)
    assert isinstance(cancelled, Transition)
    assert for_good.reason is R.ATTEMPT_NOT_RETRYABLE
    assert (cancelled.to, cancelled.reason) == (S.CANCELLED, R.CANCEL_REQUESTED)


def test_a_success_counts_even_past_the_total_deadline() -> None:
    found = limited(AGING, Succeeded(TOKEN), age=60 * MINUTE, total=MINUTE)

    assert isinstance(found, Transition)
    assert found.to is S.SUCCEEDED


@pytest.mark.parametrize(
    ("failures", "total", "expires_in", "event"),
    [
        (0, None, 10, StartDeadlinePassed()),
        (1, None, 9, StartDeadlinePassed()),
        (1, None, 10, RetryAgePassed()),
        (1, 10, 10, TotalDeadlinePassed()),
        (0, 10, 10, TotalDeadlinePassed()),
        (0, 11, 10, StartDeadlinePassed()),
        (0, 5, 10, TotalDeadlinePassed()),  # the task was changed after the run was lined up
    ],
)
def test_what_a_run_in_the_line_has_passed_is_told_by_where_its_limits_lie(failures, total, expires_in, event) -> None:
    run = Run(state=S.WAITING, failures=failures, due_at=NOW, total_deadline=None if total is None else total * MINUTE)

    assert overdue(run, expires_at=NOW + expires_in * MINUTE, policy=AGING) == event


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ((), R.ATTEMPT_FAILED),
        (("OSError",), R.ATTEMPT_FAILED),
        (("ValueError",), R.ATTEMPT_NOT_RETRYABLE),
        (("UnicodeError", "ValueError"), R.ATTEMPT_NOT_RETRYABLE),
        (("valueerror", "ValueErrors", "app.ValueError"), R.ATTEMPT_FAILED),  # exact names only
    ],
)
def test_a_class_that_the_policy_names_is_not_retried(classes, reason) -> None:
    policy = replace(POLICY, non_retryable=("ValueError", "billing.Refused"))

    found = decide(running(), Failed(TOKEN, classes=classes), now=NOW, policy=policy, jitter=0.5)

    assert isinstance(found, Transition)
    assert found.reason is reason


REPORTS = [Succeeded, Failed, Released, CancelConfirmed, LeaseExpired, TimedOut, TotalDeadlinePassed]


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

    @rule(
        event=st.sampled_from(
            [Claimed(), CancelRequested(), StartDeadlinePassed(), TotalDeadlinePassed(), RetryAgePassed()]
        )
    )
    def somebody_acts(self, event: Event) -> None:
        self.apply(event)

    @precondition(lambda self: self.tokens)
    @rule(kind=st.sampled_from(REPORTS), data=st.data())
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
