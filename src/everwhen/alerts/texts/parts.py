"""The parts of a message that a template writes, the kinds that a tenant can have templates for, and those it has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from everwhen.alerts.message import AlertKind
from everwhen.errors import InvalidInput


class Part(StrEnum):
    """What of a message a template writes."""

    SUBJECT = "subject"
    TEXT = "text"
    HTML = "html"
    SLACK = "slack"


ANY: Final = "any"
"""A tenant's template for every kind that has none of its own; not for digests."""

DIGEST: Final = "digest"
"""Many occasions at once."""

KINDS: Final = (*(kind.value for kind in AlertKind), ANY, DIGEST)


def parse_kind(kind: str) -> str:
    """Return the kind; raise InvalidInput for one that there is not."""
    if kind not in KINDS:
        raise InvalidInput.at(
            "/kind", f"There is no such kind of template; there are {', '.join(KINDS)}.", code="alert_template.kind"
        )
    return kind


def parse_part(part: str) -> Part:
    """Return the part; raise InvalidInput for one that there is not."""
    try:
        return Part(part)
    except ValueError:
        raise InvalidInput.at(
            "/part", f"There is no such part of a message; there are {', '.join(Part)}.", code="alert_template.part"
        ) from None


@dataclass(frozen=True, slots=True)
class Overrides:
    """A tenant's own templates, by kind and part."""

    sources: Mapping[tuple[str, Part], str] = field(default_factory=dict[tuple[str, Part], str])

    def find(self, kind: str, part: Part) -> tuple[str, str] | None:
        """Return the kind and source of the template that writes a part: its kind's own, else the one for any."""
        for candidate in (kind, ANY) if kind != DIGEST else (kind,):
            source = self.sources.get((candidate, part))
            if source is not None:
                return candidate, source
        return None
