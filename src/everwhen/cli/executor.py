"""`everwhen executor`: run uploaded programs, for fleets that have none of their own."""

from __future__ import annotations

import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from everwhen.cli.worker import UsageProblem

USER_BASE: Final = 64_000
MIB: Final = 1024 * 1024


@click.group(short_help="Run uploaded programs, in processes of this machine.")
def executor() -> None:
    """Run uploaded programs: a worker of the task service for fleets that have none."""


@executor.command("process", short_help="Run each program in processes of this machine, confined.")
@click.option("--url", help="The server's address. [env: EVERWHEN_URL]")
@click.option("--token", help="A token of the role worker. [env: EVERWHEN_TOKEN; better there than here]")
@click.option("--queues", default="tasks", show_default=True, help="Queues to claim from, separated by commas.")
@click.option("--tasks", default="task-service", show_default=True, help="Tasks whose input has a program, by commas.")
@click.option("--slots", type=click.IntRange(1, 256), default=4, show_default=True, help="Programs at once.")
@click.option("--home", type=click.Path(path_type=Path), help="A folder of its own. [default: a new one]")
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), default=3600.0, show_default=True, help="How long one may run."
)
@click.option("--cpu-seconds", type=click.FloatRange(min=0.1), default=3600.0, show_default=True, help="CPU of one.")
@click.option("--memory-mb", type=click.IntRange(min=16), default=512, show_default=True, help="Memory of one.")
@click.option("--file-mb", type=click.IntRange(min=1), default=256, show_default=True, help="One file of one.")
@click.option("--disk-mb", type=click.IntRange(min=1), default=256, show_default=True, help="All files of one.")
@click.option("--processes", type=click.IntRange(min=1), default=64, show_default=True, help="Processes of one.")
@click.option(
    "--grace-seconds", type=click.FloatRange(min=0), default=5.0, show_default=True, help="SIGTERM to SIGKILL."
)
@click.option(
    "--user-base", type=click.IntRange(min=1), help=f"As root: the first program's user. [default: {USER_BASE}]"
)
@click.option("--network/--no-network", default=False, show_default=True, help="Whether programs have the network.")
@click.option("--namespaces/--no-namespaces", default=True, help="Whether to use the kernel's namespaces.")
@click.option("--pass", "passed_on", multiple=True, metavar="NAME", help="An environment variable that programs see.")
@click.option("--mask", multiple=True, metavar="NAME", help="One whose value is hidden in logs.")
@click.option("--zombie", type=click.Choice(["ignore", "report", "kill"]), default="report", show_default=True,
              help="What is done about a program that does nothing.")  # fmt: skip
@click.option("--zombie-seconds", type=click.FloatRange(min=1), default=3600.0, show_default=True, help="For how long.")
def process(**options: Any) -> None:
    """Run the programs of the task service, each confined, until SIGTERM or Ctrl-C.

    What is contained depends on what the kernel allows and on whether this is root: docs/guides/executors.md. Exit
    codes as those of `everwhen worker`.
    """
    from everwhen.cli.client import read_client_file
    from everwhen.executor.home import HomeTaken

    if local := read_client_file().get("url"):
        os.environ.setdefault("EVERWHEN_URL", local)
    try:
        started = start(Wish(**options))
    except HomeTaken as error:
        raise UsageProblem(f"another executor runs in {error}; give this one a --home of its own") from error
    except OSError as error:
        raise UsageProblem(f"the executor's folder cannot be used: {error}") from error
    for line in started.describe():
        click.echo(f"  {line}", err=True)
    from everwhen.worker.errors import ConfigurationError

    try:
        raise SystemExit(started.run(url=options["url"], token=options["token"]))
    except ConfigurationError as error:
        raise UsageProblem(str(error)) from error


class Wish(dict[str, Any]):
    """What the command line says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An executor that is ready to work."""

    worker: Any
    home: Any
    method: Any

    def describe(self) -> list[str]:
        """Say what is contained."""
        killed = (
            [f"left over       {self.home.killed} processes of an earlier executor, killed"] if self.home.killed else []
        )
        return ["everwhen executor process", *self.method.describe(), *killed]

    def run(self, **settings: Any) -> int:
        """Work until told to stop; return the exit code."""
        try:
            return self.worker.run(**settings)
        finally:
            self.method.kill_orphans()
            self.home.close()


def start(wish: Wish) -> Started:
    """Make an executor of what the command line says; raise HomeTaken, and OSError."""
    from everwhen.executor.attempts import Executor
    from everwhen.executor.home import Home
    from everwhen.executor.idleness import ZombiePolicy
    from everwhen.executor.model import Limits
    from everwhen.executor.process.method import ProcessMethod, ProcessSettings
    from everwhen.worker import Worker
    from everwhen.worker._clock import monotonic

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    home = Home(wish["home"] or Path(tempfile.mkdtemp(prefix="everwhen-executor-")) / "home")
    if wish["home"] is None:
        home.folder.parent.chmod(0o711)
    limits = Limits(
        seconds=wish["seconds"],
        cpu_seconds=wish["cpu_seconds"],
        memory_bytes=wish["memory_mb"] * MIB,
        file_bytes=wish["file_mb"] * MIB,
        disk_bytes=wish["disk_mb"] * MIB,
        processes=wish["processes"],
    )
    settings = ProcessSettings(
        limits=limits,
        grace_seconds=wish["grace_seconds"],
        network=wish["network"],
        namespaces=wish["namespaces"],
        user_base=(wish["user_base"] or USER_BASE) if os.geteuid() == 0 else None,
        zombie=ZombiePolicy(wish["zombie"]),
        zombie_seconds=wish["zombie_seconds"],
    )
    method = ProcessMethod(home, settings, clock=monotonic)
    queues, tasks = _split(wish["queues"]), _split(wish["tasks"])
    worker = Worker(queues=queues, concurrency=wish["slots"], mask=list(wish["mask"]) or None)
    Executor(method=method, home=home, tasks=tasks, passed_on=wish["passed_on"]).join(worker)
    return Started(worker=worker, home=home, method=method)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
