"""What a worker does with a run, from claim to report, against a server on loopback."""

import asyncio
import threading
from datetime import timedelta

import pytest

from everwhen.worker import Context, NoRetry, Retry, Worker, current_context


def test_a_sync_task_runs_in_a_thread_and_its_result_is_reported(fleet, start):
    worker = Worker()
    names = []

    @worker.task("report")
    def report(ctx: Context, region: str = "eu"):
        names.append(threading.current_thread().name)
        return {"region": region, "attempt": ctx.attempt}

    run_id = fleet.add("report", {"region": "us"})
    start(worker)
    sent = fleet.report(run_id)
    assert (sent["outcome"], sent["result"], sent["error"]) == ("succeeded", {"region": "us", "attempt": 1}, None)
    assert names[0].startswith("everwhen-task")
    assert report(Context.fake(), region="de") == {"region": "de", "attempt": 1}


def test_an_async_task_runs_on_the_loop_and_knows_its_context(fleet, start):
    worker = Worker()

    @worker.task("fetch")
    async def fetch(page: int):
        await asyncio.sleep(0)
        return [page, current_context().idempotency_key]

    run_id = fleet.add("fetch", {"page": 7})
    start(worker)
    assert fleet.report(run_id)["result"] == [7, run_id]


def test_the_context_carries_the_run(fleet, start):
    worker = Worker()
    seen = []

    def remember(ctx):
        seen.append(ctx)

    worker.task("look")(remember)
    run_id = fleet.add("look", schedule="nightly", attempt=2, nominal_at="2026-03-01T02:30:00Z", priority=5)
    start(worker)
    fleet.report(run_id)
    ctx = seen[0]
    assert (str(ctx.run_id), ctx.idempotency_key, ctx.schedule, ctx.attempt) == (run_id, run_id, "nightly", 2)
    assert (ctx.task, ctx.queue, ctx.max_attempts, ctx.priority) == ("look", "default", 3, 5)
    assert ctx.nominal_at.isoformat() == "2026-03-01T02:30:00+00:00"
    assert ctx.deadline_at is None
    assert ctx.due_at == ctx.claimed_at


def test_the_start_is_told_by_the_servers_clock(fleet, start):
    worker = Worker()
    worker.task("noop")(lambda: None)
    run_id = fleet.add("noop")
    start(worker)
    assert fleet.report(run_id)["started_at"].startswith("2026-03-01T12:")


def test_a_failure_is_reported_with_type_message_and_traceback(fleet, start):
    worker = Worker()

    @worker.task("broken")
    def broken():
        raise ValueError("no such \ud800 page\0")

    run_id = fleet.add("broken")
    start(worker)
    sent = fleet.report(run_id)
    assert (sent["outcome"], sent["retryable"], sent["error"]["type"]) == ("failed", True, "ValueError")
    assert sent["error"]["message"] == "no such ? page\N{SYMBOL FOR NULL}"
    assert "in broken" in sent["error"]["traceback"]


@pytest.mark.parametrize(
    ("error", "wish"),
    [
        (Retry("busy", after=timedelta(seconds=90)), (True, 90.0)),
        (Retry(), (True, None)),
        (NoRetry("gone"), (False, None)),
    ],
)
def test_a_task_says_whether_and_when_to_try_again(fleet, start, error, wish):
    worker = Worker()

    @worker.task("picky")
    async def picky():
        raise error

    run_id = fleet.add("picky")
    start(worker)
    sent = fleet.report(run_id)
    assert (sent["outcome"], sent["retryable"], sent["retry_after_seconds"]) == ("failed", *wish)


def test_an_input_that_does_not_fit_the_signature_fails_for_good(fleet, start):
    worker = Worker()
    worker.task("report")(lambda ctx, region: region)
    run_id = fleet.add("report", {"regoin": "eu"})
    start(worker)
    sent = fleet.report(run_id)
    assert (sent["outcome"], sent["retryable"], sent["error"]["type"]) == ("failed", False, "InputMismatch")
    assert sent["error"]["message"] == ("task 'report' does not accept this input: missing region; unexpected regoin")


def test_a_result_that_is_not_json_fails_the_run_and_no_other(fleet, start):
    worker = Worker()
    worker.task("odd")(object)
    worker.task("even")(lambda: 2)
    odd, even = fleet.add("odd"), fleet.add("even")
    start(worker)
    sent = fleet.report(odd)
    assert (sent["error"]["type"], sent["retryable"]) == ("ResultNotSerialisable", False)
    assert fleet.report(even)["result"] == 2


