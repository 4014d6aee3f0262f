"""What blocks a line follows from what is seen of it: each rule once, and the changes between two looks."""

from datetime import UTC, datetime, timedelta

import pytest

from everwhen.core.blockages import (
    EVERY_TASK,
    LIVE,
    MEMORY,
    STANDING,
    Blockage,
    LineFacts,
    LiveFleet,
    changes,
    diagnose,
)
from everwhen.core.reasons import Reason

NOW = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def line(**facts):
    return LineFacts(**({"oldest_due_at": NOW - MINUTE, "due": 1, "last_seen_at": NOW} | facts))


def told(facts):
    return {(each.task, each.reason, each.since) for each in diagnose(facts, now=NOW)}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, set()),
        ({"due": 7}, {(EVERY_TASK, Reason.PRIORITY_BEHIND, NOW)}),
        ({"limit": 2, "in_flight": 1, "filled_at": NOW - MINUTE}, set()),
        (
            {"limit": 2, "in_flight": 2, "filled_at": NOW - 5 * MINUTE},
            {(EVERY_TASK, Reason.LIMIT_QUEUE, NOW - 5 * MINUTE)},
        ),
        ({"limit": 0}, {(EVERY_TASK, Reason.LIMIT_QUEUE, NOW - MINUTE)}),
        ({"last_seen_at": None}, {(EVERY_TASK, Reason.WORKER_NONE_REGISTERED, NOW - MINUTE)}),
        ({"last_seen_at": NOW - MEMORY - MINUTE}, {(EVERY_TASK, Reason.WORKER_NONE_REGISTERED, NOW - MINUTE)}),
        ({"last_seen_at": NOW - LIVE}, set()),
        ({"last_seen_at": NOW - 2 * MINUTE}, {(EVERY_TASK, Reason.WORKER_NONE_LIVE, NOW - 2 * MINUTE)}),
        (
            {"last_seen_at": NOW - 2 * MINUTE, "is_held": True, "in_flight": 3},
            {(EVERY_TASK, Reason.WORKER_SLOTS_FULL, NOW - 2 * MINUTE)},
        ),
        (
            {"last_seen_at": NOW - MINUTE, "is_held": True, "live": LiveFleet(workers=2, cordoned=2, held_back_at=NOW)},
            {(EVERY_TASK, Reason.WORKER_CORDONED, NOW)},
        ),
        (
            {"last_seen_at": NOW - MINUTE, "live": LiveFleet(workers=2, cordoned=1, draining=1)},
            {(EVERY_TASK, Reason.WORKER_DRAINING, NOW - MINUTE)},
        ),
        (
            {"last_seen_at": NOW - MINUTE, "is_held": True, "live": LiveFleet(workers=2, cordoned=1, slots=4)},
            {(EVERY_TASK, Reason.WORKER_SLOTS_FULL, NOW - MINUTE)},
        ),
        ({"live": LiveFleet(workers=1, cordoned=1)}, set()),
        (
            {"last_seen_at": None, "is_held": True, "in_flight": 3, "filled_at": NOW - MINUTE},
            {(EVERY_TASK, Reason.WORKER_SLOTS_FULL, NOW - MINUTE)},
        ),
        (
            {"unknown_tasks": ["a", "b"]},
            {("a", Reason.WORKER_NO_CAPABILITY_MATCH, NOW), ("b", Reason.WORKER_NO_CAPABILITY_MATCH, NOW)},
        ),
        ({"unknown_tasks": ["a"], "last_seen_at": None, "is_held": True, "filled_at": NOW}, set()),
        ({"unknown_tasks": ["a"], "last_seen_at": NOW - MINUTE}, {(EVERY_TASK, Reason.WORKER_NONE_LIVE, NOW - MINUTE)}),
    ],
)
def test_each_rule(facts, expected):
    assert told(line(**facts)) == expected


def test_everything_that_blocks_is_told_and_not_the_first_only():
    facts = line(limit=1, in_flight=1, filled_at=NOW - MINUTE, last_seen_at=NOW - 2 * MINUTE)

    assert {reason for _, reason, _ in told(facts)} == {Reason.LIMIT_QUEUE, Reason.WORKER_NONE_LIVE}


def test_a_line_that_does_not_stand_has_nothing_to_tell():
    assert diagnose(line(oldest_due_at=NOW - STANDING + timedelta(microseconds=1), last_seen_at=None), now=NOW) == []


def test_nothing_begins_after_it_was_seen():
    for each in diagnose(line(limit=1, in_flight=1, filled_at=NOW + MINUTE), now=NOW):
        assert each.since <= NOW


def blockage(reason, *, limit=None, task=EVERY_TASK):
    return Blockage(
        task=task, reason=reason, since=NOW, facts={} if limit is None else {"limit": limit, "in_flight": 9}
    )


def test_only_what_changed_is_written():
    limit, worker = blockage(Reason.LIMIT_QUEUE, limit=3), blockage(Reason.WORKER_NONE_LIVE)

    assert changes([limit], [limit, worker]) == ([worker], [])
    assert changes([limit, worker], [limit]) == ([], [worker])
    assert changes([limit], [limit]) == ([], [])


def test_a_limit_that_was_changed_is_another_one():
    old, new = blockage(Reason.LIMIT_QUEUE, limit=3), blockage(Reason.LIMIT_QUEUE, limit=4)

    assert changes([old], [new]) == ([new], [old])


def test_a_queue_whose_broker_is_told_of_nothing_says_so_beside_what_else_holds():
    since = NOW - timedelta(seconds=20)
    away = line(broker="nats", broker_away_since=since, last_seen_at=None)

    found = {each.reason: each for each in diagnose(away, now=NOW)}

    assert found[Reason.BROKER_UNREACHABLE].since == since
    assert found[Reason.BROKER_UNREACHABLE].facts == {"broker": "nats"}
    assert Reason.WORKER_NONE_REGISTERED in found
    unrelayed = line(broker="nats")
    assert told(unrelayed) == {(EVERY_TASK, Reason.BROKER_UNREACHABLE, NOW - MINUTE)}
