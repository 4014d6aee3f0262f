"""The fleet's tasks. Each execution leaves a file of its own: the judge outside of the system.

A line is appended and synced when it begins and when it ends, so that what a killed worker did is known, too. This file
is copied into the folder of the run and imported there by `everwhen worker`.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from everwhen.worker import Context, NoRetry, Worker

worker = Worker()


@contextmanager
def witnessed(ctx: Context) -> Generator[None]:
    """Leave word of the execution's beginning and, if it comes to it, of its end."""
    path = Path(os.environ["WITNESS"]) / f"{ctx.run_id}-{ctx.attempt}-{os.getpid()}-{time.monotonic_ns()}"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _say(file, f"begin {ctx.run_id} {ctx.attempt} {ctx.lease_token} {time.time_ns()}")
        yield
        _say(file, f"end {time.time_ns()}")
    finally:
        os.close(file)


def _say(file: int, line: str) -> None:
    os.write(file, f"{line}\n".encode())
    os.fsync(file)


@worker.task("quick")
def quick(ctx: Context) -> None:
    """Do its effect and return."""
    with witnessed(ctx):
        pass


@worker.task("slow")
def slow(ctx: Context) -> None:
    """Take about as long as a lease, so that it is renewed."""
    with witnessed(ctx):
        time.sleep(2.5)


@worker.task("flaky")
def flaky(ctx: Context) -> None:
    """Fail two times of three, by the run's id and the attempt."""
    with witnessed(ctx):
        if (int(ctx.run_id.hex[-4:], 16) + ctx.attempt) % 3:
            raise ValueError("flaky on purpose")


@worker.task("scripted")
def scripted(ctx: Context, outcome: str = "success", item: int | None = None) -> None:
    """Do a node's effect, and end as its input says, whatever the attempt."""
    del item
    with witnessed(ctx):
        time.sleep(0.05)
    if outcome == "failed":
        raise NoRetry("as its input says")
    if outcome == "skipped":
        ctx.skip("as its input says")
