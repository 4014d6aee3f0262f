"""`everwhen schedule pause`, `resume`, `delete`, `tag` and `untag`: of one schedule, or of all that a filter finds."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.bulk import bulk, carry_out, one_or_filter, retagging
from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.listing import given, json_option
from everwhen.cli.output import confirm, show_one

_WHICH: Final = click.option(
    "--filter", "text", metavar="TERMS", help="Every one that this finds instead, such as 'tag:billing'; '': all."
)


@click.command("pause")
@click.argument("name", required=False)
@_WHICH
@click.option("--until", help="When it is resumed by itself, with its offset. [default: by somebody]")
@bulk
@with_api
def pause(*, api: Api, output: str, name: str | None, text: str | None, until: str | None, **options: Any) -> None:
    """Stop planning, with a --reason that is shown to whoever wonders."""
    one_or_filter("schedule", name, text, options)
    if name is None:
        body = {"kind": "pause_schedules", "filter": text, **given(until=until)}
        carry_out(api, body, output=output, options=options)
        return
    if options["reason"] is None:
        raise click.UsageError("say why with --reason")
    body = given(reason=options["reason"], until=until)
    made = api.call("POST", api.tenant_path("schedules", name, "pause"), body=body)
    show_one(made, kind="ScheduleList", output=output)


@click.command("resume")
@click.argument("name", required=False)
@_WHICH
@click.option(
    "--catch-up", metavar="POLICY", help="For what the pause left behind, this once: coalesce, replay, skip, or JSON."
)
@bulk
@with_api
def resume(*, api: Api, output: str, name: str | None, text: str | None, catch_up: str | None, **options: Any) -> None:
    """Plan again from now on, and say what becomes of what the pause left behind."""
    one_or_filter("schedule", name, text, options)
    if name is None:
        if catch_up is not None:
            raise click.UsageError("--catch-up is for one schedule; with --filter each goes by its own")
        carry_out(api, {"kind": "resume_schedules", "filter": text}, output=output, options=options)
        return
    body = given(reason=options["reason"], catch_up=rule_given(catch_up))
    made = api.call("POST", api.tenant_path("schedules", name, "resume"), body=body)
    show_one(made, kind="ScheduleList", output=output)
    click.echo(made["left_behind"]["sentence"], err=True)


@click.command("delete")
@click.argument("name", required=False)
@_WHICH
@bulk
@force_option
@with_api
def delete(*, api: Api, output: str, name: str | None, text: str | None, force: bool, **options: Any) -> None:
    """End a schedule for good; its history stays."""
    one_or_filter("schedule", name, text, options)
    if name is None:
        carry_out(api, {"kind": "delete_schedules", "filter": text}, output=output, options=options)
        return
    confirm(f"Delete the schedule {name}?", yes=options["yes"])
    api.change("DELETE", api.tenant_path("schedules", name), reason=options["reason"], force=force)
    if output == "name":
        click.echo(name)


def rule_given(text: str | None) -> dict[str, Any] | None:
    """Read a catch-up policy: its name alone, or a JSON object."""
    if text is None:
        return None
    return json_option(text, option="--catch-up") if text.lstrip().startswith("{") else {"policy": text}


COMMANDS: Final = (pause, resume, delete, *retagging("schedule"))
