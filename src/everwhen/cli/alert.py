"""`everwhen alert`: who is told of what, and in which words."""

from __future__ import annotations

import click

from everwhen.cli.alert_template import template


@click.group(short_help="Tell people what happens.")
def alert() -> None:
    """Tell people what happens to their schedules, runs, workflows and queues."""


alert.add_command(template)
