"""`everwhen up`, as a newcomer runs it: it shows a run that succeeds, and whatever ends it leaves nothing behind."""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from everwhen.postgres.host import find_bin_dir
from tests.database import public_folder
from tests.system.fleet import EVERWHEN, free_port, wait_until

pytestmark = pytest.mark.system

START_SECONDS = 90.0  # to make a cluster on a machine that has other work
STOP_SECONDS = 5.0
ORDINARY_USER = os.getuid() or 5  # as root: the user `games`, who is in every system

# Everything is imported before the change of user, who may not be able to read our interpreter's files.
AS_ORDINARY_USER = """
import importlib, os, pkgutil, sys
import everwhen.cli, encodings.ascii, encodings.idna, encodings.latin_1, uvicorn.lifespan.off, uvicorn.loops.uvloop
import uvicorn.protocols.http.auto, uvicorn.protocols.websockets.auto, pydantic_settings, tzdata
for module in pkgutil.walk_packages(everwhen.__path__, "everwhen."):
    importlib.import_module(module.name)
user = int(sys.argv.pop(1))
if os.getuid() == 0:
    os.setgroups([]); os.setgid(user); os.setuid(user)
from everwhen.cli import main
main()
"""


@dataclass(kw_only=True)
class Up:
    """One `everwhen up` in a folder of its own."""

    folder: Path
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def data(self) -> Path:
        return self.folder / ".everwhen"

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, words: str) -> None:
        """Wait until it says this; a process that ended will never."""

        def said_or_ended() -> bool:
            return words in self.said or self.process.poll() is not None

        wait_until(said_or_ended, seconds=START_SECONDS, what=f"{words!r} in:\n{self.said}")
        assert words in self.said, self.said[-6000:]

    def url(self) -> str:
        self.until("address ")
        return re.findall(r"address +(\S+)", self.said)[-1]

    def end(self, *signals: signal.Signals) -> int:
        """Send the signals and return the exit code; it has STOP_SECONDS."""
        for number in signals:
            self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)


@pytest.fixture
def folder() -> Iterator[Path]:
    with public_folder() as made:
        yield made


