"""`everwhen import kubernetes` and its like: each item, what it becomes, its next fire, and the proof that it is so.

What a file holds is read without a server. Every schedule is proven before anything is created, so that what is shown
is what was decided on. A schedule that is paused at its source begins paused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from everwhen.cli.crontab import CREATED, EXISTS, EXIT_REFUSED, client_of, instant_of, machine_zone, result_of
from everwhen.cli.proof_text import differences_of, proof_json, sentence_of
from everwhen.schedules.importers.airflow import parse_airflow
from everwhen.schedules.importers.entry import MOST_CHARACTERS, Entry, Options, Refusal
from everwhen.schedules.importers.eventbridge import parse_eventbridge
from everwhen.schedules.importers.kubernetes import parse_kubernetes
from everwhen.schedules.importers.quartz import parse_quartz
from everwhen.schedules.importers.systemd import parse_systemd
from everwhen.schedules.importers.temporal import parse_temporal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from everwhen.cli.crontab import Client
    from everwhen.core.triggers import Timing


class Importer(NamedTuple):
    """One source: how its files are read, and the task that its schedules start."""

    name: str
    task: str
    sentence: str
    parse: Callable[[str, Options], list[Entry | Refusal]]


IMPORTERS: Final = (
    Importer(
        "kubernetes", "kubernetes.cronjob", "Make schedules of CronJob manifests: JSON or YAML.", parse_kubernetes
    ),
    Importer("eventbridge", "eventbridge.target", "Make schedules of what EventBridge exports.", parse_eventbridge),
    Importer("quartz", "quartz.trigger", "Make schedules of Quartz expressions: lines, or JSON by name.", parse_quartz),
    Importer("airflow", "airflow.dag", "Make schedules of Airflow's cron timetables: JSON by DAG id.", parse_airflow),
    Importer("temporal", "temporal.workflow", "Make schedules of what Temporal describes as JSON.", parse_temporal),
    Importer("systemd", "systemd.unit", "Make schedules of systemd timers, or lines of OnCalendar.", parse_systemd),
)

_HELP: Final = """\b
{sentence}

Each is shown with what it becomes, its next fire, and a proof: equal for the next ten years, or the differences. What
is kept is the source's rule for dates and times, with the defaults of a schedule here when clocks change, unless
--keep-semantics keeps the source's habits then too. Exits with 2 if something is refused."""


def import_command(importer: Importer) -> click.Command:
    """Return the command of one importer."""
    zone = "this machine's, as systemd's" if importer.name == "systemd" else "UTC"

    @click.pass_context
    def run(context: click.Context, file: Path, **options: Any) -> None:
        _import(context, importer, file, **options)

    params: list[click.Parameter] = [
        click.Argument(["file"], type=click.Path(exists=True, dir_okay=False, path_type=Path)),
        click.Option(["--dry-run"], is_flag=True, help="Show what would be created; needs no server."),
        click.Option(["--keep-semantics", "keep"], is_flag=True, help="Keep the source's habits when clocks change."),
        click.Option(["--tz", "timezone"], help=f"Zone of what names none. [default: {zone}]"),
        click.Option(["--queue"], default="default", show_default=True, help="Queue of the task they start."),
        click.Option(["-t", "--tenant"], help="Tenant to create the schedules in. [env: EVERWHEN_TENANT]"),
        click.Option(["--from", "after"], metavar="TIME", help="Show and prove what fires after this instant. [now]"),
        click.Option(["-o", "--output"], type=click.Choice(["table", "json"]), default="table", help="How to print."),
    ]
    help_text = _HELP.format(sentence=importer.sentence).removeprefix("\b\n")
    return click.Command(importer.name, callback=run, params=params, help=help_text, short_help=importer.sentence)


def schedule_body(entry: Entry, *, task: str) -> dict[str, Any]:
    """Return the body that creates an entry's schedule."""
    from everwhen.core.triggers import trigger_to_json

    timing = entry.stored
    trigger = trigger_to_json(timing.trigger)
    optional = {
        "gap": timing.gap,
        "fold": timing.fold,
        "flex": entry.flex,
        "catch_up": entry.catch_up,
        "overlap": entry.overlap,
        "pause_after_failures": entry.pause_after_failures,
    }
    return {
        "name": entry.name,
        "trigger": trigger,
        "timezone": timing.timezone,
        "task": task_of(entry, task),
        "input": dict(entry.input),
    } | {key: value for key, value in optional.items() if value is not None}


def task_of(entry: Entry, task: str) -> str:
    """Return the name of an entry's task: the source's, with what the entry says of retries."""
    retry = entry.task.get("retry", {})
    parts = [f"attempts-{retry['max_attempts']}"] if "max_attempts" in retry else []
    parts += [f"age-{retry['max_age_seconds']}"] if "max_age_seconds" in retry else []
    return ".".join([task, *parts])


def create_entries(entries: Iterable[Entry], *, client: Client, tenant: str, queue: str, task: str) -> dict[str, str]:
    """Create the tasks, then a schedule for each entry, paused where its source is.

    Returns what became of each schedule, by name: created, exists, or why it was refused.

    Raises:
        click.ClickException: a task could not be created.
    """
    listed = list(entries)
    tasks = {task_of(entry, task): entry.task for entry in listed} or {task: {}}
    for name, fields in sorted(tasks.items()):
        body = {"name": name, "queue": queue, **fields}
        result = result_of(client.post(f"/v1/tenants/{tenant}/tasks", json=body))
        if result not in {CREATED, EXISTS}:
            raise click.ClickException(f"the task {name} could not be created: {result}")
    path, found = f"/v1/tenants/{tenant}/schedules", dict[str, str]()
    for entry in listed:
        body = schedule_body(entry, task=task) | ({"paused": entry.paused} if entry.paused else {})
        found[entry.name] = result_of(client.post(path, json=body))
    return found


