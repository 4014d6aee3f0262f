"""`everwhen logs`: what an attempt printed.

Output is whatever a program wrote. To a file or a pipe it goes as it is; on a terminal what could steer the terminal is
taken out: escape sequences, control characters, and what turns the direction of text around.
"""

from __future__ import annotations

import codecs
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from everwhen.cli.client import UNAVAILABLE, Api, CallFailed, failure_of, with_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECONNECT_SECONDS: Final = 1.0
MOST_RECONNECTS: Final = 10
LONGEST_SEQUENCE: Final = 4_096

# CSI, OSC and the other strings that end with ST or BEL, then two-character escapes; C1 forms alike.
_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"
)
_UNENDED: Final = re.compile(r"(?:\x1b|[\x90\x98\x9b\x9d\x9e\x9f])[^\x07\x9c]*\Z|\r\Z")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@click.command("logs", short_help="Show what an attempt printed.")
@click.argument("run")
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt. [default: the latest]")
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt has ended.")
@click.option("--tail", type=click.IntRange(min=0), metavar="BYTES", help="Only the last so many bytes.")
@click.option("--raw", is_flag=True, help="On a terminal, too, as it is: what it holds may steer the terminal.")
@with_api
def logs(  # one parameter per option
    *, api: Api, run: str, attempt: int | None, raw: bool, **options: Any
) -> None:
    """Show what an attempt of RUN printed, by its id or as `schedule@local-time+offset`."""
    write = Printer(sys.stdout.write) if sys.stdout.isatty() and not raw else _as_it_is
    for chunk in _chunks(api, run, attempt, follow=options["follow"], tail=options["tail"]):
        write(chunk)
    write(b"")


def _chunks(api: Api, run: str, attempt: int | None, *, follow: bool, tail: int | None) -> Iterator[bytes]:
    """Yield a log; while the attempt runs, ask again from where the stream ended, also when it broke."""
    query: dict[str, str] = {} if tail is None else {"tail": str(tail)}
    which, offset, broken, is_open = str(attempt or "latest"), 0, 0, True
    while is_open:
        if follow:
            query["follow"] = "true"
        try:
            with api.stream("GET", api.tenant_path("runs", run, "attempts", which, "logs"), query=query) as answer:
                if not answer.is_success:
                    answer.read()
                    raise failure_of(answer)
                which, offset, broken = answer.headers["log-attempt"], int(answer.headers["log-offset"]), 0
                is_open = follow and answer.headers["log-open"] == "true"
                for chunk in answer.iter_raw():
                    offset += len(chunk)
                    yield chunk
        except CallFailed as error:
            broken, is_open = broken + 1, True
            if not follow or error.exit_code != UNAVAILABLE or broken > MOST_RECONNECTS:
                raise
            time.sleep(RECONNECT_SECONDS)
        if which != "latest":
            query = {"offset": str(offset)}


def _as_it_is(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class Printer:
    """Writes bytes as text that steers nothing, however they are cut: what may go on is kept for the next ones."""

    def __init__(self, write: Callable[[str], object]) -> None:
        """Write by this; an empty chunk ends it."""
        self._write = write
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def __call__(self, data: bytes) -> None:
        """Write a chunk."""
        text = self._held + self._decoder.decode(data, final=not data)
        self._held = ""
        unended = _UNENDED.search(_ESCAPES.sub(_same_length, text)) if data else None
        if unended is not None and len(text) - unended.start() <= LONGEST_SEQUENCE:
            text, self._held = text[: unended.start()], text[unended.start() :]
        self._write(printable(text))
        sys.stdout.flush()


def printable(text: str) -> str:
    """Return text without what could steer a terminal; a carriage return ends a line, as a progress bar means it."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def _same_length(found: re.Match[str]) -> str:
    return " " * len(found.group())
