"""How each part is written, alone and in a digest: its facts, its escapes, its built-in text."""

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from everwhen.alerts.texts.facts import facts_of
from everwhen.alerts.texts.language import Dialect
from everwhen.alerts.texts.parts import ANY, DIGEST, Part
from everwhen.alerts.texts.samples import sample
from everwhen.alerts.texts.shapes import Shape, shape_of
from everwhen.alerts.texts.slack import escape
from everwhen.alerts.texts.styles import with_styles


@lru_cache(maxsize=8)
def dialect_of(part: Part, *, digest: bool) -> Dialect:
    """Return how a part is written."""
    facts = facts_of(sample(DIGEST if digest else ANY))
    shape: Shape = shape_of(with_styles(facts) if part is Part.HTML else facts)
    assert isinstance(shape, Mapping)
    return Dialect(
        name=f"{_form(digest=digest)}.{part}",
        shape=shape,
        autoescape=part is Part.HTML,
        finalize=escape if part is Part.SLACK else None,
    )


@lru_cache(maxsize=8)
def built_in(part: Part, *, digest: bool) -> str:
    """Return the source of the built-in template."""
    file = f"templates/{_form(digest=digest)}.{part}.jinja"
    return resources.files("everwhen.alerts.texts").joinpath(file).read_text("utf-8")


def _form(*, digest: bool) -> str:
    return "digest" if digest else "single"
