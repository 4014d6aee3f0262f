"""`everwhen schedule`: when things are due."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import click

from everwhen.cli.backfill import backfill
from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.listing import filtered, given, json_option, list_pages, paged, tagging, tags_given
from everwhen.cli.output import Columns, show_list, show_one
from everwhen.cli.schedule_changes import COMMANDS, rule_given


def _rule(schedule: Any) -> str:
    trigger = schedule["trigger"]
    rule = trigger.get("expr") or trigger.get("every") or trigger.get("at")
    return f"{rule} {schedule['timezone']}"


def _changes(revision: Any) -> str | None:
    said = (f"{c['field']}: {json.dumps(c['before'])} → {json.dumps(c['after'])}" for c in revision["changes"])
    return "; ".join(said) or None


COLUMNS: Final[Columns] = {
    "NAME": "name",
    "STATE": "state",
    "RULE": _rule,
    "TASK": "task",
    "NEXT": "next_at",
    "REV": "revision",
    "WHY": "state_reason",
}
REVISION_COLUMNS: Final[Columns] = {
    "REV": "revision",
    "ACTION": "action",
    "BY": "changed_by",
    "AT": "changed_at",
    "REASON": "reason",
    "RULE": lambda revision: _rule(revision["spec"]),
}
HISTORY_COLUMNS: Final[Columns] = {
    "REV": "revision",
    "ACTION": "action",
    "BY": "changed_by",
    "AT": "changed_at",
    "REASON": "reason",
    "CHANGES": _changes,
}
CATCH_UP_COLUMNS: Final[Columns] = {
    "ID": "id",
    "CAUSE": "cause",
    "STATE": "state",
    "FROM": "since",
    "UNTIL": "until",
    "RUNS": lambda row: row["counts"]["runs"],
    "COALESCED": lambda row: row["counts"]["coalesced"],
    "SKIPPED": lambda row: row["counts"]["skipped"],
    "MISSED": lambda row: row["counts"]["missed"],
}
PREVIEW_COLUMNS: Final[Columns] = {"CAUSE": "cause", "WHAT": "sentence"}
FIRE_COLUMNS: Final[Columns] = {
    "LOCAL": "local",
    "UTC": "at",
    "VERDICT": "verdict",
    "NOTE": lambda fire: " ".join(fire["flags"]) or None,
}


MOVE_COLUMNS: Final[Columns] = {"KIND": "kind", "FROM": "old_local", "TO": "new_local"}
OFFSET_COLUMNS: Final[Columns] = {"SCHEDULE": "schedule", "BEFORE": "before_seconds", "AFTER": "after_seconds"}


OVERLAP_NUMBERS: Final = ("max_running", "max_buffered", "on_failure")
OVERLAPS: Final = (
    "allow",
    "skip",
    "buffer_one",
    "buffer_latest",
    "buffer_all",
    "cancel_other",
    "terminate_other",
    "strict_sequential",
)


@click.group(short_help="Define, pause, resume and preview schedules.")
def schedule() -> None:
    """Define schedules: a trigger, its policies, and the task that becomes due."""


for command in (backfill, *COMMANDS):
    schedule.add_command(command)


def _timing(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--cron", help="A cron expression."),
            click.option("--seconds", is_flag=True, help="The cron expression has six fields; the first is seconds."),
            click.option("--dialect", help="How the expression is read, such as quartz. [default: vixie]"),
            click.option("--preset", help="Do as another scheduler does, such as kubernetes; see `everwhen presets`."),
            click.option("--every", help="Elapsed time as an ISO 8601 duration, such as PT15M."),
            click.option("--at", help="One instant, or a local time of the zone."),
            click.option("--tz", "timezone", help="IANA time zone. [default: UTC]"),
            click.option(
                "--gap", type=click.Choice(["skip", "gap_end", "shift"]), help="Local times that do not exist."
            ),
            click.option(
                "--fold", type=click.Choice(["first", "second", "both"]), help="Local times that occur twice."
            ),
            click.option(
                "--calendars", metavar="JSON", help='Such as {"open": ["de"], "roll": "preceding"}; null: none.'
            ),
        )
    ):
        function = option(function)
    return function


def _policies(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--catch-up",
                metavar="POLICY",
                help='For missed instants: coalesce, replay, skip, or JSON such as {"policy": "replay", "rate": 10}.',
            ),
            click.option("--grace-seconds", type=float, help="Late by no more than this runs in any case."),
            click.option("--window-seconds", type=float, help="Late by more than this never runs."),
            click.option(
                "--flex",
                "flex_mode",
                type=click.Choice(["none", "fixed", "hash", "smooth"]),
                help="Where in its window a run becomes due.",
            ),
            click.option("--flex-seconds", type=click.IntRange(1, 86_400), help="How far it may be put off."),
            click.option("--overlap", type=click.Choice(OVERLAPS), help="While earlier runs have not ended."),
            click.option("--max-running", type=click.IntRange(1, 1000), help="How many runs at once; with --overlap."),
            click.option(
                "--max-buffered", type=click.IntRange(1, 1000), help="How many may wait; with --overlap buffer_all."
            ),
            click.option(
                "--on-failure",
                type=click.Choice(["continue", "hold"]),
                help="Whether a dead run holds the line up; with --overlap strict_sequential.",
            ),
            click.option(
                "--pause-after-failures", type=click.IntRange(0, 1000), help="In a row; 0: never. [default: never]"
            ),
            click.option("--input", "input_text", metavar="JSON", help="The runs' input; @FILE reads it from a file."),
            click.option("--priority", type=click.IntRange(0, 9), help="9 goes first, 0 last. [default: the task's]"),
        )
    ):
        function = option(function)
    return function


@schedule.command("create")
@click.argument("name")
@click.option("--task", help="What becomes due.")
@click.option("--workflow", help="What becomes due, instead of a task.")
@click.option("--since", metavar="INSTANT", help="Where it begins, in the past; what lies between is caught up on.")
@click.option("--paused", metavar="REASON", help="Let it begin paused, for this reason.")
@_timing
@_policies
@tagging
@with_api
def create(*, api: Api, output: str, name: str, **options: Any) -> None:
    """Make a schedule; its first run is the first instant after now."""
    if (options["task"] is None) == (options["workflow"] is None):
        raise click.UsageError("say what becomes due: either --task or --workflow")
    body = {"name": name, **_body(**options)}
    if "trigger" not in body:
        raise click.UsageError("say when: --cron, --every or --at")
    show_one(api.call("POST", api.tenant_path("schedules"), body=body), kind="ScheduleList", output=output)


@schedule.command("update")
@click.argument("name")
@click.option("--task", help="What becomes due.")
@click.option("--workflow", help="What becomes due, instead of a task.")
@click.option("--reason", help="Why; kept with the revision.")
@click.option("--dry-run", is_flag=True, help="Say which fires it would add, remove and move, and change nothing.")
@click.option("--days", type=click.IntRange(1, 3660), default=30, show_default=True, help="With --dry-run: how far.")
@_timing
@_policies
@tagging
@force_option
@with_api
def update(*, api: Api, output: str, name: str, dry_run: bool, days: int, force: bool, **options: Any) -> None:
    """Make the next revision; what is not named stays (--catch-up and its seconds go together)."""
    path = api.tenant_path("schedules", name)
    if dry_run:
        found = api.call("PATCH", path, body=_body(**options), dry_run=True, days=days)
        _show_plan(found, output)
        return
    show_one(api.change("PATCH", path, body=_body(**options), force=force), kind="ScheduleList", output=output)


@schedule.command("list")
@filtered("tag:billing state:paused")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List schedules by name."""
    list_pages(
        api,
        api.tenant_path("schedules"),
        kind="ScheduleList",
        output=output,
        columns=COLUMNS,
        paging=paging,
    )


