"""Processes of a fleet by fork: what `everwhen` imports is imported once, and a process is there in milliseconds.

A server that is killed every second has to be started every second, and most of what that costs is imports. So one
process imports everything, does nothing else, and forks a child for each command. The child is a process of its own, as
one that was started in the ordinary way: with its environment, folder and log, to be killed and stopped like any other.

    whoever asks ──JSON line──> zygote ──fork──> between ──fork──> the process    (the one between ends at once)
                 <──its number──

The process so loses its parent, and whoever asks has declared itself its heir (PR_SET_CHILD_SUBREAPER): it can wait for
it, and learns how it ended.
"""

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Forked:
    """A process that the zygote has forked, with as much of `subprocess.Popen` as a fleet needs."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, as `Popen` does; None while it lives."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for its end; raise TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9."""
        self.send_signal(signal.SIGKILL)


@dataclass
class Zygote:
    """The one that forks; it ends with whoever started it."""

    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        """Start it, and become the heir of what it forks."""
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        command = [sys.executable, "-m", "tests.system.zygote"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[2])

    def start(self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path) -> Forked:
        """Start `everwhen` with these arguments."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment), "log": str(log)}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return Forked(int(self.process.stdout.readline()))

    def close(self) -> None:
        """End it; what it has forked lives on."""
        with self.process:  # closes its pipes, and waits for it
            pass


def main() -> None:
    """Import everything, and fork as long as somebody asks."""
    import everwhen.app
    import everwhen.cli.server
    import everwhen.cli.worker  # noqa: F401  # what the children would import one by one

    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        ours, theirs = os.pipe()
        if (between := os.fork()) == 0:
            if (pid := os.fork()) != 0:
                os.write(theirs, str(pid).encode())
                os._exit(0)
            _become(**asked)
        os.waitpid(between, 0)
        os.close(theirs)
        number = os.read(ours, 32).decode()
        os.close(ours)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def _become(*, arguments: Sequence[str], folder: str, environment: Mapping[str, str], log: str) -> None:
    from everwhen.cli import main as everwhen

    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.path.insert(0, folder)
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, taken in ((nothing, 0), (file, 1), (file, 2)):
            os.dup2(number, taken)
        os.closerange(3, 1024)
        everwhen(list(arguments), prog_name="everwhen")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  # whatever ends it is told in its log
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
