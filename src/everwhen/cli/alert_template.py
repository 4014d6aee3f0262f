"""`everwhen alert template`: what alerts say, in a tenant's own words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.output import Columns, confirm, show_list, show_one

COLUMNS: Final[Columns] = {
    "KIND": "kind",
    "PART": "part",
    "BYTES": "bytes",
    "BY": "updated_by",
    "UPDATED": "updated_at",
}
PARTS: Final = ("subject", "text", "html", "slack")
KIND: Final = "AlertTemplateList"

_part = click.argument("part", type=click.Choice(PARTS))


@click.group(short_help="Replace what alerts say by templates of your own.")
def template() -> None:
    """Replace what alerts say: a template for a kind of alert (or `any`, `digest`) and a part of the message."""


@template.command("list")
@with_api
def list_command(*, api: Api, output: str) -> None:
    """List the tenant's own templates."""
    found = api.call("GET", api.tenant_path("alert-templates"))["items"]
    show_list(found, kind=KIND, output=output, columns=COLUMNS, name="kind")


@template.command("get")
@click.argument("kind")
@_part
@with_api
def get(*, api: Api, output: str, kind: str, part: str) -> None:
    """Print the template in use: the tenant's own, or the built-in one to begin from."""
    found = api.call("GET", api.tenant_path("alert-templates", kind, part))
    if output == "table":
        click.echo(found["source"], nl=not found["source"].endswith("\n"))
        return
    show_one(found, kind=KIND, output=output, name="kind")


@template.command("set")
@click.argument("kind")
@_part
@click.argument("source")
@force_option
@with_api
def set_command(*, api: Api, output: str, kind: str, part: str, source: str, force: bool) -> None:
    """Keep a template. SOURCE is the template, or @FILE."""
    body = {"source": _read(source)}
    made = api.change("PUT", api.tenant_path("alert-templates", kind, part), body=body, force=force)
    if output == "table":
        click.echo(f"{kind} {part} is the tenant's own now.")
        return
    show_one(made, kind=KIND, output=output, name="kind")


@template.command("delete")
@click.argument("kind")
@_part
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete(*, api: Api, output: str, kind: str, part: str, yes: bool, force: bool) -> None:  # noqa: ARG001  # nothing to print
    """Go back to the built-in text."""
    confirm(f"Delete the template for {kind}, part {part}?", yes=yes)
    api.change("DELETE", api.tenant_path("alert-templates", kind, part), force=force)


@template.command("preview")
@click.argument("kind")
@click.option(
    "--template",
    "templates",
    multiple=True,
    metavar="PART=SOURCE",
    help="Try a template in place of the one in use: subject, text, html or slack = its source, or @FILE.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write the mail to a file."
)
@with_api
def preview(*, api: Api, output: str, kind: str, templates: tuple[str, ...], html: Path | None) -> None:
    """Show what a message of a kind looks like, with sample data; send nothing."""
    body = {"kind": kind, "templates": dict(map(_named, templates))}
    made = api.call("POST", api.tenant_path("alert-templates", "preview"), body=body)
    if html is not None:
        html.write_text(made["html"], encoding="utf-8")
    if output != "table":
        show_one(made, kind="AlertPreviewList", output=output, name="subject")
        return
    click.echo(f"Subject: {made['subject']}\n\n{made['text']}", nl=False)


def _named(text: str) -> tuple[str, str]:
    part, equals, source = text.partition("=")
    if not equals or part not in PARTS:
        raise click.UsageError(f"--template is like subject=@FILE; parts are {', '.join(PARTS)}")
    return part, _read(source)


def _read(source: str) -> str:
    if not source.startswith("@"):
        return source
    try:
        return Path(source[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{source[1:]} cannot be read: {error}") from error
