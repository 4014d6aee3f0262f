"""`everwhen events`: what is decided about runs, as it happens."""

from __future__ import annotations

from typing import Any

import click

from everwhen.cli.client import Api, with_api
from everwhen.cli.following import Following, show_event
from everwhen.cli.listing import filtered, given


@click.command("events")
@click.option("--follow", is_flag=True, help="Go on with what comes, until it is interrupted.")
@click.option("--after", metavar="ID", help="Begin behind this event; its id is `place` in -o json.")
@filtered("kind:dead schedule:nightly")
@with_api
def events(*, api: Api, output: str, follow: bool, after: str | None, **options: Any) -> None:
    """Tell what is decided about runs: from now on, or behind an event that was told."""
    if not follow and after is None:
        raise click.UsageError("say --follow for what comes, or --after for what has come since")
    params = given(filter=options["filter"], follow=None if follow else "false")
    stream = Following(api, api.tenant_path("events", "stream"), after=after, **params)
    try:
        for event in stream.events():
            show_event(event, output=output)
    finally:
        if follow and stream.place is not None:
            click.echo(f"everwhen: go on with --after {stream.place}", err=True)
