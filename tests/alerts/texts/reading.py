"""Reads a mail as a browser would, strictly: which elements and attributes it has, and its visible text."""

from html.parser import HTMLParser

from everwhen.alerts.texts import markup

FRAME_ELEMENTS = markup.ELEMENTS | {"html", "head", "meta", "title", "style", "body"}
FRAME_ATTRIBUTES = markup.ATTRIBUTES | {"charset", "name", "content"}
VOID = {"br", "hr", "meta"}


class Mail(HTMLParser):
    """Collects what a document is made of; `wrong` says what should not be there."""

    def __init__(self, document):
        super().__init__()
        self.wrong = []
        self.links = []
        self.elements = []
        self.text = []
        self._open = []
        self.feed(document)
        self.close()
        if self._open:
            self.wrong.append(f"open: {self._open}")

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in FRAME_ELEMENTS:
            self.wrong.append(tag)
        for name, value in attrs:
            if name not in FRAME_ATTRIBUTES:
                self.wrong.append(f"{tag} {name}")
            if name == "href":
                self.links.append(value)
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data):
        if not {"style", "title"} & set(self._open):
            self.text.append(data)

    def handle_comment(self, data):
        self.wrong.append(f"comment {data}")

    def handle_pi(self, data):
        self.wrong.append(f"instruction {data}")
