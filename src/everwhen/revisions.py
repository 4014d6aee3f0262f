"""Which revision of a thing a caller means to change.

Each thing that can be changed counts its revisions. A caller names the one that he has seen; the statement that writes
says so, too, so that of two changes of the same revision one changes a row and the other none. What cannot be: that a
change is made of something which nobody has looked at.
"""

from dataclasses import dataclass
from typing import Final

from everwhen.errors import PreconditionFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a change requires: one of these revisions (None: whatever is there), or, with `absent`, that nothing is."""

    revisions: frozenset[int] | None
    absent: bool = False

    @property
    def among(self) -> list[int] | None:
        """The revisions as a statement takes them."""
        return None if self.revisions is None else sorted(self.revisions)

    def admits(self, revision: int) -> bool:
        """Say whether this revision may be changed."""
        return not self.absent and (self.revisions is None or revision in self.revisions)


ANY: Final = Expected(revisions=None)
"""Whatever is there."""

NONE: Final = Expected(revisions=frozenset(), absent=True)
"""Nothing is there yet."""


def refuse_stale(expected: Expected, revision: int) -> None:
    """Raise PreconditionFailed when this is not what the caller means."""
    if not expected.admits(revision):
        raise stale(expected, revision)


def stale(expected: Expected, revision: int) -> PreconditionFailed:
    """Return the answer to whoever meant another revision than the current one."""
    detail = f"The current revision is {revision}: read it, and decide anew."
    if expected.absent:
        detail = f"It is there already, at revision {revision}."
    return PreconditionFailed(detail, told={"revision": revision})
