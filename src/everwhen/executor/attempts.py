"""The life of an attempt at an executor: download → execute → tell. What every executor has in common.

The task's function is a coroutine, so that an attempt which is cancelled, lost, timed out or given back is reported
only when what it started has ended (see `worker/execution.py`): nobody else begins it while it still runs here.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from everwhen.executor.home import Home
from everwhen.executor.model import Ending, EndReason, Order, Usage
from everwhen.executor.protocol import Method
from everwhen.executor.removing import remove
from everwhen.worker import AttemptEnded, Context, PayloadBroken, PayloadUnknown, Worker
from everwhen.worker.errors import ProgramFailed

TASK: Final = "task-service"
QUEUE: Final = "tasks"
TAIL_BYTES: Final = 4_000
TAIL_LINES: Final = 20
ROOM_SECONDS: Final = 10.0
"""How long a program waits for its log to be sent before some of it is dropped."""

PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ")
"""Of the executor's own environment a program sees these, and what the operator names."""

USUAL_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Runs the programs that runs of some tasks refer to, by one method."""

    method: Method
    home: Home
    tasks: Sequence[str] = (TASK,)
    passed_on: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def join(self, worker: Worker) -> None:
        """Make this worker an executor."""
        for name in self.tasks:
            worker.task(name)(self._task(retryable=name != TASK))

    def _task(self, *, retryable: bool) -> Any:
        async def execute(ctx: Context, program: Any, **about: Any) -> dict[str, Any]:
            """Run one program to its end."""
            return await self._execute(ctx, program, about, retryable=retryable)

        return execute

    async def _execute(self, ctx: Context, program: Any, about: dict[str, Any], *, retryable: bool) -> dict[str, Any]:
        console = ProgramConsole(ctx)
        folder = await asyncio.to_thread(self.home.new_folder)
        try:
            file = await asyncio.to_thread(ctx.payload, program, folder / "program")
            order = Order(
                run_id=ctx.run_id,
                attempt=ctx.attempt,
                name=str(about.get("name") or "program"),
                program=file,
                folder=folder,
                environment=self._environment(ctx, about),
            )
            ending = await self.method.execute(order, console)
        except (PayloadUnknown, PayloadBroken) as error:
            raise ProgramFailed(str(error), reason=EndReason.NOT_EXECUTABLE, retryable=retryable) from error
        finally:
            await asyncio.shield(asyncio.to_thread(remove, folder))
        if ending.reason is not None:
            console.say(ending)
            raise ProgramFailed(_message(ending, console.tail()), reason=ending.reason, retryable=retryable)
        return {"exit_code": ending.exit_code, "output_bytes": console.size}

    def _environment(self, ctx: Context, about: Mapping[str, Any]) -> dict[str, str]:
        """Return what a program sees: nothing of the executor's own but what is named."""
        passed = {name: self.environ[name] for name in (*PASSED_ON, *self.passed_on) if name in self.environ}
        told = {
            "EVERWHEN_RUN_ID": str(ctx.run_id),
            "EVERWHEN_ATTEMPT": str(ctx.attempt),
            "EVERWHEN_NOMINAL_AT": "" if ctx.nominal_at is None else ctx.nominal_at.isoformat(),
            "EVERWHEN_TASK_ID": str(about.get("task_id", "")),
            "EVERWHEN_DEDUP_ID": str(about.get("dedup_id", "")),
        }
        clean = {name: value.replace("\0", "") for name, value in told.items() if value}
        return {"PATH": USUAL_PATH, **passed, **clean}


class ProgramConsole:
    """A program's output: to the attempt's log, and the end of it into the error."""

    def __init__(self, context: Context) -> None:
        """Write to this attempt's log."""
        self._context = context
        self._tail = b""
        self._is_zombie = False
        self.size = 0

    async def write(self, data: bytes) -> None:
        """Take output; a program that prints faster than it can be sent waits, until its log is full."""
        self.size += len(data)
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        if not self._context.log_is_over:
            await asyncio.to_thread(self._context.write_log, data, wait_seconds=ROOM_SECONDS)

    def used(self, usage: Usage, *, is_zombie: bool) -> None:
        """Tell the run's page that it is a zombie, once it is; what it uses otherwise is nobody's news."""
        if is_zombie == self._is_zombie:
            return
        self._is_zombie = is_zombie
        details = {"zombie": is_zombie, "cpu_seconds": round(usage.cpu_seconds, 3)}
        with contextlib.suppress(AttemptEnded):  # nobody is left to be told
            (self._context.tell_zombie if is_zombie else self._context.heartbeat)(details)

    def say(self, ending: Ending) -> None:
        """Write how it ended, where people look for it."""
        self._context.write_log(f"\n--- everwhen: {ending.text} [{ending.reason}] ---\n".encode())

    def tail(self) -> str:
        """Return the last lines of the output."""
        lines = self._tail.decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
        return "\n".join(lines).strip()


def _message(ending: Ending, tail: str) -> str:
    return f"{ending.text}\n{tail}" if tail else ending.text
