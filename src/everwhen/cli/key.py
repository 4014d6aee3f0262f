"""`everwhen key`: the installation's sealing keys, and which of them the tenants' keys are wrapped by."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from everwhen.cli.output import show_list
from everwhen.cli.server import Fatal, database_url, one_line_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from everwhen.config import Settings
    from everwhen.postgres.pool import Connection, Database
    from everwhen.sealing.model import WrappedCount
    from everwhen.sealing.ring import KeyRing
    from everwhen.sealing.service import Rotated

MISSING = 10
Answer = TypeVar("Answer")


@click.group(short_help="The keys that seal tenants' secrets: make, list, rotate.")
def key() -> None:
    """Make, list and rotate sealing keys.

    They are those of EVERWHEN_SEALING_KEYS, or of the file that `everwhen up` keeps in this folder. To change them: put
    a new key in front, restart every server, `everwhen key rotate`, and drop the old one.
    """


@key.command("new", short_help="Draw a key and print its entry.")
@click.argument("name")
def new(name: str) -> None:
    """Print `NAME:key`, to be put in front of the others. It is stored nowhere."""
    from everwhen.sealing.ring import new_entry

    with one_line_errors():
        click.echo(new_entry(name))


@key.command("list", short_help="Which keys there are, and how many tenants' keys each wraps.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "name"]), default="table", help="How to print.")
def list_keys(output: str) -> None:
    """List the keys that are set, in order, and those that are needed and not set.

    Exit code 10: a key is missing, and what it wraps cannot be opened.
    """
    from everwhen.config import load
    from everwhen.sealing.service import count_keys

    with one_line_errors():
        settings = load()
        ring = find_ring(settings)
        counted = asyncio.run(_with_database(settings, count_keys))
    rows = _rows(ring, counted)
    columns = {"NAME": "name", "STATE": "state", "TENANT KEYS": "tenant_keys"}
    show_list(rows, kind="SealingKeyList", output=output, columns=columns)
    sys.exit(MISSING if any(row["state"] == "missing" for row in rows) else 0)


@key.command("rotate", short_help="Wrap every tenant's key with the first key.")
def rotate() -> None:
    """Wrap every tenant's key with the first of the keys; no secret is written anew, and no server need stop.

    Exit code 10: some are wrapped by a key that is not set, and stay as they are.
    """
    from everwhen.audit import service as audit
    from everwhen.audit.model import BY_ITSELF, PLATFORM, Actor, Deed
    from everwhen.config import load
    from everwhen.sealing import service

    async def tell(conn: Connection, count: int) -> None:
        detail = {"tenant_keys": count}
        deed = Deed(operation="rotate_sealing_keys", resource=f"sealing-keys/{ring.first}", detail=detail)
        await audit.record(conn, tenant_id=PLATFORM, actor=Actor(subject=BY_ITSELF, agent="everwhen key"), deed=deed)

    async def rotated(database: Database) -> Rotated:
        return await service.rotate(database, ring, on_rewrapped=tell)

    with one_line_errors():
        settings = load()
        ring = find_ring(settings)
        done = asyncio.run(_with_database(settings, rotated))
    click.echo(f"{done.rewrapped} tenant keys are now wrapped by {ring.first}")
    for name, count in done.stuck.items():
        click.echo(f"{count} are wrapped by {name}, which is not set: put it back after the first", err=True)
    sys.exit(MISSING if done.stuck else 0)


def find_ring(settings: Settings) -> KeyRing:
    """Return the ring that is set, or that `everwhen up` keeps in this folder; end with what to do without one."""
    from everwhen.postgres.embedded import default_data_dir
    from everwhen.sealing.ring import KEY_FILE, read_ring

    if settings.sealing_keys is not None:
        return read_ring(settings.sealing_keys.get_secret_value())
    file = (settings.data_dir or default_data_dir(Path.cwd())) / KEY_FILE
    try:
        return read_ring(file.read_text())
    except OSError as error:
        raise Fatal("set EVERWHEN_SEALING_KEYS, or run this in the folder of `everwhen up`") from error


async def _with_database(settings: Settings, work: Callable[[Database], Awaitable[Answer]]) -> Answer:
    from everwhen.postgres.migrate import assert_compatible
    from everwhen.postgres.pool import Database, PoolLimits

    async with await Database.open(database_url(settings), limits=PoolLimits(min_size=1, max_size=1)) as database:
        async with database.system() as conn:
            await assert_compatible(conn)
        return await work(database)


def _rows(ring: KeyRing, counted: list[WrappedCount]) -> list[dict[str, object]]:
    held = {count.wrapped_by: count.tenant_keys for count in counted}
    states = {name: "seals" if name == ring.first else "opens" for name in ring.keys}
    states |= {name: "missing" for name in held if name not in ring.keys}
    return [{"name": name, "state": state, "tenant_keys": held.get(name, 0)} for name, state in states.items()]
