"""The options of `everwhen task` that limit how many runs are under way at once, and how fast they begin."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

_RATE: Final = re.compile(r"(?P<tokens>\d+)/(?P<seconds>\d+(\.\d+)?)(:(?P<burst>\d+))?")


class _Rate(click.ParamType[Any]):
    """A rate such as `10/60` or `10/60:20`: tokens, in how many seconds, and how many at once."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = _RATE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            self.fail(
                f"{value!r} is no rate; one is like 10/60 (ten in a minute) or 10/60:20 (twenty at once)", param, ctx
            )
        burst = found["burst"]
        return {
            "tokens": int(found["tokens"]),
            "seconds": float(found["seconds"]),
            "burst": None if burst is None else int(burst),
        }


def limiting(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `limits_given` reads."""
    for option in reversed(
        (
            click.option("--max-in-flight", type=int, help="How many of its runs may be under way at once."),
            click.option("--rate", type=_Rate(), metavar="N/SECONDS[:BURST]", help="How fast its runs may begin."),
            click.option(
                "--key",
                "pointers",
                multiple=True,
                metavar="POINTER",
                help="A JSON pointer into the input, such as /customer: runs with equal values there share limits;"
                " repeatable.",
            ),
            click.option("--key-max-in-flight", type=int, help="How many runs of a key may be under way at once."),
            click.option(
                "--key-rate", type=_Rate(), metavar="N/SECONDS[:BURST]", help="How fast runs of a key may begin."
            ),
            click.option(
                "--no-limit",
                "lifted",
                multiple=True,
                type=click.Choice(["max-in-flight", "rate", "key"]),
                help="Take a limit away; repeatable.",
            ),
        )
    ):
        function = option(function)
    return function


def limits_given(given: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of all that were given, and return the parts of a body."""
    names = ("max_in_flight", "rate", "pointers", "key_max_in_flight", "key_rate", "lifted")
    said = {name: given.pop(name) for name in names}
    body: dict[str, Any] = {name: said[name] for name in ("max_in_flight", "rate") if said[name] is not None}
    if said["pointers"]:
        body["concurrency"] = {
            "key": list(said["pointers"]),
            "max_in_flight": said["key_max_in_flight"],
            "rate": said["key_rate"],
        }
    elif said["key_max_in_flight"] is not None or said["key_rate"] is not None:
        raise click.UsageError("say with --key which values of the input make the key")
    for lifted in said["lifted"]:
        field = "concurrency" if lifted == "key" else lifted.replace("-", "_")
        if field in body:
            raise click.UsageError(f"--no-limit {lifted} and setting it exclude each other")
        body[field] = None
    return body