def _import(context: click.Context, importer: Importer, file: Path, *, dry_run: bool, **options: Any) -> None:
    from everwhen.core.zones import use_tzdata_only

    use_tzdata_only()
    after = instant_of(options["after"])
    timezone = options["timezone"] or (machine_zone() if importer.name == "systemd" else "UTC")
    how = Options(timezone=_zone(timezone), keep=options["keep"], file=file.name)
    lines = importer.parse(_text_of(file), how)
    rows = [_row(line, importer.task, after) for line in lines]
    refused = [row for row in rows if "refused" in row]
    entries = [line for line, row in zip(lines, rows, strict=True) if "refused" not in row]
    results = {} if dry_run else _created(context, importer, entries, **options)
    for row in rows:
        if row.get("schedule") in results:
            row["result"] = results[row["schedule"]]
    if options["output"] == "json":
        click.echo(json.dumps(rows, indent=2))
    else:
        _show(rows)
    if refused or not set(results.values()) <= {CREATED, EXISTS}:
        context.exit(EXIT_REFUSED)


def _created(
    context: click.Context, importer: Importer, lines: Iterable[Entry | Refusal], **options: Any
) -> dict[str, str]:
    from everwhen.cli.client import find_target

    entries = [line for line in lines if isinstance(line, Entry)]
    client = client_of(context)
    tenant = options["tenant"] or find_target().tenant
    if tenant is None:
        raise click.UsageError("name a tenant with --tenant or EVERWHEN_TENANT")
    return create_entries(entries, client=client, tenant=tenant, queue=options["queue"], task=importer.task)


def _text_of(file: Path) -> str:
    if file.stat().st_size > 4 * MOST_CHARACTERS:
        raise click.UsageError(f"a file has at most {MOST_CHARACTERS:,} characters; split it")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the file is not UTF-8: {error}") from None


def _zone(name: str) -> str:
    from everwhen.core.triggers import TriggerError
    from everwhen.core.zones import find_zone

    try:
        find_zone(name)
    except TriggerError as error:
        raise click.BadParameter(error.message, param_hint="--tz") from None
    return name


def _row(line: Entry | Refusal, task: str, after: datetime) -> dict[str, Any]:
    """Return what an item becomes, with its proof; one that cannot be calculated so far ahead is refused."""
    from everwhen.core.proofs import prove
    from everwhen.core.triggers import TriggerError, next_after

    if isinstance(line, Refusal):
        return _refused(line.origin, line.text, line.code, line.reason)
    try:
        instant = next_after(line.stored, after)
        proof = prove(line.source, line.stored, after=after)
    except TriggerError as error:
        return _refused(line.origin, line.text, error.code, error.message)
    body = schedule_body(line, task=task)
    return {
        "origin": line.origin,
        "text": line.text,
        "schedule": body.pop("name"),
        **body,
        "paused": line.paused,
        "notes": list(line.notes),
        **_next(line.stored, instant),
        "proof": proof_json(proof),
    }


def _refused(origin: str, text: str, code: str, reason: str) -> dict[str, Any]:
    shown = text.encode("utf-8", "replace").decode()
    return {"origin": origin, "text": shown, "refused": {"code": code, "reason": reason}}


def _next(timing: Timing, instant: datetime | None) -> dict[str, Any]:
    from everwhen.core.trigger_json import instant_text

    return {
        "next_at": instant and instant_text(instant),
        "next_local": instant and timing.zone.local(instant).isoformat(),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    from everwhen.cli.output import show_list

    made = [row for row in rows if "refused" not in row]
    if made:
        columns: dict[str, str | Callable[..., Any]] = {
            "NAME": "schedule",
            "BECOMES": _becomes,
            "ZONE": "timezone",
            "NEXT": _next_text,
            "PROOF": _proof_text,
        }
        if any("result" in row for row in made):
            columns["RESULT"] = "result"
        show_list(made, kind="Import", output="table", columns=columns)
    for row in made:
        for line in _details(row):
            click.echo(_printable(f"{row['schedule']}: {line}"))
    for row in rows:
        if "refused" in row:
            refused = row["refused"]
            click.echo(_printable(f"{row['origin']}: refused: {refused['reason']} ({refused['code']})"))


def _becomes(row: dict[str, Any]) -> str:
    trigger = row["trigger"]
    match trigger["kind"]:
        case "cron":
            text = f"{trigger['dialect']} {trigger['expr']}"
        case "rrule":
            text = trigger["rrule"]
        case "every":
            text = f"every {trigger['every']}"
        case "at":
            text = f"at {trigger['at']}"
        case _:
            text = f"any_of {len(trigger['triggers'])}"
    return text if len(text) <= 48 else f"{text[:47]}…"


def _next_text(row: dict[str, Any]) -> str:
    return row["next_local"] or "never"


def _proof_text(row: dict[str, Any]) -> str:
    return sentence_of(row["proof"])


def _details(row: dict[str, Any]) -> list[str]:
    found = differences_of(row["proof"])
    if row["paused"]:
        found.append(f"paused: {row['paused']}")
    return found + [f"note: {note}" for note in row["notes"]]


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
