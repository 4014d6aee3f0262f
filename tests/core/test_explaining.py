"""An account of a run adds up, whatever its history; and the words for it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.explaining import Account, Facts, RunFacts, Told, Tried, account_for
from everwhen.core.lifecycle import RESTING, TERMINAL, EventKind, RunState
from everwhen.core.reasons import Reason
from everwhen.core.tellings import Voice, duration, headline, parts
from everwhen.core.timeline import PRECEDENCE, Blocked, Segment

START = datetime(2026, 11, 30, 1, 30, tzinfo=UTC)
SECONDS = st.integers(-300, 3_000)


def at(seconds):
    return START + timedelta(seconds=seconds)


def run(**changes):
    said = {"source": "schedule", "queue": "line", "intended_at": START, "due_at": START, "planned_at": at(-20)}
    return RunFacts(**(said | {"state": RunState.SUCCEEDED} | changes))


def facts(state, *events, now=10_000, observed=((-100, 20_000),), **changes):
    return Facts(
        run=run(state=state, **changes),
        events=[Told(kind=kind, at=at(seconds), **rest) for kind, seconds, rest in events],
        attempts=[Tried(attempt=1, worker="w-1", error="ValueError: boom")],
        blocked=[],
        observed=[(at(a), at(b)) for a, b in observed],
        now=at(now),
    )


def told(account):
    return [
        (segment.reason, (segment.since - START).total_seconds(), (segment.until - START).total_seconds())
        for segment in account.segments
    ]


DETAILS = st.fixed_dictionaries(
    {}, optional={"available_at": SECONDS.map(lambda s: at(s).isoformat()) | st.text(max_size=9)}
)
EVENTS = st.lists(
    st.builds(
        lambda kind, seconds, attempt, detail: Told(kind=kind, at=at(seconds), attempt=attempt, detail=detail),
        st.sampled_from([*EventKind, "held", "admitted", "of_a_newer_release"]),
        SECONDS,
        st.none() | st.integers(1, 3),
        DETAILS,
    ),
    max_size=14,
)
BLOCKED = st.lists(
    st.builds(
        lambda reason, since, length, noticed: Blocked(
            reason=reason,
            since=at(since),
            until=None if length is None else at(since + length),
            noticed_at=at(noticed),
        ),
        st.sampled_from(PRECEDENCE),
        SECONDS,
        st.none() | st.integers(0, 900),
        SECONDS,
    ),
    max_size=6,
)
RUNS = st.builds(
    run,
    state=st.sampled_from(RunState),
    source=st.sampled_from(["schedule", "api", "backfill", "redrive", "workflow"]),
    due_at=st.integers(0, 900).map(at),
    planned_at=SECONDS.map(at),
    available_at=st.none() | SECONDS.map(at),
    expires_at=st.none() | SECONDS.map(at),
    decided_at=st.none() | SECONDS.map(at),
    created_at=st.none() | SECONDS.map(at),
    was_paused=st.booleans(),
)


HISTORIES = st.builds(
    Facts,
    run=RUNS,
    events=EVENTS | EVENTS.map(lambda events: sorted(events, key=lambda event: event.at)),
    attempts=st.just([Tried(attempt=1, worker="w-1")]),
    blocked=BLOCKED,
    observed=st.lists(st.tuples(SECONDS.map(at), SECONDS.map(at)), max_size=3),
    now=SECONDS.map(at),
    is_cut=st.booleans(),
)


@given(HISTORIES)
def test_the_segments_sum_to_the_lateness_whatever_the_history(history):
    made, account = history.run, account_for(history)

    assert sum((segment.duration for segment in account.segments), timedelta()) == account.lateness
    assert account.lateness >= timedelta()
    assert account.since == made.intended_at
    assert all(a.until == b.since for a, b in zip(account.segments, account.segments[1:], strict=False))
    if account.segments:
        assert (account.segments[0].since, account.segments[-1].until) == (account.since, account.until)
    for segment in account.also:
        assert account.since <= segment.since < segment.until <= account.until
    assert headline(made, account, voice=Voice(), facts={}, now=history.now).endswith(".")


def test_each_part_of_a_life_has_its_reason():
    account = account_for(
        facts(
            RunState.SUCCEEDED,
            ("planned", 15, {"detail": {"available_at": at(30).isoformat()}}),
            ("held", 30, {"reason": "overlap.buffered"}),
            ("admitted", 60, {}),
            ("claimed", 70, {"attempt": 1}),
            (
                "retrying",
                80,
                {"attempt": 1, "reason": "attempt.failed", "detail": {"available_at": at(100).isoformat()}},
            ),
            ("claimed", 101, {"attempt": 2}),
            ("succeeded", 200, {"attempt": 2}),
            due_at=at(10),
            planned_at=at(15),
        )
    )

    assert told(account) == [
        ("flex.window", 0, 10),
        ("scheduler.late", 10, 15),
        ("catchup.paced", 15, 30),
        ("overlap.buffered", 30, 60),
        ("queue.waiting", 60, 70),
        ("attempt.failed", 70, 80),
        ("retry.backoff", 80, 100),
        ("queue.waiting", 100, 101),
    ]
    assert account.segments[5].facts == {"attempt": 1, "worker": "w-1", "error": "ValueError: boom"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": "api"}, Reason.REQUEST_AFTER_DUE),
        ({"source": "backfill"}, Reason.BACKFILL_REQUESTED),
        ({"created_at": at(1)}, Reason.SCHEDULE_BEFORE_CREATION),
        ({"was_paused": True}, Reason.SCHEDULE_PAUSED),
        ({}, Reason.SCHEDULER_DOWN),
        ({"planned_at": at(10)}, Reason.SCHEDULER_LATE),
    ],
)
def test_a_run_that_was_planned_late_says_why(changes, reason):
    made = facts(RunState.SUCCEEDED, ("claimed", 70, {"attempt": 1}), **({"planned_at": at(60)} | changes))

    assert told(account_for(made))[0][0] == reason


@pytest.mark.parametrize(
    ("state", "events", "until"),
    [
        (RunState.RUNNING, [("claimed", 5, {"attempt": 1})], 5),
        (RunState.SUCCEEDED, [("claimed", 5, {"attempt": 1}), ("succeeded", 9, {})], 5),
        (RunState.CANCELLED, [("claimed", 5, {"attempt": 1}), ("cancel_requested", 6, {}), ("cancelled", 9, {})], 5),
        (RunState.CANCELLED, [("cancelled", 9, {})], 9),
        (RunState.CANCELLED, [("claimed", 5, {}), ("released", 6, {}), ("cancelled", 9, {})], 9),
        (RunState.EXPIRED, [("expired", 9, {})], 9),
        (RunState.MISSED, [("missed", 9, {})], 9),
        (RunState.WAITING, [], 99),
        (RunState.RETRYING, [("claimed", 5, {}), ("retrying", 6, {})], 99),
    ],
)
def test_where_the_timeline_ends(state, events, until):
    account = account_for(facts(state, *events, now=99, planned_at=at(0)))

    assert account.until == at(until)


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([("claimed", 5, {"attempt": 1}), ("dead", 9, {})], "The last attempt started 5s late: 5s in the line."),
        ([("claimed", 5, {"attempt": 1}), ("retrying", 6, {"attempt": 1}), ("dead", 9, {})],
         "It was 9s late: 8s in the line, 1s in an attempt."),
    ],
)  # fmt: skip
def test_a_run_that_died_while_it_rested_did_not_start(events, sentence):
    made = facts(RunState.DEAD, *events, reason="deadline.total")
    account = account_for(made)
    said = headline(made.run, account, voice=Voice(), facts={}, now=made.now)

    assert said == f"Dead. The run did not end within its total deadline. {sentence}"
    assert account.is_started == ("last attempt" in sentence)


def test_where_nobody_watched_it_is_not_complete():
    watched = [((-10, 40), True), ((-10, 4), False), ((30, 90), False), ((90, 99), False)]
    for observed, is_complete in watched:
        made = facts(RunState.SUCCEEDED, ("claimed", 40, {"attempt": 1}), observed=(observed,))
        assert account_for(made).is_complete == is_complete, observed


def test_a_short_wait_needs_no_watching():
    assert account_for(facts(RunState.SUCCEEDED, ("claimed", 4, {"attempt": 1}), observed=())).is_complete


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.0124, "12ms"),
        (1, "1s"),
        (3.44, "3.4s"),
        (59.96, "1m"),
        (60, "1m"),
        (432, "7m 12s"),
        (3_599.6, "1h"),
        (3_660, "1h 1m"),
        (90_000, "1d 1h"),
        (86_400 * 400, "400d"),
        (-5, "0ms"),
    ],
)
def test_a_duration_is_told_by_its_two_largest_units(seconds, text):
    assert duration(timedelta(seconds=seconds)) == text


def test_the_longest_parts_are_named_in_the_order_in_which_they_began():
    lengths = [
        (Reason.FLEX_WINDOW, 1),
        (Reason.LIMIT_QUEUE, 50),
        (Reason.QUEUE_WAITING, 2),
        (Reason.ATTEMPT_FAILED, 30),
        (Reason.RETRY_BACKOFF, 20),
        (Reason.ATTEMPT_FAILED, 30),
    ]
    segments, since = [], 0
    for reason, seconds in lengths:
        segments.append(Segment(since=at(since), until=at(since + seconds), reason=reason))
        since += seconds

    assert parts(segments) == (
        "50s at the limit of its queue, 2s in the line, 1m in attempts that failed, 20s between attempts"
    )


def test_instants_are_told_by_the_schedules_clock():
    voice = Voice(timedelta(hours=1))

    assert voice.instant(START) == "2026-11-30 02:30+01:00"
    assert voice.instant(at(4)) == "2026-11-30 02:30:04+01:00"
    assert voice.sentence("start.deadline", {"deadline": at(900)}) == (
        "No worker started the run before its start deadline, 2026-11-30 02:45+01:00."
    )
    assert voice.sentence("moon.full", {}) == "The reason is moon.full."


def test_every_state_has_a_headline():
    for state in RunState:
        account = Account(since=START, until=at(90), segments=(), also=(), is_complete=True)
        said = headline(run(state=state, reason=None), account, voice=Voice(), facts={}, now=at(90))
        assert said[0].isupper(), state
        assert said.endswith("."), state
    assert TERMINAL | RESTING | {RunState.RUNNING} == set(RunState)