@schedule.command("get")
@click.argument("name")
@with_api
def get(*, api: Api, output: str, name: str) -> None:
    """Show one schedule."""
    show_one(api.call("GET", api.tenant_path("schedules", name)), kind="ScheduleList", output=output)


def _show_plan(found: dict[str, Any], output: str) -> None:
    if output != "table":
        show_list([found], kind="ChangePlanList", output="json" if output == "name" else output, columns={})
        return
    show_list(found["moves"], kind="MoveList", output=output, columns=MOVE_COLUMNS)
    totals = ", ".join(f"{found[kind]} {kind}" for kind in ("moved", "added", "removed", "unchanged"))
    click.echo(f"until {found['until']}: {totals}; {len(found['withdrawn'])} planned runs would be withdrawn", err=True)


@schedule.command("smooth")
@click.option("--dry-run", is_flag=True, help="Say what it would do, and change nothing.")
@click.option("--hours", type=click.IntRange(1, 168), default=24, show_default=True, help="The hours to smooth over.")
@with_api
def smooth(*, api: Api, output: str, dry_run: bool, hours: int) -> None:
    """Give the schedules whose flex is smooth their offsets, so that the busiest minute is less busy."""
    path = api.tenant_path("forecast", "smooth")
    found = api.call("POST", path, dry_run=dry_run, hours=hours)
    show_list(found["changed"], kind="OffsetList", output=output, columns=OFFSET_COLUMNS, name="schedule")
    done = "would go" if dry_run else "goes"
    more = f"; {found['more']} more schedules: run it again" if found["more"] else ""
    click.echo(
        f"the busiest minute {done} from {found['before']['due']} to {found['after']['due']} runs{more}", err=True
    )


