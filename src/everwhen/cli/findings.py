"""`everwhen findings` and `everwhen punctuality`: what is amiss, and how late runs start."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.listing import filtered, list_pages, paged
from everwhen.cli.output import Columns, show_list

COLUMNS: Final[Columns] = {
    "TENANT": "tenant",
    "KIND": "kind",
    "SUBJECT": "subject",
    "SINCE": "since",
    "CLOSED": "closed_at",
    "WHAT": lambda finding: f"{finding['sentence']} {finding['remedy']}",
}
PERIOD_COLUMNS: Final[Columns] = {
    "DAYS": "days",
    "RUNS": "runs",
    "ON TIME": "on_time",
    "LATE": "late",
    "NEVER STARTED": "never_started",
    "RATIO": lambda period: None if period["ratio"] is None else f"{period['ratio']:.2%}",
    "P50 ≤ S": "p50_seconds",
    "P99 ≤ S": "p99_seconds",
}


@click.command("findings", short_help="What is amiss: schedules and queues that are late or stand still.")
@click.option("--platform", is_flag=True, help="Of every tenant; needs a token with the role platform.")
@click.option("--state", type=click.Choice(["open", "all"]), default="open", help="Also those that are over.")
@filtered("kind:schedule.overdue")
@paged
@with_api
def findings(*, api: Api, output: str, platform: bool, state: str, **paging: Any) -> None:
    """List what the sentinel has noticed, the newest first."""
    path = "/v1/findings" if platform else api.tenant_path("findings")
    list_pages(
        api, path, kind="FindingList", output=output, columns=COLUMNS, paging=paging, name="subject", state=state
    )


@click.command("punctuality", short_help="How late a schedule's runs start.")
@click.argument("schedule")
@click.option("--objective-seconds", type=click.FloatRange(min=0, min_open=True, max=86_400), help="Set the objective.")
@force_option
@with_api
def punctuality(*, api: Api, output: str, schedule: str, objective_seconds: float | None, force: bool) -> None:
    """Say how many of a schedule's runs started within its objective, in the last 7 and 30 days."""
    path = api.tenant_path("schedules", schedule, "punctuality")
    if objective_seconds is None:
        found = api.call("GET", path)
    else:
        found = api.change("PUT", path, body={"objective_seconds": objective_seconds}, force=force)
    counted = found["measured_until"] or "not yet"
    click.echo(f"objective {found['objective_seconds']:g} s, counted until {counted}", err=True)
    show_list(found["periods"], kind="PunctualityList", output=output, columns=PERIOD_COLUMNS, name="days")
