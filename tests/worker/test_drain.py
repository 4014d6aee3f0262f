"""Stopping: what runs is finished or given back, and every run is accounted for."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everwhen.worker import Worker
from tests.worker.fake_server import PATIENCE_SECONDS, TOKEN, wait_until

MODULE = """
import asyncio, pathlib, time
from everwhen.worker import Worker

worker = Worker()
gate = pathlib.Path("gate")

@worker.task("hold")
def hold(ctx):
    pathlib.Path("started").touch()
    while not gate.exists():
        time.sleep(0.01)
    return "finished"

@worker.task("wait")
async def wait(ctx):
    pathlib.Path("started").touch()
    while not gate.exists():
        await asyncio.sleep(0.01)
    return "finished"

@worker.task("stubborn")
async def stubborn():
    pathlib.Path("started").touch()
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass
"""


class Process:
    """`everwhen worker` as a process of its own."""

    def __init__(self, directory: Path, fleet, *options: str) -> None:
        self.directory = directory
        (directory / "fleet_tasks.py").write_text(MODULE)
        command = "from everwhen.cli.worker import worker_command; worker_command()"
        self.popen = subprocess.Popen(
            [sys.executable, "-c", command, "fleet_tasks:worker", "--url", fleet.url, *options],
            cwd=directory,
            env={**os.environ, "EVERWHEN_TOKEN": TOKEN},
            stderr=subprocess.PIPE,
            text=True,
        )

    def started(self) -> None:
        wait_until((self.directory / "started").exists, "the task's start")

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.popen.send_signal(number)

    def ended(self) -> tuple[int, str]:
        _, errors = self.popen.communicate(timeout=PATIENCE_SECONDS)
        return self.popen.returncode, errors


@pytest.fixture
def launch(tmp_path, fleet):
    processes = []

    def start_process(*options: str) -> Process:
        processes.append(Process(tmp_path, fleet, *options))
        return processes[-1]

    yield start_process
    for process in processes:
        if process.popen.poll() is None:
            process.popen.kill()
            process.popen.communicate()


@pytest.mark.parametrize("task", ["hold", "wait"])
def test_sigterm_lets_what_runs_finish_and_exits_0(fleet, launch, tmp_path, task):
    run_id = fleet.add(task)
    process = launch()
    process.started()
    process.signal()
    (tmp_path / "gate").touch()
    code, errors = process.ended()
    assert (code, fleet.report(run_id)["result"]) == (0, "finished")
    assert "everwhen worker: drained; 1 claimed, 1 succeeded" in errors


def test_leases_are_renewed_while_draining(fleet, launch, tmp_path):
    run_id = fleet.add("hold")
    process = launch("--lease-seconds", "5")
    process.started()
    process.signal()
    before = fleet.beats[run_id]
    wait_until(lambda: fleet.beats[run_id] >= before + 2, "two renewals")
    (tmp_path / "gate").touch()
    assert process.ended()[0] == 0
    assert fleet.report(run_id)["outcome"] == "succeeded"


@pytest.mark.parametrize("task", ["hold", "wait", "stubborn"])
def test_what_does_not_finish_in_time_is_given_back(fleet, launch, task):
    run_id = fleet.add(task)
    process = launch("--drain-seconds", "0.2")
    process.started()
    process.signal()
    code, errors = process.ended()
    assert (code, fleet.report(run_id)["outcome"]) == (0, "released")
    assert "worker.giving_back 1 unfinished runs" in errors


def test_a_second_signal_does_not_wait(fleet, launch):
    run_id = fleet.add("wait")
    process = launch("--drain-seconds", "3600")
    process.started()
    process.signal(signal.SIGINT)
    process.signal(signal.SIGTERM)
    code, _ = process.ended()
    assert (code, fleet.report(run_id)["outcome"]) == (0, "released")


def test_an_idle_worker_ends_at_once_and_aborts_its_long_poll(fleet, launch):
    process = launch()
    wait_until(lambda: fleet.polls_waiting == 2, "two long polls")
    process.signal()
    assert process.ended()[0] == 0


def test_what_has_not_started_is_given_back_at_once(fleet, start, until):
    worker = Worker()
    gate, inside = threading.Event(), threading.Event()

    @worker.task("hold")
    def hold():
        inside.set()
        gate.wait()

    runs = [fleet.add("hold") for _ in range(3)]
    running = start(worker, concurrency=1, prefetch=2)
    until(lambda: worker.stats.claimed == 3, "three claims")  # the worker has them, not only the server given them
    assert inside.wait(PATIENCE_SECONDS)
    running.stop()
    assert [fleet.report(run_id)["outcome"] for run_id in runs[1:]] == ["released", "released"]
    gate.set()
    assert running.join() == 0
    assert fleet.report(runs[0])["outcome"] == "succeeded"
    assert (worker.stats.claimed, worker.stats.released, worker.stats.succeeded) == (3, 2, 1)


def test_a_worker_that_cannot_deliver_says_so_by_its_exit_code(fleet, start, until, monkeypatch):
    monkeypatch.setattr("everwhen.worker.session.FLUSH_SECONDS", 0.2)
    worker = Worker()
    gate = threading.Event()
    worker.task("hold")(gate.wait)
    fleet.add("hold")
    running = start(worker)
    until(lambda: worker.stats.claimed == 1, "the claim")
    fleet.stop()
    running.stop()
    gate.set()
    assert running.join() == 1


def test_a_worker_can_run_again_after_it_has_stopped(fleet, start):
    worker = Worker()
    worker.task("noop")(lambda: None)
    for _ in range(2):
        running = start(worker)
        fleet.report(fleet.add("noop"))
        running.stop()
        assert running.join() == 0
        wait_until(lambda: fleet.polls_waiting == 0, "the end of its polls, which would take what comes next")


def test_a_stop_before_the_start_is_heeded(start):
    worker = Worker()
    worker.task("noop")(lambda: None)
    worker.stop()
    assert start(worker).join() == 0