@schedule.command("catch-up")
@click.argument("name")
@click.option("--cause", type=click.Choice(["outage", "resume", "creation"]), help="[default: resume when paused]")
@click.option("--policy", metavar="POLICY", help="Try another one: coalesce, replay, skip, or JSON.")
@click.option("--since", metavar="INSTANT", help="With --cause creation: where it would have begun.")
@click.option("--list", "listed", is_flag=True, help="List what it has had to catch up on, the newest first.")
@paged
@with_api
def catch_up(*, api: Api, output: str, name: str, listed: bool, **options: Any) -> None:
    """Say what catching up would come to now, such as: 412 missed; replay of 412 would take 41 s at 10/s."""
    path = api.tenant_path("schedules", name, "catch-up")
    cause, policy, since = (options.pop(field) for field in ("cause", "policy", "since"))
    if listed:
        list_pages(api, path, kind="CatchUpList", output=output, columns=CATCH_UP_COLUMNS, paging=options, name="id")
        return
    body = given(cause=cause, catch_up=rule_given(policy), since=since)
    found = api.call("POST", f"{path}/preview", body=body)
    show_list([found], kind="CatchUpPreviewList", output=output, columns=PREVIEW_COLUMNS, name="sentence")


@schedule.command("history")
@click.argument("name")
@paged
@with_api
def history(*, api: Api, output: str, name: str, **paging: Any) -> None:
    """Show what each revision changed, by whom and why."""
    list_pages(
        api,
        api.tenant_path("schedules", name, "revisions"),
        kind="RevisionList",
        output=output,
        columns=HISTORY_COLUMNS,
        paging=paging,
        name="revision",
    )


@schedule.command("release")
@click.argument("name")
@click.option("--reason", help="Why.")
@with_api
def release(*, api: Api, output: str, name: str, reason: str | None) -> None:
    """Let a strictly sequential line go on that a dead run holds up."""
    made = api.call("POST", api.tenant_path("schedules", name, "release"), body=given(reason=reason))
    show_one(made, kind="ScheduleList", output=output)


