"""What is answered about a run that a claim has named: granted, or why not. Pure.

Whoever named it has heard of it some time ago, from a broker that may be late, wrong, or somebody else's. So no answer
is an error, and none tells of a run that is not at the queues which were asked.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Named(StrEnum):
    """What became of it."""

    GRANTED = "granted"
    GONE = "gone"  # it has ended, is not to be run yet, or is nothing that this claim may know of
    ELSEWHERE = "elsewhere"  # somebody holds it
    NOT_DUE = "not_due"
    PAUSED = "paused"  # its queue is, or its tenant
    LIMITED = "limited"  # it waits behind a limit
    UNFIT = "unfit"  # its task is none of those that were asked for
    BUSY = "busy"  # another claim had it in hand just then, or there were more urgent ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the claim asked for; `open_queues` are those with room, by pauses and limits."""

    queues: Collection[str]
    tasks: Collection[str] | None
    open_queues: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a line, as it is seen after the claim. `is_parked`: behind a limit of its task; `is_paused`: shut."""

    queue: str
    task: str
    available_at: datetime
    expires_at: datetime | None
    is_parked: bool
    is_paused: bool


def why_not(place: Place | None, asked: Asked, *, is_held: bool, now: datetime) -> Named:
    """Say why a run was not granted."""
    if is_held:
        return Named.ELSEWHERE
    if place is None or place.queue not in asked.queues:
        return Named.GONE
    reasons = {
        Named.GONE: place.expires_at is not None and place.expires_at <= now,
        Named.NOT_DUE: place.available_at > now,
        Named.PAUSED: place.is_paused,
        Named.UNFIT: asked.tasks is not None and place.task not in asked.tasks,
        Named.LIMITED: place.is_parked or place.queue not in asked.open_queues,
    }
    return next((named for named, holds in reasons.items() if holds), Named.BUSY)
