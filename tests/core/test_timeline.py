"""A timeline covers its span exactly, whatever it is told, and puts a wait down to what blocked the line."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.reasons import Reason
from everwhen.core.timeline import PRECEDENCE, Blocked, Timeline, sliced

START = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def blocked(reason, since, until, *, noticed=None, **facts):
    return Blocked(
        reason=reason,
        since=at(since),
        until=None if until is None else at(until),
        noticed_at=at(since + 1 if noticed is None else noticed),
        facts=facts,
    )


def told(segments):
    return [
        (segment.reason, (segment.since - START).total_seconds(), (segment.until - START).total_seconds())
        for segment in segments
    ]


def test_a_wait_is_cut_where_what_blocked_the_line_began_and_ended():
    parts = [blocked("limit.queue", -60, 432, limit=10), blocked("worker.none_live", 100, 663)]

    assert told(sliced(START, at(664), parts)) == [
        ("limit.queue", 0, 100),
        ("limit.queue", 100, 432),
        ("worker.none_live", 432, 663),
        ("queue.waiting", 663, 664),
    ]


def test_the_first_of_the_precedence_is_told():
    parts = [blocked(reason, 0, 10) for reason in reversed(PRECEDENCE)]

    assert told(sliced(START, at(10), parts)) == [(PRECEDENCE[0], 0, 10)]


def test_what_was_noticed_soon_after_the_beginning_counts_from_it():
    soon, late = blocked("priority.behind", 3, None, noticed=3), blocked("priority.behind", 6, None, noticed=6)

    assert told(sliced(START, at(10), [soon])) == [("priority.behind", 0, 10)]
    assert told(sliced(START, at(10), [late])) == [("queue.waiting", 0, 6), ("priority.behind", 6, 10)]


def test_what_is_known_to_have_begun_later_counts_from_then():
    assert told(sliced(START, at(10), [blocked("limit.queue", 3, None, noticed=4)])) == [
        ("queue.waiting", 0, 3),
        ("limit.queue", 3, 10),
    ]


def test_equal_neighbours_are_one_segment_and_unequal_ones_are_not():
    line = Timeline(START, at(10))
    line.until(at(2), Reason.QUEUE_WAITING, queue="a")
    line.until(at(4), Reason.QUEUE_WAITING, queue="a")
    line.until(at(6), Reason.QUEUE_WAITING, queue="b")
    line.until(at(99), Reason.RETRY_BACKOFF)

    assert told(line.segments) == [("queue.waiting", 0, 4), ("queue.waiting", 4, 6), ("retry.backoff", 6, 10)]


SECONDS = st.integers(-100, 200)
BLOCKED = st.builds(
    lambda reason, since, length, noticed: blocked(
        reason, since, None if length is None else since + length, noticed=noticed
    ),
    st.sampled_from([*PRECEDENCE, "moon.full"]),
    SECONDS,
    st.none() | st.integers(0, 150),
    SECONDS,
)


@given(SECONDS, SECONDS, st.lists(st.tuples(SECONDS, st.booleans()), max_size=12), st.lists(BLOCKED, max_size=8))
def test_the_durations_sum_to_the_span_whatever_it_is_told(start, end, told_until, parts):
    line = Timeline(at(start), at(end))
    for seconds, waits in [*told_until, (200, True)]:
        if waits:
            line.waited(at(seconds), parts)
        else:
            line.until(at(seconds), Reason.RETRY_BACKOFF, seconds=seconds)

    assert sum((segment.duration for segment in line.segments), timedelta()) == line.end - line.start
    assert all(a.until == b.since for a, b in zip(line.segments, line.segments[1:], strict=False))
    assert all(segment.duration > timedelta() for segment in line.segments)