@schedule.command("preview")
@click.argument("name", required=False)
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True, help="How many fires to show.")
@click.option("--hash-seed", help="What H is drawn from; a schedule draws it from its uid.")
@_timing
@with_api
def preview(*, api: Api, output: str, name: str | None, count: int, **timing: Any) -> None:
    """Show when a schedule fires next, or what an unsaved --cron, --every or --at would do."""
    body = _body(**timing)
    if (name is None) == ("trigger" not in body):
        raise click.UsageError("name a schedule, or say when with --cron, --every or --at")
    if name is None:
        found = api.call("POST", api.tenant_path("schedules", "preview"), body={**body, "count": count})
        if found["hash_seed"]:
            click.echo(f"H is drawn from '{found['hash_seed']}' here; a schedule draws it from its own uid", err=True)
    else:
        found = api.call("GET", api.tenant_path("schedules", name, "preview"), count=count)
    show_list(found["items"], kind="FireList", output=output, columns=FIRE_COLUMNS, name="at")


@schedule.command("revisions")
@click.argument("name")
@paged
@with_api
def revisions(*, api: Api, output: str, name: str, **paging: Any) -> None:
    """Show what a schedule was, with who changed it and why."""
    list_pages(
        api,
        api.tenant_path("schedules", name, "revisions"),
        kind="RevisionList",
        output=output,
        columns=REVISION_COLUMNS,
        paging=paging,
        name="revision",
    )


def _body(*, input_text: str | None = None, catch_up: str | None = None, **options: Any) -> dict[str, Any]:
    """Build the part of a request that the options name."""
    policy = (rule_given(catch_up) or {}) | given(
        grace_seconds=options.pop("grace_seconds", None),
        window_seconds=options.pop("window_seconds", None),
    )
    cron = given(
        seconds=options.pop("seconds") or None,
        dialect=options.pop("dialect"),
        hash_seed=options.pop("hash_seed", None),
    )
    trigger = _trigger(cron, **{name: options.pop(name) for name in ("cron", "every", "at")})
    flex = _flex(options.pop("flex_mode", None), options.pop("flex_seconds", None))
    overlap = _overlap(**{name: options.pop(name, None) for name in ("overlap", *OVERLAP_NUMBERS)})
    failures = options.pop("pause_after_failures", None)
    calendars = options.pop("calendars", None)
    tags = tags_given(options.pop("tags", ()), no_tags=options.pop("no_tags", False))
    body = given(**options, trigger=trigger, catch_up=policy or None) | flex | overlap | tags
    if failures is not None:
        body["pause_after_failures"] = failures or None
    if calendars is not None:
        body["calendars"] = json_option(calendars, option="--calendars")
    return body | ({} if input_text is None else {"input": json_option(input_text, option="--input")})


def _overlap(*, overlap: str | None, **numbers: Any) -> dict[str, Any]:
    said = given(**numbers)
    if overlap is None and said:
        raise click.UsageError("--max-running, --max-buffered and --on-failure go with --overlap")
    return {} if overlap is None else {"overlap": {"policy": overlap, **said}}


def _flex(mode: str | None, seconds: int | None) -> dict[str, Any]:
    if mode == "none":
        return {"flex": None}
    if (mode is None) != (seconds is None):
        raise click.UsageError("--flex and --flex-seconds go together")
    return {} if mode is None else {"flex": {"mode": mode, "window_seconds": seconds}}


def _trigger(reading: dict[str, Any], *, cron: str | None, every: str | None, at: str | None) -> dict[str, Any] | None:
    """Build a trigger; `reading` says how a cron expression is read."""
    triggers = [
        {"kind": kind, field: value} | reading
        for kind, field, value in (("cron", "expr", cron), ("every", "every", every), ("at", "at", at))
        if value is not None
    ]
    if len(triggers) > 1:
        raise click.UsageError("--cron, --every and --at exclude each other")
    if reading and cron is None:
        raise click.UsageError("--seconds, --dialect and --hash-seed go with --cron")
    return triggers[0] if triggers else None
