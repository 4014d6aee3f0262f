"""`everwhen worker module:worker`, or `worker run`: run a fleet's tasks; and the commands that look at fleets."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from everwhen.cli import fleet

if TYPE_CHECKING:
    from everwhen.worker import Worker


Pairs = TypeVar("Pairs", dict[str, str], dict[str, float])


class UsageProblem(click.ClickException):
    """What was asked for cannot be run; one line says why."""

    exit_code = 2


class WorkerGroup(click.Group):
    """A group whose commands need not be named: what is none of them is what to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` before what names no command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("worker", cls=WorkerGroup, short_help="Run the tasks of a worker; see, drain and cordon workers.")
def worker_command() -> None:
    """Run the tasks of a worker: `everwhen worker tasks:worker`. See, drain and cordon those that run."""


for _command in fleet.COMMANDS:
    worker_command.add_command(_command)


@worker_command.command("run", short_help="Run the tasks of a worker.")
@click.argument("target", metavar="MODULE:WORKER")
@click.option("--url", help="Address of the server. [env: EVERWHEN_URL; default: that of `everwhen up` here]")
@click.option("--token", help="Token of the worker; the environment is the safer place. [env: EVERWHEN_TOKEN]")
@click.option("--queues", help="Queues to claim from, separated by commas. [env: EVERWHEN_QUEUES; default: default]")
@click.option("--concurrency", type=click.IntRange(min=1), help="Runs at once. [default: 100]")
@click.option("--label", "labels", multiple=True, help="name=value; repeatable. [env: EVERWHEN_LABELS]")
@click.option("--resource", "resources", multiple=True, help="name=number; repeatable. [env: EVERWHEN_RESOURCES]")
@click.option("--app-version", "version", help="Of the application; shown. [env: EVERWHEN_WORKER_VERSION]")
@click.option("--lease-seconds", type=click.FloatRange(min=0, min_open=True), help="Length of a lease. [default: 30]")
@click.option("--via", type=click.Choice(["nats", "rabbitmq"]), help="Listen to a broker. [env: EVERWHEN_VIA]")
@click.option("--broker-url", help="The broker's servers, separated by commas. [env: EVERWHEN_BROKER_URL]")
@click.option("--drain-seconds", type=click.FloatRange(min=0), help="How long to finish on SIGTERM. [default: 30]")
@click.option("--probe", help="host:port for /live and /ready. [env: EVERWHEN_PROBE; default: nowhere]")
def run(  # noqa: PLR0913 - one parameter per option
    target: str,
    *,
    url: str | None,
    token: str | None,
    queues: str | None,
    concurrency: int | None,
    labels: tuple[str, ...],
    resources: tuple[str, ...],
    version: str | None,
    lease_seconds: float | None,
    via: str | None,
    broker_url: str | None,
    drain_seconds: float | None,
    probe: str | None,
) -> None:
    """Run the tasks of MODULE:WORKER, for example `tasks:worker`, until SIGTERM or Ctrl-C.

    The module is imported from the current directory. Exit codes: 0 drained, 1 failed, 2 usage, 4 token refused.
    """
    from everwhen.cli.client import read_client_file
    from everwhen.worker.errors import ConfigurationError
    from everwhen.worker.settings import read_labels, read_resources

    worker = load_worker(target)
    if local := read_client_file().get("url"):
        os.environ.setdefault("EVERWHEN_URL", local)  # below `Worker(url=…)`, above nothing at all
    _log_to_stderr()
    try:
        code = worker.run(
            url=url,
            token=token,
            queues=None if queues is None else [name.strip() for name in queues.split(",") if name.strip()],
            concurrency=concurrency,
            labels=_pairs(read_labels, labels),
            resources=_pairs(read_resources, resources),
            version=version,
            lease_seconds=lease_seconds,
            via=via,
            broker_url=broker_url,
            drain_seconds=drain_seconds,
            probe=probe,
        )
    except ConfigurationError as error:
        raise UsageProblem(str(error)) from error
    raise SystemExit(code)


def _pairs(read: Callable[[Sequence[str]], Pairs], given: Sequence[str]) -> Pairs | None:
    """Return what was given as pairs; None when nothing was."""
    try:
        return read(given) if given else None
    except ValueError as error:
        raise UsageProblem(str(error)) from error


def load_worker(target: str) -> "Worker":
    """Import `module:attribute` from the current directory; raise a one-line usage error when there is no worker."""
    from everwhen.worker import Worker

    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise UsageProblem(f"{target!r} is not MODULE:WORKER; write for example tasks:worker")
    found: object = _import(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageProblem(f"module {module_name!r} has no {attribute!r}; name the Worker it creates")
        found = getattr(found, part)
    if not isinstance(found, Worker):
        raise UsageProblem(f"{target} is a {type(found).__name__}, not a Worker")
    return found


def _import(module_name: str) -> object:
    import importlib
    import sys
    from pathlib import Path

    from everwhen.worker import WorkerError

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise UsageProblem(f"no module {module_name!r} in {here} or among the installed packages") from error
        raise UsageProblem(f"module {module_name!r} imports {error.name!r}, which is not installed") from error
    except WorkerError as error:
        raise UsageProblem(f"module {module_name!r}: {error}") from error


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    for noisy in ("httpx2", "httpcore2"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
