"""Testing task code without a network, and what importing the SDK costs."""

import subprocess
import sys
from datetime import timedelta

import pytest

from everwhen.worker import Branch, ConfigurationError, Context, Retry, Worker, current_context
from everwhen.worker.testing import run_task, run_task_async

worker = Worker()


@worker.task("report")
def report(ctx: Context, region: str = "eu"):
    return (region, ctx.task, current_context() is ctx)


@worker.task("fetch")
async def fetch(page: int):
    if page > 1:
        raise Retry("busy", after=timedelta(minutes=2))
    return page


def test_a_task_is_called_as_the_worker_would():
    done = run_task(worker, "report", {"region": "us"})
    assert (done.outcome, done.result) == ("succeeded", ["us", "report", True])
    assert run_task(worker, "fetch", {"page": 1}).result == 1


async def test_an_async_test_awaits():
    done = await run_task_async(worker, "fetch", {"page": 2})
    assert (done.outcome, done.retryable, done.retry_after) == ("failed", True, timedelta(minutes=2))


def test_a_mismatch_is_an_outcome_and_an_unknown_task_an_error():
    mismatch = run_task(worker, "report", {"regoin": "us"})
    assert (mismatch.outcome, mismatch.retryable, mismatch.error.type) == ("failed", False, "InputMismatch")
    with pytest.raises(ConfigurationError, match="no task 'reprot'; it has: fetch, report"):
        run_task(worker, "reprot")


def test_there_is_no_current_context_outside_of_a_task():
    with pytest.raises(LookupError, match="no task is being executed"):
        current_context()


def test_importing_the_sdk_loads_nothing_of_a_server():
    code = "import everwhen.worker, everwhen.worker.testing, sys; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    roots = {name.partition(".")[0] for name in out}
    assert "everwhen" in roots
    assert roots.isdisjoint({"fastapi", "psycopg", "pydantic", "starlette", "uvicorn", "click", "structlog"})
    ours = {name for name in out if name.startswith("everwhen.")}
    # Failpoints need the standard library only, and both sides pass through them.
    assert {name for name in ours if not name.startswith("everwhen.worker")} == {"everwhen.failpoints"}


def test_a_task_skips_itself_or_takes_a_branch():
    flow = Worker()

    @flow.task("skip")
    def skip(ctx: Context):
        ctx.skip("nothing new")

    @flow.task("choose")
    def choose():
        return Branch("load", rows=12)

    skipped = run_task(flow, "skip")
    assert (skipped.outcome, skipped.result) == ("succeeded", {"$skip": "nothing new"})
    assert run_task(flow, "choose").result == {"rows": 12, "$branch": ["load"]}
