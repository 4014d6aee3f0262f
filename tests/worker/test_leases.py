"""Leases under everything that tries to take them: busy threads, blocked loops, silent servers, stale reports."""

import asyncio
import threading
import time
from uuid import UUID

import msgspec
import pytest

from everwhen.worker import CancelRequested, Context, LeaseLost, Worker
from everwhen.worker.backoff import Outage
from everwhen.worker.errors import ServerAway
from everwhen.worker.leases import Lease, LeaseKeeper
from everwhen.worker.protocol import HeartbeatResponse, LeaseResult
from tests.worker.fake_server import PATIENCE_SECONDS

SHORT_LEASE_SECONDS = 5.0
"""Renewed every third of it. A worker that a busy machine keeps waiting for the other two thirds has lost its lease."""

ENOUGH_BEATS = 2


class Scene:
    """A keeper without its thread, on a clock and a server in the test's hands."""

    def __init__(self):
        self.now = 100.0
        self.requests = []
        self.answers = []
        self.lost, self.cancelled = [], []
        self.keeper = LeaseKeeper(
            worker_id="w",
            lease_seconds=30.0,
            beat=self._beat,
            clock=lambda: self.now,
            jitter=lambda: 0.0,
            outage=Outage(clock=lambda: self.now),
        )
        self.keeper.on_lost = self.lost.extend
        self.keeper.on_cancel = self.cancelled.extend

    def _beat(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        results = [LeaseResult(run_id=held.run_id, **({"status": "held"} | answer)) for held in request.leases]
        return HeartbeatResponse(results=results)

    def hold(self, *, waited=0.0):
        run = Context.fake(run_id=UUID(int=len(self.requests) + 1))._lease.run
        lease = Lease(run, sent=self.now - waited, received=self.now, duration=30.0)
        self.keeper.hold([lease])
        return lease

    def tick(self, at):
        self.now = at
        self.keeper.tick()


@pytest.fixture
def scene():
    return Scene()


def test_a_lease_is_renewed_in_thirds_and_in_one_request(scene):
    leases = [scene.hold(), scene.hold()]
    scene.tick(109.0)
    assert scene.requests == []
    scene.tick(110.0)
    assert [len(request.leases) for request in scene.requests] == [2]
    assert [lease.deadline for lease in leases] == [140.0, 140.0]


def test_the_deadline_counts_from_before_the_request_was_sent(scene):
    lease = scene.hold(waited=20.0)
    assert (lease.deadline, lease.renew_at) == (110.0, 105.0)


def test_a_lease_that_is_not_renewed_in_time_is_lost_for_good(scene):
    lease = scene.hold()
    scene.answers = [ServerAway("no route")] * 50
    for second in range(110, 130):
        scene.tick(float(second))
    assert not lease.lost
    scene.tick(130.0)
    assert (lease.lost, scene.lost) == (True, [lease])
    scene.answers = []
    scene.tick(131.0)
    assert (lease.lost, scene.lost) == (True, [lease])


def test_a_worker_that_slept_past_its_deadline_asks_nobody(scene):
    lease = scene.hold()
    scene.tick(500.0)
    assert (lease.lost, scene.requests) == (True, [])


def test_a_failed_renewal_is_tried_again_soon_and_mends_the_lease(scene):
    lease = scene.hold()
    scene.answers = [ServerAway("no route")]
    scene.tick(110.0)
    scene.tick(110.5)
    assert len(scene.requests) == 1
    scene.tick(112.0)
    assert (len(scene.requests), lease.deadline) == (2, 142.0)


def test_a_server_may_not_ask_for_a_pause_that_costs_the_lease(scene):
    scene.hold()
    scene.answers = [ServerAway("busy", retry_after=600.0)]
    scene.tick(110.0)
    scene.tick(118.0)
    assert len(scene.requests) == 2


def test_a_report_on_its_way_makes_the_heartbeats_answer_meaningless(scene):
    lease = scene.hold()
    lease.reporting = True
    scene.answers = [{"status": "lost"}]
    scene.tick(110.0)
    assert (lease.lost, scene.lost) == (False, [])


def test_cancel_requested_is_told_once(scene):
    lease = scene.hold()
    scene.answers = [{"cancel_requested": True}, {"cancel_requested": True}]
    scene.tick(110.0)
    scene.tick(120.0)
    assert (lease.cancel_requested, scene.cancelled) == (True, [lease])


def test_details_travel_with_the_next_beat_and_survive_a_failed_one(scene):
    lease = scene.hold()
    context = Context(lease)
    lease.deadline = float("inf")
    context.heartbeat({"page": 1})
    context.heartbeat({"page": 2})
    scene.answers = [ServerAway("no route")]
    scene.tick(101.0)
    scene.tick(104.0)
    sent = [msgspec.json.decode(request.leases[0].details) for request in scene.requests]
    assert sent == [{"page": 2}, {"page": 2}]
    assert lease.details is None


def test_an_attempt_past_its_time_out_is_not_renewed_for_ever(scene):
    lease = scene.hold()
    lease.renew_until = 115.0
    scene.tick(110.0)
    scene.tick(120.0)
    scene.tick(140.0)
    assert (len(scene.requests), lease.lost) == (1, True)


def test_a_cpu_bound_sync_task_keeps_its_lease(fleet, start):
    worker = Worker()

    @worker.task("burn")
    def burn(ctx):
        end = time.monotonic() + PATIENCE_SECONDS
        while fleet.beats[ctx.idempotency_key] < ENOUGH_BEATS and time.monotonic() < end:
            sum(range(1000))
        return "kept"

    run_id = fleet.add("burn")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    assert fleet.report(run_id)["result"] == "kept"
    assert fleet.beats[run_id] >= ENOUGH_BEATS


def test_an_async_task_that_blocks_the_loop_keeps_its_lease(fleet, start):
    worker = Worker()

    @worker.task("block")
    async def block(ctx):
        end = time.monotonic() + PATIENCE_SECONDS
        while fleet.beats[ctx.idempotency_key] < ENOUGH_BEATS and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - blocking the loop is the point
        return "kept"

    run_id = fleet.add("block")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    assert fleet.report(run_id)["result"] == "kept"
    assert fleet.beats[run_id] >= ENOUGH_BEATS


def test_a_lost_lease_discards_the_result_of_a_sync_task(fleet, start, until):
    worker = Worker()
    caught = []

    @worker.task("long")
    def long(ctx):
        fleet.gone.add(ctx.idempotency_key)
        until(lambda: ctx.cancelled, "the loss of the lease")
        with pytest.raises(LeaseLost) as raised:
            ctx.heartbeat()
        caught.append(raised)
        return "discard me"

    run_id = fleet.add("long")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    until(lambda: worker.stats.lost == 1, "the count of the lost attempt")
    assert (len(caught), fleet.reports[run_id], fleet.refused) == (1, [], [])


def test_a_lost_lease_cancels_an_async_task(fleet, start, until):
    worker = Worker()
    cancelled = threading.Event()

    @worker.task("long")
    async def long(ctx):
        fleet.gone.add(ctx.idempotency_key)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    run_id = fleet.add("long")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    assert cancelled.wait(PATIENCE_SECONDS)
    until(lambda: worker.stats.lost == 1, "the count of the lost attempt")
    assert fleet.reports[run_id] == []


def test_a_stale_report_is_refused_and_counted(fleet, start, until, caplog):
    worker = Worker()

    @worker.task("quick")
    def quick(ctx):
        fleet.gone.add(ctx.idempotency_key)

    run_id = fleet.add("quick")
    start(worker)
    until(lambda: worker.stats.refused == 1, "the count of the refused report")
    assert (fleet.refused, worker.stats.succeeded) == ([run_id], 0)
    assert f"report.not_accepted run_id={run_id} state=waiting code=lease.lost" in caplog.text


def test_a_requested_cancel_raises_in_a_sync_task_and_ends_the_run_cancelled(fleet, start, until):
    worker = Worker()

    @worker.task("long")
    def long(ctx):
        fleet.cancel.add(ctx.idempotency_key)
        until(lambda: ctx._lease.cancel_requested, "the request to cancel")
        ctx.heartbeat()

    run_id = fleet.add("long")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    assert fleet.report(run_id)["outcome"] == "cancelled"


def test_a_sync_task_that_saw_the_cancel_and_returned_ends_cancelled_with_its_result(fleet, start, until):
    worker = Worker()

    @worker.task("long")
    def long(ctx):
        fleet.cancel.add(ctx.idempotency_key)
        until(lambda: ctx.cancelled, "the request to cancel")
        return {"pages": 3}

    run_id = fleet.add("long")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    sent = fleet.report(run_id)
    assert (sent["outcome"], sent["result"]) == ("cancelled", {"pages": 3})


def test_a_requested_cancel_cancels_an_async_task(fleet, start):
    worker = Worker()

    @worker.task("long")
    async def long(ctx):
        fleet.cancel.add(ctx.idempotency_key)
        await asyncio.Event().wait()

    run_id = fleet.add("long")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    assert fleet.report(run_id)["outcome"] == "cancelled"


def test_heartbeat_details_reach_the_server(fleet, start, until):
    worker = Worker()

    @worker.task("pages")
    def pages(ctx):
        ctx.heartbeat({"page": 1})
        until(lambda: fleet.details[ctx.idempotency_key], "the details")
        return ctx.last_details

    run_id = fleet.add("pages")
    start(worker, lease_seconds=SHORT_LEASE_SECONDS)
    assert (fleet.report(run_id)["result"], fleet.details[run_id]) == ({"page": 1}, [{"page": 1}])


def test_details_that_are_not_json_are_refused_where_they_are_given():
    with pytest.raises(TypeError):
        Context.fake().heartbeat(object())


def test_a_fake_context_can_be_lost_or_cancelled():
    with pytest.raises(LeaseLost, match="the lease is lost"):
        Context.fake(lease_lost=True).check()
    cancelled = Context.fake(cancel_requested=True, task="report")
    assert (cancelled.cancelled, cancelled.task) == (True, "report")
    with pytest.raises(CancelRequested):
        cancelled.heartbeat()
