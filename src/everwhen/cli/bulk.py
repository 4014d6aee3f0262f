"""What every bulk command does: plan, show, confirm, carry out, and watch.

The dry run and the real one are the same plan: what was shown is what the token names, and nothing else is done. The
output's format changes nothing about that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from everwhen.cli.client import STILL_WAITING, UNSUCCESSFUL, Api, with_api
from everwhen.cli.listing import given
from everwhen.cli.output import confirm, show_one

FINISHED: Final = frozenset({"succeeded", "failed", "aborted"})
POLL_SECONDS: Final = 0.5
BAR_WIDTH: Final = 30


def bulk(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that plan, pace and confirm an operation."""
    for option in reversed(
        (
            click.option("--reason", help="Why; kept with all that it does."),
            click.option("--dry-run", is_flag=True, help="Say what it would do, and write nothing."),
            click.option("--plan", "plan_token", help="Carry out what a dry run saw: its plan token."),
            click.option("--rate", type=float, metavar="PER_SECOND", help="At most so many a second."),
            click.option("--newest-first", is_flag=True, help="Begin with the newest instead of the oldest."),
            click.option("--yes", is_flag=True, help="Do not ask."),
            click.option("--wait", is_flag=True, help="Watch until it has ended."),
            click.option("--timeout", type=float, default=3600.0, show_default=True, help="With --wait: seconds."),
        )
    ):
        function = option(function)
    return function


