"""`everwhen verify`: every promise, on the database as it stands or on a dump of one."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everwhen.cli.output import API_VERSION
from everwhen.cli.server import database_url, one_line_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everwhen.verify.model import Checked, Scope

BROKEN = 10


@click.command("verify", short_help="Check every promise, on the database as it stands or on a dump.")
@click.option("--sample", type=click.IntRange(min=0), default=100, show_default=True, help="Schedules to expand anew.")
@click.option("--all", "everything", is_flag=True, help="Expand every schedule anew.")
@click.option("--seed", help="Draws the sample; the same one draws the same schedules. [default: another each time]")
@click.option(
    "--days",
    type=click.FloatRange(min=0, max=4000, min_open=True),
    default=7.0,
    show_default=True,
    help="How far back they are expanded.",
)
@click.option("--quiescent", is_flag=True, help="Say that all work has come to rest, and have that checked, too.")
@click.option(
    "--dump",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check what this file of pg_dump holds, in a scratch server, instead of a live database.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print.")
def verify(  # noqa: PLR0913 - one parameter per option
    *,
    sample: int,
    everything: bool,
    seed: str | None,
    days: float,
    quiescent: bool,
    dump: Path | None,
    output: str,
) -> None:
    """Look for anything that breaks a promise: a run lost or doubled, leases that overlap, a history that disagrees.

    Exit code 0: nothing found; 10: something was, and is listed.
    """
    from everwhen import clock
    from everwhen.config import load
    from everwhen.verify.model import Scope

    seed = seed if seed is not None else clock.new_secret()[:8]
    scope = Scope(sample=None if everything else sample, seed=seed, days=days, quiescent=quiescent)
    with one_line_errors():
        found = _of_dump(dump, scope) if dump else asyncio.run(_check(database_url(load()), scope))
    if output == "json":
        click.echo(json.dumps(_document(found, seed), indent=2))
    else:
        _print(found, seed)
    sys.exit(BROKEN if any(checked.count for checked in found) else 0)


def _of_dump(dump: Path, scope: Scope) -> Sequence[Checked]:
    from everwhen.postgres.restore import restored

    with restored(dump) as server:
        return asyncio.run(_check(server.app_conninfo, scope, is_copy=True))


async def _check(conninfo: str, scope: Scope, *, is_copy: bool = False) -> Sequence[Checked]:
    from everwhen.core.zones import use_tzdata_only
    from everwhen.postgres.migrate import assert_compatible
    from everwhen.postgres.pool import Database, PoolLimits
    from everwhen.verify.service import check, find_newest_instant

    use_tzdata_only()
    limits = PoolLimits(min_size=1, max_size=1, statement_seconds=600, transaction_seconds=900)
    async with await Database.open(conninfo, limits=limits) as database:
        async with database.system() as conn:
            await assert_compatible(conn)
        if is_copy:  # what was to happen by now did not have to happen by then
            scope = replace(scope, as_of=await find_newest_instant(database))
        return await check(database, scope)


def _document(found: Sequence[Checked], seed: str) -> dict[str, object]:
    promises = [
        {
            "name": checked.name,
            "invariants": list(checked.invariants),
            "sentence": checked.sentence,
            "violations": checked.count,
            "first": [{"tenant_id": str(v.tenant_id), "subject": v.subject, "detail": v.detail} for v in checked.first],
        }
        for checked in found
    ]
    holds = not any(checked.count for checked in found)
    return {"apiVersion": API_VERSION, "kind": "Verification", "holds": holds, "seed": seed, "promises": promises}


def _print(found: Sequence[Checked], seed: str) -> None:
    for checked in found:
        verdict = click.style("fail", fg="red") if checked.count else click.style("ok  ", fg="green")
        invariants = " ".join(checked.invariants)
        click.echo(f"{verdict}  {checked.count:>6}  {checked.name}  ({invariants})  {checked.sentence}")
        for violation in checked.first:
            click.echo(f"        {violation.subject}  {violation.detail}  (tenant {violation.tenant_id})")
    broken = sum(1 for checked in found if checked.count)
    told = f"{broken} of {len(found)} promises are broken" if broken else "every promise holds"
    click.echo(f"{told} (seed {seed})", err=True)
