"""Which due runs of limited tasks may begin, as pure arithmetic: in flight at once, and begun in a stretch of time.

A task may limit how many of its runs are in flight, and how many begin in a stretch of time; and both for each key that
it makes from their inputs. A claim locks some due runs, counts what is in flight of their tasks and keys, and asks
`decide`, which answers for each: take it, or park it behind the first limit that is full, or leave it where it is.

A bucket holds `burst` tokens, and one comes back every `seconds / tokens`. All that is kept of it is the instant at
which it will be full again, so nothing has to be counted up while nobody looks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Generic, TypeVar

from everwhen.core.capability import has_room, without
from everwhen.core.reasons import Reason

MOST_OFFERED: Final = 500
"""How many parked runs are let go at once where nothing limits them any more."""

MOST_PLACES: Final = 100_000
"""The largest limit: it is counted at each claim."""

MOST_POINTERS: Final = 8
"""Of how many parts of the input a key is made at most."""

_ROUNDING: Final = 1e-6

Task = TypeVar("Task")
Lane = TypeVar("Lane")


class Resource(StrEnum):
    """What a run is parked for: room or a token, of its task or of its key; or a worker that it fits."""

    FIT = "fit"
    TASK = "task"
    RATE = "rate"
    KEY = "key"
    KEY_RATE = "keyrate"


REASONS: Final[Mapping[Resource, Reason]] = {
    Resource.FIT: Reason.WORKER_NO_CAPABILITY_MATCH,
    Resource.TASK: Reason.LIMIT_TASK,
    Resource.RATE: Reason.LIMIT_RATE,
    Resource.KEY: Reason.LIMIT_KEY,
    Resource.KEY_RATE: Reason.LIMIT_RATE,
}


def waits_for(limit_group: str | None) -> Reason | None:
    """Return why a run is parked, from what its row says; None: it is not."""
    kind, _, resource = (limit_group or "").partition(" ")
    return REASONS[Resource(resource.partition(":")[0])] if kind == "parked" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most `tokens` in any `seconds` in the long run, and `burst` at once."""

    tokens: int
    seconds: float
    burst: int

    @property
    def interval(self) -> float:
        """In how many seconds one token comes back."""
        return self.seconds / self.tokens

    def left(self, full_at: datetime | None, now: datetime) -> int:
        """Return how many tokens there are; `full_at` None: the bucket is full."""
        missing = 0.0 if full_at is None else max(0.0, (full_at - now).total_seconds())
        return max(0, math.floor(self.burst - missing / self.interval + _ROUNDING))

    def taken(self, full_at: datetime | None, now: datetime, tokens: int) -> datetime:
        """Return when the bucket is full again, once so many tokens are taken."""
        since = now if full_at is None else max(full_at, now)
        return since + timedelta(seconds=tokens * self.interval)

    def next_at(self, full_at: datetime | None, now: datetime) -> datetime:
        """Return when there is a token."""
        if full_at is None:
            return now
        return max(now, full_at - timedelta(seconds=(self.burst - 1) * self.interval))


def rate_of(tokens: int | None, seconds: float | None, burst: int | None) -> Rate | None:
    """Return the rate of these numbers; without a burst as many at once as there are tokens."""
    if tokens is None or seconds is None:
        return None
    return Rate(tokens=tokens, seconds=seconds, burst=tokens if burst is None else burst)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimit:
    """What a task limits for each key that it makes of its runs' inputs, by JSON pointers into them."""

    pointers: tuple[str, ...]
    max_in_flight: int | None = None
    rate: Rate | None = None


@dataclass(slots=True)
class Room:
    """What is left of a task or of a key: places, and tokens; None: no limit. It shrinks while a claim is decided."""

    places: int | None = None
    tokens: int | None = None

    @property
    def least(self) -> int | None:
        """How many runs may begin by both."""
        both = [each for each in (self.places, self.tokens) if each is not None]
        return min(both) if both else None

    def take(self) -> None:
        """One run begins."""
        if self.places is not None:
            self.places -= 1
        if self.tokens is not None:
            self.tokens -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Generic[Task, Lane]):
    """A due run that the claim has locked. `key` None: its task makes none. `lane` is where it waits.

    `needs` are resources that it takes of the worker's.
    """

    task: Task
    lane: Lane
    key: str | None = None
    needs: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class Decided:
    """Which of the candidates, by their place in the list, are taken, and which are parked for what; the rest stay."""

    taken: list[int] = field(default_factory=list[int])
    parked: list[tuple[int, Resource]] = field(default_factory=list[tuple[int, Resource]])


def decide(
    candidates: Sequence[Candidate[Task, Lane]],
    *,
    limit: int,
    lanes: dict[Lane, int],
    tasks: Mapping[Task, Room],
    keys: Mapping[tuple[Task, str], Room],
    free: dict[str, float] | None = None,
) -> Decided:
    """Decide about candidates in the order in which they are due; `lanes` says how many each line still gives.

    A task that is not among `tasks` has no limit. The rooms shrink by what is taken, and so does `free`, what the
    worker has of its resources; a run that does not fit beside those before it stays where it is, and the next one is
    looked at.
    """
    decided = Decided()
    free = {} if free is None else free
    for index, each in enumerate(candidates):
        if len(decided.taken) >= limit or lanes[each.lane] <= 0:
            continue
        task = tasks.get(each.task)
        key = None if each.key is None else keys.get((each.task, each.key))
        full = _full(task, key)
        if full is not None:
            decided.parked.append((index, full))
            continue
        if not has_room(each.needs, free):
            continue
        free.update(without(free, each.needs))
        for room in (task, key):
            if room is not None:
                room.take()
        lanes[each.lane] -= 1
        decided.taken.append(index)
    return decided


def budget(room: Room, *, offered: int) -> int:
    """Return how many parked runs may be let go into their line, where so many that were let go still stand."""
    least = room.least
    return MOST_OFFERED - offered if least is None else max(0, min(MOST_OFFERED, least) - offered)


def _full(task: Room | None, key: Room | None) -> Resource | None:
    """The narrower limit first: whoever waits for his key stands in nobody's way."""
    if key is not None and key.places is not None and key.places <= 0:
        return Resource.KEY
    if key is not None and key.tokens is not None and key.tokens <= 0:
        return Resource.KEY_RATE
    if task is not None and task.places is not None and task.places <= 0:
        return Resource.TASK
    if task is not None and task.tokens is not None and task.tokens <= 0:
        return Resource.RATE
    return None
