"""Back-off: bounded, exponential, and never an overflow."""

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everwhen.core.retry import Jitter, RetryPolicy, delay

policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 1000),
    base=st.timedeltas(timedelta(0), timedelta(minutes=5)),
    factor=st.floats(1.0, 100.0),
    cap=st.timedeltas(timedelta(minutes=5), timedelta(days=7)),
    jitter=st.sampled_from(Jitter),
)
jitters = st.floats(0.0, 1.0, exclude_max=True)


def test_a_delay_doubles_up_to_its_cap() -> None:
    policy = RetryPolicy(base=timedelta(seconds=1), factor=2, cap=timedelta(seconds=5), jitter=Jitter.NONE)

    waits = [delay(policy, failures=n, jitter=0.0).total_seconds() for n in range(1, 6)]

    assert waits == [1, 2, 4, 5, 5]


@given(policies, st.integers(1, 10**9), jitters)
@example(RetryPolicy(factor=1.0000000000000002), 10**9, 0.0)
@example(RetryPolicy(cap=timedelta(seconds=300, microseconds=3), base=timedelta(seconds=300)), 9, 0.9999999999999999)
def test_a_delay_never_exceeds_the_cap(policy: RetryPolicy, failures: int, jitter: float) -> None:
    assert timedelta(0) <= delay(policy, failures=failures, jitter=jitter) <= policy.cap


@given(policies, st.integers(1, 50), jitters)
def test_jitter_keeps_what_it_promises(policy: RetryPolicy, failures: int, jitter: float) -> None:
    bare = RetryPolicy(base=policy.base, factor=policy.factor, cap=policy.cap, jitter=Jitter.NONE)
    full = delay(bare, failures=failures, jitter=0.0)
    waited = delay(policy, failures=failures, jitter=jitter)
    least = {Jitter.FULL: timedelta(0), Jitter.EQUAL: full / 2, Jitter.NONE: full}[policy.jitter]

    assert least - timedelta(microseconds=1) <= waited <= full + timedelta(microseconds=1)


@given(policies, st.integers(1, 30))
def test_a_later_failure_never_waits_less(policy: RetryPolicy, failures: int) -> None:
    bare = RetryPolicy(base=policy.base, factor=policy.factor, cap=policy.cap, jitter=Jitter.NONE)

    assert delay(bare, failures=failures, jitter=0.0) <= delay(bare, failures=failures + 1, jitter=0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 1001},
        {"base": timedelta(seconds=-1)},
        {"base": timedelta(hours=2)},
        {"cap": timedelta(days=8)},
        {"factor": 0.5},
        {"factor": 101.0},
        {"factor": float("nan")},
        {"max_age": timedelta(0)},
        {"max_age": timedelta(days=367)},
        {"non_retryable": ("",)},
        {"non_retryable": ("x" * 201,)},
        {"non_retryable": ("two words",)},
        {"non_retryable": ("nul\0",)},
        {"non_retryable": ("x",) * 51},
    ],
)
def test_an_impossible_policy_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="must"):
        RetryPolicy(**wrong)
