"""`everwhen schedule backfill`: runs for instants that have passed."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.bulk import bulk, carry_out, making
from everwhen.cli.client import Api, with_api
from everwhen.cli.listing import given

VERDICTS = ("dead", "missed", "skipped", "coalesced", "expired", "cancelled")


@click.command("backfill")
@click.argument("name")
@click.option("--from", "start", required=True, metavar="INSTANT", help="The first instant, with its offset.")
@click.option("--until", "end", required=True, metavar="INSTANT", help="The first instant that is not filled any more.")
@click.option("--include-all", is_flag=True, help="Also instants that have run.")
@click.option("--only", type=click.Choice(VERDICTS), multiple=True, help="Only instants with this verdict; repeatable.")
@click.option("--id", "backfill_id", help="Tells backfills apart: the same id makes the same runs, and no second ones.")
@bulk
@making
@with_api
def backfill(*, api: Api, output: str, name: str, start: str, end: str, **options: Any) -> None:
    """Fill a past range of a schedule with runs, at low priority; instants that have run are left out."""
    asked = given(
        schedule=name,
        include="all" if options.pop("include_all") else None,
        only=list(options.pop("only")) or None,
        id=options.pop("backfill_id"),
    )
    body = {"kind": "backfill", "backfill": asked | {"from": start, "until": end}}
    carry_out(api, body, output=output, options=options)
