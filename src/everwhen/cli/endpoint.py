"""`everwhen endpoint`: queues whose fleet is an HTTP endpoint."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from everwhen.cli.client import Api, failure_of, force_option, with_api
from everwhen.cli.listing import given
from everwhen.cli.output import Columns, confirm, show_one
from everwhen.cli.secrets import ask

KIND: Final = "EndpointList"
TEST_SECONDS: Final = 15.0
COLUMNS: Final[Columns] = {
    "QUEUE": "queue",
    "URL": "url",
    "FAILURES": "failures",
    "RESTS UNTIL": "rests_until",
    "LAST ERROR": "last_error",
}


@click.group(short_help="Queues whose fleet is an HTTP endpoint.")
def endpoint() -> None:
    """Have the runs of a queue posted to an HTTP endpoint instead of being asked for by workers."""


@endpoint.command("get")
@click.argument("queue")
@with_api
def get(*, api: Api, output: str, queue: str) -> None:
    """Show where a queue's runs are posted, and how the endpoint does."""
    show_one(api.call("GET", _path(api, queue)), kind=KIND, output=output, name="queue")


@endpoint.command("set")
@click.argument("queue")
@click.option("--to", "address", help="Where to post: a URL. [default: as it is]")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of yours; all of them anew.")
@click.option("--answer-seconds", type=float, help="How long an answer may take. [default: 30]")
@click.option("--accept-seconds", type=float, help="How long a run that was accepted is waited for. [default: 3600]")
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="A secret to ask for; from stdin in a pipe.")
@force_option
@with_api
def set_endpoint(
    *,
    api: Api,
    output: str,
    queue: str,
    headers: tuple[str, ...],
    secrets: tuple[str, ...],
    **options: Any,
) -> None:
    """Say where a queue's runs are posted; what is not named stays. A new endpoint needs the secret `secret`."""
    address, force = options.pop("address"), options.pop("force")
    known, tag = _now(api, queue)
    if known is None and address is None:
        raise click.UsageError(f"The queue {queue} has no endpoint yet: give --to.")
    kept = ("url", "headers", "answer_seconds", "accept_seconds")
    body = {name: known[name] for name in kept} if known else {}
    body |= given(url=address, **options)
    if headers:
        body["headers"] = dict(_header(text) for text in headers)
    wanted = secrets if known or secrets else ("secret",)
    body["secrets"] = {name: ask(name) for name in wanted}
    match = None if known is None else ("*" if force else tag)
    made = api.call("PUT", _path(api, queue), body=body, match=match, absent=known is None)
    show_one(made, kind=KIND, output=output, name="queue")


@endpoint.command("delete")
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete(*, api: Api, output: str, queue: str, yes: bool, force: bool) -> None:
    """Post nothing more: the queue's runs wait for workers."""
    confirm(f"Post nothing more of the queue {queue}?", yes=yes)
    api.change("DELETE", _path(api, queue), force=force)
    if output == "name":
        click.echo(queue)


@endpoint.command("test")
@click.argument("queue")
@with_api
def test(*, api: Api, output: str, queue: str) -> None:
    """Have a signed test posted, and say what it was answered."""
    api.call("POST", _path(api, queue, "test"))
    deadline = time.monotonic() + TEST_SECONDS
    while time.monotonic() < deadline:
        found = api.call("GET", _path(api, queue))
        if found["test"]["answer"] is not None and found["test"]["wanted_at"] is None:
            show_one(found["test"], kind="EndpointTest", output=output, name="answer")
            return
        time.sleep(0.25)
    raise click.ClickException(f"No answer to the test of {queue} within {TEST_SECONDS:g} s: does the role caller run?")


def _path(api: Api, queue: str, *rest: str) -> str:
    return api.tenant_path("queues", queue, "endpoint", *rest)


def _now(api: Api, queue: str) -> tuple[dict[str, Any] | None, str | None]:
    answer = api.send("GET", _path(api, queue))
    if answer.status_code == 404 and answer.json().get("code") == "endpoint.unknown":
        return None, None
    if not answer.is_success:
        raise failure_of(answer)
    return answer.json(), answer.headers["ETag"]


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError(f"--header {text}: a header is NAME=VALUE.")
    return name, value
