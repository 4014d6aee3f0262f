"""`everwhen up`: everything on one machine, on a real PostgreSQL that is our own child."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from everwhen.cli.server import load_settings, one_line_errors, run_async

if TYPE_CHECKING:
    from everwhen.config import Settings
    from everwhen.demo.set_up import Demo
    from everwhen.postgres.embedded import EmbeddedPostgres
    from everwhen.services import Services

WORKER_STOP_SECONDS: Final = 2.0
_COLOURS: Final = {"succeeded": "green", "dead": "red", "retrying": "yellow", "planned": "bright_black"}


@click.command(short_help="Start everything on a database of its own, with a demo.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where the database lives. [default: ./.everwhen]")
@click.option("--host", help="Address of the API. [env: EVERWHEN_HOST; default: 127.0.0.1]")
@click.option("--port", type=int, help="Port of the API. [env: EVERWHEN_PORT; default: 8484, or any if it is taken]")
@click.option("--demo/--no-demo", default=True, show_default=True, help="A demo tenant with schedules and a worker.")
@click.option("--executor", is_flag=True, help="With the demo: run programs that are posted to its task service, too.")
def up(data_dir: Path | None, host: str | None, port: int | None, *, demo: bool, executor: bool) -> None:
    """Start PostgreSQL, migrate it, run every role, and watch the demo's runs. Ctrl-C stops everything.

    The data stays; a second start goes on where the first one stopped.
    """
    from everwhen.postgres.embedded import EmbeddedPostgres, default_data_dir
    from everwhen.postgres.migrate import migrate

    settings = load_settings(data_dir=data_dir, host=host, port=port)
    folder = settings.data_dir or default_data_dir(Path.cwd())
    click.echo(f"everwhen up  (data: {folder})", err=True)
    with one_line_errors(), EmbeddedPostgres.start(folder) as server:
        migrate(server.owner_conninfo)
        settings = load_settings(
            data_dir=folder, host=host, port=port, log_level=_quiet(settings), **_kept_secrets(folder, settings)
        )
        _serve(settings, server, folder=folder, demo=demo, executor=executor)


def _serve(settings: "Settings", server: "EmbeddedPostgres", *, folder: Path, demo: bool, executor: bool) -> None:
    import asyncio

    from everwhen import app

    async def on_started(services: "Services", url: str) -> None:
        if not url.endswith(f":{settings.port}") and settings.port:
            click.echo(f"  port {settings.port} is taken, so another one is used", err=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_outlive(server, folder))
            if demo:
                tasks.create_task(_show_demo(services, url, folder, executor=executor))
            else:
                click.echo(f"  address    {url}", err=True)

    chosen = "port" in settings.model_fields_set
    run_async(app.serve(settings, server.app_conninfo, on_started=on_started, any_port=not chosen))
    click.echo("stopped", err=True)


async def _outlive(server: "EmbeddedPostgres", folder: Path) -> None:
    """End everything when the database ends by itself: without it nothing here can work."""
    from everwhen.postgres.errors import EmbeddedServerError

    status = await server.wait()
    raise EmbeddedServerError(f"the database ended by itself (exit {status}); see {folder / 'postgres.log'}")


async def _show_demo(services: "Services", url: str, folder: Path, *, executor: bool) -> None:
    import asyncio

    from everwhen import clock
    from everwhen.demo.set_up import set_up
    from everwhen.demo.tasks import TENANT, demo_worker
    from everwhen.demo.watch import watch

    assert services.settings.jwt_secret is not None
    demo = await set_up(url, secret=services.settings.jwt_secret.get_secret_value(), now=clock.process_now())
    client = {"url": url, "tenant": TENANT, "token": demo.token}
    _write_private(folder / "client.json", json.dumps(client))
    _introduce(url)
    worker = demo_worker()
    thread = threading.Thread(target=_work, args=(worker, url, demo), name="demo-worker", daemon=True)
    thread.start()
    running = _start_executor(url, demo, folder) if executor else None
    try:
        await watch(services.database, demo.tenant_id, show=_show, on_first_success=_celebrate)
    finally:
        worker.stop()
        if running is not None:
            running.terminate()
            await asyncio.to_thread(running.wait)
        # Off the loop, which serves the worker's last report.
        await asyncio.to_thread(thread.join, WORKER_STOP_SECONDS)


def _work(worker: "object", url: str, demo: "Demo") -> None:
    from everwhen.worker import Worker

    assert isinstance(worker, Worker)
    worker.run(url=url, token=demo.worker_token, drain_seconds=1.0)


def _start_executor(url: str, demo: "Demo", folder: Path) -> "subprocess.Popen[bytes]":
    """Start an executor of the demo's task service: a process of its own, which is what programs are kept away from."""
    environ = {**os.environ, "EVERWHEN_TOKEN": demo.worker_token, "EVERWHEN_DRAIN_SECONDS": "1"}
    command = [sys.executable, "-c", "from everwhen.cli import main; main()", "executor", "process", "--url", url]
    return subprocess.Popen([*command, "--home", str(folder / "executor")], env=environ)  # noqa: S603  # our own


def _introduce(url: str) -> None:
    click.echo(
        f"""  address    {url}
  tenant     demo, with a worker for the tasks hello and flaky
  command    everwhen schedule list          (in another terminal, from this folder)
  API        curl -H "Authorization: Bearer $(everwhen token)" {url}/v1/tenants/demo/runs
  stop       Ctrl-C
""",
        err=True,
    )


def _celebrate() -> None:
    click.secho("First run succeeded. Next: docs/guides, or `everwhen schedule create --help`.", bold=True, err=True)


def _show(line: str) -> None:
    colour = next((colour for kind, colour in _COLOURS.items() if f" {kind} " in f"{line} "), None)
    click.secho(line, fg=colour)
    sys.stdout.flush()


def _kept_secrets(folder: Path, settings: "Settings") -> dict[str, str]:
    """Make at the first start, and find again, the key of tokens and, unless they are set, those that seal secrets."""
    from everwhen import clock
    from everwhen.sealing.ring import KEY_FILE, new_entry

    kept = {"jwt_secret": _kept_secret(folder / "jwt.secret", clock.new_secret)}
    if settings.sealing_keys is None:
        kept["sealing_keys"] = _kept_secret(folder / KEY_FILE, lambda: new_entry("local"))
    return kept


def _kept_secret(file: Path, make: Callable[[], str]) -> str:
    if not file.exists():
        _write_private(file, make())
    return file.read_text().strip()


def _write_private(file: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first byte on; it is whole or not there."""
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text + "\n")
    draft.rename(file)


def _quiet(settings: "Settings") -> str:
    """Leave the terminal to the runs, unless somebody asked for the log."""
    return settings.log_level if "log_level" in settings.model_fields_set else "warning"
