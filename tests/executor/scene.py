"""Programs under a warden, without a server: what they print and use is kept, and how they ended is told."""

import asyncio
import os
import time
from pathlib import Path
from uuid import UUID

from everwhen.executor.home import Home
from everwhen.executor.model import Ending, Limits, Order
from everwhen.executor.process import usage
from everwhen.executor.process.method import ProcessMethod, ProcessSettings

MIB = 1024 * 1024
USER_BASE = 64_000 if os.geteuid() == 0 else None
# Whatever goes wrong with a limit, an attack ends by itself: it counts to a bound of its own.
LIMITS = Limits(
    seconds=20.0,
    cpu_seconds=15.0,
    memory_bytes=96 * MIB,
    file_bytes=4 * MIB,
    disk_bytes=16 * MIB,
    processes=20,
)
PYTHON = "#!/usr/bin/env python3\n"


class Output:
    """A console that keeps what it is told."""

    def __init__(self) -> None:
        self.text, self.size, self.zombie = b"", 0, []
        self.printed = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.size += len(data)
        self.text = (self.text + data)[-20_000:]
        self.printed.set()

    def used(self, used, *, is_zombie: bool) -> None:
        self.zombie.append(is_zombie)


class Machine:
    """An executor's machine."""

    def __init__(self, folder: Path, **settings) -> None:
        settings = {"limits": LIMITS, "grace_seconds": 0.3, "user_base": USER_BASE} | settings
        self.home = Home(folder)
        self.method = ProcessMethod(self.home, ProcessSettings(**settings), clock=time.monotonic)

    async def run(self, program: str | bytes, output: Output | None = None) -> tuple[Ending, Output]:
        """Execute a program to its end; nothing of it is left."""
        output = output or Output()
        folder = self.home.new_folder()
        file = folder / "program"
        file.write_bytes(program.encode() if isinstance(program, str) else program)
        order = Order(
            run_id=UUID(int=1),
            attempt=1,
            name="program",
            program=file,
            folder=folder,
            environment={"PATH": "/usr/local/bin:/usr/bin:/bin", "EVERWHEN_RUN_ID": "1"},
        )
        ending = await self.method.execute(order, output)
        assert self.left() == []
        return ending, output

    def left(self) -> list[int]:
        """Processes of programs that are still there."""
        living = usage.processes().values()
        return [each.pid for each in living if each.state != "Z" and self.home.is_marked(each.pid)]
