"""How answers are printed. Data goes to standard output as the API sent it; only the table chooses and shortens."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

API_VERSION: Final = "everwhen/v1"
GAP: Final = "  "

Row = Mapping[str, Any]
Columns = Mapping[str, str | Callable[[Row], Any]]


def show_list(
    items: Sequence[Row], *, kind: str, output: str, columns: Columns, name: str = "name", following: str | None = None
) -> None:
    """Print items: as a table of `columns` (heading to field), as JSON, one JSON object a line, or by name."""
    match output:
        case "json":
            document = {"apiVersion": API_VERSION, "kind": kind, "items": items, "next": following}
            click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        case "ndjson":
            for item in items:
                click.echo(json.dumps(item, ensure_ascii=False))
        case "name":
            for item in items:
                click.echo(item[name])
        case _:
            _show_table(items, columns)
            if following:
                click.echo(f"more: --cursor {_cursor_of(following)}, or --all", err=True)


def show_one(item: Row, *, kind: str, output: str, name: str = "name") -> None:
    """Print one thing: as lines of field and value, or like a list of one."""
    if output != "table":
        show_list([item], kind=kind, output=output, columns={}, name=name)
        return
    width = max(map(len, item))
    for field, value in item.items():
        click.echo(f"{field.ljust(width)}{GAP}{_text(value)}".rstrip())


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; without one, or in a pipe, insist on --yes. The output's format changes nothing here.

    In a protected context the tenant's name is needed as well: as --tenant, or typed on the terminal.
    """
    from everwhen.cli.client import current_target

    target = current_target()
    wanted = target.tenant if target is not None and target.protected else None
    is_named = wanted is None or (target is not None and target.is_named)
    if yes and is_named:
        return
    if not sys.stdin.isatty():
        needed = "--yes" if wanted is None else f"--yes and --tenant {wanted}: its context is protected"
        raise click.UsageError(f"{question} Confirm with {needed}.")
    if not is_named:
        typed = click.prompt(f"{question} It is protected: type the tenant's name", err=True)
        if typed != wanted:
            raise click.UsageError("that is not the tenant's name; nothing was done")
    elif not yes:
        click.confirm(question, abort=True, err=True)


def _show_table(items: Sequence[Row], columns: Columns) -> None:
    lines = [list(columns), *([_cell(item, source) for source in columns.values()] for item in items)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for number, line in enumerate(lines):
        text = GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        text = text if len(text) <= room else text[: room - 1] + "…"
        click.echo(click.style(text, bold=True) if number == 0 and sys.stdout.isatty() else text)


def _cell(item: Row, source: str | Callable[[Row], Any]) -> str:
    return _text(item.get(source) if isinstance(source, str) else source(item))


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return "".join(character if character.isprintable() else "?" for character in str(value))


def _cursor_of(path: str) -> str:
    from urllib.parse import parse_qs, urlsplit

    return parse_qs(urlsplit(path).query)["cursor"][0]
