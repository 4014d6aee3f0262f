"""`everwhen task`: what is to be done, by the name that workers know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from everwhen.cli.bulk import retagging
from everwhen.cli.client import Api, force_option, with_api
from everwhen.cli.listing import filtered, given, list_pages, paged, tagging, tags_given
from everwhen.cli.output import Columns, confirm, show_one
from everwhen.cli.task_limits import limiting, limits_given
from everwhen.cli.task_requirements import requirements_given, requiring

COLUMNS: Final[Columns] = {
    "NAME": "name",
    "QUEUE": "queue",
    "PRIORITY": "priority",
    "ATTEMPTS": lambda task: task["retry"]["max_attempts"],
    "TIMEOUT": "timeout_seconds",
    "AT ONCE": "max_in_flight",
    "UPDATED": "updated_at",
}


@click.group(short_help="Define tasks: queue, priority, retries, time-outs.")
def task() -> None:
    """Define tasks: what is to be done, by the name that workers know."""


def _policies(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--queue", help="Where its runs wait for workers."),
            click.option("--priority", type=click.IntRange(0, 9), help="9 goes first, 0 last."),
            click.option("--max-attempts", type=click.IntRange(min=1), help="How often it is tried at most."),
            click.option("--base-seconds", type=float, help="Wait before the first retry."),
            click.option("--factor", type=float, help="How much longer each further wait is."),
            click.option("--cap-seconds", type=float, help="The longest wait."),
            click.option(
                "--jitter", type=click.Choice(["full", "equal", "none"]), help="How much of a wait is random."
            ),
            click.option("--max-age-seconds", type=float, help="No retry begins when the run is older than this."),
            click.option(
                "--non-retryable", multiple=True, metavar="CLASS", help="A class of errors not to retry; repeatable."
            ),
            click.option("--timeout-seconds", type=float, help="The longest that one attempt may run."),
            click.option("--start-deadline-seconds", type=float, help="How late a run may still start."),
            click.option("--total-deadline-seconds", type=float, help="When it has to have ended, over all attempts."),
            click.option("--heartbeat-timeout-seconds", type=float, help="The longest that a worker may be silent."),
        )
    ):
        function = option(function)
    return function


@task.command("create")
@click.argument("name")
@_policies
@limiting
@requiring
@tagging
@with_api
def create(*, api: Api, output: str, name: str, **policies: Any) -> None:
    """Make a task."""
    body = {"name": name, **_body(**policies)}
    show_one(api.call("POST", api.tenant_path("tasks"), body=body), kind="TaskList", output=output)


@task.command("update")
@click.argument("name")
@_policies
@limiting
@requiring
@tagging
@force_option
@with_api
def update(*, api: Api, output: str, name: str, force: bool, **policies: Any) -> None:
    """Change a task; what is not named stays."""
    changed = api.change("PATCH", api.tenant_path("tasks", name), body=_body(**policies), force=force)
    show_one(changed, kind="TaskList", output=output)


@task.command("list")
@filtered("tag:billing queue:mails")
@paged
@with_api
def list_command(*, api: Api, output: str, **paging: Any) -> None:
    """List tasks by name."""
    path = api.tenant_path("tasks")
    list_pages(api, path, kind="TaskList", output=output, columns=COLUMNS, paging=paging)


@task.command("get")
@click.argument("name")
@with_api
def get(*, api: Api, output: str, name: str) -> None:
    """Show one task."""
    show_one(api.call("GET", api.tenant_path("tasks", name)), kind="TaskList", output=output)


@task.command("delete")
@click.argument("name")
@click.option("--reason", help="Why; kept with the audit.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete(*, api: Api, output: str, name: str, reason: str | None, yes: bool, force: bool) -> None:
    """Give a task's name back; refused while something uses it. What has run keeps its name."""
    confirm(f"Delete the task {name}?", yes=yes)
    api.change("DELETE", api.tenant_path("tasks", name), reason=reason, force=force)
    if output == "name":
        click.echo(name)


def _body(**policies: Any) -> dict[str, Any]:
    names = ("max_attempts", "base_seconds", "factor", "cap_seconds", "jitter", "max_age_seconds", "non_retryable")
    policies["non_retryable"] = list(policies["non_retryable"]) or None
    limits = limits_given(policies) | requirements_given(policies)
    retry = given(**{name: policies.pop(name) for name in names})
    tags = tags_given(policies.pop("tags"), no_tags=policies.pop("no_tags"))
    return given(**policies) | limits | tags | ({"retry": retry} if retry else {})


for command in retagging("task"):
    task.add_command(command)
