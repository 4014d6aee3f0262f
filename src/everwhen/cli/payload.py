"""`everwhen payload`: what runs are given that is too large for their input."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from everwhen.cli.client import UNAVAILABLE, Api, CallFailed, failure_of, with_api
from everwhen.cli.listing import filtered, list_pages, paged
from everwhen.cli.output import Columns, confirm, show_one

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS: Final[Columns] = {
    "DIGEST": "digest",
    "BYTES": "size_bytes",
    "NAME": "name",
    "BY": "created_by",
    "CREATED": "created_at",
}
CHUNK: Final = 1 << 20
KIND: Final = "PayloadList"


@click.group(short_help="Upload what is too large for an input, and download it.")
def payload() -> None:
    """Payloads: uploaded once, and referred to from inputs by their digest."""


@payload.command("put")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="A name for people. [default: the file's]")
@with_api
def put(*, api: Api, output: str, file: Path, name: str | None) -> None:
    """Upload a file; print its digest, or with -o json all that is known of it."""
    size = file.stat().st_size
    with file.open("rb") as opened, _progress(f"uploading {file.name}", size) as advance:
        found = _send(api, opened, size=size, name=name or file.name, advance=advance)
    if output == "table":
        click.echo(found["digest"])
    else:
        show_one(found, kind=KIND, output=output, name="digest")


@payload.command("get")
@click.argument("digest")
@click.option("--to", "target", type=click.Path(dir_okay=False, path_type=Path), help="Download it to this file.")
@with_api
def get(*, api: Api, output: str, digest: str, target: Path | None) -> None:
    """Show what is known of a payload, or download it; a file is whole, and its digest right, or it is not there."""
    found = api.call("GET", api.tenant_path("payloads", digest))
    if target is None:
        show_one(found, kind=KIND, output=output, name="digest")
        return
    draft = target.with_name(f".{target.name}.part")
    try:
        with draft.open("wb") as opened, _progress(f"downloading {target.name}", found["size_bytes"]) as advance:
            _receive(api, digest, opened, advance=advance)
        draft.replace(target)
    except OSError as error:
        raise click.ClickException(f"{target} cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


@payload.command("list")
@filtered("since:7d")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List payloads by digest."""
    path = api.tenant_path("payloads")
    list_pages(api, path, kind=KIND, output=output, columns=COLUMNS, paging=paging, name="digest")


@payload.command("delete")
@click.argument("digest")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@with_api
def delete(*, api: Api, output: str, digest: str, yes: bool) -> None:  # noqa: ARG001  # there is nothing to print
    """Delete a payload that nothing refers to."""
    confirm(f"Delete the payload {digest}?", yes=yes)
    api.call("DELETE", api.tenant_path("payloads", digest))


def _send(api: Api, file: IO[bytes], *, size: int, name: str, advance: Callable[[int], None]) -> Any:
    def chunks() -> Iterator[bytes]:
        while chunk := file.read(CHUNK):
            yield chunk
            advance(len(chunk))

    # With its length, so that what is too large is refused before it is sent.
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
    with api.stream("POST", api.tenant_path("payloads"), content=chunks(), headers=headers, name=name) as answer:
        answer.read()
        if not answer.is_success:
            raise failure_of(answer)
        return answer.json()


def _receive(api: Api, digest: str, file: IO[bytes], *, advance: Callable[[int], None]) -> None:
    sha256 = hashlib.sha256()
    with api.stream("GET", api.tenant_path("payloads", digest, "content")) as answer:
        if not answer.is_success:
            answer.read()
            raise failure_of(answer)
        for chunk in answer.iter_bytes():
            sha256.update(chunk)
            file.write(chunk)
            advance(len(chunk))
    if f"sha256:{sha256.hexdigest()}" != digest:
        raise CallFailed({"detail": f"What arrived is not {digest}: try again."}, exit_code=UNAVAILABLE)


@contextlib.contextmanager
def _progress(what: str, size: int) -> Generator[Callable[[int], None]]:
    """Show how far it is, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=size)
        yield lambda count: progress.advance(task, count)
