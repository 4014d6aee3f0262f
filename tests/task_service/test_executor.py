"""The task service with `everwhen executor process`: an executable goes in by HTTP, its end and its log come out.

The executor is a process of its own, as it is in production; it is killed as the kernel would, too.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time

import pytest

from everwhen.executor.home import MARK
from everwhen.executor.process import usage
from tests.people import token_of
from tests.task_service.test_as_users_know_it import form, until

MAIN = "from everwhen.cli import main; main()"
PATIENCE = 45.0
HOGS = b"#!/usr/bin/env python3\nkept = [b'x' * (8 << 20) for _ in range(30)]\n"
LONG = b"#!/bin/sh\necho begun\nsleep 25 &\nsleep 25\n"
SECRET = b'#!/bin/sh\necho "the key is $CANARY_KEY"; echo "token: $EVERWHEN_TOKEN"\n'


class Executor:
    """`everwhen executor process`, started and killed."""

    def __init__(self, served, home):
        self.served, self.home, self.process = served, home, None

    async def start(self):
        token = token_of("worker", tenant_id=self.served.tenant.id, subject="fleet", queues=["tasks"])
        environ = {"PATH": os.environ["PATH"], "EVERWHEN_TOKEN": token, "CANARY_KEY": "swordfish"}
        environ |= {"EVERWHEN_LEASE_SECONDS": "3", "EVERWHEN_WAIT_SECONDS": "1", "EVERWHEN_DRAIN_SECONDS": "1"}
        options = ("--home", str(self.home), "--memory-mb", "96", "--pass", "CANARY_KEY", "--mask", "CANARY_KEY")
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", MAIN, "executor", "process", "--url", self.served.url, *options, "--slots", "3"),
            env=environ,
        )

    def programs(self) -> list[int]:
        """Processes of its programs."""
        mark = f"{MARK}={self.home}".encode()
        return [pid for pid, each in usage.processes().items() if each.state != "Z" and mark in environ_of(pid)]

    async def end(self, number=signal.SIGTERM) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123  # a plain read
            return file.read().split(b"\0")
    except OSError:
        return []


async def eventually(condition, what):
    until_then = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until_then, what
        await asyncio.sleep(0.05)


@pytest.fixture
async def executor(served, tmp_path_factory):
    folder = tmp_path_factory.mktemp("executor")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o711)
    made = Executor(served, folder / "home")
    await made.start()
    yield made
    if made.process.returncode is None:
        await made.end()


async def log_of(served, run_id, attempt="latest"):
    async with served.client("ann") as client:
        answer = await client.get(f"/v1/tenants/{served.tenant.name}/runs/{run_id}/attempts/{attempt}/logs")
    return answer.text


async def test_a_posted_program_runs_and_its_log_and_its_end_are_there(served, ann, executor):
    ids = {
        name: (await ann.post("/task", **form(name, program=program))).json()["id"]
        for name, program in PROGRAMS.items()
    }
    good, bad = await until(ann, ids["good"], "success"), await until(ann, ids["bad"], "failed")
    hog, secret = await until(ann, ids["hog"], "failed"), await until(ann, ids["secret"], "success")

    assert await log_of(served, good["history"][0]["run_id"]) == "hello from good\n"
    assert (bad["history"][0]["reason"], bad["history"][0]["attempts"]) == ("executor.exit", 1)
    assert "[executor.exit]" in await log_of(served, bad["history"][0]["run_id"])
    assert hog["history"][0]["reason"] == "executor.out_of_memory"
    assert await log_of(served, secret["history"][0]["run_id"]) == "the key is ********\ntoken: \n"
    run_id = bad["history"][0]["run_id"]
    attempts = (await ann.get(f"/v1/tenants/{served.tenant.name}/runs/{run_id}/attempts")).json()["items"]
    assert attempts[0]["error"]["type"] == "ProgramFailed"
    assert "exit code 3" in attempts[0]["error"]["message"]
    assert "oh no" in attempts[0]["error"]["message"]
    assert await executor.end() == 0


PROGRAMS = {
    "good": b'#!/bin/sh\necho "hello from $EVERWHEN_DEDUP_ID"\n',
    "bad": b"#!/bin/sh\necho oh no; exit 3\n",
    "hog": HOGS,
    "secret": SECRET,
}


async def test_an_executor_that_is_killed_takes_its_programs_along_and_its_runs_are_given_away(served, ann, executor):
    task_id = (await ann.post("/task", **form("long", program=LONG))).json()["id"]
    await until(ann, task_id, "running")
    await eventually(lambda: len(executor.programs()) >= 3, "the program and what it started")

    await executor.end(signal.SIGKILL)

    await eventually(lambda: not executor.programs(), "the end of the program")
    await executor.start()
    task = await until_attempt(ann, served, task_id, 2)
    assert [each["outcome"] for each in task[:1]] == ["lost"]
    await eventually(lambda: len(executor.programs()) >= 3, "the second attempt")
    assert await executor.end() == 0
    assert executor.programs() == []


async def until_attempt(client, served, task_id, number):
    run_id = (await client.get("/task", params={"id": task_id})).json()["history"][0]["run_id"]
    until_then = time.monotonic() + PATIENCE
    while True:
        found = (await client.get(f"/v1/tenants/{served.tenant.name}/runs/{run_id}/attempts")).json()["items"]
        if len(found) >= number:
            return found
        assert time.monotonic() < until_then, found
        await asyncio.sleep(0.2)


async def test_a_run_that_is_cancelled_ends_its_program(served, ann, executor):
    task_id = (await ann.post("/task", **form("long", program=LONG))).json()["id"]
    task = await until(ann, task_id, "running")
    await eventually(lambda: len(executor.programs()) >= 3, "the program")
    run_id = task["history"][0]["run_id"]
    await ann.post(f"/v1/tenants/{served.tenant.name}/runs/{run_id}/cancel", json={})

    await eventually(lambda: not executor.programs(), "the end of the program")
    assert await log_of(served, run_id) == "begun\n"
