"""A message as Slack's Block Kit: a header, what a template wrote in Slack's own marks, the error, and who asked.

Slack reads three characters as its own: `&`, `<`, `>`. Each value is escaped on its way out of a template, so that no
data can ping a channel or pass for a link; `verbatim` keeps Slack from making links of what looks like one. What a
tenant's template itself says, such as `<!here>`, stays: it was meant.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from everwhen.alerts.texts.cleaning import CUT, line, lines, link
from everwhen.alerts.texts.grammar import TemplateProblem

MOST_BLOCKS: Final = 50
MOST_HEADER: Final = 150
MOST_TEXT: Final = 3000
MOST_ERROR: Final = 2500
MOST_SECTIONS: Final = 40

Block = dict[str, Any]

_MARK: Final = re.compile(r"<([^<>\n]*)>")
_PING: Final = re.compile(r"<(![a-z]+|[@#!][\w^]+)(\|[^<>\n]*)?>", re.ASCII)


def escape(value: object) -> str:
    """Escape what Slack would read as a mark; for every value that a template prints."""
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check(made: str, source: str) -> str:
    """Return what a template made; raise TemplateProblem for a mark that is neither a plain link nor its own."""
    if not made.strip():
        raise TemplateProblem("it makes no text", line=1)
    for found in _MARK.finditer(made):
        address, _, _ = found[1].partition("|")
        is_meant = found[0] in source and _PING.fullmatch(found[0])
        if not is_meant and not link(address.replace("&amp;", "&")):
            raise TemplateProblem(
                f"in what it makes, {line(found[0], most=80)} is neither a link nor written out in the template",
                line=made[: found.start()].count("\n") + 1,
            )
    if "<" in _MARK.sub("", made):
        raise TemplateProblem("in what it makes, a `<` that begins no link is written as &lt;", line=1)
    return made


def blocks_of(facts: Mapping[str, Any], *, subject: str, body: str, small_print: Sequence[str]) -> list[Block]:
    """Put the blocks together, within Slack's limits."""
    blocks: list[Block] = [_header(f"{facts['sign']} {subject}")]
    blocks += [_section(text) for text in list(_pieces(body))[:MOST_SECTIONS]]
    error = facts.get("occasion", {}).get("error", "")
    if error:
        blocks.append(_preformatted(lines(error, most=MOST_ERROR)))
    blocks.append({"type": "context", "elements": [_marked(_fitting(escape(text))) for text in small_print[:10]]})
    return blocks


def _header(text: str) -> Block:
    return {"type": "header", "text": {"type": "plain_text", "text": line(text, most=MOST_HEADER), "emoji": False}}


def _section(text: str) -> Block:
    return {"type": "section", "text": _marked(text)}


def _marked(text: str) -> Block:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _preformatted(text: str) -> Block:
    """Show a text as it is, without any mark in it being read."""
    inner = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [inner]}


def _pieces(body: str) -> Iterator[str]:
    """Cut a text between its lines, so that each piece fits into a section."""
    piece: list[str] = []
    size = 0
    for each in body.strip("\n").split("\n"):
        fitting = _fitting(each)
        if size + len(fitting) + 1 > MOST_TEXT and piece:
            yield "\n".join(piece)
            piece, size = [], 0
        if fitting.strip() or piece:
            piece.append(fitting)
            size += len(fitting) + 1
    if "".join(piece).strip():
        yield "\n".join(piece)


def _fitting(text: str) -> str:
    """Cut a line that no section can hold, not within an escape or a mark."""
    if len(text) <= MOST_TEXT:
        return text
    kept = text[: MOST_TEXT - len(CUT)]
    for opening, closing in (("&", ";"), ("<", ">")):
        if kept.rfind(opening) > kept.rfind(closing):
            kept = kept[: kept.rfind(opening)]
    return kept + CUT