def making(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of operations that make runs."""
    for option in reversed(
        (
            click.option("--canary", type=click.IntRange(1), help="So many first; the others when all have succeeded."),
            click.option("--stop-after-dead", type=click.IntRange(1), help="Stop when so many of its runs are dead."),
            click.option(
                "--stop-dead-share",
                type=click.FloatRange(0, 1, max_open=True),
                help="Stop when more than this share of its ended runs is dead.",
            ),
            click.option("--priority", type=click.IntRange(0, 9), help="Of its runs: 9 goes first, 0 last."),
            click.option(
                "--overlap",
                type=click.Choice(["wait", "respect", "ignore"]),
                help="Where a schedule limits overlap: wait for room, do as its policy says, or ignore it.",
            ),
        )
    ):
        function = option(function)
    return function


def one_or_filter(thing: str, name: str | None, text: str | None, options: dict[str, Any]) -> None:
    """Refuse a command that names neither one thing nor a filter, or both, or paces the change of one."""
    if (name is None) == (text is None):
        raise click.UsageError(f"name either a {thing} or a --filter")
    if name is not None and (
        options["dry_run"] or options["plan_token"] or options["rate"] or options["newest_first"] or options["wait"]
    ):
        raise click.UsageError("--dry-run, --plan, --rate, --newest-first and --wait go with --filter")


def retagging(thing: str) -> tuple[click.Command, click.Command]:
    """Return the commands that give tags to all that a filter finds, and that take them away."""

    def command(verb: str, said: str) -> click.Command:
        @click.command(verb, help=said)
        @click.argument("tags", nargs=-1, required=True)
        @click.option(
            "--filter",
            "text",
            required=True,
            metavar="TERMS",
            help=f"Every {thing} that this finds, such as 'tag:billing'; '': all.",
        )
        @bulk
        @with_api
        def retag(*, api: Api, output: str, tags: tuple[str, ...], text: str, **options: Any) -> None:
            body = {"kind": f"{verb}_{thing}s", "filter": text, "tags": list(tags)}
            carry_out(api, body, output=output, options=options)

        return retag

    return (
        command("tag", f"Give TAGS to every {thing} that a filter finds, beside those that it has."),
        command("untag", f"Take TAGS from every {thing} that a filter finds."),
    )


def carry_out(api: Api, body: dict[str, Any], *, output: str, options: dict[str, Any]) -> None:
    """Plan an operation of this body and the options of `bulk` and `making`; carry it out, unless it is a dry run."""
    wanted = body | _paced(options)
    token = options["plan_token"]
    if token is None:
        plan = api.call("POST", api.tenant_path("operations", "plan"), body=wanted)
        _show_plan(plan)
        if options["dry_run"]:
            show_one(plan, kind="PlanList", output=output, name="plan_token") if output != "table" else None
            return
        token = plan["plan_token"]
    if options["reason"] is None:
        raise click.UsageError("say why with --reason")
    confirm("Carry this out?", yes=options["yes"])
    made = api.call(
        "POST",
        api.tenant_path("operations"),
        body=wanted | {"plan_token": token, "reason": options["reason"]},
        key=token,
    )
    if options["wait"]:
        made = watch(api, made, seconds=options["timeout"])
    show_one(made, kind="OperationList", output=output, name="id")
    if options["wait"]:
        end_as(made)


def watch(api: Api, operation: dict[str, Any], *, seconds: float) -> dict[str, Any]:
    """Follow an operation until it has ended or the time is over; on a terminal with a bar."""
    until = time.monotonic() + seconds
    while operation["state"] not in FINISHED and time.monotonic() < until:
        _show_progress(operation)
        time.sleep(POLL_SECONDS)
        operation = api.call("GET", api.tenant_path("operations", operation["id"]))
    _show_progress(operation, last=True)
    return operation


def end_as(operation: dict[str, Any]) -> None:
    """Exit as the operation ended: 0 only when all of its runs succeeded, or were cancelled as was asked."""
    if operation["state"] not in FINISHED:
        sys.exit(STILL_WAITING)
    counts = operation["counts"]
    otherwise = 0 if operation["kind"] == "cancel_runs" else counts["ended_otherwise"]
    if operation["state"] != "succeeded" or counts["dead"] or otherwise:
        sys.exit(UNSUCCESSFUL)


def progress_line(operation: dict[str, Any]) -> str:
    """Say in one line how far an operation is."""
    counts = operation["counts"]
    taken, total = counts["done"] + counts["skipped"], counts["total"]
    filled = BAR_WIDTH if total == 0 else BAR_WIDTH * taken // total
    told = [f"{counts['succeeded']} succeeded"]
    for name, word in (("dead", "dead"), ("ended_otherwise", "ended otherwise"), ("under_way", "under way")):
        told += [f"{counts[name]} {word}"] if counts[name] else []
    told += [f"{counts['skipped']} skipped"] if counts["skipped"] else []
    if operation["eta_seconds"]:
        told.append(f"about {operation['eta_seconds']:.0f} s left")
    bar = "#" * filled + "." * (BAR_WIDTH - filled)
    return f"{operation['state']:<9} [{bar}] {taken}/{total}  {', '.join(told)}"


def _show_progress(operation: dict[str, Any], *, last: bool = False) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{progress_line(operation)}", err=True, nl=last)
    elif last:
        click.echo(progress_line(operation), err=True)


def _show_plan(plan: dict[str, Any]) -> None:
    for sentence in plan["sentences"]:
        click.echo(sentence, err=True)
    if plan["filter"]:
        click.echo(f"filter: {plan['filter']}", err=True)
    if sample := ", ".join(_name(each) for each in plan["sample"]):
        click.echo(f"sample: {sample}", err=True)
    click.echo(f"plan: {plan['plan_token']} (until {plan['expires_at']})", err=True)


def _name(sample: dict[str, Any]) -> str:
    return sample["name"] or sample["local"] or sample["ref"] or f"{sample['task']} {sample['run_id']}"


def _paced(options: dict[str, Any]) -> dict[str, Any]:
    return given(
        rate_per_second=options["rate"],
        order="newest" if options["newest_first"] else None,
        canary=options.get("canary"),
        stop_after_dead=options.get("stop_after_dead"),
        stop_dead_share=options.get("stop_dead_share"),
        priority=options.get("priority"),
        overlap=options.get("overlap"),
    )
