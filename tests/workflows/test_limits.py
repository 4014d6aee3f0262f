"""What a node says of retries, deadlines and heartbeats holds for its run, over what its task says."""

from datetime import timedelta

import pytest

from everwhen.worker.protocol import RunError
from tests.workflows.scene import Scene

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


async def started(scene: Scene, **node):
    """Return a run whose one node is held by a worker, and the lease."""
    await scene.define({"id": "a", **node})
    run = await scene.run()
    await scene.conduct()
    (lease,) = (await scene.claim()).values()
    return run, lease


async def end_of(scene: Scene, run: str) -> tuple[str, str | None]:
    (node,) = (await scene.look(run)).nodes
    return node.state.value, node.reason


async def test_an_error_of_a_class_that_the_node_names_is_not_retried(scene: Scene):
    retry = {"max_attempts": 5, "base_seconds": 0, "non_retryable": ["LookupError"]}
    run, lease = await started(scene, retry=retry)
    assert lease.max_attempts == 5
    await scene.report(lease, "failed", error=RunError(type="ValueError", message="no"))
    (lease,) = (await scene.claim()).values()

    await scene.report(lease, "failed", error=RunError(type="KeyError", message="no", bases=("LookupError",)))

    assert await end_of(scene, run) == ("failed", "attempt.not_retryable")


async def test_no_retry_begins_when_the_node_is_older_than_it_says(scene: Scene):
    retry = {"max_attempts": 5, "base_seconds": 60, "max_age_seconds": 30, "jitter": "none"}
    run, lease = await started(scene, retry=retry)

    await scene.report(lease, "failed")

    assert await end_of(scene, run) == ("failed", "retry.max_age")


async def test_a_nodes_total_deadline_ends_its_retries_and_bounds_its_attempts(scene: Scene):
    run, lease = await started(scene, total_deadline_seconds=60, retry={"max_attempts": 5, "base_seconds": 300})
    assert lease.deadline_at is not None
    assert lease.deadline_at == lease.total_deadline_at
    assert lease.deadline_at - lease.claimed_at <= 60 * SECOND

    await scene.report(lease, "failed")

    assert await end_of(scene, run) == ("failed", "deadline.total")


async def test_a_node_that_nobody_takes_by_its_total_deadline_ends_by_it(scene: Scene):
    await scene.define({"id": "a", "total_deadline_seconds": 60})
    run = await scene.run()
    await scene.conduct()

    await scene.reaper.tick(await scene.now() + HOUR)

    state, reason = await end_of(scene, run)
    assert (state in {"expired", "failed"}, reason) == (True, "deadline.total")


async def test_no_lease_of_a_node_is_longer_than_its_heartbeat_time_out(scene: Scene):
    _, lease = await started(scene, heartbeat_timeout_seconds=5)

    assert lease.lease_until - lease.claimed_at == 5 * SECOND
    ((kept,),) = await scene.rows("select heartbeat_seconds from everwhen.leases where run_id = %s", lease.run_id)
    assert kept == 5


@pytest.mark.parametrize("retry", [{"max_attempts": 5, "base_seconds": 0}, {}])
async def test_what_a_node_leaves_out_is_its_tasks(scene: Scene, retry):
    run, lease = await started(scene, retry=retry)

    await scene.report(lease, "failed")

    assert (await end_of(scene, run))[0] == ("waiting" if retry else "failed")
