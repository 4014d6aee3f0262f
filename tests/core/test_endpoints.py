"""Endpoints: what an answer means, and when one that fails is left alone."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.endpoints import (
    FAILURES,
    FIRST_REST,
    LONGEST_REST,
    NO_ANSWER,
    USUAL_WAIT,
    WELL,
    Health,
    Meaning,
    Verdict,
    after,
    judge,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
GOOD = judge(200, retry_after=None)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("status", "asked", "meaning", "is_unwell"),
    [
        (200, None, Meaning.SUCCEEDED, False),
        (204, None, Meaning.SUCCEEDED, False),
        (202, None, Meaning.ACCEPTED, False),
        (301, None, Meaning.REFUSED, False),
        (400, None, Meaning.REFUSED, False),
        (408, None, Meaning.FAILED, False),
        (410, None, Meaning.REFUSED, False),
        (425, None, Meaning.FAILED, False),
        (429, None, Meaning.NOT_NOW, False),
        (429, MINUTE, Meaning.NOT_NOW, False),
        (500, MINUTE, Meaning.FAILED, True),
        (503, None, Meaning.FAILED, True),
        (503, MINUTE, Meaning.NOT_NOW, False),
    ],
)
def test_the_table_of_answers(status, asked, meaning, is_unwell):
    verdict = judge(status, retry_after=asked)

    assert (verdict.meaning, verdict.is_unwell) == (meaning, is_unwell)
    assert verdict.rest == ((asked or USUAL_WAIT) if meaning is Meaning.NOT_NOW else None)


def test_the_breaker_opens_after_failures_in_a_row_and_rests_longer_each_time():
    health = WELL
    for n in range(1, FAILURES):
        health = after(health, NO_ANSWER, now=NOW, jitter=1.0)
        assert health == Health(failures=n)
    rests, now = [], NOW
    for _ in range(10):
        health = after(health, NO_ANSWER, now=now, jitter=1.0)
        assert health.rests_until is not None
        rests.append(health.rests_until - now)
        now = health.rests_until

    assert rests[:3] == [FIRST_REST, FIRST_REST * 2, FIRST_REST * 4]
    assert rests[-1] == LONGEST_REST
    assert health.is_on_probation(now)


def test_what_ends_while_it_rests_says_nothing_new():
    open_now = Health(failures=FAILURES, rests_until=NOW + MINUTE)

    assert after(open_now, NO_ANSWER, now=NOW, jitter=0.0) == open_now
    assert after(open_now, GOOD, now=NOW, jitter=0.0) == WELL


def test_a_rest_that_it_asked_for_is_not_over_because_another_run_was_answered():
    asked = after(WELL, Verdict(meaning=Meaning.NOT_NOW, rest=MINUTE), now=NOW, jitter=0.0)

    assert after(asked, GOOD, now=NOW, jitter=0.0) == asked
    assert (asked.is_resting(NOW), asked.is_resting(NOW + MINUTE)) == (True, False)
    assert not asked.is_on_probation(NOW + MINUTE)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([200, 202, 400, 408, 429, 500, 503, None]), st.integers(0, 400), st.floats(0, 0.999)),
        max_size=60,
    )
)
def test_it_never_rests_for_longer_than_it_may_and_always_comes_back(steps):
    health, now = WELL, NOW
    for status, seconds, jitter in steps:
        now += timedelta(seconds=seconds)
        verdict = NO_ANSWER if status is None else judge(status, retry_after=None)
        health = after(health, verdict, now=now, jitter=jitter)
        if health.rests_until is not None:
            assert health.rests_until - now <= max(LONGEST_REST, USUAL_WAIT)
    later = now + LONGEST_REST
    assert not health.is_resting(later)
    assert after(health, GOOD, now=later, jitter=0.0).failures == 0
