"""`everwhen audit`: who changed what; and the chains of that: checked, exported, noted elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import click

from everwhen.cli.client import Api, with_api
from everwhen.cli.listing import filtered, list_pages, paged
from everwhen.cli.output import API_VERSION, Columns
from everwhen.cli.server import Fatal, database_url, one_line_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from everwhen.audit.checking import Anchors
    from everwhen.audit.model import ChainName
    from everwhen.audit.signing import PublicKeys
    from everwhen.config import Settings
    from everwhen.core.audit_checking import Report
    from everwhen.postgres.pool import Database

FOUND: Final = 10
NOT_FOUND: Final = 3
PLATFORM_NAME: Final = "platform"
COLUMNS: Final[Columns] = {
    "AT": "at",
    "ACTOR": "actor",
    "OPERATION": "operation",
    "RESOURCE": "resource",
    "OUTCOME": "outcome",
    "SEQ": "seq",
    "REASON": "reason",
}

Answer = TypeVar("Answer")

chain_option = click.option("--tenant", help="One tenant's chain only, by its name or id; platform: the platform's.")


@click.group(short_help="Who changed what; check, export and anchor the audit.")
def audit() -> None:
    """Read the audit, and make sure that it is what it was."""


@audit.command("list")
@click.option("--platform", is_flag=True, help="That of the platform; needs a token with the role platform.")
@filtered("actor:ada resource:schedules/nightly since:7d")
@paged
@with_api
def list_command(*, api: Api, output: str, platform: bool, **paging: Any) -> None:
    """List who changed what, the newest first."""
    path = "/v1/audit" if platform else api.tenant_path("audit")
    list_pages(api, path, kind="AuditEventList", output=output, columns=COLUMNS, paging=paging, name="id")


@audit.command("verify")
@click.option(
    "--file",
    "export",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check this export instead of the database. Needs no server.",
)
@click.option(
    "--anchor",
    "anchor_files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="Heads that were noted before, by everwhen audit anchor or in an older export; repeatable.",
)
@click.option(
    "--noted",
    type=click.Choice(["recent", "all", "none"]),
    default="recent",
    help="Which notes at audit_anchor_url are held against the chains; recent: two days'. [default: recent]",
)
@click.option("--public-key", "public_keys", multiple=True, help="NAME:KEY; believe only anchors that it signed.")
@chain_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print.")
def verify(
    *,
    export: Path | None,
    anchor_files: Sequence[Path],
    noted: str,
    public_keys: Sequence[str],
    tenant: str | None,
    output: str,
) -> None:
    """Check every chain of the audit, from its first event on, against what the notary has noted of it outside.

    Without any anchor a chain that was hashed anew as a whole, or cut off together with its head, looks like a sound
    one. Exit code 0: nothing found; 10: something was, and is listed.
    """
    with one_line_errors():
        anchors = _read_anchors(anchor_files, noted, public_keys)
    with one_line_errors():
        if export is None:
            reports = asyncio.run(_with_database(lambda database: _check(database, anchors, tenant)))
        else:
            reports = _check_export(export, anchors, tenant)
    _print(reports, output)
    sys.exit(0 if all(report.is_sound for report, _ in reports) else FOUND)


@audit.command("export")
@chain_option
def export_command(*, tenant: str | None) -> None:
    """Write every chain to standard output, one link with its event a line, and last its head."""
    from everwhen.audit.checking import find_head, read_chain
    from everwhen.audit.lines import head_line, link_line

    async def write(database: Database) -> None:
        for chain in await _chosen(database, tenant):
            head = await find_head(database, chain.tenant_id)
            async for found in read_chain(database, chain.tenant_id):
                if head is not None and found.seq > head.seq:
                    break  # it came while this was written
                click.echo(link_line(chain.tenant_id, found))
            if head is not None and head.epoch is not None:
                click.echo(head_line(head))

    with one_line_errors():
        asyncio.run(_with_database(write))


@audit.command("anchor")
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Sign with the key in this file, which everwhen audit key made.",
)
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="Append to this file. [default: print]")
@chain_option
def anchor(*, key_file: Path | None, to: Path | None, tenant: str | None) -> None:
    """Write where each chain ends, a line each: to be kept where nobody who has the database can change it."""
    from everwhen.audit.checking import find_head
    from everwhen.audit.lines import head_line
    from everwhen.audit.signing import read_signer

    async def read(database: Database) -> list[str]:
        heads = [await find_head(database, chain.tenant_id) for chain in await _chosen(database, tenant)]
        return [head_line(head, signer=signer) for head in heads if head is not None and head.epoch is not None]

    with one_line_errors():
        signer = None if key_file is None else read_signer(key_file.read_text(errors="replace"))
        lines = asyncio.run(_with_database(read))
        if to is not None:
            _append(to, lines)
    if to is None:
        for line in lines:
            click.echo(line)


@audit.command("key")
@click.argument("name", required=False)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Print the public half of the key in this file.",
)
def key(*, name: str | None, key_file: Path | None) -> None:
    """Draw a key that signs anchors, and print it: it is stored nowhere. With --key-file print its public half."""
    from everwhen.audit.signing import new_entry, read_signer

    if (name is None) == (key_file is None):
        raise click.UsageError("give the name of a new key, or --key-file to see the public half of one")
    with one_line_errors():
        if name is not None:
            click.echo(new_entry(name))
        if key_file is not None:
            click.echo(read_signer(key_file.read_text(errors="replace")).public_entry)


def _append(path: Path, lines: Sequence[str]) -> None:
    """Write in one piece, and wait until the disk has it."""
    with path.open("ab") as stream:
        stream.write("".join(f"{line}\n" for line in lines).encode())
        stream.flush()
        os.fsync(stream.fileno())


async def _with_database(ask: Callable[[Database], Awaitable[Answer]]) -> Answer:
    from everwhen.config import load
    from everwhen.postgres.migrate import assert_compatible
    from everwhen.postgres.pool import Database, PoolLimits

    limits = PoolLimits(min_size=1, max_size=1, statement_seconds=600, transaction_seconds=900)
    async with await Database.open(database_url(load()), limits=limits) as database:
        async with database.system() as conn:
            await assert_compatible(conn)
        return await ask(database)


async def _chosen(database: Database, tenant: str | None) -> list[ChainName]:
    from everwhen.audit.checking import list_chains

    found = await list_chains(database)
    if tenant is None:
        return found
    chosen = [chain for chain in found if tenant in {str(chain.tenant_id), _named(chain)}]
    if not chosen:
        _say_unknown(tenant)
    return chosen


async def _check(database: Database, anchors: Anchors, tenant: str | None) -> list[tuple[Report, str]]:
    from everwhen.audit.checking import check_chain
    from everwhen.audit.model import ChainName

    chains = await _chosen(database, tenant)
    if tenant is None:  # what only an anchor knows was there once
        known = {chain.tenant_id for chain in chains}
        chains += [ChainName(tenant_id=lost, name=None) for lost in anchors if lost not in known]
    return [(await check_chain(database, chain.tenant_id, anchors), _named(chain)) for chain in chains]


def _check_export(path: Path, anchors: Anchors, tenant: str | None) -> list[tuple[Report, str]]:
    from everwhen.audit.checking import check_file
    from everwhen.audit.model import PLATFORM

    try:
        only = None if tenant is None else PLATFORM if tenant == PLATFORM_NAME else UUID(tenant)
    except ValueError as error:
        raise click.UsageError("an export has no names: give --tenant the id, or platform") from error
    with path.open("rb") as stream:
        reports = list(check_file(stream, anchors, only=only))
    if not reports and only is None:
        raise Fatal(f"{path} holds nothing; an export of everwhen audit export was expected")
    if not reports:
        _say_unknown(str(tenant))
    return [(report, PLATFORM_NAME if report.tenant_id == PLATFORM else str(report.tenant_id)) for report in reports]


def _read_anchors(paths: Iterable[Path], noted: str, public_keys: Sequence[str]) -> Anchors:
    """Read what these files hold, and what the notary has noted where the settings say."""
    from everwhen.config import load

    settings = load()
    keys = _keys(settings, public_keys)
    shelf = settings.audit_anchor_url if noted != "none" else None
    if public_keys and not paths and shelf is None:
        raise click.UsageError("--public-key says whose anchors are believed: give --anchor, or set audit_anchor_url")
    found: dict[UUID, list[Any]] = {}
    for path in paths:
        with path.open("rb") as stream:
            _take_anchors(found, stream, source=str(path), keys=keys)
    if shelf is not None:
        asyncio.run(_take_noted(found, shelf, keys, all_days=noted == "all"))
    return found


def _keys(settings: Settings, public_keys: Sequence[str]) -> PublicKeys | None:
    """Return whose anchors are believed: those that were named here, or those of the settings; None: anybody's."""
    from everwhen.audit.signing import read_public_keys, read_signer

    entries = list(public_keys or settings.audit_public_keys)
    if not entries and settings.audit_anchor_key is not None:
        entries = [read_signer(settings.audit_anchor_key.get_secret_value()).public_entry]
    return read_public_keys(entries) if entries else None


