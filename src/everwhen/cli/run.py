"""`everwhen run`: runs, and asking for one."""

from __future__ import annotations

import sys
import time
from typing import Any, Final, NoReturn, cast

import click

from everwhen.cli.bulk import bulk, carry_out, one_or_filter
from everwhen.cli.client import STILL_WAITING, UNSUCCESSFUL, Api, with_api
from everwhen.cli.listing import filtered, given, json_option, list_pages, paged
from everwhen.cli.output import Columns, Row, show_list, show_one

POLL_SECONDS: Final = 0.5
MOST_ERROR: Final = 80
UNENDED: Final = frozenset({"planned", "waiting", "running", "retrying"})
WITHDRAWN: Final = "unplanned"
"""The last event of a run whose schedule changed before it was due."""

ENDS: Final = ("succeeded", "dead", "cancelled", "expired", "skipped", "missed", "coalesced")


def _meaning(event: Row) -> str:
    detail: dict[str, Any] = event["detail"] or {}
    facts = ", ".join(f"{name}={value}" for name, value in detail.items())
    return " ".join(filter(None, (event["reason_sentence"], facts and f"({facts})"))) or "-"


COLUMNS: Final[Columns] = {
    "RUN": lambda run: run["ref"] or run["id"],
    "STATE": "state",
    "TASK": "task",
    "DUE": "due_at",
    "ATTEMPTS": "attempts",
    "FINISHED": "finished_at",
    "REASON": "reason",
}
EVENT_COLUMNS: Final[Columns] = {
    "AT": "at",
    "EVENT": "kind",
    "ATTEMPT": "attempt",
    "REASON": "reason",
    "MEANING": _meaning,
}
ATTEMPT_COLUMNS: Final[Columns] = {
    "ATTEMPT": "attempt",
    "WORKER": "worker",
    "CLAIMED": "claimed_at",
    "FINISHED": "finished_at",
    "OUTCOME": "outcome",
    "REASON": "reason",
    "ERROR": lambda attempt: _error_of(attempt["error"]),
    "FINGERPRINT": "fingerprint",
}


@click.group(short_help="Ask for runs, look at them, cancel them.")
def run() -> None:
    """Ask for runs, look at them, cancel them. A run is named by its id or by `schedule@local-time+offset`."""


@run.command("request")
@click.argument("task", required=False)
@click.option("--schedule", help="Run this schedule's task with its input, instead of a task by itself.")
@click.option("--at", help="When it becomes due, with its offset. [default: now]")
@click.option("--input", "input_text", metavar="JSON", help="The run's input; @FILE reads it from a file.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 goes first, 0 last.")
@click.option(
    "--overlap",
    type=click.Choice(["respect", "wait", "ignore"]),
    help="With --schedule: respect its overlap policy, wait for room whatever it says, or ignore it.",
)
@click.option("--key", help="Idempotency key: the same key makes one run. [default: a new one]")
@click.option("--wait", is_flag=True, help="Wait for its end; exit code 10 unless it succeeded.")
@click.option("--watch", is_flag=True, help="As --wait, and tell what happens meanwhile.")
@click.option("--timeout", type=float, default=1800.0, show_default=True, help="Seconds to wait; then exit code 7.")
@with_api
def request(  # options
    *, api: Api, output: str, input_text: str | None, key: str | None, wait: bool, watch: bool, **options: Any
) -> None:
    """Make a run of a task, now or at an instant."""
    timeout = options.pop("timeout")
    body = given(**options)
    if ("task" in body) == ("schedule" in body):
        raise click.UsageError("name either a task or a --schedule")
    if input_text is not None:
        body["input"] = json_option(input_text, option="--input")
    if watch:
        from everwhen import clock

        made = api.call("POST", api.tenant_path("runs"), body=body, key=key or clock.new_secret())
        watch_run(api, made["id"], output=output, seconds=timeout)
    ask_for_run(api, body, key=key, output=output, seconds=timeout if wait else None)


def ask_for_run(api: Api, body: dict[str, Any], *, key: str | None, output: str, seconds: float | None) -> None:
    """Ask for a run and show it; with `seconds` wait so long for its end, and exit by how it ended."""
    from everwhen import clock

    made = api.call("POST", api.tenant_path("runs"), body=body, key=key or clock.new_secret())
    if seconds is not None:
        made = wait_for(api, made, seconds=seconds)
    show_one(made, kind="RunList", output=output, name="id")
    if seconds is not None and made["state"] != "succeeded":
        sys.exit(STILL_WAITING if made["state"] in UNENDED else UNSUCCESSFUL)


