"""`everwhen apply`, `diff` and `export`: a directory of files as the source of truth for a tenant."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from everwhen.cli.client import CONFLICT, USAGE, Api, CallFailed, with_api
from everwhen.cli.declared.asking import ask, declared, faults_of, owned
from everwhen.cli.declared.carrying import CHANGING, carry_out
from everwhen.cli.declared.faults import MOST_TOLD, Fault, Faulty
from everwhen.cli.declared.folder import Foreign, text_of, write_folder
from everwhen.cli.declared.reading import KINDS, Document, read_documents
from everwhen.cli.declared.telling import lines_of, summary
from everwhen.cli.output import API_VERSION, confirm

DIFFERENT: Final = 1
DEFAULT_OWNER: Final = "apply"
_OWNED: Final = "declaration.owned"


def _asking(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "-f",
                "--file",
                "paths",
                multiple=True,
                required=True,
                type=click.Path(path_type=Path),
                help="A file of YAML or TOML, or a folder of them; repeatable.",
            ),
            click.option("--owner", help="Whose all of it is, such as acme/ops."),
            click.option("--prune", is_flag=True, help="Delete what the owner has and no file declares."),
            click.option("--days", type=click.IntRange(1, 366), default=7, show_default=True, help="How far to look."),
        )
    ):
        function = option(function)
    return function


@click.command("apply")
@_asking
@click.option("--adopt", is_flag=True, help="Take over what is another owner's, or was made by hand.")
@click.option("--dry-run", is_flag=True, help="Only show what it would do.")
@click.option("--reason", help="Why; kept with each revision.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_api
def apply(*, api: Api, output: str, paths: tuple[Path, ...], owner: str | None, prune: bool, **options: Any) -> None:
    """Make a tenant have what files declare: tasks, schedules, workflows and calendars.

    What it does is shown first, and tried as a whole on the server. Applying again changes nothing.
    """
    with _told_faults(output):
        documents = read_documents(paths)
        items = _plan(
            api, documents, owner=owner or DEFAULT_OWNER, prune=prune, days=options["days"], adopt=options["adopt"]
        )
    _show(items, output, prune=prune)
    if options["dry_run"] or not any(item["action"] in CHANGING for item in items):
        _end(items, output)
        return
    confirm("Apply this?", yes=options["yes"])
    specs = {document.key: document.spec for document in documents}
    failed = carry_out(api, items, specs, owner=owner or DEFAULT_OWNER, reason=options["reason"])
    _end(items, output)
    if failed:
        _tell_failures(items)
        sys.exit(failed[0].exit_code)
    if output == "table":
        click.echo(f"applied {sum(item['result'] == 'done' for item in items)}", err=True)


@click.command("diff")
@_asking
@with_api
def diff(*, api: Api, output: str, paths: tuple[Path, ...], owner: str | None, prune: bool, days: int) -> None:
    """Show what applying files would change: exit code 0 when nothing, 1 when something, more when it cannot be said.

    Without --owner, owners are not compared.
    """
    with _told_faults(output):
        items = _plan(api, read_documents(paths), owner=owner, prune=prune, days=days, adopt=owner is not None)
    _show(items, output, prune=prune)
    _end(items, output)
    if any(item["action"] in CHANGING for item in items):
        sys.exit(DIFFERENT)


@click.command("export")
@click.option(
    "-f",
    "--file",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write. [default: standard output]",
)
@click.option("--kind", type=click.Choice(KINDS, case_sensitive=False), help="Only things of this kind.")
@click.option("--owner", help="Only what this owner declares.")
@click.option("--overwrite", is_flag=True, help="Replace files of others, and remove what was exported and is gone.")
@with_api
def export(*, api: Api, output: str, folder: Path | None, kind: str | None, owner: str | None, overwrite: bool) -> None:
    """Write what a tenant has as files, so that `diff` finds no difference."""
    found = list(declared(api, kind=kind, owner=owner))
    if any(each["withheld"] for each in found):
        raise CallFailed(
            {"detail": "this token may not see payloads, which inputs are: use one of an editor"}, exit_code=4
        )
    if folder is None:
        click.echo("---\n".join(text_of(each) for each in found), nl=False)
        return
    try:
        written, removed = write_folder(folder, found, kinds=KINDS if kind is None else (kind,), overwrite=overwrite)
    except Foreign as error:
        raise CallFailed({"detail": f"{error}: --overwrite replaces or removes it"}, exit_code=CONFLICT) from error
    if output == "name":
        for path in written:
            click.echo(path)
    click.echo(f"{len(found)} declared in {folder}: {len(written)} files written, {len(removed)} removed", err=True)


def _plan(
    api: Api, documents: Sequence[Document], *, owner: str | None, prune: bool, days: int, adopt: bool
) -> list[Any]:
    absent: list[dict[str, str]] = []
    if prune:
        if owner in {None, DEFAULT_OWNER}:
            raise click.UsageError("--prune deletes what an owner has: name it with --owner")
        keys = {document.key for document in documents}
        absent = [each for each in owned(api, owner or "") if (each["kind"], each["name"]) not in keys]
    items = ask(api, documents, absent=absent, owner=owner, adopt=adopt and owner is not None, days=days)
    if faults := faults_of([item for item in items if item["action"] == "refused"], documents):
        raise Faulty(faults)
    return items


def _show(items: Sequence[Any], output: str, *, prune: bool) -> None:
    """Show the plan: on standard output where that is for people, else beside it."""
    beside = output != "table"
    for line in lines_of(items):
        click.echo(line, err=beside)
    click.echo(summary(items, prune=prune), err=True)


def _end(items: Sequence[Any], output: str) -> None:
    """Print what has become of everything, for programs."""
    changing = [item for item in items if item["action"] in CHANGING]
    if output == "json":
        click.echo(
            json.dumps({"apiVersion": API_VERSION, "kind": "ChangeList", "items": items, "next": None}, indent=2)
        )
    elif output == "ndjson":
        for item in items:
            click.echo(json.dumps(item))
    elif output == "name":
        for item in changing:
            click.echo(f"{item['kind'].lower()}/{item['name']}")


def _tell_failures(items: Sequence[Any]) -> None:
    for item in items:
        if item["result"] == "failed":
            detail = " ".join(str(item["problem"].get("detail", "")).split())
            click.echo(f"failed: {item['kind'].lower()}/{item['name']}: {detail}", err=True)
    done, failed, left = (sum(item["result"] == result for item in items) for result in ("done", "failed", "not begun"))
    click.echo(f"{done} done, {failed} failed, {left} not begun: apply again to go on", err=True)


@contextlib.contextmanager
def _told_faults(output: str) -> Generator[None]:
    """End with every fault of the files on a line of its own, and the exit code of what they are."""
    try:
        yield
    except Faulty as error:
        if output in {"json", "ndjson"}:
            faults: list[dict[str, Any]] = [fault.to_data() for fault in error.faults]
            click.echo(json.dumps({"detail": f"{len(faults)} faults", "errors": faults}), err=True)
        else:
            _tell(error.faults)
        sys.exit(CONFLICT if all(fault.code == _OWNED for fault in error.faults) else USAGE)


def _tell(faults: Sequence[Fault]) -> None:
    for fault in faults[:MOST_TOLD]:
        hint = "; --adopt takes it over" if fault.code == _OWNED else ""
        click.echo(f"{fault}{hint}", err=True)
    if len(faults) > MOST_TOLD:
        click.echo(f"and {len(faults) - MOST_TOLD} more", err=True)