async def _take_noted(found: dict[UUID, list[Any]], location: str, keys: PublicKeys | None, *, all_days: bool) -> None:
    from io import BytesIO

    from everwhen.audit.places import Shelf

    async for name, content in Shelf.at(location).read(all_days=all_days):
        _take_anchors(found, BytesIO(content), source=name, keys=keys)


def _take_anchors(found: dict[UUID, list[Any]], stream: IO[bytes], *, source: str, keys: PublicKeys | None) -> None:
    from everwhen.audit.lines import UnreadableLine, read_anchors, read_lines

    try:
        read = read_anchors(read_lines(stream), source=source, keys=keys)
    except UnreadableLine as error:
        raise click.UsageError(f"the anchors in {source}: {error}") from error
    for tenant_id, noted in read.items():
        found.setdefault(tenant_id, []).extend(noted)


def _named(chain: ChainName) -> str:
    return PLATFORM_NAME if chain.tenant_id.int == 0 else chain.name or str(chain.tenant_id)


def _say_unknown(tenant: str) -> None:
    click.echo(f"everwhen: there is no chain of {tenant}; everwhen audit verify without --tenant lists all", err=True)
    sys.exit(NOT_FOUND)


def _print(reports: Sequence[tuple[Report, str]], output: str) -> None:
    broken = sum(1 for report, _ in reports if not report.is_sound)
    if output == "json":
        chains = [_document(report, name) for report, name in reports]
        document = {"apiVersion": API_VERSION, "kind": "AuditVerification", "holds": not broken, "chains": chains}
        click.echo(json.dumps(document, indent=2))
        return
    for report, name in reports:
        verdict = click.style("ok  ", fg="green") if report.is_sound else click.style("fail", fg="red")
        anchored = f"anchored up to {report.anchored}" if report.anchored else "no anchor"
        click.echo(f"{verdict}  {name}  {report.links} links, the last is {report.last}, {anchored}")
        for found in report.findings:
            click.echo(f"        {found.kind}  at {found.seq}: {found.text}")
        more = report.counts.total() - len(report.findings)
        if more:
            click.echo(f"        and {more} more")
    told = f"{broken} of {len(reports)} chains are not what they were" if broken else "every chain holds"
    click.echo(told if reports else "there is no chain yet", err=True)


def _document(report: Report, name: str) -> dict[str, Any]:
    return {
        "tenant": name,
        "tenant_id": str(report.tenant_id),
        "links": report.links,
        "last": report.last,
        "anchored": report.anchored,
        "counts": dict(report.counts),
        "findings": [{"kind": found.kind, "seq": found.seq, "text": found.text} for found in report.findings],
    }
