"""The fold of a run's events is its state, and what cannot have happened is named."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.history import EDGES, History, fold
from everwhen.core.lifecycle import (
    RESTING,
    TERMINAL,
    CancelConfirmed,
    CancelRequested,
    Claimed,
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
    decide,
    resting_state,
)
from everwhen.core.retry import Jitter, RetryPolicy

START = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
POLICY = RetryPolicy(max_attempts=3, base=timedelta(seconds=10), jitter=Jitter.NONE)


@dataclass(frozen=True)
class Told:
    kind: str
    at: datetime = START
    attempt: int | None = None
    reason: str | None = None


def told(*kinds: str) -> list[Told]:
    """Events a second apart; `claimed:2` is of attempt 2."""
    split = [kind.partition(":") for kind in kinds]
    return [
        Told(kind, START + timedelta(seconds=number), int(attempt) if attempt else None)
        for number, (kind, _, attempt) in enumerate(split)
    ]


def test_every_kind_of_event_has_an_edge():
    assert set(EDGES) == set(EventKind)


def test_no_edge_leaves_an_end():
    leaving = {kind for kind, edge in EDGES.items() if edge.since & TERMINAL}

    assert leaving == {EventKind.REFUSED}
    assert EDGES[EventKind.REFUSED].stays


@pytest.mark.parametrize(
    ("kinds", "state", "attempts"),
    [
        ((), None, 0),
        (("planned",), RunState.PLANNED, 0),
        (("planned", "rolled"), RunState.PLANNED, 0),
        (("planned", "unplanned"), None, 0),
        (("planned", "unplanned", "planned", "claimed:1"), RunState.RUNNING, 1),
        (("planned", "unplanned", "skipped"), RunState.SKIPPED, 0),
        (("planned", "claimed:1", "retrying:1"), RunState.RETRYING, 1),
        (("planned", "claimed:1", "released:1", "claimed:2", "succeeded:2"), RunState.SUCCEEDED, 2),
        (("planned", "claimed:1", "cancel_requested:1", "cancelled:1"), RunState.CANCELLED, 1),
        (("planned", "claimed:1", "dead:1", "refused"), RunState.DEAD, 1),
        (("planned", "expired"), RunState.EXPIRED, 0),
        (("missed",), RunState.MISSED, 0),
        (("coalesced",), RunState.COALESCED, 0),
    ],
)
def test_a_history_comes_to_its_state(kinds, state, attempts):
    history = fold(told(*kinds))

    assert (history.state, history.attempts, history.breaches) == (state, attempts, ())


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        (("planned", "succeeded:1"), "a run that is planned cannot become succeeded"),
        (("claimed:1",), "a run that is nothing cannot become claimed"),
        (("planned", "claimed:1", "claimed:2"), "a run that is running cannot become claimed"),
        (("planned", "claimed:2"), "attempt 2 was claimed after attempt 0"),
        (("planned", "claimed:1", "succeeded:1", "dead:1"), "a run that is succeeded has ended and cannot become dead"),
        (("planned", "exploded"), "no event is called exploded"),
        (("planned", "unplanned", "rolled"), "a run that is nothing cannot become rolled"),
    ],
)
def test_what_cannot_follow_is_named_once(kinds, sentence):
    assert [breach.sentence for breach in fold(told(*kinds)).breaches] == [sentence]


def test_time_does_not_run_backwards():
    events = [Told("planned", START), Told("claimed", START - timedelta(seconds=1), 1)]

    assert [breach.sentence for breach in fold(events).breaches] == [
        "claimed at 2026-11-30T02:29:59+00:00 lies before planned at 2026-11-30T02:30:00+00:00"
    ]


def test_the_three_resting_words_are_one_and_no_other_is():
    for state in RunState:
        assert History(state=state).is_at(state)
        assert History(state=RunState.PLANNED).is_at(state) == (state in RESTING)
    assert not History(state=None).is_at(RunState.WAITING)
    assert History(state=None).is_at(None)


INPUTS = st.sampled_from([
    Claimed(),
    Succeeded(1),
    Failed(1),
    Failed(1, retryable=False),
    Released(1),
    CancelConfirmed(1),
    LeaseExpired(1),
    TimedOut(1),
    CancelRequested(),
    StartDeadlinePassed(),
    Succeeded(2),
])  # fmt: skip


@given(st.lists(st.tuples(INPUTS, st.integers(0, 20)), max_size=40))
def test_the_fold_of_what_the_lifecycle_decides_is_the_state_that_it_decided(steps):
    run, now, attempts = Run(state=RunState.PLANNED), START, 0
    available_at, events = START + timedelta(seconds=5), [Told("planned", START)]
    for event, seconds in steps:
        now += timedelta(seconds=seconds)
        if run.state in RESTING:
            run = Run(
                state=resting_state(available_at=available_at, failures=run.failures, now=now), failures=run.failures
            )
        answer = decide(run, event, now=now, policy=POLICY, jitter=0.0)
        if isinstance(answer, Refused):
            events.append(Told("refused", now, None, answer.reason))
            continue
        attempts += answer.event is EventKind.CLAIMED
        events.append(Told(answer.event, now, attempts or None, answer.reason))
        available_at = answer.available_at or available_at
        asked = run.state is RunState.RUNNING and (run.cancel_requested or answer.event is EventKind.CANCEL_REQUESTED)
        run = Run(state=answer.to, failures=answer.failures, lease_token=1, cancel_requested=asked)
    history = fold(events)

    assert history.is_at(run.state)
    assert (history.attempts, history.breaches) == (attempts, ())
    if run.state not in TERMINAL:
        assert history.failures == run.failures
