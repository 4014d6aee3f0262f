"""`everwhen forecast`: how much becomes due, minute by minute, as a heat map of the terminal, JSON or SVG."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final

import click

from everwhen.cli.client import Api, find_target, one_line_failures
from everwhen.cli.output import API_VERSION

SHADES: Final = "·░▒▓█"


@click.command(short_help="How much becomes due, minute by minute?")
@click.option("--hours", default=24, show_default=True, type=click.IntRange(1, 168), help="How far to look.")
@click.option("--from", "start", metavar="TIME", help="Where to begin: an instant with its offset. [now]")
@click.option("--all", "everybody", is_flag=True, help="All tenants; needs a token of the platform.")
@click.option("-t", "--tenant", help="The tenant's name. [env: EVERWHEN_TENANT]")
@click.option("--url", help="The server's address. [env: EVERWHEN_URL]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "svg"]),
    default="table",
    show_default=True,
    help="How to print.",
)
def forecast(
    *, hours: int, start: str | None, everybody: bool, tenant: str | None, url: str | None, output: str
) -> None:
    """Show how many runs become due in each minute: an hour a line, a minute a column."""
    if everybody and output == "svg":
        raise click.UsageError("the picture is of one tenant: leave --all out, or use -o json")
    with one_line_failures(output):
        api = Api(find_target(url=url, tenant=tenant))
        try:
            params: dict[str, Any] = {"hours": hours} | ({} if start is None else {"from": start})
            if output == "svg":
                click.echo(_picture(api, params))
                return
            path = "/v1/forecast" if everybody else api.tenant_path("forecast")
            found = api.call("GET", path, **params)
        finally:
            api.close()
    if output == "json":
        click.echo(json.dumps({"apiVersion": API_VERSION, "kind": "Forecast", **found}, ensure_ascii=False, indent=2))
        return
    for line in lines(found):
        click.echo(line)


def lines(found: dict[str, Any]) -> list[str]:
    """Return the heat map as text, with each hour's sum and busiest minute, which need no shades to be read."""
    start = datetime.fromisoformat(found["start"])
    counts: list[int] = found["per_minute"]
    peak = found["peak"]
    told = [f"{found['due']:,} runs of {found['schedules']:,} schedules in {found['hours']} h, in UTC"]
    if found["herd"] is not None:
        told.append(f"busiest: {peak['at']} with {peak['due']:,} runs; {found['herd']['sentence']}")
    if not found["complete"]:
        told.append("not all of it: " + (", ".join(found["cut"][:5]) or "there are too many schedules"))
    told += ["", f"{'':12}:00{'':12}:15{'':12}:30{'':12}:45{'':14}due  busiest"]
    at, index = start, 0
    while index < len(counts):
        size = min(60 - at.minute, len(counts) - index)
        told.append(_line(at, counts[index : index + size], peak["due"]))
        at, index = at.replace(minute=0) + timedelta(hours=1), index + size
    ends = " ".join(f"{shade} {limit}" for shade, limit in zip(SHADES, _limits(peak["due"]), strict=True))
    return [*told, "", f"due in a minute: {ends}"]


def _line(at: datetime, counts: list[int], peak: int) -> str:
    cells = " " * at.minute + "".join(_shade(count, peak) for count in counts)
    load = max(counts)
    busiest = f"{load} at :{at.minute + counts.index(load):02}" if load else "-"
    return f"{at:%a %d %H}:00  {cells:<60}  {sum(counts):>5}  {busiest}"


def _shade(count: int, peak: int) -> str:
    return SHADES[sum(count >= least for least in _leasts(peak))]


def _leasts(peak: int) -> list[int]:
    """Return the smallest load of each shade but the first, on a scale of equal factors."""
    return [max(index + 1, round(peak ** (index / 4))) for index in range(4)]


def _limits(peak: int) -> list[str]:
    return ["0", *(f"{least}+" for least in _leasts(peak))]


def _picture(api: Api, params: dict[str, Any]) -> str:
    from everwhen.cli.client import failure_of

    answer = api.send("GET", api.tenant_path("forecast.svg"), params=params)
    if not answer.is_success:
        raise failure_of(answer)
    return answer.text
