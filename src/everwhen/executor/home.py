"""An executor's own folder: one executor at a time, a folder for each attempt, and what an earlier one left behind.

Each program carries the folder's mark in its environment. An executor that starts holds the folder's lock, so nobody
else's programs have that mark: what has it is a program of an executor that was killed, and its run has been, or will
be, given to somebody else. It is killed before anything is claimed.
"""

import contextlib
import fcntl
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

from everwhen.executor.process import usage
from everwhen.executor.removing import remove

MARK: Final = "EVERWHEN_EXECUTOR_HOME"
KILL_SECONDS: Final = 10.0


class HomeTaken(Exception):  # noqa: N818  # read as a sentence
    """Another executor has this folder."""


class Home:
    """The folder."""

    def __init__(self, folder: Path) -> None:
        """Take it for this process; raise HomeTaken, and OSError when it cannot be made."""
        self.folder = folder.absolute()
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise HomeTaken(str(self.folder)) from None
        self.killed = self._kill_leftovers()
        for each in self.folder.iterdir():
            if each.is_dir() and not each.is_symlink():
                remove(each)

    def mark(self) -> dict[str, str]:
        """Return what a program's environment has to have in it."""
        return {MARK: str(self.folder)}

    def is_marked(self, pid: int) -> bool:
        """Say whether a process has the mark."""
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"{MARK}={self.folder}".encode() in variables

    def new_folder(self) -> Path:
        """Make a folder for an attempt."""
        return Path(tempfile.mkdtemp(prefix="attempt-", dir=self.folder))

    def close(self) -> None:
        """Give the folder back."""
        self._lock.close()

    def _kill_leftovers(self) -> int:
        """Kill what an earlier executor left behind; return how many processes that were."""
        killed: set[int] = set()
        until = time.monotonic() + KILL_SECONDS
        while time.monotonic() < until:
            left = [pid for pid, each in usage.processes().items() if each.state != "Z" and self.is_marked(pid)]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed.update(left)
            time.sleep(0.01)
        return len(killed)