def start(folder: Path, *options: str, command: tuple[str, ...] = (EVERWHEN,), name: str = "up") -> Up:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("EVERWHEN_")}
    log = folder / f"{name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, "up", *options],
            cwd=folder,
            env=kept | {"HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    return Up(folder=folder, process=process, log=log)


@contextlib.contextmanager
def running(folder: Path, *options: str, **how) -> Iterator[Up]:
    up = start(folder, *options, **how)
    try:
        yield up
    finally:
        if up.process.poll() is None:
            up.process.kill()
        up.process.wait(10)
        wait_until(lambda: not processes_in(folder), seconds=20, what=f"nothing runs in {folder}")


def processes_in(folder: Path) -> list[str]:
    """Every process whose working directory lies in there, as those of a PostgreSQL server do; no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and Path(entry / "cwd").readlink().is_relative_to(folder):
                found.append(f"{entry.name} {Path(entry / 'cmdline').read_bytes()[:80]!r}")
    return found


def assert_nothing_is_left(folder: Path) -> None:
    assert processes_in(folder) == []
    assert not (folder / ".everwhen" / "pgdata" / "postmaster.pid").exists()
    with (folder / ".everwhen" / "everwhen.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while anybody holds it


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_a_run_that_succeeds_and_ends_without_a_trace(folder: Path, number: signal.Signals) -> None:
    with running(folder) as up:
        up.until("First run succeeded")
        assert re.search(r"hello-often@\S+ +planned", up.said)
        assert re.search(r"hello-often@\S+ +claimed +\d+ ms late, attempt 1", up.said)
        for private in ("client.json", "jwt.secret", "sealing.keys"):
            assert (up.data / private).stat().st_mode & 0o777 == 0o600
        client = json.loads((up.data / "client.json").read_text())
        assert (client["url"], client["tenant"]) == (up.url(), "demo")
        answer = httpx2.get(
            f"{client['url']}/v1/tenants/demo/runs?limit=1",
            headers={"Authorization": f"Bearer {client['token']}"},
            trust_env=False,
        )
        assert answer.status_code == 200

        assert up.end(number) == 0
        assert up.said.rstrip().endswith("stopped")
        assert "Traceback" not in up.said
        assert_nothing_is_left(folder)


def test_after_a_kill_no_orphan_is_left_and_the_next_start_goes_on(folder: Path) -> None:
    with running(folder) as up:
        up.until("First run succeeded")
        up.process.kill()
        up.process.wait(10)
        wait_until(lambda: not processes_in(folder), seconds=20, what="the server has ended with its parent")
    secret = (folder / ".everwhen" / "jwt.secret").read_text()

    with running(folder, name="again") as again:
        again.until("First run succeeded")
        assert (folder / ".everwhen" / "jwt.secret").read_text() == secret
        assert again.end(signal.SIGINT) == 0
        assert_nothing_is_left(folder)


def test_it_ends_in_one_line_when_its_database_dies(folder: Path) -> None:
    with running(folder, "--no-demo") as up:
        up.until("address ")
        os.kill(int((up.data / "pgdata" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

        assert up.process.wait(STOP_SECONDS) == 1
        assert "everwhen: the database ended by itself" in up.said
        assert "Traceback" not in up.said


def test_the_promises_are_checked_without_a_setting(folder: Path) -> None:
    with running(folder) as up:
        up.until("First run succeeded")

        checked = subprocess.run(
            [EVERWHEN, "verify"], cwd=folder, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
        assert (checked.returncode, checked.stderr[:19]) == (0, "every promise holds")
        assert up.end(signal.SIGINT) == 0


def test_a_second_one_on_the_same_data_is_refused_in_one_line(folder: Path) -> None:
    with running(folder, "--no-demo") as up:
        up.until("address ")
        second = subprocess.run(
            [EVERWHEN, "up"], cwd=folder, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
        assert second.returncode == 1
        complaint = [line for line in second.stderr.splitlines() if line.startswith("everwhen: ")]
        assert len(complaint) == 1
        assert f"in use by process {up.process.pid}" in complaint[0]
        assert "Traceback" not in second.stderr

        assert up.end(signal.SIGINT) == 0
        assert_nothing_is_left(folder)


def test_a_default_port_that_is_taken_is_no_obstacle_but_one_that_was_asked_for_is(folder: Path) -> None:
    with contextlib.ExitStack() as taken:
        with contextlib.suppress(OSError):  # somebody else may have it: just as well
            taken.enter_context(socket.create_server(("127.0.0.1", 8484)))
        with running(folder, "--no-demo") as up:
            url = up.url()
            assert not url.endswith(":8484")
            assert httpx2.get(f"{url}/healthz/ready", trust_env=False).status_code == 200
            assert "demo" not in up.said
            assert not (up.data / "client.json").exists()
            assert up.end(signal.SIGTERM) == 0

        port = free_port()
        with socket.create_server(("127.0.0.1", port)), running(folder, "--port", str(port), name="asked") as asked:
            assert asked.process.wait(START_SECONDS) == 1
            assert f"cannot listen on 127.0.0.1:{port}" in asked.said
            assert "Traceback" not in asked.said
            assert_nothing_is_left(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stage", ["everwhen.lock", "pgdata/postmaster.pid"])
def test_it_can_be_stopped_while_it_starts(folder: Path, number: signal.Signals, stage: str) -> None:
    with running(folder) as up:
        wait_until((up.data / stage).exists, seconds=START_SECONDS, what=f"{stage} is there")
        assert up.end(number) != 0
        wait_until(lambda: not processes_in(folder), seconds=20, what="nothing is left")
        assert "Traceback" not in up.said

    with running(folder, "--no-demo", name="again") as again:
        again.until("address ")
        assert again.end(signal.SIGINT) == 0
        assert_nothing_is_left(folder)


def test_a_second_signal_does_not_wait(folder: Path) -> None:
    with running(folder) as up:
        up.until("First run succeeded")
        up.end(signal.SIGINT, signal.SIGINT)
        wait_until(lambda: not processes_in(folder), seconds=20, what="nothing is left")


def test_it_runs_for_an_ordinary_user(folder: Path) -> None:
    find_bin_dir()  # published while we may
    home = folder / "home"
    home.mkdir()
    if os.getuid() == 0:
        os.chown(home, ORDINARY_USER, ORDINARY_USER)
    command = (sys.executable, "-c", AS_ORDINARY_USER, str(ORDINARY_USER))
    with running(home, command=command) as up:
        up.until("First run succeeded")
        assert up.data.stat().st_uid == ORDINARY_USER
        assert Path(f"/proc/{up.process.pid}").stat().st_uid == ORDINARY_USER
        assert up.end(signal.SIGINT) == 0
        assert_nothing_is_left(home)
