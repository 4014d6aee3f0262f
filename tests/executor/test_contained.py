"""What programs can do is bounded, the reason told, nothing of them is left, and the next one runs as if nothing was.

Each attack is bounded by itself as well: at most 200 processes, 256 MB, a few seconds.
"""

import asyncio
import os
import signal

import pytest

from everwhen.executor.idleness import ZombiePolicy
from everwhen.executor.model import EndReason, Limits
from tests.executor.scene import LIMITS, MIB, PYTHON, USER_BASE, Output

HELLO = "#!/bin/sh\necho hello $EVERWHEN_RUN_ID\n"

FORK_BOMB = (
    PYTHON
    + """
import os, time
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)
    except OSError as error:
        print("refused", error, flush=True)
        break
time.sleep(8)
"""
)
MEMORY_HOG = (
    PYTHON
    + """
kept = []
for _ in range(32):
    kept.append(b"x" * (8 << 20))
print("got all of it")
"""
)
SHARED_HOG = (
    PYTHON
    + """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = b"x" * (30 << 20)
        time.sleep(8)
        os._exit(0)
time.sleep(8)
"""
)
FILE_HOG = (
    PYTHON
    + """
with open("big", "wb") as file:
    for _ in range(64):
        file.write(b"x" * (1 << 20))
        file.flush()
"""
)
MANY_FILES = (
    PYTHON
    + """
import time
for number in range(64):
    with open(f"file{number}", "wb") as file:
        file.write(b"x" * (1 << 20))
    time.sleep(0.05)
time.sleep(8)
"""
)
ENDLESS = (
    PYTHON
    + """
import os, time
until = time.monotonic() + 8
while time.monotonic() < until:
    os.write(1, b"y" * 65536)
"""
)
SPIN = (
    PYTHON
    + """
import time
until = time.monotonic() + 10
while time.monotonic() < until:
    pass
"""
)
STUBBORN = (
    PYTHON
    + """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begun", flush=True)
time.sleep(15)
"""
)
POLITE = (
    PYTHON
    + """
import os, signal, time
def stop(*_):  # perhaps in the middle of the print below
    os.write(1, b"cleaned up\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
print("begun", flush=True)
time.sleep(15)
"""
)
DAEMON = (
    PYTHON
    + """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for stream in (0, 1, 2):
            os.close(stream)
        time.sleep(15)
    os._exit(0)
os.wait()
print("left one behind")
"""
)
ESCAPE = (
    PYTHON
    + """
import os, pathlib
def attempt(what):
    try:
        what()
        print("DONE", what.__doc__)
    except OSError as error:
        print("refused", error.strerror)
def up():
    "parent"
    pathlib.Path("../../escaped").write_text("x")
def link():
    "link"
    os.symlink("VICTIM", "link")
    pathlib.Path("link").write_text("x")
def own():
    "program"
    pathlib.Path("../program").write_text("x")
def secret():
    "secret"
    pathlib.Path("SECRET").read_text()
for each in (up, link, own, secret):
    attempt(each)
"""
)


async def still_works(machine):
    ending, output = await machine.run(HELLO)
    assert (ending.reason, ending.exit_code, output.text) == (None, 0, b"hello 1\n")


async def test_a_program_prints_and_ends(machine):
    await still_works(machine)
    ending, output = await machine.run("#!/bin/sh\necho out; echo err >&2; exit 7\n")

    assert (ending.reason, ending.exit_code) == (EndReason.EXIT, 7)
    assert "exit code 7" in ending.text
    assert output.text == b"out\nerr\n"


async def test_a_crash_is_a_signal_and_no_limit(machine):
    ending, _ = await machine.run("#!/bin/sh\nkill -SEGV $$\n")

    assert (ending.reason, ending.signal) == (EndReason.SIGNAL, signal.SIGSEGV)


@pytest.mark.parametrize("content", [b"\x00\x01 no program", b"#!/no/such/interpreter\n", b"\x7fELF broken"])
async def test_what_is_no_program_says_so(machine, content):
    ending, _ = await machine.run(content)

    assert ending.reason is EndReason.NOT_EXECUTABLE
    await still_works(machine)


async def test_nothing_of_the_executor_is_inherited(machine, monkeypatch):
    monkeypatch.setenv("CANARY_SECRET", "swordfish")
    kept = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(kept, True)
    _, output = await machine.run("#!/bin/sh\nenv; ls /proc/self/fd; cat; id -u\n")
    os.close(kept)

    assert b"swordfish" not in output.text
    lines = output.text.split()
    assert [line for line in lines if line.isdigit()][:-1] == [b"0", b"1", b"2", b"3"]  # 3 is that of ls itself
    assert int(lines[-1]) == (os.getuid() if USER_BASE is None else USER_BASE)


async def test_a_fork_bomb(machine):
    ending, output = await machine.run(FORK_BOMB)

    assert ending.reason in {EndReason.PROCESS_LIMIT, EndReason.EXIT} or b"refused" in output.text
    await still_works(machine)


