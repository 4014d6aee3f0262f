"""What a node says of retries, deadlines and heartbeats, written in Python."""

from datetime import timedelta

from everwhen.core.dag_json import parse_workflow
from everwhen.workflow import Retry, Workflow


class BrokenError(Exception):
    """An error of ours."""


def test_a_node_may_say_all_that_a_task_may():
    flow = Workflow("w")
    flow.task(
        "a",
        retry=Retry(max_age_seconds=60, non_retryable=[KeyError, BrokenError, "mine.Broken"]),
        total_deadline=timedelta(hours=1),
        heartbeat_timeout=5,
    )
    (node,) = parse_workflow(flow.to_json()).nodes

    assert node.retry == {
        "max_age_seconds": 60,
        "non_retryable": ["KeyError", f"{__name__}.BrokenError", "mine.Broken"],
    }
    assert (node.total_deadline_seconds, node.heartbeat_timeout_seconds) == (3600, 5)
