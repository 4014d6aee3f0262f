import uuid
from datetime import UTC, datetime

import pytest

from everwhen.core.lifecycle import RunState
from everwhen.core.streaks import MOST_NAMED, Count, count_ends

NOW = datetime(2027, 1, 1, tzinfo=UTC)
S = RunState


def after(*states: RunState, pause_after: int = 3) -> Count:
    ends = [(uuid.UUID(int=number), state) for number, state in enumerate(states)]
    return count_ends(Count(pause_after=pause_after), ends, now=NOW)


@pytest.mark.parametrize(
    ("states", "failures", "pauses"),
    [
        ((S.DEAD, S.EXPIRED), 2, False),
        ((S.DEAD, S.EXPIRED, S.DEAD), 3, True),
        ((S.DEAD, S.DEAD, S.SUCCEEDED, S.DEAD), 1, False),
        ((S.DEAD, S.CANCELLED, S.SKIPPED, S.COALESCED, S.MISSED, S.DEAD), 2, False),
        ((S.DEAD, S.DEAD, S.DEAD, S.SUCCEEDED), 3, True),
    ],
)
def test_failures_in_a_row_are_counted_until_the_schedule_is_to_be_paused(states, failures, pauses) -> None:
    count = after(*states)

    assert (count.failures, count.pause_at is not None) == (failures, pauses)


def test_the_latest_failed_runs_are_named() -> None:
    count = after(*[S.DEAD] * 50, pause_after=100)

    assert count.failures == 50
    assert count.run_ids == tuple(uuid.UUID(int=number) for number in range(50 - MOST_NAMED, 50))
