"""The filters of templates: of a text, a number or a list of texts; none makes more of it than MOST_TEXT."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from everwhen.alerts.texts.shapes import NUMBER, TEXT

LIST: Final = "a list of texts"

MOST_TEXT: Final = 8_192
MOST_SEPARATOR: Final = 100
MOST_INDENT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRule:
    """What a filter takes and makes, and what it may be given besides: the type of its one argument, and its bounds."""

    function: Callable[..., Any]
    takes: tuple[str, ...] = (TEXT,)
    makes: str = TEXT
    given: type | None = None
    most: int = 0

    def check(self, arguments: Sequence[Any]) -> str:
        """Return what is wrong with the arguments; empty when nothing is."""
        if self.given is None:
            return "is given nothing" if arguments else ""
        if len(arguments) != 1 or type(arguments[0]) is not self.given:
            return f"needs {'a number' if self.given is int else 'a text'}, and nothing else"
        size = arguments[0] if self.given is int else len(arguments[0])
        return "" if 0 <= size <= self.most else f"is given at most {self.most:,}"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _join(texts: Sequence[str], by: str) -> str:
    return by.join(texts)[:MOST_TEXT]


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…"


def _indent(text: str, width: int) -> str:
    """Move every line to the right, the first one too."""
    return "\n".join(" " * width + line if line else "" for line in text.split("\n"))[:MOST_TEXT]


def _grouped(number: int) -> str:
    return f"{number:,}"


FILTERS: Final[Mapping[str, FilterRule]] = {
    "capitalize": FilterRule(function=_capitalize),
    "grouped": FilterRule(function=_grouped, takes=(NUMBER,)),
    "indent": FilterRule(function=_indent, given=int, most=MOST_INDENT),
    "join": FilterRule(function=_join, takes=(LIST,), given=str, most=MOST_SEPARATOR),
    "length": FilterRule(function=len, takes=(TEXT, LIST), makes=NUMBER),
    "lower": FilterRule(function=str.lower),
    "trim": FilterRule(function=str.strip),
    "truncate": FilterRule(function=_truncate, given=int, most=MOST_TEXT),
    "upper": FilterRule(function=str.upper),
}
