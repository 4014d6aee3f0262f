"""Commands that run or look after a server: serve, migrate, verify, db."""

import os
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from everwhen.config import Settings


class Fatal(click.ClickException):
    """One line, exit code 1."""

    def show(self, file: object = None) -> None:  # noqa: ARG002  # the library's signature
        """Print the line."""
        click.echo(f"everwhen: {self.format_message()}", err=True)


@click.command(short_help="Run roles against an external PostgreSQL.")
@click.option("--roles", help="Roles to run, separated by commas: api, scheduler, reaper. [default: all]")
@click.option("--host", help="Address of the API. [env: EVERWHEN_HOST; default: 127.0.0.1]")
@click.option("--port", type=int, help="Port of the API; 0: any. [env: EVERWHEN_PORT; default: 8484]")
def serve(roles: str | None, host: str | None, port: int | None) -> None:
    """Run the roles of a server until SIGTERM or Ctrl-C. Any number of copies may run on one database.

    The database is EVERWHEN_DATABASE_URL; `everwhen migrate` makes its schema.
    """
    from everwhen import app

    names = None if roles is None else tuple(name.strip() for name in roles.split(",") if name.strip())
    settings = load_settings(roles=names, host=host, port=port)
    run_async(app.serve(settings, database_url(settings)))


@click.command(short_help="Bring the database's schema up to date.")
@click.option("--app-role", default="everwhen_app", show_default=True, help="The application's login, to be granted.")
def migrate(app_role: str) -> None:
    """Apply the migrations that the database of EVERWHEN_OWNER_DATABASE_URL lacks.

    Safe to call from many places at once: one applies them, the others wait.
    """
    from everwhen.postgres.migrate import migrate as apply

    settings = load_settings()
    if settings.owner_database_url is None:
        raise Fatal("set EVERWHEN_OWNER_DATABASE_URL to the login that owns, or shall own, the schema")
    with one_line_errors():
        applied = apply(settings.owner_database_url.get_secret_value(), app_role=app_role)
    click.echo("\n".join(applied) if applied else "up to date", err=not applied)


@click.command(short_help="psql into the embedded server that `everwhen up` runs.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Its data directory. [default: ./.everwhen]")
def db(data_dir: Path | None) -> None:
    """Open psql as the superuser of the running embedded server: to look, since the history is append-only."""
    from everwhen.postgres.embedded import attach, default_data_dir
    from everwhen.postgres.host import find_bin_dir

    with one_line_errors():
        conninfo = attach(data_dir or default_data_dir(Path.cwd()))
    psql = find_bin_dir() / "psql"
    os.execv(psql, [str(psql), conninfo])  # noqa: S606  # the wheel's own program, no shell


def load_settings(**overrides: object) -> "Settings":
    """Read the settings, or end with the line that says what is wrong."""
    from everwhen.config import load
    from everwhen.telemetry import configure_logs

    with one_line_errors():
        settings = load(**overrides)
    configure_logs(settings.log_level)
    return settings


def database_url(settings: "Settings") -> str:
    """Return the application's login: the one that is set, or that of `everwhen up` in this folder."""
    from everwhen.postgres.cluster import APP
    from everwhen.postgres.embedded import attach, default_data_dir
    from everwhen.postgres.errors import EmbeddedServerError

    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    try:
        return attach(settings.data_dir or default_data_dir(Path.cwd()), role=APP)
    except EmbeddedServerError as error:
        raise Fatal(f"set EVERWHEN_DATABASE_URL, or start `everwhen up` in this folder ({error})") from error


def run_async(work: Coroutine[Any, Any, None]) -> None:
    """Run until it ends; what we know how to name becomes one line."""
    import uvloop

    with one_line_errors():
        uvloop.run(work)


@contextmanager
def one_line_errors() -> Generator[None]:
    """Turn errors that have a name into one line each; a defect keeps its traceback."""
    try:
        yield
    except BaseException as raised:
        error = _only(raised)
        if isinstance(error, _known()):
            raise Fatal(" ".join(str(error).split())) from raised
        raise


def _only(error: BaseException) -> BaseException:
    """Unwrap the group that a task group makes of a single failure."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inside = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return _only(inside[0]) if len(inside) == 1 else cast("BaseException", error)


def _known() -> tuple[type[BaseException], ...]:
    import psycopg

    from everwhen.errors import EverwhenError
    from everwhen.postgres.errors import EmbeddedServerError, MigrationError, UnsafeRoleError

    return EverwhenError, EmbeddedServerError, MigrationError, UnsafeRoleError, psycopg.OperationalError, OSError
