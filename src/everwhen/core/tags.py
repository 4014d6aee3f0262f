"""Tags: words by which people group schedules, tasks and workflows. They decide nothing about when anything runs."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

MOST_TAGS: Final = 20
TAG_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,62}$"
_TAG: Final = re.compile(TAG_PATTERN, re.ASCII)


class TagError(ValueError):
    """A tag, or a number of them, that cannot be; `index` is its place, None for their number."""

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.index = index


class Tagged(StrEnum):
    """What can have tags."""

    SCHEDULE = "schedule"
    TASK = "task"
    WORKFLOW = "workflow"


def canonical_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return each tag once, in order; raise TagError."""
    given = list(tags)
    for index, tag in enumerate(given):
        if not _TAG.fullmatch(tag):
            detail = "a tag begins with a letter or digit, and goes on with those and . _ - : /; at most 63 characters"
            raise TagError(detail, index=index)
    found = tuple(sorted(set(given)))
    if len(found) > MOST_TAGS:
        raise TagError(f"{len(found)} tags; at most {MOST_TAGS}")
    return found


def retagged(before: Iterable[str], *, more: Iterable[str] = (), less: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the tags of a thing with some more, or without some; raise TagError where there would be too many."""
    return canonical_tags({*before, *more} - set(less))
