"""The options of `everwhen task` that say what a worker has to have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def requiring(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `requirements_given` reads."""
    for option in reversed(
        (
            click.option(
                "--require-label",
                "required_labels",
                multiple=True,
                metavar="NAME=VALUE",
                help="A label that a worker has to have; repeatable.",
            ),
            click.option(
                "--require",
                "required_amounts",
                multiple=True,
                metavar="NAME=NUMBER",
                help="So much of a resource that a worker has to have free, such as gpu=1; repeatable.",
            ),
            click.option("--no-requirements", is_flag=True, help="Any worker that knows the task will do."),
        )
    ):
        function = option(function)
    return function


def requirements_given(given: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of all that were given, and return the part of a body."""
    from everwhen.worker.settings import read_labels, read_resources

    labels, amounts = given.pop("required_labels"), given.pop("required_amounts")
    lifted = given.pop("no_requirements")
    if lifted and (labels or amounts):
        raise click.UsageError("--no-requirements and setting some exclude each other")
    if lifted:
        return {"requires": None}
    if not labels and not amounts:
        return {}
    try:
        return {"requires": {"labels": read_labels(labels), "resources": read_resources(amounts)}}
    except ValueError as error:
        raise click.UsageError(str(error)) from error
