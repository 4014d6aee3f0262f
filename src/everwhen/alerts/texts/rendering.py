"""Writes a message for every kind of channel: subject, text, HTML, Slack's blocks and a webhook's payload.

Each part is made by a template, the tenant's own where there is one, else the built-in one: both are written in the
same language, from the same facts. A tenant's template that cannot be used loses no alert: the built-in one takes its
place, and the message says why.
"""

from functools import lru_cache
from importlib import resources
from typing import Final

from jinja2 import Environment, StrictUndefined
from jinja2.environment import Template
from markupsafe import Markup

from everwhen.alerts.message import Message, Rendered
from everwhen.alerts.texts import markup, slack
from everwhen.alerts.texts.cleaning import line, lines, link
from everwhen.alerts.texts.dialects import built_in, dialect_of
from everwhen.alerts.texts.facts import MOST_SHOWN, Facts, facts_of, fewer, is_digest
from everwhen.alerts.texts.grammar import TemplateProblem
from everwhen.alerts.texts.kinds import SIGNS, plural
from everwhen.alerts.texts.language import MOST_OUTPUT, run
from everwhen.alerts.texts.parts import DIGEST, Overrides, Part
from everwhen.alerts.texts.payload import payload_of
from everwhen.alerts.texts.styles import LIGHT, STYLES, colours, sheet, with_styles

MOST_SUBJECT: Final = 200
MOST_PREHEADER: Final = 140
MOST_FRAGMENT: Final = 85_000
"""How many bytes of HTML go into the frame: some clients hide what is beyond 100 KB of a mail."""

FEWER: Final = (MOST_SHOWN, 8, 3)
"""How many occasions a digest tells one by one; the next number where the mail would be too long."""

_FILLER: Final = Markup("&#847;&#160;") * 40
"""Keeps the body out of the preview that a list of mails shows after the preheader."""


def render(message: Message, *, overrides: Overrides | None = None) -> Rendered:
    """Write a message. Whatever it holds, and whatever the overrides do, something useful comes out."""
    return _Writer(message, overrides or Overrides()).write()


class _Writer:
    """One message on its way into words; keeps what could not be used."""

    def __init__(self, message: Message, overrides: Overrides) -> None:
        self._message = message
        self._overrides = overrides
        self._facts = facts_of(message)
        self._kind = DIGEST if is_digest(message) else message.shown[0].kind.value
        self._notes: list[str] = []

    def write(self) -> Rendered:
        subject = self._part(Part.SUBJECT, self._facts)
        text = self._part(Part.TEXT, self._facts)
        body = self._part(Part.SLACK, self._facts)
        fragment = self._fragment()
        return Rendered(
            subject=subject,
            text=self._framed_text(text),
            html=self._framed_html(fragment, subject=subject),
            blocks=slack.blocks_of(self._facts, subject=subject, body=body, small_print=[*self._notes, self._footer()]),
            payload=payload_of(self._message, subject=subject),
        )

    def _fragment(self) -> str:
        """Write the inside of the mail, with fewer occasions where it would be too long."""
        made = ""
        for most in FEWER:
            made = self._part(Part.HTML, with_styles(fewer(self._facts, most)))
            if len(made.encode()) <= MOST_FRAGMENT:
                break
        return made

    def _part(self, part: Part, facts: Facts) -> str:
        found = self._overrides.find(self._kind, part)
        if found is not None:
            kind, source = found
            try:
                return written(part, source, facts, digest=self._kind == DIGEST)
            except Exception as error:  # noqa: BLE001  # no template of a tenant may cost an alert
                why = str(error) if isinstance(error, TemplateProblem) else "it failed"
                note = (
                    f"The tenant's template for {kind}, part {part}, was not used ({line(why, most=300)});"
                    " this is the built-in text."
                )
                self._notes += [note] if note not in self._notes else []
        is_of_many = self._kind == DIGEST
        return shaped(part, run(built_in(part, digest=is_of_many), facts, dialect_of(part, digest=is_of_many)))

    def _framed_text(self, body: str) -> str:
        unsubscribe = link(self._message.unsubscribe_link)
        small_print = [*self._notes, self._footer(), f"Unsubscribe: {unsubscribe}" if unsubscribe else ""]
        return "\n".join([body, "", "--", *filter(None, small_print), ""])

    def _framed_html(self, fragment: str, *, subject: str) -> str:
        facts = self._facts
        only = facts.get("occasion")
        return _frame().render(
            subject=subject,
            sheet=Markup(sheet()),  # noqa: S704  # ours alone
            light=colours(LIGHT),
            style=STYLES,
            tone=facts["tone"],
            sign=SIGNS[facts["tone"]],
            word=only["word"] if only else plural(facts["total"], "alert"),
            tenant=facts["tenant"],
            title=only["name"] if only else facts["headline"],
            preheader=line(_preheader(facts), most=MOST_PREHEADER),
            filler=_FILLER,
            body=Markup(fragment),  # noqa: S704  # made with autoescaping, and looked at where it is a tenant's
            notes=self._notes,
            footer=self._footer(),
            unsubscribe=link(self._message.unsubscribe_link),
        )

    def _footer(self) -> str:
        names = self._facts["subscriptions"]
        asked = f", for {'the subscription' if len(names) == 1 else 'the subscriptions'} {', '.join(names)}"
        return (
            f"Sent by Everwhen to the channel {self._facts['channel']} of the tenant {self._facts['tenant']}"
            f"{line(asked, most=400) if names else ''}."
        )


def written(part: Part, source: str, facts: Facts, *, digest: bool) -> str:
    """Fill a tenant's template in and look at what it made; raise TemplateProblem."""
    made = run(source, facts, dialect_of(part, digest=digest))
    if part is Part.HTML:
        markup.check(made)
    if part is Part.SLACK:
        slack.check(made, source)
    made = shaped(part, made)
    if not made:
        raise TemplateProblem("it makes no text", line=1)
    return made


def shaped(part: Part, made: str) -> str:
    """Bring what a template made into the form of its part."""
    match part:
        case Part.SUBJECT:
            return line(" ".join(made.split()), most=MOST_SUBJECT)
        case Part.TEXT:
            return lines(made, most=MOST_OUTPUT)
        case Part.HTML | Part.SLACK:
            return made.strip()


def _preheader(facts: Facts) -> str:
    only = facts.get("occasion")
    if only:
        return " ".join(filter(None, (only["why"], only["remedy"]))) or only["sentence"]
    return ", ".join(f"{each['name']}: {each['state']}" for each in facts["occasions"][:3])


@lru_cache(maxsize=1)
def _frame() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(
        resources.files("everwhen.alerts.texts").joinpath("templates/frame.html.jinja").read_text("utf-8")
    )
