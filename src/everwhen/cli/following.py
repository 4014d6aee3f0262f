"""Streams of events on the command line: told line by line, and gone on with where they were when a connection breaks.

A connection that ends is opened again behind the last id that was heard, after a pause that doubles up to MOST_PAUSE;
after MOST_FAILURES in a row without a word from the server the command gives up. What the server refuses for good ends
it at once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from everwhen.cli.client import DENIED, TIMEOUT_SECONDS, UNAVAILABLE, Api, CallFailed, failure_of
from everwhen.cli.output import Row

if TYPE_CHECKING:
    import httpx2

FIRST_PAUSE: Final = 0.5
MOST_PAUSE: Final = 15.0
MOST_FAILURES: Final = 10


@dataclass(frozen=True, slots=True)
class Message:
    """One piece of a stream. Without a name it is an event."""

    name: str | None
    place: str | None
    data: Any


class TimeIsUp(Exception):  # noqa: N818  # an outcome, not an accident
    """The command was to wait so long, and no longer."""


class Following:
    """A stream that outlasts its connections. `place` is behind what was heard last."""

    def __init__(
        self, api: Api, path: str, *, after: str | None = None, seconds: float | None = None, **params: str
    ) -> None:
        self.place = after
        self._api = api
        self._path = path
        self._params: dict[str, Any] = dict(params)
        self._until = None if seconds is None else time.monotonic() + seconds
        self._pause = FIRST_PAUSE
        self._failures = 0

    def events(self) -> Generator[Row]:
        """Give events as they come; raise CallFailed when it cannot go on, TimeIsUp when it shall not."""
        while True:
            try:
                for message in self._connection():
                    self._failures, self.place = 0, message.place or self.place
                    if message.name is None:
                        yield {**message.data, "place": message.place}
                    elif message.name == "reset":
                        click.echo(
                            "everwhen: what came after that id is not told any more; going on from here", err=True
                        )
                    elif message.name == "end" and self._is_over(message.data):
                        return
            except CallFailed as error:
                self._failures += 1
                if error.exit_code != UNAVAILABLE or self._failures >= MOST_FAILURES:
                    raise
            self._rest()

    def _connection(self) -> Iterator[Message]:
        headers = {} if self.place is None else {"Last-Event-ID": self.place}
        timeout = min(TIMEOUT_SECONDS, self._left())
        with self._api.stream("GET", self._path, headers=headers, timeout=timeout, **self._params) as answer:
            if not answer.is_success:
                answer.read()
                raise failure_of(answer)
            yield from self._messages(answer)

    def _messages(self, answer: httpx2.Response) -> Iterator[Message]:
        for message in parse(answer.iter_lines()):
            if self._left() <= 0:
                raise TimeIsUp
            if message.data is None:
                self.place = message.place or self.place
            else:
                yield message

    def _is_over(self, said: Any) -> bool:
        if said["reason"] == "token.ended":
            raise CallFailed({"detail": said["detail"], "code": "auth.required"}, exit_code=DENIED)
        return said["reason"] == "told"

    def _rest(self) -> None:
        self._pause = FIRST_PAUSE if self._failures == 0 else min(self._pause * 2, MOST_PAUSE)
        if self._left() <= 0:
            raise TimeIsUp
        time.sleep(min(self._pause, self._left()))

    def _left(self) -> float:
        return float("inf") if self._until is None else max(0.0, self._until - time.monotonic())


def parse(lines: Iterable[str]) -> Iterator[Message]:
    """Read server-sent events; a piece without data tells an id only, and one that breaks off tells nothing."""
    said: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            said[name] = value.removeprefix(" ")
            continue
        if "data" in said or "id" in said:
            data = json.loads(said["data"]) if "data" in said else None
            yield Message(said.get("event"), said.get("id"), data)
        said = {}


def show_event(event: Row, *, output: str) -> None:
    """Print an event as a line: for people, as JSON, or its id."""
    match output:
        case "json" | "ndjson":
            click.echo(json.dumps(event, ensure_ascii=False))
        case "name":
            click.echo(event["place"])
        case _:
            what = event["schedule"] or event["task"] or "-"
            attempt = "" if event["attempt"] is None else f"#{event['attempt']}"
            told = [event["at"], event["run"], f"{event['kind']}{attempt}", what, event["reason_sentence"] or ""]
            click.echo("  ".join(told).rstrip())
    sys.stdout.flush()
