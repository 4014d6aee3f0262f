"""`everwhen calendar`: which days are open, by name and version."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.listing import filtered, given, json_option, list_pages, paged
from everwhen.cli.output import Columns, confirm, show_one

COLUMNS: Final[Columns] = {
    "NAME": "name",
    "VERSION": "version",
    "FROM": "effective_from",
    "UPDATED": "updated_at",
}
VERSION_COLUMNS: Final[Columns] = {
    "VERSION": "version",
    "FROM": "effective_from",
    "IN FORCE": "is_in_force",
    "BY": "changed_by",
    "AT": "changed_at",
    "REASON": "reason",
}
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
SIGNS: Final = {"open": ".", "closed": "#", "part": "+"}
DAYS: Final = "1234567890" * 3 + "1"
WORKING_WEEK: Final = "mon,tue,wed,thu,fri"

_YEARS: Final = re.compile(r"([0-9]{4})(?:-([0-9]{4}))?", re.ASCII)


@click.group(short_help="Keep calendars of open and closed days, in versions.")
def calendar() -> None:
    """Keep calendars: the days and hours that schedules exclude, roll over or count by."""


def _version_options(function: Callable[..., None]) -> Callable[..., None]:
    function = click.option("--reason", help="Why; kept with the version.")(function)
    return click.option("--effective-from", help="The first date that it is meant for. [default: all dates]")(function)


@calendar.command("list")
@filtered("since:7d")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List calendars by name."""
    list_pages(api, api.tenant_path("calendars"), kind="CalendarList", output=output, columns=COLUMNS, paging=paging)


@calendar.command("get")
@click.argument("name")
@with_api
def get(*, api: Api, output: str, name: str) -> None:
    """Show a calendar with its latest version."""
    show_one(api.call("GET", api.tenant_path("calendars", name)), kind="CalendarList", output=output)


@calendar.command("versions")
@click.argument("name")
@paged
@with_api
def versions(*, api: Api, output: str, name: str, **paging: Any) -> None:
    """List a calendar's versions, oldest first."""
    list_pages(
        api,
        api.tenant_path("calendars", name, "versions"),
        kind="CalendarVersionList",
        output=output,
        columns=VERSION_COLUMNS,
        paging=paging,
        name="version",
    )


@calendar.command("create")
@click.argument("name")
@click.option("--definition", required=True, help="JSON, or @FILE: week and days.")
@_version_options
@with_api
def create(*, api: Api, output: str, name: str, definition: str, **version: Any) -> None:
    """Make a calendar."""
    body = {"name": name, "definition": json_option(definition, option="--definition"), **given(**version)}
    show_one(api.call("POST", api.tenant_path("calendars"), body=body), kind="CalendarList", output=output)


@calendar.command("set")
@click.argument("name")
@click.option("--definition", required=True, help="JSON, or @FILE: week and days.")
@_version_options
@force_option
@with_api
def set_command(*, api: Api, output: str, name: str, definition: str, force: bool, **version: Any) -> None:
    """Write a calendar's next version."""
    body = {"definition": json_option(definition, option="--definition"), **given(**version)}
    changed = api.change("PUT", api.tenant_path("calendars", name), body=body, force=force)
    show_one(changed, kind="CalendarList", output=output)


@calendar.command("delete")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete(*, api: Api, output: str, name: str, yes: bool, force: bool) -> None:  # noqa: ARG001  # there is nothing to print
    """Delete a calendar that no schedule uses."""
    confirm(f"Delete the calendar {name}?", yes=yes)
    api.change("DELETE", api.tenant_path("calendars", name), force=force)


