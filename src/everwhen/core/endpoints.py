"""Endpoints: what an HTTP answer means to a run, and how long an endpoint that fails is left alone.

    2xx              the run has succeeded
    202              accepted: it runs on, and whoever accepted it reports its end with the lease token
    429, or 503 with Retry-After
                     not now: the run is given back, which costs it no retry, and the endpoint rests
    408 425 5xx, no answer
                     the attempt failed; another follows by the task's policy, and the endpoint counts a failure
    3xx, other 4xx   the attempt failed and none follows: the same request would be refused again

The breaker is closed while the endpoint answers. After FAILURES in a row it opens: the endpoint *rests*, for longer
each time, and nothing is sent. When the rest is over one run probes it; an answer closes the breaker, a failure makes
the next rest longer. What ends while it rests was begun before, and says nothing new: a burst that fails at once
counts as little as one run.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

FAILURES: Final = 5
"""After how many failures in a row an endpoint is left alone."""

FIRST_REST: Final = timedelta(seconds=5)
LONGEST_REST: Final = timedelta(minutes=5)
USUAL_WAIT: Final = timedelta(seconds=5)
"""How long an endpoint rests that asked for time and did not say how much."""

_AGAIN: Final = frozenset({408, 425})


class Meaning(StrEnum):
    """What an answer means to the run."""

    SUCCEEDED = "succeeded"
    ACCEPTED = "accepted"
    NOT_NOW = "not_now"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The meaning, and how long the endpoint asked to be left alone. `is_unwell`: it counts against the endpoint."""

    meaning: Meaning
    is_unwell: bool = False
    rest: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How an endpoint does: its failures in a row, and until when nothing is sent."""

    failures: int = 0
    rests_until: datetime | None = None

    def is_resting(self, now: datetime) -> bool:
        """Say whether nothing is sent now."""
        return self.rests_until is not None and now < self.rests_until

    def is_on_probation(self, now: datetime) -> bool:
        """Say whether one run has to show that it answers again."""
        return self.failures >= FAILURES and not self.is_resting(now)


WELL: Final = Health()
NO_ANSWER: Final = Verdict(meaning=Meaning.FAILED, is_unwell=True)
NOT_REACHABLE: Final = Verdict(meaning=Meaning.REFUSED)
"""The installation does not let anybody reach this target."""


def judge(status: int, *, retry_after: timedelta | None) -> Verdict:
    """Return what a status means."""
    if status == 202:
        return Verdict(meaning=Meaning.ACCEPTED)
    if 200 <= status < 300:
        return Verdict(meaning=Meaning.SUCCEEDED)
    if status == 429 or (status == 503 and retry_after is not None):
        return Verdict(meaning=Meaning.NOT_NOW, rest=USUAL_WAIT if retry_after is None else retry_after)
    if status in _AGAIN:
        return Verdict(meaning=Meaning.FAILED)
    if status >= 500:
        return Verdict(meaning=Meaning.FAILED, is_unwell=True)
    return Verdict(meaning=Meaning.REFUSED)


def after(health: Health, verdict: Verdict, *, now: datetime, jitter: float) -> Health:
    """Return how an endpoint does after an answer; `jitter` is in [0, 1)."""
    if verdict.rest is not None:
        until = now + verdict.rest
        if health.rests_until is not None:
            until = max(until, health.rests_until)
        return Health(failures=0, rests_until=until)
    if not verdict.is_unwell:
        # It answers; but a rest that it asked for itself is not over because another run was answered before.
        return WELL if health.failures else Health(rests_until=health.rests_until)
    if health.is_resting(now):
        return health
    failures = health.failures + 1
    if failures < FAILURES:
        return Health(failures=failures)
    pause = min(FIRST_REST * 2 ** min(failures - FAILURES, 20), LONGEST_REST)
    return Health(failures=failures, rests_until=now + pause * (0.5 + jitter / 2))


def probing(health: Health, *, now: datetime, seconds: float) -> Health:
    """Return how an endpoint stands while one run probes it: it rests until the answer can be expected."""
    return replace(health, rests_until=now + timedelta(seconds=seconds))
