"""Fingerprints: which errors are the same error, though each message has its own numbers, ids and paths.

A fingerprint is a digest of what stays the same when a fault happens again: the class of the error, its message with
everything that varies taken out, and the functions that the last frames of its traceback were in (without lines, which
move with every edit). Two thousand dead runs with one cause become one group, and the group has a sentence.

    ConnectionError: could not reach 10.0.0.7:5432 after 3 tries   ┐  ConnectionError: could not reach <number> after
    ConnectionError: could not reach 10.0.0.9:5432 after 12 tries  ┘  <number> tries

Invariants

1. Pure and stable: the same error gives the same text in every process and release. What is done here is the version
   that the text begins with; whoever changes a rule below raises VERSION, so that old groups stay what they were.
2. The work is bounded, whatever the error holds: texts are cut before they are looked at, and every pattern is linear
   (no repetition inside a repetition, and bounded between quotes).
3. No digit of ASCII is left in a normalised message, and a placeholder among words stays as it is.
"""

import hashlib
import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

VERSION: Final = 1
MOST_FRAMES: Final = 5
MOST_MESSAGE: Final = 4_000
MOST_KEPT: Final = 1_000
"""How much of a normalised message counts: well before the cut of the message, whose place depends on what varies."""
MOST_TRACEBACK: Final = 16_000
MOST_SENTENCE: Final = 200
MOST_TYPE: Final = 200

_MONTH: Final = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_VARYING: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("text", (r"(?<![\w<])'[^'\n]{0,300}'(?!\w)", r'"[^"\n]{0,300}"', r"`[^`\n]{0,300}`")),
    ("uuid", (r"\b[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\b",)),
    (
        "time",
        (
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?Z| ?[+-]\d\d:?\d\d)?)?",
            rf"\b\d{{1,2}} {_MONTH} \d{{4}}\b",
            rf"\b{_MONTH} \d{{1,2}},? \d{{4}}\b",
            r"\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?",
        ),
    ),
    ("url", (r"\b[a-z][a-z0-9+]{1,15}://[^\s<>]+",)),
    ("path", (r"(?<![\w<])(?:[A-Za-z]:)?[.~]{0,2}[/\\][^\s:,;()<>]+",)),
    ("id", (r"\b0x[0-9a-fA-F]+\b", r"\b(?=[0-9a-fA-F]{0,64}\d)(?=\d{0,64}[a-fA-F])[0-9a-fA-F]{8,}\b")),
    ("number", (r"[+-]?\d+(?:[.,:]\d+)*(?:[eE][+-]?\d+)?",)),
)
_RULES: Final = tuple((f"<{name}>", re.compile("|".join(patterns))) for name, patterns in _VARYING)
_SPACE: Final = re.compile(r"\s+")
_PYTHON_FRAME: Final = re.compile(
    r'^ {0,20}(?:\| {0,20})?File "([^"\n]{1,500})", line \d{1,9}(?:, in ([^\n]{1,200}))?$', re.MULTILINE
)
_OTHER_FRAME: Final = re.compile(r"^[ \t]{0,20}at ([^\s(]{1,200})", re.MULTILINE)
_OWN_FRAMES: Final = "/everwhen/worker/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """What an error has in common with others of its kind: the fingerprint to group by, and a sentence for people."""

    fingerprint: str
    sentence: str


def likeness(*, kind: str, message: str, traceback: str | None = None) -> Likeness:
    """Return the likeness of an error of class `kind`; texts of any length are taken, and cut."""
    name, said = _name(kind), normalised(message)
    parts = [name, said, *_frames(traceback or "")]
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]
    return Likeness(fingerprint=f"{VERSION}-{digest}", sentence=_sentence(name, said))


def likeness_without_error(outcome: str) -> Likeness:
    """Return the likeness of an attempt that ended without success and left no error: it was lost, or timed out."""
    return likeness(kind=f"attempt {outcome.replace('_', ' ')}", message="")


def normalised(message: str) -> str:
    """Return a message with what varies replaced by its kind, on one line."""
    text = message[:MOST_MESSAGE]
    for placeholder, pattern in _RULES:
        text = pattern.sub(placeholder, text)
    return _SPACE.sub(" ", text)[:MOST_KEPT].strip()


def _name(kind: str) -> str:
    return _SPACE.sub(" ", kind[:MOST_TYPE]).strip() or "error"


def _sentence(name: str, said: str) -> str:
    text = f"{name}: {said}" if said else name
    return text if len(text) <= MOST_SENTENCE else text[: MOST_SENTENCE - 2] + " …"


def _frames(traceback: str) -> list[str]:
    """Return the functions nearest to the error, the nearest first. Python names them last, most others first."""
    python = [
        f"{_file(match[1])} {match[2] or ''}"
        for match in _PYTHON_FRAME.finditer(traceback[-MOST_TRACEBACK:])
        if _OWN_FRAMES not in match[1].replace("\\", "/")
    ]
    if python:
        return python[: -MOST_FRAMES - 1 : -1]
    others = _OTHER_FRAME.finditer(traceback[:MOST_TRACEBACK])
    return [normalised(match[1]) for match in islice(others, MOST_FRAMES)]


def _file(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