@pytest.mark.parametrize("program", [MEMORY_HOG, SHARED_HOG])
async def test_a_memory_hog(machine, program):
    ending, output = await machine.run(program)

    assert ending.reason is EndReason.OUT_OF_MEMORY
    assert "96 MiB" in ending.text
    assert b"got all of it" not in output.text
    await still_works(machine)


async def test_a_file_hog(machine):
    ending, _ = await machine.run(FILE_HOG)

    assert ending.reason in {EndReason.FILE_LIMIT, EndReason.EXIT}  # Python turns the signal into an error
    await still_works(machine)


async def test_a_hog_of_many_files(machine):
    ending, output = await machine.run(MANY_FILES)

    assert ending.reason is EndReason.FILE_LIMIT or b"No space left" in output.text
    await still_works(machine)


async def test_endless_output_and_endless_computing(machine_with):
    limits = Limits(**{name: getattr(LIMITS, name) for name in Limits.__slots__} | {"seconds": 1.5, "cpu_seconds": 1.0})
    machine = machine_with(limits=limits)
    ending, output = await machine.run(ENDLESS)
    assert ending.reason in {EndReason.TIME_LIMIT, EndReason.CPU_LIMIT}
    assert output.size > MIB
    ending, _ = await machine.run(SPIN)
    assert ending.reason in {EndReason.TIME_LIMIT, EndReason.CPU_LIMIT}
    await still_works(machine)


async def test_a_program_that_ignores_sigterm_is_killed_at_its_time(machine_with):
    limits = Limits(**{name: getattr(LIMITS, name) for name in Limits.__slots__} | {"seconds": 1.5})
    machine = machine_with(limits=limits, namespaces=False)
    ending, output = await machine.run(STUBBORN)

    assert ending.reason is EndReason.TIME_LIMIT
    assert "1.5 s" in ending.text
    assert output.text == b"begun\n"
    await still_works(machine)


@pytest.mark.parametrize(("program", "said"), [(STUBBORN, b"begun\n"), (POLITE, b"begun\ncleaned up\n")])
async def test_one_that_is_cancelled_has_ended_when_the_cancellation_passes(machine, program, said):
    output = Output()
    task = asyncio.create_task(machine.run(program, output))
    await output.printed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (machine.left(), output.text) == ([], said)
    await still_works(machine)


async def test_what_is_left_behind_in_another_session_ends_with_the_program(machine):
    ending, output = await machine.run(DAEMON)  # `run` looks that nothing is left

    assert (ending.reason, output.text) == (None, b"left one behind\n")


async def test_no_way_leads_out_of_the_folder(machine, folder):
    victim, secret = folder / "victim", folder / "secret"
    victim.write_text("whole")
    secret.write_text("swordfish")
    secret.chmod(0o600)
    program = ESCAPE.replace("VICTIM", str(victim)).replace("SECRET", str(secret))
    _, output = await machine.run(program)

    assert victim.read_text() == "whole" or USER_BASE is None
    assert not list(folder.rglob("escaped"))
    if USER_BASE is not None:
        assert output.text.count(b"refused") == 4, output.text


async def test_there_is_no_network_and_nobody_else(machine_with):
    _, output = await machine_with().run("#!/bin/sh\ncat /proc/net/dev; ls -d /proc/[0-9]* | wc -l\n")

    interfaces = [line.split(b":")[0].strip() for line in output.text.splitlines() if b":" in line]
    assert interfaces == [b"lo"] or USER_BASE is None  # who is not root has namespaces where the kernel lets him
    assert int(output.text.split()[-1]) < 8 or USER_BASE is None


async def test_a_warden_that_is_killed_takes_its_program_along(machine):
    output = Output()
    task = asyncio.create_task(machine.run(DAEMON.replace("os.wait()", "os.wait(); time.sleep(15)"), output))
    async with asyncio.timeout(20):
        while len(machine.left()) < 2:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.02)
    for warden in list(machine.method._wardens):
        os.kill(warden, signal.SIGKILL)
    ending, _ = await task

    assert ending.reason is EndReason.SIGNAL
    await still_works(machine)


@pytest.mark.parametrize("policy", [ZombiePolicy.REPORT, ZombiePolicy.KILL])
async def test_a_program_that_does_nothing_is_found_and_killed_if_that_is_wanted(machine_with, policy):
    machine = machine_with(zombie=policy, zombie_seconds=1.5)
    ending, output = await machine.run("#!/bin/sh\nsleep 5\n")

    assert output.zombie[-1]
    assert ending.reason is (EndReason.ZOMBIE if policy is ZombiePolicy.KILL else None)


async def test_programs_beside_each_other_have_a_user_each(machine_with):
    machine = machine_with()
    program = "#!/bin/sh\nid -u; sleep 1\n"
    outputs = [
        output for _, output in await asyncio.gather(machine_run(machine, program), machine_run(machine, program))
    ]

    assert len({output.text for output in outputs}) == (2 if USER_BASE is not None else 1)


async def machine_run(machine, program):
    """Run without looking for what is left: the other one is."""
    left, machine.left = machine.left, list
    try:
        return await machine.run(program)
    finally:
        machine.left = left
