"""Makes foreign text safe to show: what cannot be seen is shown as an escape, and nothing is longer than its place.

Names, errors and reasons of an alert may hold whatever a tenant or a worker sent: line breaks that would begin a
header, marks that turn the direction of writing around, colours of a terminal, characters of no width, a megabyte.
Everything passes here once, before any template sees it, and is harmless as plain text from then on; what a kind of
text needs besides (HTML's or Slack's own escapes) happens where that text is written.
"""

import re
import unicodedata
from typing import Any, Final
from urllib.parse import urlsplit

CUT: Final = "…"

MOST_LINK: Final = 500
_LONGEST_RUN_OF_MARKS: Final = 4
_TAB: Final = "    "

# Characters that count as printable, and that nobody sees: fillers of scripts, a blank pattern of Braille, selectors.
_UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))))
)
_BREAKS: Final = re.compile(r"\r\n|[\r\n\u2028\u2029\x85\x0b\x0c]")
_LINK: Final = re.compile(r"https?://[^\s\"'<>`\\{}|^]+", re.ASCII)


def line(text: object, *, most: int) -> str:
    """Return the text as one line of at most `most` characters; a line break becomes the escape of one."""
    return _shown(str(text)[: most + 1], most).strip()


def lines(text: object, *, most: int) -> str:
    """Return the text with its line breaks, in at most `most` characters; tabs become spaces."""
    raw = _BREAKS.sub("\n", str(text)[: most + 1]).replace("\t", _TAB)
    return _cut("\n".join(_shown(each, most).rstrip() for each in raw.split("\n")).strip("\n"), most)


def link(text: object) -> str:
    """Return an address that leads to a page over HTTP; empty for anything else, however it tries to look like one."""
    if not isinstance(text, str) or len(text) > MOST_LINK or not text.isascii() or not _LINK.fullmatch(text):
        return ""
    try:
        parts = urlsplit(text)
        is_plain = bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        return ""
    return text if is_plain else ""


def storable(value: Any, *, most: int) -> str:
    """Return a text as programs get it: as it is, but for what no strict JSON and no database takes; and cut."""
    text = str(value)[: most + 1]
    return _cut("".join(_escape(c) if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text), most)


def _shown(text: str, most: int) -> str:
    if text.isascii() and text.isprintable():
        return _cut(text, most)
    shown: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        shown.append(_seen(character) if marks <= _LONGEST_RUN_OF_MARKS else _escape(character))
    return _cut("".join(shown), most)


def _seen(character: str) -> str:
    if character in _UNSEEN:
        return _escape(character)
    if character.isprintable():
        return character
    return " " if unicodedata.category(character) == "Zs" else _escape(character)


def _escape(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode() if ord(character) > 127 else repr(character)[1:-1]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(CUT)].rstrip() + CUT
