"""The words of the task service, for every state of a run and for what a task's runs come to."""

import pytest

from everwhen.core.lifecycle import RunState
from everwhen.core.task_status import RunOutcome, TaskStatus, outcome_of, status_of

OUTCOMES = {
    RunState.PLANNED: "planned",
    RunState.WAITING: "waiting_for_resource",
    RunState.RUNNING: "running",
    RunState.RETRYING: "waiting",
    RunState.SUCCEEDED: "success",
    RunState.DEAD: "failed",
    RunState.CANCELLED: "cancelled",
    RunState.EXPIRED: "no_resource",
    RunState.SKIPPED: "skipped",
    RunState.MISSED: "failed",
    RunState.COALESCED: "skipped",
}


@pytest.mark.parametrize("state", RunState)
def test_every_state_of_a_run_has_its_word(state):
    assert outcome_of(state) == OUTCOMES[state]


def test_what_a_rule_holds_back_waits_for_no_resource():
    assert outcome_of(RunState.WAITING, is_held=True) is RunOutcome.WAITING
    assert outcome_of(RunState.PLANNED, is_held=True) is RunOutcome.PLANNED


@pytest.mark.parametrize(
    ("newest_first", "status"),
    [
        ("", "created"),
        ("planned", "waiting"),
        ("cancelled", "created"),
        ("skipped cancelled", "created"),
        ("planned cancelled", "waiting"),
        ("planned success", "success"),
        ("waiting success", "waiting"),
        ("waiting_for_resource failed", "waiting_for_resource"),
        ("waiting_for_resource running", "running"),
        ("waiting waiting_for_resource", "waiting_for_resource"),
        ("success failed", "success"),
        ("failed success", "failed"),
        ("cancelled no_resource success", "no_resource"),
        ("skipped success", "success"),
    ],
)
def test_a_task_stands_as_its_runs_say(newest_first, status):
    assert status_of(RunOutcome(word) for word in newest_first.split()) is TaskStatus(status)


def test_every_status_but_created_is_the_outcome_of_some_run():
    assert set(TaskStatus) - {"created"} == set(RunOutcome) - {"planned", "cancelled", "skipped"}
