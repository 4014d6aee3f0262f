"""The warden of one program: `python -m everwhen.executor.process.warden STATUS OUTPUT`, between it and its executor.

    executor ──pipe──> warden ──fork──> keeper (first process of a process namespace) ──fork──> program ──> …

The warden decides nothing but limits: it starts the program confined, watches what all of its processes use together,
and ends them all when it is told to, when a limit is passed, when the program has ended, or when its executor is gone.

Invariants

1. No process of the program outlives the warden's end. In a process namespace the kernel sees to that: when the keeper
   dies, everything in the namespace does. Without one the warden is a *subreaper*: whatever is orphaned becomes its
   child, so that all of it stays a tree below the warden, which is stopped as a whole and then killed until nothing is
   left. A program that runs as a user of its own cannot signal its warden.
2. The warden does not outlive its executor: the end of its input says that that is gone, however it went.
3. The program does not outlive the warden: it is killed by the kernel when its parent dies, and the keeper likewise.
   What a warden that was killed leaves behind is an orphan of the executor (also a subreaper), or, when both are gone,
   is found by its mark at the executor's next start.

Memory, CPU and processes are counted over all of the tree, several times a second; each single process has limits of
the kernel as well, a little above, so that what grows faster than that is stopped all the same.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from everwhen.executor.model import EndReason
from everwhen.executor.process import confining, usage
from everwhen.executor.process.spec import ENDED, FAILED, KILL, STARTED, TERMINATE, USAGE, Spec

LOOK_SECONDS: Final = 0.1
TELL_SECONDS: Final = 1.0
DISK_SECONDS: Final = 1.0
KILL_SECONDS: Final = 10.0
"""How long the warden goes on killing what does not end, before it leaves that to its executor."""

_MOST_LINE: Final = 1 << 20


class Warden:
    """One program, from its start to the end of all its processes."""

    def __init__(self, spec: Spec, *, status: int, output: int) -> None:
        """Guard this program; tell by `status`."""
        self._spec = spec
        self._status = status
        self._output = output
        self._in_namespace = False
        self._keeper = 0
        self._killed_for: EndReason | None = None
        self._peak = 0
        self._last = {"tell": 0.0, "disk": 0.0}

    def run(self) -> None:
        """Start the program, guard it, end it, and tell how it ended."""
        confining.become_subreaper()
        own_user_namespace = self._enter_namespaces()
        reading, writing = os.pipe()
        self._keeper = os.fork()
        if self._keeper == 0:
            os.close(reading)
            _Keeper(self._spec, output=self._output, result=writing).run(
                in_namespace=self._in_namespace, own_user_namespace=own_user_namespace
            )
        os.close(writing)
        os.close(self._output)
        told = self._guard(reading)
        self.end_all()
        kind = FAILED if "error" in told else ENDED
        peak = max(self._peak, told.pop("maxrss", 0))
        self._tell(kind, **told, killed_for=self._killed_for, peak_bytes=peak)

    def end_all(self) -> None:
        """Kill every process of the program; return when none is left, or after KILL_SECONDS."""
        if self._in_namespace:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._keeper, signal.SIGKILL)
        until = time.monotonic() + KILL_SECONDS
        while time.monotonic() < until:
            self._bury()
            left = usage.descendants(os.getpid())
            if not left:
                return
            if not self._in_namespace:
                for number in (signal.SIGSTOP, signal.SIGKILL):  # what is stopped starts nothing meanwhile
                    _signal(usage.descendants(os.getpid()), number)
            time.sleep(0.01)

    def _enter_namespaces(self) -> bool:
        """Have what is started from now on live in a process namespace; say whether a user namespace was needed."""
        if not self._spec.namespaces:
            return False
        if os.geteuid() == 0:
            self._in_namespace = confining.leave(confining.CLONE_NEWPID)
            return False
        self._in_namespace = confining.leave_as_user(confining.CLONE_NEWPID)
        return self._in_namespace

    def _guard(self, result: int) -> dict[str, Any]:
        """Watch until the program has ended; return what the keeper told of it."""
        text = b""
        while True:
            ready, _, _ = select.select([0, result], [], [], LOOK_SECONDS)
            if 0 in ready:
                self._obey(os.read(0, 64))
            if result in ready:
                chunk = os.read(result, 65_536)
                text += chunk
                while b"\n" in text:
                    line, _, text = text.partition(b"\n")
                    told = json.loads(line)
                    if told.pop("kind") != STARTED:
                        return told
                    self._tell(STARTED, **told)
                if not chunk:  # the keeper was killed
                    return {"code": None, "signal": int(signal.SIGKILL)}
            self._look()

    def _obey(self, told: bytes) -> None:
        if not told:  # the executor is gone
            self.end_all()
            os._exit(1)
        if KILL in told:
            self.end_all()
        elif TERMINATE in told:
            _signal(self._program(), signal.SIGTERM)

    def _program(self) -> list[usage.Process]:
        return usage.descendants(self._keeper) if self._in_namespace else self._tree()

    def _tree(self) -> list[usage.Process]:
        """Return the program's processes, those that were orphaned as well."""
        return [each for each in usage.descendants(os.getpid()) if each.pid != self._keeper]

    def _look(self) -> None:
        """See what all of it uses, and end it when that is too much."""
        limits, used = self._spec.limits, usage.usage_of(self._program())
        self._peak = max(self._peak, used.memory_bytes)
        if used.memory_bytes > limits.memory_bytes:
            self._end_for(EndReason.OUT_OF_MEMORY)
        elif used.processes > limits.processes:
            self._end_for(EndReason.PROCESS_LIMIT)
        elif used.cpu_seconds > limits.cpu_seconds:
            self._end_for(EndReason.CPU_LIMIT)
        elif self._is_time("disk", DISK_SECONDS) and self._disk() > limits.disk_bytes:
            self._end_for(EndReason.FILE_LIMIT)
        if self._is_time("tell", TELL_SECONDS):
            self._tell(
                USAGE,
                cpu_seconds=used.cpu_seconds,
                memory_bytes=used.memory_bytes,
                io_bytes=used.io_bytes,
                processes=used.processes,
            )

    def _disk(self) -> int:
        """Return what the program's folder takes; a scratch of its own is bounded by itself, and not seen from here."""
        return usage.size_of(Path(self._spec.folder) / "work")

    def _end_for(self, reason: EndReason) -> None:
        if self._killed_for is None:
            self._killed_for = reason
        self.end_all()

    def _is_time(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._last[what] + seconds:
            return False
        self._last[what] = now
        return True

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _tell(self, kind: str, **told: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._status, json.dumps({"kind": kind, **told}).encode() + b"\n")


class _Keeper:
    """The program's parent: confines, starts it, buries what dies, and tells how the program ended."""

    def __init__(self, spec: Spec, *, output: int, result: int) -> None:
        self._spec = spec
        self._output = output
        self._result = result

    def run(self, *, in_namespace: bool, own_user_namespace: bool) -> None:
        """Never return."""
        try:
            os.close(0)
            confining.die_with_parent()
            if not in_namespace:
                confining.become_subreaper()
            contained = self._confine(in_namespace=in_namespace, own_user_namespace=own_user_namespace)
            program = self._start(own_user_namespace=own_user_namespace)
            self._tell(STARTED, pid=program, contained=contained)
            self._tell(ENDED, **self._wait(program))
        except OSError as error:
            self._tell(FAILED, error=f"{error.strerror}", number=error.errno)
        finally:
            os._exit(0)

    def _confine(self, *, in_namespace: bool, own_user_namespace: bool) -> list[str]:
        """Do what the kernel allows; return the words for it."""
        spec, done = self._spec, ["processes"] if in_namespace else []
        if spec.uid is not None:
            done.append("user")
        if not spec.namespaces or not (os.geteuid() == 0 or own_user_namespace):
            return done
        if not spec.network and confining.leave(confining.CLONE_NEWNET):
            done.append("network")
        confining.leave(confining.CLONE_NEWIPC)
        owner = (os.getuid(), os.getgid()) if spec.uid is None else (spec.uid, spec.uid)
        if confining.leave(confining.CLONE_NEWNS):
            if confining.close_folders(Path(spec.folder), disk_bytes=spec.limits.disk_bytes, owner=owner):
                done.append("files")
            if in_namespace:
                confining.show_own_processes_only()
        return done

    def _start(self, *, own_user_namespace: bool) -> int:
        """Fork, and become the program; raise what keeps it from being executed."""
        reading, writing = os.pipe()
        program = os.fork()
        if program == 0:
            self._become_program(writing, own_user_namespace=own_user_namespace)
        os.close(writing)
        os.close(self._output)
        refused = os.read(reading, 4_096)
        os.close(reading)
        if refused:
            number = int(refused)
            raise OSError(number, os.strerror(number))
        return program

    def _become_program(self, errors: int, *, own_user_namespace: bool) -> None:
        spec = self._spec
        try:
            os.setsid()
            os.umask(0o077)
            confining.limit(spec.limits, processes=self._processes(own_user_namespace=own_user_namespace))
            if spec.uid is not None:
                confining.become(spec.uid, spec.uid)
            confining.forbid_new_privileges()
            confining.die_with_parent()
            os.chdir(Path(spec.folder) / "work")
            confining.execute(spec.argv, spec.environment, output=self._output, kept=errors)
        except OSError as error:
            os.write(errors, str(error.errno or 5).encode())
        finally:
            os._exit(127)

    def _processes(self, *, own_user_namespace: bool) -> int:
        """Return the kernel's limit: it counts all processes of a user, ours as well unless the user is its own."""
        if self._spec.uid is not None or own_user_namespace:
            return self._spec.limits.processes + 1
        mine = sum(1 for process in usage.processes().values() if _owner(process.pid) == os.getuid())
        return mine + self._spec.limits.processes + 8

    def _wait(self, program: int) -> dict[str, Any]:
        while True:
            pid, status, used = os.wait4(-1, 0)
            if pid == program:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                return {"code": code, "signal": number, "maxrss": used.ru_maxrss * 1024}

    def _tell(self, kind: str, **told: Any) -> None:
        os.write(self._result, json.dumps({"kind": kind, **told}).encode() + b"\n")


def _owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _signal(processes: list[usage.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _read_spec() -> Spec:
    line = b""
    while not line.endswith(b"\n") and len(line) < _MOST_LINE:
        byte = os.read(0, 1)
        if not byte:
            raise SystemExit(1)
        line += byte
    return Spec.from_line(line)


def main() -> None:
    """Guard one program."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to the terminal's whole group is the executor's to answer
    status, output = map(int, sys.argv[1:3])
    for inherited in (status, output):
        os.set_inheritable(inherited, False)
    Warden(_read_spec(), status=status, output=output).run()


if __name__ == "__main__":
    main()
