"""`everwhen limits` and `everwhen usage`: what a tenant may have and do, and what it does."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.output import Columns, show_list

COLUMNS: Final[Columns] = {"LIMIT": "name", "USED": "used", "OF": "limit", "SOURCE": "source"}
DAYS: Final[Columns] = {
    "DAY": "day",
    "RUNS": "runs",
    "SKIPPED": "runs_skipped",
    "REQUESTS": "requests",
    "REFUSED": "requests_refused",
    "WORKERS": "worker_requests",
}
USUAL: Final = "default"


@click.group(short_help="Show a tenant's limits, and set them.")
def limits() -> None:
    """Show what a tenant may have and how much of it is used; set its limits, with a token of the platform."""


@limits.command("get")
@with_api
def get(*, api: Api, output: str) -> None:
    """Show every limit of the tenant."""
    _show(api.call("GET", api.tenant_path("limits")), output)


@limits.command("set")
@click.argument("values", metavar="LIMIT=NUMBER...", nargs=-1, required=True)
@force_option
@with_api
def set_limits(*, api: Api, output: str, values: tuple[str, ...], force: bool) -> None:
    """Set limits of the tenant: schedules=500; `default` gives it what is usual."""
    body = dict(_read(value) for value in values)
    _show(api.change("PATCH", api.tenant_path("limits"), force=force, body=body), output)


@click.command(short_help="Show what a tenant has used, day by day.")
@click.option("--days", type=click.IntRange(1, 400), default=7, show_default=True, help="How many days, with today.")
@with_api
def usage(*, api: Api, output: str, days: int) -> None:
    """Show the tenant's runs and requests of each day (UTC), today first."""
    found = api.call("GET", api.tenant_path("usage"), days=days)
    show_list(found["days"], kind="UsageList", output=output, columns=DAYS, name="day")
    if output == "table":
        kept = f"{found['payload_bytes']} bytes of payloads · {found['log_bytes']} bytes of logs"
        told = f"{found['active_schedules']} active schedules · {kept}"
        click.echo(told, err=True)


def _show(found: dict[str, Any], output: str) -> None:
    rows = [{"name": name, **limit} for name, limit in found["limits"].items()]
    show_list(rows, kind="LimitList", output=output, columns=COLUMNS)


def _read(value: str) -> tuple[str, int | None]:
    name, equals, text = value.partition("=")
    if not equals or not (text == USUAL or text.isdecimal()):
        raise click.UsageError(f"{value} is no limit: write LIMIT=NUMBER, such as schedules=500, or LIMIT={USUAL}")
    return name, None if text == USUAL else int(text)