@calendar.command("show")
@click.argument("name")
@click.argument("year", type=click.IntRange(1900, 2199))
@with_api
def show(*, api: Api, output: str, name: str, year: int) -> None:
    """Show a year: `.` open, `#` closed, `+` open in some hours."""
    found = api.call("GET", api.tenant_path("calendars", name, "years", str(year)))
    if output != "table":
        show_one(found, kind="CalendarYearList", output=output, name="year")
        return
    click.echo(f"{year}  {DAYS}")
    for number, month in enumerate(MONTHS, start=1):
        days = [day for day in found["days"] if int(day["date"][5:7]) == number]
        signs = "".join(SIGNS[day["state"]] for day in days)
        click.echo(f"{month}   {signs.ljust(31)}  {sum(day['state'] != 'closed' for day in days)}")
    for day in found["days"]:
        if day["label"] or day["state"] == "part":
            hours = (
                ", ".join(" to ".join(window) for window in day["hours"]) if day["state"] == "part" else day["state"]
            )
            click.echo(f"{day['date']}  {hours}  {day['label']}".rstrip())


@calendar.command("import")
@click.argument("name")
@click.option("--country", help="Public holidays of a country, by its ISO code, such as DE.")
@click.option("--subdivision", help="Of a part of the country, such as BY.")
@click.option("--market", help="Holidays of a financial market, such as XNYS or XECB.")
@click.option("--ics", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="An iCalendar file.")
@click.option("--years", required=True, help="A year, or a first and a last one: 2026-2030.")
@click.option("--week", default=WORKING_WEEK, show_default=True, help="The weekdays that are open.")
@click.option("--dry-run", is_flag=True, help="Print the definition; change nothing.")
@_version_options
@with_api
def import_command(  # noqa: PLR0913  # what can be imported
    *,
    api: Api,
    output: str,
    name: str,
    country: str | None,
    subdivision: str | None,
    market: str | None,
    ics: Path | None,
    years: str,
    week: str,
    dry_run: bool,
    **version: Any,
) -> None:
    """Make a calendar, or its next version, of public holidays or of an iCalendar file.

    Holidays need the extra: pip install 'everwhen[holidays]'.
    """
    import json

    if sum(source is not None for source in (country, market, ics)) != 1:
        raise click.UsageError("name one source: --country, --market or --ics")
    span = _years(years)
    days = _from_ics(ics, span) if ics is not None else _from_holidays(country, subdivision, market, span)
    definition = {"week": [day.strip() for day in week.split(",") if day.strip()], "days": days}
    if dry_run:
        click.echo(json.dumps(definition, ensure_ascii=False, indent=2))
        return
    body = {"definition": definition, **given(**version)}
    show_one(api.put(api.tenant_path("calendars", name), body=body), kind="CalendarList", output=output)


def _years(text: str) -> range:
    found = _YEARS.fullmatch(text)
    if found is None:
        raise click.UsageError("--years is like 2026 or 2026-2030")
    first, last = int(found[1]), int(found[2] or found[1])
    if not 1900 <= first <= last <= 2199:
        raise click.UsageError("--years lie between 1900 and 2199, the first one before the last")
    return range(first, last + 1)


def _from_ics(path: Path, years: range) -> list[dict[str, Any]]:
    from everwhen.core.calendar_json import definition_to_json
    from everwhen.core.calendars import Definition
    from everwhen.core.errors import TriggerError
    from everwhen.core.ical import closed_days

    try:
        days = closed_days(path.read_text(encoding="utf-8"), years=years)
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not UTF-8") from error
    except TriggerError as error:
        raise click.UsageError(f"{path}, {error.message}") from error
    return definition_to_json(Definition(days=tuple(days)))["days"]


def _from_holidays(
    country: str | None, subdivision: str | None, market: str | None, years: range
) -> list[dict[str, Any]]:
    try:
        import holidays
    except ImportError as error:
        raise click.UsageError("this needs the extra: pip install 'everwhen[holidays]'") from error
    try:
        if market is not None:
            found: Any = holidays.financial_holidays(market, years=years)
        else:
            found = holidays.country_holidays(str(country), subdiv=subdivision, years=years, language="en_US")
    except NotImplementedError as error:
        raise click.UsageError(f"the library knows no such holidays: {error}") from error
    return [
        {"date": day.isoformat(), "hours": "closed", "label": str(label)[:100]}
        for day, label in sorted(found.items())
        if day.year in years
    ]
