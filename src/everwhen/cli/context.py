"""`everwhen context`: which servers and tenants there are, and which one the next command goes to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from everwhen.cli.contexts import (
    Contexts,
    Profile,
    TokenSource,
    checked_name,
    checked_url,
    chosen,
    load,
    save,
)
from everwhen.cli.output import Columns, show_list, show_one

COLUMNS: Final[Columns] = {
    "": lambda row: "*" if row["in_use"] else "",
    "NAME": "name",
    "URL": "url",
    "TENANT": "tenant",
    "TOKEN": "token",
    "PROTECTED": "protected",
}


@click.group(short_help="Named servers and tenants to go to.")
def context() -> None:
    """Keep servers and tenants under names, so that `-c NAME` or EVERWHEN_CONTEXT leads there.

    No token is kept, only where it is: in a variable, in a file, or in what a command prints.
    """


def _printed(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "ndjson", "name"]),
        default="table",
        show_default=True,
        help="How to print.",
    )(function)


@context.command("list")
@_printed
def list_command(output: str) -> None:
    """List the contexts; the one in use has a star."""
    contexts = load()
    rows = [_row(name, contexts) for name in sorted(contexts.profiles)]
    show_list(rows, kind="ContextList", output=output, columns=COLUMNS)


@context.command("use")
@click.argument("name")
def use(name: str) -> None:
    """Go to this one, where no other is named."""
    contexts = load()
    contexts.get(name)
    save(replace(contexts, current=name))
    click.echo(f"context {name} is in use", err=True)


@context.command("show")
@click.argument("name", required=False)
@_printed
def show(name: str | None, output: str) -> None:
    """Show a context, by default the one that a command would go to; never a token."""
    contexts = load()
    named = name or chosen(contexts, is_local=False, is_needed=True)
    if named is None:
        raise click.UsageError("there is no context yet: make one with everwhen context set NAME --url URL")
    contexts.get(named)
    show_one(_row(named, contexts), kind="ContextList", output=output)


@context.command("set")
@click.argument("name")
@click.option("--url", help="The server's address.")
@click.option("-t", "--tenant", help="The tenant's name.")
@click.option("--token-env", metavar="VARIABLE", help="The token is in this variable.")
@click.option("--token-file", metavar="PATH", help="The token is in this file.")
@click.option("--token-command", metavar="COMMAND", help="The token is what this prints; it is run without a shell.")
@click.option(
    "--protected/--unprotected",
    default=None,
    help="Whether what destroys insists on --yes and the tenant's name.",
)
def set_command(name: str, **options: Any) -> None:
    """Make a context, or change what is named of one. The first one is in use at once."""
    contexts = load()
    before = contexts.profiles.get(checked_name(name))
    profiles = dict(contexts.profiles) | {name: _profile(before, options)}
    save(Contexts(current=contexts.current or (None if contexts.profiles else name), profiles=profiles))
    click.echo(f"context {name} is {'made' if before is None else 'changed'}", err=True)


@context.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Forget a context; the server hears nothing of it."""
    contexts = load()
    contexts.get(name)
    rest = {other: profile for other, profile in contexts.profiles.items() if other != name}
    save(Contexts(current=None if contexts.current == name else contexts.current, profiles=rest))
    click.echo(f"context {name} is removed", err=True)


def _profile(before: Profile | None, options: Mapping[str, Any]) -> Profile:
    if before is None and options["url"] is None:
        raise click.UsageError("a new context needs --url")
    made = before or Profile(url=checked_url(options["url"]))
    if options["url"] is not None:
        made = replace(made, url=checked_url(options["url"]))
    if options["tenant"] is not None:
        made = replace(made, tenant=options["tenant"] or None)
    if options["protected"] is not None:
        made = replace(made, protected=options["protected"])
    source = _source(**{kind: options[f"token_{kind}"] for kind in ("env", "file", "command")})
    return made if source is None else replace(made, token=source)


def _source(*, env: str | None, file: str | None, command: str | None) -> TokenSource | None:
    if sum(each is not None for each in (env, file, command)) > 1:
        raise click.UsageError("a token has one source: --token-env, --token-file or --token-command")
    if env is not None:
        if not re.fullmatch("[A-Z_][A-Z0-9_]*", env):  # what else it may be is not repeated: it may be the token
            raise click.UsageError("--token-env names a variable, such as ACME_TOKEN, and is not the token itself")
        return TokenSource(env=env)
    if file is not None:
        return TokenSource(file=file if file.startswith("~") else str(Path(file).absolute()))
    if command is None:
        return None
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise click.UsageError(f"--token-command cannot be read: {error}") from error
    if not words:
        raise click.UsageError("--token-command is empty")
    return TokenSource(command=words)


def _row(name: str, contexts: Contexts) -> dict[str, Any]:
    profile = contexts.profiles[name]
    return {
        "name": name,
        "url": profile.url,
        "tenant": profile.tenant,
        "token": profile.token.sentence,
        "protected": profile.protected,
        "in_use": name == chosen(contexts, is_local=False, is_needed=False),
    }