def test_a_task_that_exits_the_interpreter_fails_its_run_only(fleet, start):
    worker = Worker()

    @worker.task("exit-async")
    async def exit_async():
        raise SystemExit(3)

    @worker.task("exit-sync")
    def exit_sync():
        raise SystemExit(3)

    first, second = fleet.add("exit-async"), fleet.add("exit-sync")
    running = start(worker)
    assert [fleet.report(run_id)["error"]["type"] for run_id in (first, second)] == ["SystemExit", "SystemExit"]
    running.stop()
    assert running.join() == 0


def test_no_more_runs_are_claimed_than_slots_are_free(fleet, start, until):
    worker = Worker()
    gate, inside = threading.Event(), []

    @worker.task("hold")
    def hold(number: int):
        inside.append(number)
        gate.wait()

    runs = [fleet.add("hold", {"number": number}) for number in range(10)]
    start(worker, concurrency=4)
    until(lambda: len(inside) == 4, "four runs at once")
    until(lambda: fleet.polls_waiting == 0, "the end of claims")
    assert len(fleet.waiting) == 6
    assert max(claim["limit"] for claim in fleet.claims) <= 2
    gate.set()
    for run_id in runs:
        fleet.report(run_id)


def test_runs_fetched_ahead_wait_for_a_slot(fleet, start, until):
    worker = Worker()
    gate = threading.Event()
    worker.task("hold")(gate.wait)
    runs = [fleet.add("hold") for _ in range(6)]
    start(worker, concurrency=1, prefetch=3)
    until(lambda: len(fleet.waiting) == 2, "three runs fetched ahead of one slot")
    gate.set()
    assert all(fleet.report(run_id)["outcome"] == "succeeded" for run_id in runs)


def test_claims_name_the_queues_and_the_tasks_of_the_worker(fleet, start):
    worker = Worker(queues=["fast", "slow"])
    worker.task("noop")(lambda: None)
    run_id = fleet.add("noop", queue="slow")
    start(worker, lease_seconds=9.0)
    fleet.report(run_id)
    claim = fleet.claims[0]
    assert (claim["queues"], claim["tasks"], claim["lease_seconds"]) == (["fast", "slow"], ["noop"], 9.0)


def test_a_sync_function_past_its_time_out_is_reported_at_once_and_keeps_its_slot(fleet, start, until):
    worker = Worker()
    gate = threading.Event()
    seen = []

    @worker.task("slow", timeout=0.2)
    def slow(ctx: Context):
        gate.wait()
        seen.append(ctx.cancelled)
        return "too late"

    worker.task("next")(lambda: "done")
    slow_id = fleet.add("slow")
    start(worker, concurrency=1)
    sent = fleet.report(slow_id)
    assert (sent["outcome"], sent["error"]["type"], sent["retryable"]) == ("failed", "TimeoutError", True)
    next_id = fleet.add("next")
    assert len(fleet.waiting) == 1
    gate.set()
    assert fleet.report(next_id)["result"] == "done"
    assert (seen, len(fleet.reports[slow_id])) == ([True], 1)
    until(lambda: (worker.stats.late, worker.stats.timed_out, worker.stats.failed) == (1, 1, 1), "the count")


def test_an_async_function_past_its_time_out_is_cancelled_and_cleans_up_first(fleet, start):
    worker = Worker()
    order = []

    @worker.task("slow", timeout=timedelta(seconds=0.2))
    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            order.append(len(fleet.reports))

    run_id = fleet.add("slow")
    start(worker)
    assert fleet.report(run_id)["error"]["type"] == "TimeoutError"
    assert order == [0]


def test_the_servers_deadline_is_a_time_out_too(fleet, start):
    worker = Worker()

    @worker.task("slow")
    async def slow():
        await asyncio.Event().wait()

    run_id = fleet.add("slow", deadline_at=(fleet.now() + timedelta(seconds=0.5)).isoformat())
    start(worker)
    assert fleet.report(run_id)["error"]["type"] == "TimeoutError"


def test_contextvars_of_one_run_do_not_reach_the_next(fleet, start):
    worker = Worker()
    from contextvars import ContextVar

    mark: ContextVar[str] = ContextVar("mark", default="clean")

    @worker.task("mark")
    def leave_mark():
        before = mark.get()
        mark.set("dirty")
        return before

    runs = [fleet.add("mark") for _ in range(5)]
    start(worker, concurrency=1)
    assert [fleet.report(run_id)["result"] for run_id in runs] == ["clean"] * 5
