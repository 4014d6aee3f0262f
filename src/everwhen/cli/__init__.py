"""The command line. A command is imported when it is called, so that each costs what it uses.

Data goes to standard output, everything else to standard error. An error is one line that says what, which, and what to
do; the exit codes are those of docs/reference/cli.md.
"""

import importlib
from typing import IO, Any, Final, NoReturn, cast

import click

from everwhen import __version__, failpoints

COMMANDS: Final = {
    "alert": "everwhen.cli.alert:alert",
    "apply": "everwhen.cli.apply:apply",
    "audit": "everwhen.cli.audit:audit",
    "calendar": "everwhen.cli.calendar:calendar",
    "context": "everwhen.cli.context:context",
    "db": "everwhen.cli.server:db",
    "dead": "everwhen.cli.dead:dead",
    "diff": "everwhen.cli.apply:diff",
    "doctor": "everwhen.cli.doctor:doctor",
    "export": "everwhen.cli.apply:export",
    "endpoint": "everwhen.cli.endpoint:endpoint",
    "events": "everwhen.cli.events:events",
    "executor": "everwhen.cli.executor:executor",
    "explain": "everwhen.cli.schema:explain",
    "explain-trigger": "everwhen.cli.explain:explain_trigger",
    "findings": "everwhen.cli.findings:findings",
    "forecast": "everwhen.cli.forecast:forecast",
    "import": "everwhen.cli.imports:import_group",
    "key": "everwhen.cli.key:key",
    "limits": "everwhen.cli.limits:limits",
    "logs": "everwhen.cli.logs:logs",
    "member": "everwhen.cli.member:member",
    "migrate": "everwhen.cli.server:migrate",
    "next": "everwhen.cli.next:next_command",
    "operation": "everwhen.cli.operation:operation",
    "payload": "everwhen.cli.payload:payload",
    "presets": "everwhen.cli.explain:presets",
    "queue": "everwhen.cli.queue:queue",
    "punctuality": "everwhen.cli.findings:punctuality",
    "run": "everwhen.cli.run:run",
    "schedule": "everwhen.cli.schedule:schedule",
    "serve": "everwhen.cli.server:serve",
    "task": "everwhen.cli.task:task",
    "tenant": "everwhen.cli.tenant:tenant",
    "token": "everwhen.cli.token:token",
    "tz": "everwhen.cli.tz:tz",
    "up": "everwhen.cli.up:up",
    "usage": "everwhen.cli.limits:usage",
    "verify": "everwhen.cli.verify:verify",
    "whoami": "everwhen.cli.member:whoami",
    "why": "everwhen.cli.why:why",
    "worker": "everwhen.cli.worker:worker_command",
    "workflow": "everwhen.cli.workflow:workflow",
}


class WrongUsage(click.ClickException):
    """A command line that cannot be followed, said in one line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(self.message, file=file, err=file is None)


class LazyGroup(click.Group):
    """A group that knows its commands' names, and imports one when it is asked for.

    The library prints three lines where something is wrong with the usage; here it is one, like every other error.
    """

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """See `click.Command`."""
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            _say_in_one_line(error)

    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Command`; this is where the commands below are parsed and called."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            _say_in_one_line(error)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the library's signature
        """Return every name, in order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command by its name."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))


def _say_in_one_line(error: click.UsageError) -> NoReturn:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        raise error  # a group by itself shows what it can do
    path = "everwhen" if error.ctx is None else error.ctx.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    raise WrongUsage(f"{path}: {message[:1].lower()}{message[1:]}; see {path} --help") from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="everwhen")
@click.option("-c", "--context", help="The context to go to: see everwhen context. [env: EVERWHEN_CONTEXT]")
def main(context: str | None) -> None:
    """Everwhen: a durable, multi-tenant scheduler on PostgreSQL.

    `everwhen up` starts everything on a database of its own; `everwhen next` tells when an expression fires.
    """
    if context is not None:
        from everwhen.cli.contexts import choose

        choose(context)
    _arm_failpoints()


def _arm_failpoints() -> None:
    try:
        names = failpoints.arm_from_environment()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if names:
        click.echo(f"failpoints are armed: {', '.join(names)}", err=True)
