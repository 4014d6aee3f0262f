"""What an operation does next, on every path: counts that add up, a rate that holds, a canary that is waited for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.bulk import (
    BURST,
    FIRST_LOOK,
    LAST_LOOK,
    Do,
    Limits,
    OperationState,
    Progress,
    Stop,
    Watch,
    allowance,
    decide,
    fold_keys,
    next_look,
    paced,
    passes_canary,
    seconds_left,
)
from everwhen.core.reasons import Reason

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MANY = 10_000
ENDS = ("succeeded", "dead", "ended")


def step(progress, limits=None, *, rate_at=NOW, now=NOW, batch=500):
    return decide(progress, limits or Limits(), rate_at=rate_at, now=now, batch=batch)


@pytest.mark.parametrize(
    ("progress", "limits", "expected"),
    [
        (Progress(total=0), Limits(), Stop(OperationState.SUCCEEDED)),
        (Progress(total=7), Limits(), Do(7)),
        (Progress(total=MANY), Limits(), Do(500)),
        (Progress(total=7, done=7), Limits(), Watch()),
        (Progress(total=7, done=3, skipped=4), Limits(), Watch()),
        (Progress(total=7, done=3, skipped=4, succeeded=2, dead=1), Limits(), Stop(OperationState.SUCCEEDED)),
        (Progress(total=MANY, canary_passed=False), Limits(canary=3), Do(3)),
        (Progress(total=MANY, done=2, canary_passed=False), Limits(canary=3), Do(1)),
        (Progress(total=MANY, done=3, succeeded=2, canary_passed=False), Limits(canary=3), Watch()),
        (
            Progress(total=MANY, done=3, succeeded=2, ended=1, canary_passed=False),
            Limits(canary=3),
            Stop(OperationState.FAILED, Reason.OPERATION_CANARY_FAILED),
        ),
        (
            Progress(total=MANY, done=9, dead=4),
            Limits(most_dead=4),
            Stop(OperationState.FAILED, Reason.OPERATION_TOO_MANY_DEAD),
        ),
        (Progress(total=MANY, done=9, dead=9), Limits(most_dead_share=0.5), Do(500)),  # too few to judge by
        (
            Progress(total=MANY, done=10, succeeded=4, dead=6),
            Limits(most_dead_share=0.5),
            Stop(OperationState.FAILED, Reason.OPERATION_TOO_MANY_DEAD),
        ),
        (Progress(total=MANY, done=10, succeeded=5, dead=5), Limits(most_dead_share=0.5), Do(500)),
    ],
)
def test_each_situation_has_its_next_step(progress, limits, expected):
    assert step(progress, limits) == expected


def test_a_canary_that_has_succeeded_lets_the_others_go():
    progress = Progress(total=MANY, done=3, succeeded=3, canary_passed=False)

    assert passes_canary(progress, Limits(canary=3))
    assert step(replace(progress, canary_passed=True), Limits(canary=3)) == Do(500)


RATES = st.floats(0.01, 5_000)
PAUSES = st.lists(st.floats(0, 30), min_size=1, max_size=40)


@given(RATES, PAUSES, st.integers(1, 1_000))
def test_in_no_stretch_of_time_is_the_rate_exceeded(rate, pauses, batch):
    now = rate_at = NOW
    taken: list[tuple[datetime, int]] = []
    for pause in pauses:
        now += timedelta(seconds=pause)
        count = allowance(rate, rate_at=rate_at, now=now, batch=batch)
        rate_at = paced(rate, rate_at=rate_at, now=now, taken=count)
        taken.append((now, count))

    for first, (begin, _) in enumerate(taken):
        total = 0
        for at, count in taken[first:]:
            total += count
            stretch = (at - begin + BURST).total_seconds()
            assert total <= rate * stretch + 1 + 1e-3 * (1 + total)


@given(RATES)
def test_who_keeps_looking_gets_the_whole_rate(rate):
    now = rate_at = NOW
    total = 0
    for _ in range(200):
        count = allowance(rate, rate_at=rate_at, now=now, batch=MANY)
        rate_at = paced(rate, rate_at=rate_at, now=now, taken=count)
        total += count
        now += timedelta(seconds=0.5)

    assert total >= int(rate * 99.5 * 0.99)


@given(st.integers(0, 300), st.integers(0, 20), st.none() | st.integers(1, 30), st.data())
def test_whatever_happens_the_counts_add_up_and_it_ends(total, canary, most_dead, data):
    limits = Limits(canary=canary, most_dead=most_dead)
    progress = Progress(total=total, canary_passed=canary == 0)
    for _ in range(total * 3 + 10):
        progress = replace(progress, canary_passed=passes_canary(progress, limits))
        answer = step(progress, limits, batch=50)
        match answer:
            case Stop():
                break
            case Do():
                skipped = data.draw(st.integers(0, answer.most))
                progress = replace(
                    progress, done=progress.done + answer.most - skipped, skipped=progress.skipped + skipped
                )
                if not progress.canary_passed:
                    assert progress.done <= canary
            case Watch():
                assert progress.under_way > 0
                end = data.draw(st.sampled_from(ENDS))
                progress = replace(progress, **{end: getattr(progress, end) + progress.under_way})
        assert progress.done + progress.skipped + progress.left == total
        assert progress.left >= 0
        assert progress.under_way >= 0
    else:
        raise AssertionError("it never ended")
    if answer.state is OperationState.SUCCEEDED:
        assert progress.left == progress.under_way == 0


def test_it_looks_more_rarely_the_longer_nothing_happens():
    waits = [
        next_look(Watch(), limits=Limits(), rate_at=NOW, moved_at=NOW - timedelta(seconds=idle), now=NOW) - NOW
        for idle in (0, 30, 300, 10_000)
    ]

    assert waits == [FIRST_LOOK, timedelta(seconds=3), timedelta(seconds=30), LAST_LOOK]


def test_with_more_to_do_it_looks_at_once_or_when_the_rate_allows():
    later = NOW + timedelta(seconds=4)

    assert next_look(Do(1), limits=Limits(), rate_at=later, moved_at=NOW, now=NOW) == NOW
    assert next_look(Do(1), limits=Limits(rate=0.25), rate_at=later, moved_at=NOW, now=NOW) == later


def test_the_time_left_is_told_by_the_rate_or_by_the_speed_so_far():
    half = Progress(total=100, done=40, skipped=10)

    assert seconds_left(half, rate=5, elapsed=timedelta(seconds=1)) == 10
    assert seconds_left(half, rate=None, elapsed=timedelta(seconds=20)) == 20
    assert seconds_left(Progress(total=5), rate=None, elapsed=timedelta(seconds=20)) is None
    assert seconds_left(Progress(total=5, done=5), rate=None, elapsed=timedelta(0)) == 0


@given(st.lists(st.binary(min_size=1, max_size=16), max_size=30), st.integers(0, 30))
def test_a_digest_does_not_depend_on_how_the_items_came(keys, cut):
    assert fold_keys(fold_keys(b"", keys[:cut]), keys[cut:]) == fold_keys(b"", keys)
    assert not keys or fold_keys(b"", keys) != fold_keys(b"", keys[:-1])
