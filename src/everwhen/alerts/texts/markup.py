"""What HTML a tenant's template may make: plain, closed elements, and nothing that loads, runs or reaches out.

What a template made is looked at before it is sent, data and all, and refused as a whole if anything in it is not in
the lists below: nothing is repaired, so there is no repaired text that a mail client could read otherwise. Every tag
has to look exactly like a tag (quoted attributes, no stray `<`), every element is closed by its own end tag. Thus
what stands there is what any parser reads.
"""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Final, NoReturn

from everwhen.alerts.texts.cleaning import link
from everwhen.alerts.texts.grammar import TemplateProblem

VOID: Final = frozenset({"br", "hr"})
ELEMENTS: Final = (
    VOID
    | {"a", "b", "code", "em", "i", "small", "span", "strong", "sub", "sup", "u"}
    | {"blockquote", "div", "h1", "h2", "h3", "h4", "li", "ol", "p", "pre", "ul"}
    | {"table", "tbody", "td", "th", "thead", "tr"}
)
ATTRIBUTES: Final = (
    frozenset({"class", "dir", "href", "lang", "role", "style", "title"})
    | {"align", "bgcolor", "border", "cellpadding", "cellspacing", "height", "valign", "width"}
    | {"colspan", "rowspan"}
)
FUNCTIONS: Final = frozenset({"rgb", "rgba", "hsl", "hsla"})

_TAG: Final = re.compile(r"<[a-z][a-z0-9]*(\s+[a-z]+=(\"[^\"<>]*\"|'[^'<>]*'))*\s*/?>", re.ASCII)
_REFUSED_STYLE: Final = re.compile(r"[\\@<>{}]|/\*|\b(position|behavior|-moz-binding|z-index)\s*:", re.IGNORECASE)
_FUNCTION: Final = re.compile(r"([-\w]*)\(")
_MAIL_ADDRESS: Final = re.compile(r"mailto:[\w.+-]{1,64}@[\w.-]{1,190}", re.ASCII)


def check(html: str) -> str:
    """Return the HTML as it is; raise TemplateProblem with the line of what it made."""
    reader = _Reader()
    if html.rfind("<") > html.rfind(">"):
        raise TemplateProblem("in what it makes, a tag is not finished", line=html.count("\n") + 1)
    reader.feed(html)
    reader.close()
    reader.finish()
    return html


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)
        if tag not in VOID:
            self._refuse(f"<{tag}/> has to be closed by </{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            expected = f"; </{self._open[-1]}> is next" if self._open else ""
            self._refuse(f"</{tag}> closes nothing that is open{expected}")
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "<" in data:
            self._refuse("a `<` that begins no element is written as &lt;")

    def handle_comment(self, data: str) -> None:  # noqa: ARG002  # the library's signature
        self._refuse("comments are written as {# … #}, so that they stay here")

    def handle_decl(self, decl: str) -> None:  # noqa: ARG002
        self._refuse("the frame has the document's type already; write what goes into it")

    def handle_pi(self, data: str) -> None:  # noqa: ARG002
        self._refuse("processing instructions are not allowed")

    def unknown_decl(self, data: str) -> None:  # noqa: ARG002
        self._refuse("declarations are not allowed")

    def finish(self) -> None:
        """Raise when something is still open."""
        if self._open:
            self._refuse(f"<{self._open[-1]}> is not closed")

    def _look(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag not in ELEMENTS:
            self._refuse(f"<{tag}> is not among the elements that a mail may have: {', '.join(sorted(ELEMENTS))}")
        if not _TAG.fullmatch(self.get_starttag_text() or ""):
            self._refuse(f"<{tag}> is not written plainly: small letters, attributes in quotes, no `<` in them")
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self._refuse(f"<{tag}> has an attribute twice")
        for name, value in attrs:
            self._attribute(tag, name, value or "")

    def _attribute(self, tag: str, name: str, value: str) -> None:
        if name not in ATTRIBUTES or (name == "href" and tag != "a"):
            self._refuse(f"<{tag}> may not have `{name}`; attributes are {', '.join(sorted(ATTRIBUTES))}")
        if name == "href" and value and not link(value) and not _MAIL_ADDRESS.fullmatch(value):
            self._refuse("a link leads to http://…, https://… or mailto:…")
        if name == "style":
            functions = {found.lower() for found in _FUNCTION.findall(value)}
            if _REFUSED_STYLE.search(value) or functions - FUNCTIONS:
                self._refuse("a style loads nothing, places nothing, and has no escapes")

    def _refuse(self, message: str) -> NoReturn:
        raise TemplateProblem(f"in what it makes, {message}", line=self.getpos()[0])
