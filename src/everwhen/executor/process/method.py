"""Executes attempts in processes of this machine, each under a warden (`warden.py`), in slots.

A slot is a number: its folder, and, where the executor runs as root, its user, so that programs that run beside each
other have nothing in common. What a warden did not end, because it was killed, is an orphan of this process and is
killed here; what both did not end is found by its folder at the next start.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from everwhen.executor.home import Home
from everwhen.executor.idleness import Idleness, ZombiePolicy
from everwhen.executor.model import Ending, EndReason, Limits, Order, Usage
from everwhen.executor.process import confining, usage
from everwhen.executor.process.ending import Ended, ending_of
from everwhen.executor.process.spec import ENDED, FAILED, KILL, TERMINATE, USAGE, Spec
from everwhen.executor.protocol import Console

WARDEN: Final = "everwhen.executor.process.warden"
CHUNK: Final = 65_536
KILL_SECONDS: Final = 15.0
"""How long a warden is waited for after it was told to kill, before it is killed itself."""

USUAL: Final = Limits()
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """How programs run here. `user_base`: the first slot's user id, where the executor is root; None: its own user."""

    limits: Limits = USUAL
    grace_seconds: float = 5.0
    network: bool = False
    namespaces: bool = True
    user_base: int | None = None
    zombie: ZombiePolicy = ZombiePolicy.REPORT
    zombie_seconds: float = 3_600.0


class ProcessMethod:
    """The method. Belongs to one event loop."""

    def __init__(self, home: Home, settings: ProcessSettings, *, clock: Clock) -> None:
        """Execute below this folder, which is this executor's alone."""
        self._home = home
        self._settings = settings
        self._clock = clock
        self._taken: set[int] = set()
        self._wardens: set[int] = set()
        confining.become_subreaper()

    def describe(self) -> list[str]:
        """Say what is contained."""
        settings, limits, mib = self._settings, self._settings.limits, 1024 * 1024
        users = "the executor's own" if settings.user_base is None else f"its own, from {settings.user_base} on"
        network = "the executor's own" if settings.network else "none, where the kernel allows"
        sizes = f"{limits.memory_bytes // mib} MiB of memory, {limits.disk_bytes // mib} MiB of files"
        return [
            f"each attempt   {limits.seconds:g} s, {limits.cpu_seconds:g} s of CPU, {sizes}",
            f"processes      {limits.processes} of each attempt",
            f"user           {users}",
            f"network        {network}",
            f"zombies        {settings.zombie} after {settings.zombie_seconds:g} s",
        ]

    async def execute(self, order: Order, console: Console) -> Ending:
        """Execute one attempt."""
        slot = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
        self._taken.add(slot)
        try:
            spec = self._prepare(order, slot)
            running = await _Running.start(spec, self._settings, console=console, clock=self._clock)
            self._wardens.add(running.warden.pid)
            try:
                return await running.to_its_end()
            finally:
                self._wardens.discard(running.warden.pid)
                self.kill_orphans()
        finally:
            self._taken.discard(slot)

    async def close(self) -> None:
        """Kill what wardens have left behind."""
        self.kill_orphans()

    def kill_orphans(self) -> None:
        """Kill what has become our child without being a warden: its own was killed."""
        everybody = usage.processes()
        for process in everybody.values():
            if process.parent != os.getpid() or process.pid in self._wardens or not self._home.is_marked(process.pid):
                continue
            for each in [*usage.descendants(process.pid, everybody), process]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)

    def _prepare(self, order: Order, slot: int) -> Spec:
        """Give the program's user what is his, and nothing else."""
        uid = None if self._settings.user_base is None else self._settings.user_base + slot
        work = order.folder / "work"
        for folder in (work, work / "tmp", work / "home"):
            folder.mkdir(mode=0o700)
        order.program.chmod(0o550)
        order.folder.chmod(0o710)
        if uid is not None:
            os.chown(order.folder, 0, uid)
            os.chown(order.program, 0, uid)
            for folder in (work, work / "tmp", work / "home"):
                os.chown(folder, uid, uid)
        environment = {
            **order.environment,
            "HOME": str(work / "home"),
            "TMPDIR": str(work / "tmp"),
            **self._home.mark(),
        }
        return Spec(
            argv=[str(order.program)],
            environment=environment,
            folder=str(order.folder),
            uid=uid,
            limits=self._settings.limits,
            network=self._settings.network,
            namespaces=self._settings.namespaces,
        )


