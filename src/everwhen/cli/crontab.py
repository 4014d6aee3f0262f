"""`everwhen import crontab`: shows what each line becomes and when it fires next, then creates the schedules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from everwhen.schedules.crontab import CrontabEntry, CrontabFormat, CrontabRefusal, parse_crontab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from everwhen.core.triggers import Timing

TASK = "crontab.command"
CREATED, EXISTS = "created", "exists"
EXIT_REFUSED = 2

_SYSTEM_PATHS = ("/etc/crontab", "/etc/cron.d/")


class Response(Protocol):
    """What is needed of an HTTP response."""

    status_code: int

    def json(self) -> Any: ...


class Client(Protocol):
    """What is needed of a client of the control API; paths start with `/v1`."""

    def post(self, path: str, json: Any) -> Response: ...


@click.command("crontab")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be created; needs no server.")
@click.option("--system/--user", "system", default=None, help="Whether a user stands before the command. [detected]")
@click.option("--tz", "timezone", help="Zone of lines that no CRON_TZ covers. [default: this machine's, as cron's]")
@click.option("--queue", default="default", show_default=True, help="Queue of the task that runs the commands.")
@click.option("-t", "--tenant", help="Tenant to create the schedules in. [env: EVERWHEN_TENANT]")
@click.option("--from", "after", metavar="TIME", help="Show the next fires after this instant. [now]")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print.")
@click.pass_context
def import_crontab(context: click.Context, file: Path, *, dry_run: bool, **options: Any) -> None:
    """Make one schedule of each line of a crontab; exit with 2 if a line is refused."""
    from everwhen.core.zones import use_tzdata_only

    use_tzdata_only()
    options["timezone"] = options["timezone"] or machine_zone()
    lines = _parsed(file, system=options["system"])
    entries = [line for line in lines if isinstance(line, CrontabEntry)]
    results = {} if dry_run else _applied(context, entries, **options)
    rows = list(_rows(lines, timezone=options["timezone"], after=instant_of(options["after"])))
    for row in rows:
        if row.get("schedule") in results:
            row["result"] = results[row["schedule"]]
    click.echo(json.dumps(rows, indent=2) if options["output"] == "json" else "\n".join(map(_as_text, rows)))
    if len(entries) < len(lines) or not set(results.values()) <= {CREATED, EXISTS}:
        context.exit(EXIT_REFUSED)


def apply_entries(
    entries: Iterable[CrontabEntry], *, client: Client, tenant: str, queue: str, timezone: str
) -> dict[str, str]:
    """Create the task that runs commands, then a schedule for each entry.

    Returns what became of each schedule, by name: created, exists (names follow from the lines, so a second import
    finds the first one's), or why it was refused.

    Raises:
        click.ClickException: the task could not be created.
    """
    result = result_of(client.post(f"/v1/tenants/{tenant}/tasks", json={"name": TASK, "queue": queue}))
    if result not in {CREATED, EXISTS}:
        raise click.ClickException(f"the task {TASK} could not be created: {result}")
    path = f"/v1/tenants/{tenant}/schedules"
    return {
        entry.name: result_of(client.post(path, json=schedule_request(entry, timezone=timezone))) for entry in entries
    }


def schedule_request(entry: CrontabEntry, *, timezone: str) -> dict[str, Any]:
    """Return the body that creates an entry's schedule."""
    return {
        "name": entry.name,
        "trigger": {"kind": "cron", "expr": entry.expr},
        "timezone": entry.timezone or timezone,
        "task": TASK,
        "input": {
            "command": entry.command,
            "stdin": entry.stdin,
            "user": entry.user,
            "environment": dict(entry.environment),
        },
    }


def machine_zone(root: Path = Path("/")) -> str:
    """Return the zone that cron itself would use here; UTC where the machine does not name one that we know."""
    from everwhen.core.triggers import TriggerError
    from everwhen.core.zones import find_zone

    named, linked = root / "etc/timezone", root / "etc/localtime"
    name = named.read_text().strip() if named.is_file() else ""
    if not name and linked.is_symlink():
        name = str(linked.readlink()).rpartition("zoneinfo/")[2]
    try:
        find_zone(name)
    except TriggerError:
        return "UTC"
    return name


def _parsed(file: Path, *, system: bool | None) -> list[CrontabEntry | CrontabRefusal]:
    text = file.read_bytes().decode("utf-8", "surrogateescape")
    if system is None:
        known = str(file.resolve()).startswith(_SYSTEM_PATHS)
        return parse_crontab(text, form=CrontabFormat.SYSTEM if known else None)
    return parse_crontab(text, form=CrontabFormat.SYSTEM if system else CrontabFormat.USER)


def client_of(context: click.Context) -> Client:
    """Return the client that the command group offers as a callable in `obj`."""
    connect: Callable[[], Client] | None = context.obj
    if connect is None:
        raise click.ClickException("no server is configured; add --dry-run to see what would be created")
    return connect()


def _applied(context: click.Context, entries: list[CrontabEntry], **options: Any) -> dict[str, str]:
    from everwhen.cli.client import find_target

    client = client_of(context)
    tenant = options["tenant"] or find_target().tenant
    if tenant is None:
        raise click.UsageError("name a tenant with --tenant or EVERWHEN_TENANT")
    return apply_entries(entries, client=client, tenant=tenant, queue=options["queue"], timezone=options["timezone"])


def instant_of(text: str | None) -> datetime:
    """Return the instant that --from names, or now."""
    from everwhen.clock import process_now
    from everwhen.core.trigger_values import as_utc
    from everwhen.core.triggers import TriggerError, parse_instant

    if text is None:
        return process_now()
    try:
        return as_utc(parse_instant(text, field="from"), name="from")
    except TriggerError as error:
        raise click.BadParameter(error.message, param_hint="--from") from None


def _rows(
    lines: Iterable[CrontabEntry | CrontabRefusal], *, timezone: str, after: datetime
) -> Iterator[dict[str, Any]]:
    from everwhen.core.trigger_json import instant_text
    from everwhen.core.triggers import Cron, Timing, TriggerError, next_after

    try:
        Timing(Cron("@daily"), timezone)
    except TriggerError as error:
        raise click.BadParameter(error.message, param_hint="--tz") from None
    for line in lines:
        if isinstance(line, CrontabRefusal):
            yield _refusal(line)
            continue
        zone = line.timezone or timezone
        timing = Timing(Cron(line.expr), zone)
        instant = next_after(timing, after)
        yield {
            "line": line.line,
            "schedule": line.name,
            "expr": line.expr,
            "timezone": zone,
            "task": TASK,
            "user": line.user,
            "command": line.command,
            "stdin": line.stdin,
            "environment": dict(line.environment),
            "next_at": instant and instant_text(instant),
            "next_local": instant and timing.zone.local(instant).isoformat(),
            "proof": _proof(timing, after=after),
        }


def _proof(stored: Timing, *, after: datetime) -> dict[str, Any] | None:
    """Return how cron itself would fire, compared; None for what it would not accept, such as `?`."""
    from everwhen.cli.proof_text import proof_json
    from everwhen.core.presets import find_preset
    from everwhen.core.proofs import prove
    from everwhen.core.triggers import Cron, Timing, TriggerError

    assert isinstance(stored.trigger, Cron)  # of a crontab
    try:
        cron = Timing(Cron(stored.trigger.expr, dialect=find_preset("vixie").dialect.name), stored.timezone)
    except TriggerError:
        return None
    return proof_json(prove(cron, stored, after=after))


def _refusal(line: CrontabRefusal) -> dict[str, Any]:
    text = line.text.encode("utf-8", "replace").decode()
    return {"line": line.line, "text": text, "refused": {"code": line.code, "reason": line.reason}}


def result_of(response: Response) -> str:
    """Return what became of a request to create something: created, exists, or why it was refused."""
    if response.status_code < 400:
        return CREATED
    if response.status_code == 409:
        return EXISTS
    problem = response.json()
    return f"refused with {response.status_code}: {problem.get('detail') or problem.get('title')}"


def _as_text(row: dict[str, Any]) -> str:
    if "refused" in row:
        refused = row["refused"]
        return f"{row['line']:>5}  refused  {refused['reason']} ({refused['code']})\n       {row['text'].strip()}"
    who = f"{row['user']}: " if row["user"] else ""
    result = f"  [{row['result']}]" if "result" in row else ""
    return (
        f"{row['line']:>5}  {row['schedule']}{result}  '{row['expr']}' {row['timezone']}  →  {row['task']}\n"
        f"       next {row['next_local'] or 'never'}  {row['next_at'] or ''}\n"
        f"       {_claim(row['proof'])}\n"
        f"       {who}{row['command']}"
    )


def _claim(proof: dict[str, Any] | None) -> str:
    from everwhen.cli.proof_text import differences_of, sentence_of

    if proof is None:
        return "no proof: cron itself does not accept this"
    return "\n         ".join([f"as cron: {sentence_of(proof)}", *differences_of(proof)])
