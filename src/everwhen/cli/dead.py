"""`everwhen dead`: dead runs by what killed them, and what to do about them."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.bulk import bulk, carry_out, making
from everwhen.cli.client import Api, with_api
from everwhen.cli.listing import filtered, given, json_option, list_pages, paged
from everwhen.cli.output import Columns, show_one


def _error(group: Any) -> str | None:
    error = group["error"]
    if not isinstance(error, dict):
        return None
    return f"{error.get('type')}: {error.get('message')}"  # pyright: ignore[reportUnknownMemberType]


COLUMNS: Final[Columns] = {
    "FINGERPRINT": "fingerprint",
    "RUNS": lambda group: f"{group['letters']}{'' if group['exact'] else '+'}",
    "FIRST": "first_at",
    "LAST": "last_at",
    "TASKS": lambda group: ",".join(group["tasks"]),
    "ERROR": _error,
}
RUN_COLUMNS: Final[Columns] = {
    "ID": "id",
    "TASK": "task",
    "REF": "ref",
    "ENDED": "finished_at",
    "ATTEMPTS": "attempts",
    "WHY": "reason",
    "REDRIVEN AS": "redriven_as",
}
LETTERS: Final = click.Choice(["open", "redriven", "dismissed"])


@click.group(short_help="Dead runs by their errors: list, redrive, dismiss.")
def dead() -> None:
    """Look at dead runs by what killed them; redrive or dismiss them."""


@dead.command("list")
@click.option("--letter", type=LETTERS, help="Those that wait for a person, or others. [default: open]")
@filtered("task:billing since:1d")
@paged
@with_api
def list_command(*, api: Api, output: str, letter: str | None, **paging: Any) -> None:
    """List groups of dead runs whose last errors are alike."""
    path = api.tenant_path("dead-letters")
    list_pages(
        api,
        path,
        kind="DeadLetterList",
        output=output,
        columns=COLUMNS,
        paging=paging,
        name="fingerprint",
        letter=letter,
    )


@dead.command("show")
@click.argument("fingerprint")
@click.option("--letter", type=LETTERS, help="Those that wait for a person, or others. [default: open]")
@filtered("task:billing")
@paged
@with_api
def show(*, api: Api, output: str, fingerprint: str, letter: str | None, **paging: Any) -> None:
    """List the runs of one group; `none` is the group of those without a fingerprint."""
    path = api.tenant_path("dead-letters", fingerprint, "runs")
    list_pages(api, path, kind="RunList", output=output, columns=RUN_COLUMNS, paging=paging, name="id", letter=letter)


@dead.command("redrive")
@click.argument("ref", required=False)
@click.option("--filter", "text", help="Which dead runs, such as 'task:billing since:3d'; '' for those of a week.")
@click.option("--fingerprint", help="The dead runs of one group; goes with --filter.")
@click.option("--again", is_flag=True, help="With REF: although it was redriven before.")
@click.option("--input", "input_text", metavar="JSON", help="With REF: another input; @FILE reads it from a file.")
@bulk
@making
@with_api
def redrive(  # options
    *, api: Api, output: str, ref: str | None, text: str | None, fingerprint: str | None, **options: Any
) -> None:
    """Run a dead run anew, or all that a filter finds, as new runs that are linked to the old ones."""
    again, input_text = options.pop("again"), options.pop("input_text")
    if (ref is None) == (text is None and fingerprint is None):
        raise click.UsageError("name a run, or say which with --filter or --fingerprint")
    if ref is not None:
        _redrive_one(api, ref, output=output, again=again, input_text=input_text, options=options)
        return
    if again or input_text is not None:
        raise click.UsageError("--again and --input go with one run; in a filter say letter:redriven")
    terms = [text or "", f"fingerprint:{fingerprint}" if fingerprint else ""]
    carry_out(api, {"kind": "redrive", "filter": " ".join(filter(None, terms))}, output=output, options=options)


@dead.command("dismiss")
@click.argument("ref", required=False)
@click.option("--fingerprint", help="All open ones of a group, instead of one run.")
@click.option("--reason", required=True, help="Why nothing needs to be done.")
@with_api
def dismiss(*, api: Api, output: str, ref: str | None, fingerprint: str | None, reason: str) -> None:
    """Mark a dead run, or a group of them, as seen to."""
    if (ref is None) == (fingerprint is None):
        raise click.UsageError("name either a run or a --fingerprint")
    if ref is not None:
        made = api.call("POST", api.tenant_path("runs", ref, "dismiss"), body={"reason": reason})
        show_one(made, kind="RunList", output=output, name="id")
        return
    count, more = 0, True
    while more:
        answer = api.call("POST", api.tenant_path("dead-letters", str(fingerprint), "dismiss"), body={"reason": reason})
        count, more = count + answer["dismissed"], answer["more"]
    show_one({"dismissed": count}, kind="DismissedList", output=output, name="dismissed")


@dead.command("restore")
@click.argument("ref")
@click.option("--reason", help="Why.")
@with_api
def restore(*, api: Api, output: str, ref: str, reason: str | None) -> None:
    """Open a dismissed letter again."""
    made = api.call("POST", api.tenant_path("runs", ref, "restore"), body=given(reason=reason))
    show_one(made, kind="RunList", output=output, name="id")


def _redrive_one(
    api: Api, ref: str, *, output: str, again: bool, input_text: str | None, options: dict[str, Any]
) -> None:
    body = given(
        reason=options["reason"], again=again or None, priority=options["priority"], overlap=options["overlap"]
    )
    if input_text is not None:
        body["input"] = json_option(input_text, option="--input")
    show_one(
        api.call("POST", api.tenant_path("runs", ref, "redrive"), body=body), kind="RunList", output=output, name="id"
    )