class _Running:
    """One program under its warden, as the executor sees it."""

    def __init__(self, warden: asyncio.subprocess.Process, settings: ProcessSettings, console: Console) -> None:
        self.warden = warden
        self._settings = settings
        self._console = console
        self._status: asyncio.StreamReader
        self._output: asyncio.StreamReader
        self._ended_for: EndReason | None = None
        self._idleness = Idleness(after=settings.zombie_seconds)
        self._clock: Clock

    @classmethod
    async def start(cls, spec: Spec, settings: ProcessSettings, *, console: Console, clock: Clock) -> "_Running":
        """Start a warden and its program."""
        pipes = [os.pipe(), os.pipe()]
        (status_in, status_out), (output_in, output_out) = pipes
        try:
            warden = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-m", WARDEN, str(status_out), str(output_out)),
                stdin=asyncio.subprocess.PIPE,
                env={},
                pass_fds=(status_out, output_out),
                start_new_session=True,
            )
        except BaseException:
            os.close(status_in)
            os.close(output_in)
            raise
        finally:
            os.close(status_out)
            os.close(output_out)
        running = cls(warden, settings, console)
        running._clock = clock
        running._status, running._output = await _reader(status_in), await _reader(output_in)
        assert warden.stdin is not None
        warden.stdin.write(spec.to_line())
        return running

    async def to_its_end(self) -> Ending:
        """Pass on what the program prints until it has ended, in time or not."""
        loop = asyncio.get_running_loop()
        pump = loop.create_task(self._pump())
        listening = loop.create_task(self._listen())
        try:
            done, _ = await asyncio.wait([listening], timeout=self._settings.limits.seconds)
            if not done:
                await self._end(EndReason.TIME_LIMIT, listening)
            told = await listening
            await self.warden.wait()
            await pump
        except asyncio.CancelledError:
            await self._end(None, listening)
            await self._give_up(pump, listening)
            raise
        finally:
            pump.cancel()
            listening.cancel()
            self._close()
        return self._ending(told)

    async def _end(self, reason: EndReason | None, listening: "asyncio.Task[dict[str, Any]]") -> None:
        """Ask the program to end, and after the grace kill it."""
        self._ended_for = self._ended_for or reason
        for told, seconds in ((TERMINATE, self._settings.grace_seconds), (KILL, KILL_SECONDS)):
            self._say(told)
            done, _ = await asyncio.wait([listening], timeout=seconds)
            if done:
                return
        with contextlib.suppress(ProcessLookupError):
            self.warden.kill()

    async def _give_up(self, pump: "asyncio.Task[None]", listening: "asyncio.Task[dict[str, Any]]") -> None:
        """Wait for the end of what was cancelled: after that nothing of it runs."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.warden.wait(), KILL_SECONDS)
        await asyncio.wait([pump, listening], timeout=1.0)

    async def _pump(self) -> None:
        while chunk := await self._output.read(CHUNK):
            await self._console.write(chunk)

    async def _listen(self) -> dict[str, Any]:
        """Return how the warden says that the program ended; a warden that is killed says nothing."""
        while line := await self._status.readline():
            told = json.loads(line)
            kind = told.pop("kind")
            if kind in {ENDED, FAILED}:
                return told
            if kind == USAGE:
                self._see(Usage(**told))
        return {"code": None, "signal": int(signal.SIGKILL), "killed_for": None, "peak_bytes": 0}

    def _see(self, used: Usage) -> None:
        is_zombie = self._idleness.see(used, at=self._clock())
        self._console.used(used, is_zombie=is_zombie and self._settings.zombie is not ZombiePolicy.IGNORE)
        if is_zombie and self._settings.zombie is ZombiePolicy.KILL and self._ended_for is None:
            self._ended_for = EndReason.ZOMBIE
            self._say(KILL)

    def _say(self, told: bytes) -> None:
        stdin = self.warden.stdin
        if stdin is not None and not stdin.is_closing():
            with contextlib.suppress(ConnectionError):
                stdin.write(told)

    def _close(self) -> None:
        if self.warden.stdin is not None:
            self.warden.stdin.close()

    def _ending(self, told: dict[str, Any]) -> Ending:
        if "error" in told:
            return Ending(reason=EndReason.NOT_EXECUTABLE, text=f"the payload is no program: {told['error']}")
        killed_for = told["killed_for"] and EndReason(told["killed_for"])
        ended = Ended(
            code=told["code"],
            signal=told["signal"],
            killed_for=killed_for or self._ended_for,
            peak_bytes=told["peak_bytes"],
        )
        return ending_of(ended, self._settings.limits)


async def _reader(number: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=4 * CHUNK)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(number, "rb", 0))
    return reader
