"""Says a stored reason as a sentence: what `meanings` holds, looked up by its code and filled in with facts."""

from collections.abc import Mapping
from string import Formatter
from typing import Any, Final

from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Reason

SENTENCES: Final[Mapping[str, str]] = {reason: meaning.sentence for reason, meaning in MEANINGS.items()}


def sentence_of(code: str | None, facts: Mapping[str, Any] | None = None) -> str | None:
    """Say a stored code as a sentence: the telling where `facts` has all that it needs, else the plain one.

    None for no code, and for one that a newer release has written and this one does not know.
    """
    meaning = None if code is None else MEANINGS.get(code)
    if meaning is None:
        return None
    if facts and meaning.telling and fields_of(meaning.telling) <= facts.keys():
        return meaning.telling.format_map(facts)
    return meaning.sentence


def fields_of(telling: str) -> frozenset[str]:
    """Return the names of the facts that a telling needs."""
    return frozenset(name for _, name, _, _ in Formatter().parse(telling) if name)


def anchor_of(reason: Reason) -> str:
    """Return where the registry's page explains the reason, from the root of the docs."""
    return f"docs/reference/reasons.md#{reason}"
