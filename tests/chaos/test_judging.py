"""The judge of chaos: what it must find, it finds. A judge that has never blamed anybody is no evidence."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.calendar_json import parse_definition
from everwhen.core.calendars import Calendar, CalendarVersion
from everwhen.failpoints import POINTS
from tests.chaos.faults import FAILPOINTS, MOST_PASSES
from tests.chaos.flows import FlowRun, Node, judge_flows
from tests.chaos.judge import Attempt, Execution, Verdict, judge_executions, judge_instants, read_witness
from tests.chaos.matching import match
from tests.chaos.people import calendar_of, is_open

RUN = UUID(int=1)
T0 = datetime(2027, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def largest(targets, executions) -> int:
    """The size of a maximum matching, by trying everything."""
    if not targets:
        return 0
    (start, end), rest = targets[0], targets[1:]
    best = largest(rest, executions)
    for index, moment in enumerate(executions):
        if start <= moment <= end:
            best = max(best, 1 + largest(rest, executions[:index] + executions[index + 1 :]))
    return best


windows = st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(windows, max_size=5), st.lists(st.integers(0, 17), max_size=5))
def test_the_earliest_deadline_first_matches_as_many_as_can_be(targets, executions):
    found = match(targets, executions)

    assert len(found.pairs) == largest(targets, executions)
    assert len(found.pairs) + len(found.missed) == len(targets)
    assert len(found.pairs) + len(found.extra) == len(executions)
    assert all(targets[i][0] <= executions[j] <= targets[i][1] for i, j in found.pairs.items())


def test_every_failpoint_that_is_armed_exists_and_there_are_enough_of_them():
    named = set(itertools.chain.from_iterable(FAILPOINTS.values()))

    assert named <= set(POINTS)
    assert len(named) >= 12
    assert set(FAILPOINTS) == set(MOST_PASSES)


# Executions -----------------------------------------------------------------------------------------------------------


def execution(attempt=1, token=10, *, ended=True):
    return Execution(RUN, attempt, token, 1.0, 2.0 if ended else None)


LOST, WON = Attempt(RUN, 1, 10, "lost"), Attempt(RUN, 2, 20, "succeeded")


def blamed(executions, attempts):
    verdict = Verdict()
    judge_executions(verdict, executions, attempts)
    return set(verdict.faults)


def test_a_lost_lease_explains_a_second_execution():
    assert blamed([execution(ended=False), execution(2, 20)], [LOST, WON]) == set()


@pytest.mark.parametrize(
    ("executions", "attempts", "fault"),
    [
        ([execution(3, 30)], [], "executed without a lease"),
        ([execution(2, 20), execution(2, 20)], [LOST, WON], "one lease executed twice"),
        ([], [WON], "accepted as done, but nobody did it"),
        (
            [execution(1, 10), execution(2, 20)],
            [Attempt(RUN, 1, 10, "succeeded"), WON],
            "accepted twice",
        ),
        (
            [execution(1, 10)],
            [Attempt(RUN, 1, 10, "succeeded"), Attempt(RUN, 2, 20, "lost")],
            "a stale attempt was accepted",
        ),
        ([execution(1, 10), execution(2, 20)], [Attempt(RUN, 1, 10, "cancelled"), WON], "repeated without a cause"),
    ],
)
def test_what_must_not_happen_is_blamed(executions, attempts, fault):
    assert fault in blamed(executions, attempts)


def test_a_report_that_came_after_all_is_counted():
    verdict = Verdict()
    judge_executions(verdict, [execution(), execution(2, 20)], [LOST, WON])

    assert verdict.figures["executions that ended after all and whose report did not count"] == 1


# Instants -------------------------------------------------------------------------------------------------------------


def judged(*, intended=(T0,), runs=None, skipped=0, began=(0.5,)):
    verdict = Verdict()
    runs = {T0: RUN} if runs is None else runs
    done = [Execution(RUN, 1, 10, T0.timestamp() + after, T0.timestamp() + after) for after in began]
    judge_instants(
        verdict,
        "s",
        intended=intended,
        runs=runs,
        skipped=skipped,
        executions={RUN: done},
        patience=10 * SECOND,
    )
    return {fault.partition(": ")[2] for fault in verdict.faults}


def test_an_instant_with_its_run_and_its_execution_is_well():
    assert judged() == set()


def test_what_was_skipped_needs_no_run():
    assert judged(intended=(T0, T0 + SECOND), skipped=1) == set()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"intended": (T0, T0 + SECOND)}, "lost"),
        ({"intended": ()}, "a run that nobody intended"),
        ({"began": ()}, "no execution in time"),
        ({"began": (11.0,)}, "an execution too many, too early or too late"),
        ({"began": (-1.0,)}, "an execution too many, too early or too late"),
    ],
)
def test_an_instant_without_its_execution_is_blamed(changes, fault):
    assert fault in judged(**changes)


def test_the_witness_is_read_with_what_a_killed_worker_left(tmp_path: Path):
    (tmp_path / "whole").write_text(f"begin {RUN} 1 abc 1000000000\nend 3000000000\n")
    (tmp_path / "killed").write_text(f"begin {RUN} 2 abc 5000000000\n")
    (tmp_path / "empty").write_text("")

    found = sorted(read_witness(tmp_path, lambda run_id, token: "42"), key=lambda e: e.attempt)

    assert found == [Execution(RUN, 1, 42, 1.0, 3.0), Execution(RUN, 2, 42, 5.0, None)]


# Workflows ------------------------------------------------------------------------------------------------------------

A, B = UUID(int=11), UUID(int=12)
CHAIN = {"nodes": [{"id": "a", "task": "scripted"}, {"id": "b", "task": "scripted", "needs": ["a"]}]}
DONE = {A: [Execution(A, 1, 10, 1.0, 2.0)], B: [Execution(B, 1, 11, 2.5, 3.0)]}
WELL = {"a": Node(state="succeeded", run_id=A), "b": Node(state="succeeded", run_id=B)}


def flow_faults(*, executions=DONE, **changes):
    verdict = Verdict()
    run = FlowRun(**({"run_id": RUN, "workflow": "chain", "version": 1, "nodes": WELL} | changes))
    judge_flows(verdict, [run], {("chain", 1): CHAIN}, executions)
    return set(verdict.faults)


def test_a_run_that_went_as_its_version_says_is_well():
    assert flow_faults() == set()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"nodes": {"a": WELL["a"]}}, "a run has other nodes than its version"),
        ({"state": "dead"}, "a node ended otherwise than simulated"),
        ({"nodes": {**WELL, "b": Node(state="skipped")}}, "a node ended otherwise than simulated"),
        ({"executions": {A: DONE[A]}}, "a node succeeded, but nobody did it"),
        ({"executions": {A: DONE[A], B: [Execution(B, 1, 11, 2.5, None)]}}, "a node succeeded, but nobody did it"),
        (
            {"executions": {A: DONE[A], B: [Execution(B, 1, 11, 1.5, 3.0)]}},
            "a node began before its upstream had ended",
        ),
    ],
)
def test_a_run_that_went_otherwise_is_blamed(changes, fault):
    assert flow_faults(**changes) == {fault}


@pytest.mark.parametrize("changes", [{"halt": "cancel", "state": "cancelled"}, {"generation": 2, "state": "dead"}])
def test_what_was_halted_or_begun_again_is_not_held_against_the_simulation(changes):
    assert flow_faults(**changes) == set()


def test_what_a_stale_worker_ends_late_does_not_make_its_downstream_early():
    late = {A: [Execution(A, 1, 10, 0.5, 9.0), Execution(A, 2, 20, 1.0, 2.0)], B: DONE[B]}

    assert flow_faults(executions=late) == set()


@pytest.mark.parametrize("every", [2, 3, 4])
def test_the_calendar_of_chaos_is_the_products(every):
    definition = calendar_of(T0 + timedelta(hours=7, minutes=41), every=every)
    version = CalendarVersion(number=1, definition=parse_definition(definition), effective_from=None)
    book = Calendar("gaps", [version])

    for minute in range(7 * 60 + 30, 8 * 60 + 20):
        at = T0 + timedelta(minutes=minute, seconds=30)
        assert is_open(definition, at) == book.is_open_at(at), at


def test_near_midnight_the_calendar_of_chaos_is_always_open():
    assert calendar_of(T0 + timedelta(hours=23, minutes=50)) == {}
    assert is_open({}, T0)
