"""Retry: bounded exponential back-off with jitter, as a pure function of the policy and the failures so far.

Four things end the retries of a run, whichever comes first: its attempts are used up, its error is one that no retry
mends, its next attempt would begin when the run is older than `max_age`, or the run's total deadline (the task's, see
`lifecycle`) would have passed by then. Age counts from the instant at which the run was due, so it includes the time
that the run waited for a worker.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, assert_never

MAX_ATTEMPTS_LIMIT: Final = 1_000
MAX_DELAY: Final = timedelta(days=7)
MAX_AGE_LIMIT: Final = timedelta(days=366)
MOST_NON_RETRYABLE: Final = 50
MOST_CLASS_NAME: Final = 200


class Jitter(StrEnum):
    """How much of the delay is drawn at random."""

    FULL = "full"  # anything from nothing to the whole delay
    EQUAL = "equal"  # half the delay, and anything up to the other half
    NONE = "none"  # the delay itself


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how fast a task's failed attempts are tried again.

    The n-th retry waits `base * factor ** (n - 1)`, at most `cap`, before jitter. No retry begins when the run is older
    than `max_age` (None: no limit). An error of a class that `non_retryable` names, or of a class that inherits from
    it, is not retried.
    """

    max_attempts: int = 5
    base: timedelta = timedelta(seconds=5)
    factor: float = 2.0
    cap: timedelta = timedelta(hours=1)
    jitter: Jitter = Jitter.EQUAL
    max_age: timedelta | None = None
    non_retryable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= MAX_ATTEMPTS_LIMIT:
            raise ValueError(f"max_attempts is {self.max_attempts}; it must lie between 1 and {MAX_ATTEMPTS_LIMIT}")
        if not timedelta(0) <= self.base <= self.cap <= MAX_DELAY:
            raise ValueError("base and cap must satisfy 0 <= base <= cap <= 7 days")
        if not 1.0 <= self.factor <= 100.0:  # also refuses NaN
            raise ValueError(f"factor is {self.factor}; it must lie between 1 and 100")
        if self.max_age is not None and not timedelta(0) < self.max_age <= MAX_AGE_LIMIT:
            raise ValueError(f"max_age must lie between 0 (not included) and {MAX_AGE_LIMIT.days} days")
        _check_classes(self.non_retryable)


def mends(policy: RetryPolicy, classes: Collection[str]) -> bool:
    """Say whether a retry may mend an error of these classes: its own name and those of its bases, as reported."""
    return not policy.non_retryable or not set(policy.non_retryable).intersection(classes)


def delay(policy: RetryPolicy, *, failures: int, jitter: float) -> timedelta:
    """Return how long to wait after the `failures`-th failure (from 1); `jitter` is drawn from [0, 1)."""
    full = _capped(policy, retries=max(failures, 1) - 1)
    match policy.jitter:
        case Jitter.FULL:
            return full * jitter
        case Jitter.EQUAL:
            return min(full / 2 + full / 2 * jitter, full)  # each half is rounded to a microsecond by itself
        case Jitter.NONE:
            return full
        case _:
            assert_never(policy.jitter)


def _capped(policy: RetryPolicy, *, retries: int) -> timedelta:
    # Multiply step by step and stop at the cap: the power itself overflows long before the last attempt.
    wait, cap = policy.base.total_seconds(), policy.cap.total_seconds()
    # Nobody retries more often than the limit, and a factor close to 1 would take as many steps as there were failures.
    for _ in range(min(retries, MAX_ATTEMPTS_LIMIT)):
        if wait == 0 or wait >= cap or policy.factor == 1.0:
            break
        wait *= policy.factor
    return timedelta(seconds=min(wait, cap))


def _check_classes(names: tuple[str, ...]) -> None:
    if len(names) > MOST_NON_RETRYABLE:
        raise ValueError(f"non_retryable names {len(names)} classes; it must name at most {MOST_NON_RETRYABLE}")
    for name in names:
        if (fault := check_class(name)) is not None:
            raise ValueError(fault)


def check_class(name: str) -> str | None:
    """Return what is wrong with the name of a class; None when nothing is."""
    if 1 <= len(name) <= MOST_CLASS_NAME and name.isprintable() and " " not in name:
        return None
    return f"non_retryable has {name[:50]!r}; a class name must have 1 to {MOST_CLASS_NAME} visible characters"
