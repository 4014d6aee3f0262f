"""The language of alert templates: a small part of Jinja's, whose every template ends soon and can reach nothing.

A sandbox that takes dangerous things away is a list of what somebody thought of. Here it is the other way round: a
template is parsed by Jinja, and its syntax tree is walked before it is compiled. What is not in the list below is
refused with its line: there are no calls, no macros, no assignments, no imports, no arithmetic and no way to make a
text longer than its parts, so that nothing can grow. Names and attributes are looked up in the shape of the facts
while the tree is walked, so that a misspelt name is found when a template is saved, not when an alert is sent.

Bounds, all known before a template runs:

1. the source has at most MOST_SOURCE bytes, its tree at most MOST_DEPTH levels;
2. a loop goes over a list of the facts, which holds at most MOST_ITEMS; nested loops multiply, and the sum of all
   steps is at most MOST_STEPS: time is bounded without a clock;
3. the output is counted while it is made, and ends at MOST_OUTPUT bytes.

Jinja's own sandbox is used all the same, without globals and with the filters of `filters.py` only: two walls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.environment import Template
from jinja2.sandbox import SandboxedEnvironment

from everwhen.alerts.texts.filters import FILTERS
from everwhen.alerts.texts.grammar import TemplateProblem, check
from everwhen.alerts.texts.shapes import Shape

MOST_SOURCE: Final = 16_384
MOST_OUTPUT: Final = 262_144


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one part of a message is written: which facts it has, and what happens to each value on its way out."""

    name: str
    shape: Mapping[str, Shape] = field(compare=False)
    autoescape: bool = False
    finalize: Callable[[Any], Any] | None = None


def run(source: str, facts: Mapping[str, Any], dialect: Dialect) -> str:
    """Check a template, and fill it in; raise TemplateProblem. A template that was used before is not parsed again."""
    made: list[str] = []
    size = 0
    try:
        for piece in compiled(source, dialect).generate(facts):
            size += len(piece.encode("utf-8", "replace"))
            if size > MOST_OUTPUT:
                raise TemplateProblem(f"what it makes has more than {MOST_OUTPUT:,} bytes", line=1)
            made.append(piece)
    except TemplateError as error:
        raise TemplateProblem(str(error), line=getattr(error, "lineno", None) or 1) from error
    return "".join(made)


@lru_cache(maxsize=512)
def compiled(source: str, dialect: Dialect) -> Template:
    """Check and compile a template; raise TemplateProblem."""
    size = len(source.encode("utf-8", "replace"))
    if size > MOST_SOURCE:
        raise TemplateProblem(f"the template has {size:,} bytes; at most {MOST_SOURCE:,} are allowed", line=1)
    environment = _environment(dialect.autoescape, dialect.finalize)
    try:
        tree = environment.parse(source)
        check(tree, dialect.shape)
        code = environment.compile(tree)
    except TemplateSyntaxError as error:
        raise TemplateProblem(error.message or "it cannot be read", line=error.lineno) from error
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:  # nested too deeply, a number too long
        raise TemplateProblem("it is nested too deeply, or has a number that is too long", line=1) from error
    return Template.from_code(environment, code, {})


@lru_cache(maxsize=8)
def _environment(autoescape: bool, finalize: Callable[[Any], Any] | None) -> SandboxedEnvironment:  # noqa: FBT001
    environment = SandboxedEnvironment(
        autoescape=autoescape,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=0,
    )
    environment.globals = {}
    environment.tests = {}
    environment.filters = {name: rule.function for name, rule in FILTERS.items()}
    return environment
