"""`everwhen explain-trigger` and `everwhen presets`: what a trigger means in words, and what other schedulers do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from everwhen.core.triggers import Trigger


@click.command("explain-trigger")
@click.argument("expr")
@click.option("--dialect", default="vixie", show_default=True, help="Dialect of a cron expression.")
@click.option("--seconds", is_flag=True, help="The cron expression has a leading column of seconds.")
@click.option("--hash-seed", default="", help="What an H in the expression is drawn from, such as a schedule's uid.")
def explain_trigger(expr: str, **options: Any) -> None:
    """Say in English what a trigger means.

    EXPR is a cron expression, a duration such as PT90M, a time such as 2027-03-28T02:30, or a trigger as JSON.
    """
    from everwhen.core.errors import TriggerError
    from everwhen.core.explain import explain

    try:
        click.echo(explain(_trigger(expr, **options)))
    except TriggerError as error:
        raise click.UsageError(f"{error.field}: {error.message} ({error.code})") from None


@click.command("presets")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def presets(output: str) -> None:
    """Show what other schedulers do when clocks change, as their presets reproduce it.

    Each cell is the local time at which a pattern fires on the day of the change, or which passes of a repeated time.
    """
    from everwhen.core.presets import CASES, PRESETS, answer_to
    from everwhen.core.zones import use_tzdata_only

    use_tzdata_only()
    rows = [{"case": c.name, "expr": c.expr, "timezone": c.timezone, "date": c.date} for c in CASES]
    answers = [{name: answer_to(case, preset) for name, preset in PRESETS.items()} for case in CASES]
    if output == "json":
        both = zip(rows, answers, strict=True)
        click.echo(json.dumps([{**row, "answers": found} for row, found in both], indent=2))
        return
    table = [["", *PRESETS], *([row["case"], *found.values()] for row, found in zip(rows, answers, strict=True))]
    table.append(["known", *(preset.basis for preset in PRESETS.values())])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _trigger(expr: str, *, dialect: str, seconds: bool, hash_seed: str) -> Trigger:
    from everwhen.core.trigger_json import parse_trigger
    from everwhen.core.triggers import Cron

    text = expr.strip()
    if text.startswith("{"):
        return parse_trigger(_decoded(text))
    if text.startswith("P"):
        return parse_trigger({"kind": "every", "every": text})
    if "T" in text and text[:4].isdigit() and text[4:5] == "-":
        return parse_trigger({"kind": "at", "at": text})
    return Cron(expr, seconds, dialect, hash_seed)


def _decoded(text: str) -> Any:
    from everwhen.core.errors import TriggerError

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TriggerError("input.json", f"this is not JSON: {error}", field="trigger") from None
