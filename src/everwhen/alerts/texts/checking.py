"""Says whether a template of a tenant can be used, before it is stored; and shows what it makes."""

from everwhen.alerts.message import Rendered
from everwhen.alerts.texts.dialects import built_in
from everwhen.alerts.texts.facts import facts_of
from everwhen.alerts.texts.grammar import TemplateProblem
from everwhen.alerts.texts.parts import DIGEST, Overrides, Part, parse_kind
from everwhen.alerts.texts.rendering import render, written
from everwhen.alerts.texts.samples import sample, samples_of
from everwhen.alerts.texts.styles import with_styles
from everwhen.errors import InvalidInput


def check_override(kind: str, part: Part, source: str, *, pointer: str = "/source") -> None:
    """Raise InvalidInput, with the line of what is wrong, for a template that could not be used.

    It is tried with messages in which much is known, and little: what it makes of them has to be fit to send.
    """
    parse_kind(kind)
    try:
        _refuse_unseen(source)
        for message in samples_of(kind):
            facts = facts_of(message)
            written(part, source, with_styles(facts) if part is Part.HTML else facts, digest=kind == DIGEST)
    except TemplateProblem as problem:
        raise InvalidInput.at(
            pointer, f"The template cannot be used: {problem}.", code="alert_template.invalid"
        ) from problem


def preview(kind: str, overrides: Overrides) -> Rendered:
    """Write the sample of a kind with these templates."""
    return render(sample(kind), overrides=overrides)


def source_of(kind: str, part: Part) -> str:
    """Return the built-in template of a kind and part: where to begin from with one's own."""
    return built_in(part, digest=parse_kind(kind) == DIGEST)


def _refuse_unseen(source: str) -> None:
    for number, line in enumerate(source.split("\n"), start=1):
        for character in line.removesuffix("\r"):
            if character != "\t" and (character < " " or "\ud800" <= character <= "\udfff"):
                raise TemplateProblem(f"it has a character that cannot be stored: {character!a}", line=number)
