"""Workers as they are known to the server: what each is, and what may be believed of it.

A worker announces itself, and then beats. What an operator wants of it is its *wish*; what it goes by is what it has
*heard*. Between the two it may still be given what it asked for before, so only a worker that has heard, and holds
nothing, is drained.

    active ──drain──> draining ──(heard, holds nothing)──> drained        uncordon: back to active
       └────cordon──> cordoned                                            stopping: it has been told to end, by a signal
    any of them ──(not seen for LOST)──> lost ──(seen again)──> as before ──(not seen for KEPT)──> forgotten
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

PLATFORM: Final = UUID(int=0)
"""Whose workers those are that serve all tenants."""

BEAT: Final = timedelta(seconds=10)
"""How often a worker beats."""

LOST: Final = timedelta(seconds=30)
"""A worker that was not seen for so long is lost: three beats."""

KEPT: Final = timedelta(days=1)
"""How long a lost worker is remembered."""

MOST_WORKERS: Final = 2_000
"""How many workers of one tenant, or of the platform, are known at once; lost ones make room for new ones."""

MOST_SLOTS: Final = 100_000
MOST_NAMES: Final = 64_000
"""How many characters the names of a worker's tasks and queues have together."""


class Wish(StrEnum):
    """What an operator wants of a worker."""

    ACTIVE = "active"
    DRAINING = "draining"
    CORDONED = "cordoned"


class WorkerState(StrEnum):
    """What a worker is, as people see it."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINING = "draining"
    DRAINED = "drained"
    STOPPING = "stopping"
    LOST = "lost"


def state_of(
    *, wish: Wish, heard: Wish, held: int, is_stopping: bool, last_seen_at: datetime, now: datetime
) -> WorkerState:
    """Return what a worker is at an instant."""
    if last_seen_at < now - LOST:
        return WorkerState.LOST
    if is_stopping:
        return WorkerState.STOPPING
    if wish is Wish.DRAINING:
        return WorkerState.DRAINED if heard is Wish.DRAINING and held == 0 else WorkerState.DRAINING
    return WorkerState(wish.value)


def label_texts(labels: Mapping[str, str]) -> list[str]:
    """Return labels as a filter compares them: `zone=a`."""
    return [f"{name}={value}" for name, value in sorted(labels.items())]
