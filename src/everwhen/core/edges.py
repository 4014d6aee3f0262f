"""Which decision may follow which in a run's history: the table of edges that `everwhen verify` holds it against.

    (nothing)  ─> planned | a verdict
    planned    ─> claimed | cancelled | expired | unplanned | what a gate decides
    held       ─> what a gate decides | cancelled | expired | unplanned
    admitted   ─> claimed | cancelled | expired
    unplanned  ─> planned | a verdict                         its instant is decided anew, and makes the same id
    claimed    ─> succeeded | dead | cancelled | retrying | released
    retrying, released ─> claimed | cancelled | expired | dead
    an end     ─> nothing

A gate decides: held | admitted | skipped | coalesced.

Quiet kinds say something about a run and move it nowhere, so they may stand between any two.
"""

from collections.abc import Mapping
from typing import Final

from everwhen.core.lifecycle import TERMINAL, EventKind

K = EventKind

QUIET: Final[frozenset[str]] = frozenset({K.REFUSED, K.CANCEL_REQUESTED, K.ADOPTED, K.LOG_ENDED, K.ZOMBIE, "rolled"})
"""Kinds that leave a run where it is."""

VERDICTS: Final[frozenset[str]] = frozenset({K.SKIPPED, K.MISSED, K.COALESCED})
"""Kinds that a run may be born with, as its end."""

ENDS: Final[frozenset[str]] = frozenset(state.value for state in TERMINAL)
"""Kinds after which nothing moves a run."""

BY_A_GATE: Final[frozenset[str]] = frozenset({K.HELD, K.ADMITTED, K.SKIPPED, K.COALESCED})
"""What the gate of a schedule decides about a run that it has not let in."""

FOLLOWING: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({K.PLANNED}) | VERDICTS,
    K.PLANNED: frozenset({K.CLAIMED, K.CANCELLED, K.EXPIRED, K.UNPLANNED}) | BY_A_GATE,
    K.HELD: frozenset({K.CANCELLED, K.EXPIRED, K.UNPLANNED}) | BY_A_GATE,
    K.ADMITTED: frozenset({K.CLAIMED, K.CANCELLED, K.EXPIRED}),
    K.UNPLANNED: frozenset({K.PLANNED}) | VERDICTS,
    K.CLAIMED: frozenset({K.SUCCEEDED, K.DEAD, K.CANCELLED, K.RETRYING, K.RELEASED}),
    K.RETRYING: frozenset({K.CLAIMED, K.CANCELLED, K.EXPIRED, K.DEAD}),
    K.RELEASED: frozenset({K.CLAIMED, K.CANCELLED, K.EXPIRED, K.DEAD}),
}
"""What may follow each kind that moves a run; "" stands for the beginning."""


def edges() -> list[tuple[str, str]]:
    """Return every (kind, next kind) that may occur, the beginning as ""."""
    return [(before, after) for before, afters in FOLLOWING.items() for after in sorted(afters)]
