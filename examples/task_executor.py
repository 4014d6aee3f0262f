"""An executor of the task service: claims runs, downloads their programs, and runs each in a process of its own.

    export EVERWHEN_TOKEN=$(everwhen token --tenant acme --role worker --queue tasks)
    everwhen worker task_executor:worker

A program gets no arguments, an empty folder to work in, and what it is about in its environment. It succeeds by exiting
with 0. Any other end fails the run for good: nobody knows what half a program has done. Only a run whose executor was
lost is given to another one. Programs are what users upload: let executors run as a user who may do nothing else, in a
container without secrets.
"""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from everwhen.worker import Context, NoRetry, Worker

MOST_SECONDS = 3_600.0
LOOK_SECONDS = 0.2
MOST_OUTPUT = 8_000
PASSED_ON = ("PATH", "LANG", "TZ")

worker = Worker(queues=["tasks"], concurrency=4)


@worker.task("task-service")
def execute(
    ctx: Context, *, program: dict[str, str], task_id: str, dedup_id: str, name: str | None = None
) -> dict[str, Any]:
    """Run one program to its end, or to that of its time."""
    with tempfile.TemporaryDirectory(prefix="everwhen-task-") as folder:
        file = ctx.payload(program, Path(folder) / "program")
        file.chmod(0o700)
        work = Path(folder) / "work"
        work.mkdir()
        about = {"EVERWHEN_TASK_ID": task_id, "EVERWHEN_DEDUP_ID": dedup_id, "EVERWHEN_RUN_ID": str(ctx.run_id)}
        environment = {key: os.environ[key] for key in PASSED_ON if key in os.environ} | about
        with (Path(folder) / "output").open("w+b") as output:
            code = run(ctx, [str(file)], cwd=work, environment=environment, output=output)
            output.seek(max(0, output.tell() - MOST_OUTPUT))
            said = output.read().decode("utf-8", "replace")
    if code != 0:
        raise NoRetry(f"{name or 'the program'} ended with {code}: {said[-1_000:]}")
    return {"exit_code": code, "output": said}


def run(ctx: Context, command: list[str], *, cwd: Path, environment: dict[str, str], output: Any) -> int:
    """Run a command in a session of its own, so that whatever it starts ends with it; return its exit code."""
    try:
        process = subprocess.Popen(  # noqa: S603  # running what users upload is what this is for
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise NoRetry(f"the payload is no program: {error.strerror}") from error
    ends_at = time.monotonic() + MOST_SECONDS
    try:
        while True:
            try:
                return process.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                ctx.check()  # a lost lease, a cancellation and the server's time-out raise here
                if time.monotonic() >= ends_at:
                    raise NoRetry(f"the program ran for longer than {MOST_SECONDS:.0f} s") from None
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End the program and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


if __name__ == "__main__":
    raise SystemExit(worker.run())