@run.command("list")
@filtered("state:dead task:billing due>=7d")
@click.option("--schedule", help="Of this schedule only.")
@click.option("--task", help="Of this task only.")
@click.option("--state", type=click.Choice(sorted({*UNENDED, *ENDS})), help="In this state only.")
@paged
@with_api
def list_command(  # options
    *,
    api: Api,
    output: str,
    schedule: str | None,
    task: str | None,
    state: str | None,
    **paging: Any,
) -> None:
    """List runs, the newest first."""
    list_pages(
        api,
        api.tenant_path("runs"),
        kind="RunList",
        output=output,
        columns=COLUMNS,
        paging=paging,
        name="id",
        schedule=schedule,
        task=task,
        state=state,
    )


@run.command("get")
@click.argument("ref")
@click.option("--watch", is_flag=True, help="Tell what happens to it until it ends; exit code 10 unless it succeeded.")
@click.option("--timeout", type=float, default=1800.0, show_default=True, help="Seconds to watch; then exit code 7.")
@with_api
def get(*, api: Api, output: str, ref: str, watch: bool, timeout: float) -> None:
    """Show one run."""
    if watch:
        watch_run(api, ref, output=output, seconds=timeout)
    show_one(api.call("GET", api.tenant_path("runs", ref)), kind="RunList", output=output, name="id")


run.add_command(get, "show")


@run.command("cancel")
@click.argument("ref", required=False)
@click.option("--filter", "text", help="Every live run that this finds, such as 'task:billing state:waiting'.")
@bulk
@with_api
def cancel(*, api: Api, output: str, ref: str | None, text: str | None, **options: Any) -> None:
    """End a run that waits, or ask the worker that holds it to stop; or all that a filter finds."""
    one_or_filter("run", ref, text, options)
    if ref is None:
        carry_out(api, {"kind": "cancel_runs", "filter": text}, output=output, options=options)
        return
    made = api.call("POST", api.tenant_path("runs", ref, "cancel"), body=given(reason=options["reason"]))
    show_one(made, kind="RunList", output=output, name="id")


@run.command("events")
@click.argument("ref")
@paged
@with_api
def events(*, api: Api, output: str, ref: str, **paging: Any) -> None:
    """Show what was decided about a run, and when."""
    path = api.tenant_path("runs", ref, "events")
    list_pages(api, path, kind="EventList", output=output, columns=EVENT_COLUMNS, paging=paging, name="id")


@run.command("attempts")
@click.argument("ref")
@with_api
def attempts(*, api: Api, output: str, ref: str) -> None:
    """Show every try at a run."""
    found = api.call("GET", api.tenant_path("runs", ref, "attempts"))
    show_list(found["items"], kind="AttemptList", output=output, columns=ATTEMPT_COLUMNS, name="attempt")


def _error_of(error: Any) -> str | None:
    """Say an attempt's error in a few words; the whole of it is in `--output json`."""
    if not isinstance(error, dict):
        return None
    said = cast("dict[str, Any]", error)
    lines = str(said.get("message", "")).splitlines() or [""]
    text = f"{said.get('type')}: {lines[0]}"
    return text if len(text) <= MOST_ERROR else text[: MOST_ERROR - 2] + " …"


def watch_run(api: Api, ref: str, *, output: str, seconds: float) -> NoReturn:
    """Tell what happens to a run until it has ended, then exit by how; an interrupt leaves the run as it is."""
    from everwhen.cli.following import Following, TimeIsUp, show_event

    stream = Following(api, api.tenant_path("runs", ref, "events", "stream"), seconds=seconds)
    try:
        for event in stream.events():
            show_event(event, output=output)
            if event["kind"] in {*ENDS, WITHDRAWN}:
                sys.exit(0 if event["kind"] == "succeeded" else UNSUCCESSFUL)
    except TimeIsUp:
        pass
    sys.exit(STILL_WAITING)


def wait_for(api: Api, made: Any, *, seconds: float) -> Any:
    """Return a run as it is when it has ended, or when the time is over."""
    until = time.monotonic() + seconds
    while made["state"] in UNENDED and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
        made = api.call("GET", api.tenant_path("runs", made["id"]))
    return made
