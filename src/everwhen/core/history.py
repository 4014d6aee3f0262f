"""A run's state from its history alone: `fold` reads the events, oldest first, and says what they come to.

A run's row lies in the line, under a lease, or at its end; its events are written in the same transactions. So the fold
of the events is the state, always, and where they differ one of them is wrong. `verify` looks for that, and an
explanation is told from the same fold.

What each kind of event does is one table, EDGES. An event that its table does not allow is a breach: it is named, and
then taken at its word, so that one breach is told once and not for every event after it.

    (nothing) ──planned──> planned ──claimed──> running ──> an end
                              │  ^                 │
                       unplanned  └── planned      └── retrying, released: rests again
    (nothing) ──skipped, missed, coalesced──> born at its end

`planned` and `retrying` become `waiting` by the passing of time, without an event; `is_at` compares them so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from everwhen.core.lifecycle import RESTING, TERMINAL, EventKind, RunState

LIVE: Final = RESTING | {RunState.RUNNING}
NOTHING: Final[frozenset[RunState | None]] = frozenset({None})
"""No run yet, or one that was withdrawn before it was due."""


class Happened(Protocol):
    """One event, as far as the fold reads it."""

    @property
    def kind(self) -> str: ...  # a field
    @property
    def at(self) -> datetime: ...
    @property
    def attempt(self) -> int | None: ...
    @property
    def reason(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Edge:
    """From which states a kind of event leads where. `to` None with `stays`: the state remains what it was."""

    since: frozenset[RunState | None]
    to: RunState | None = None
    stays: bool = False


_RUNNING: Final[frozenset[RunState | None]] = frozenset({RunState.RUNNING})
_RESTING: Final[frozenset[RunState | None]] = frozenset(RESTING)
_ANY: Final[frozenset[RunState | None]] = frozenset({None, *RunState})

EDGES: Final[dict[EventKind, Edge]] = {
    EventKind.PLANNED: Edge(NOTHING, RunState.PLANNED),
    EventKind.ROLLED: Edge(frozenset({RunState.PLANNED}), stays=True),
    EventKind.HELD: Edge(_RESTING, stays=True),
    EventKind.ADMITTED: Edge(_RESTING, stays=True),
    EventKind.ADOPTED: Edge(frozenset(LIVE), stays=True),
    EventKind.UNPLANNED: Edge(frozenset({RunState.PLANNED})),
    EventKind.CLAIMED: Edge(_RESTING, RunState.RUNNING),
    EventKind.RETRYING: Edge(_RUNNING, RunState.RETRYING),
    EventKind.RELEASED: Edge(_RUNNING, RunState.WAITING),
    EventKind.CANCEL_REQUESTED: Edge(_RUNNING, stays=True),
    EventKind.REFUSED: Edge(_ANY, stays=True),
    EventKind.LOG_ENDED: Edge(_RUNNING, stays=True),
    EventKind.ZOMBIE: Edge(_RUNNING, stays=True),
    EventKind.SUCCEEDED: Edge(_RUNNING, RunState.SUCCEEDED),
    EventKind.DEAD: Edge(frozenset(LIVE), RunState.DEAD),
    EventKind.CANCELLED: Edge(frozenset(LIVE), RunState.CANCELLED),
    EventKind.EXPIRED: Edge(_RESTING, RunState.EXPIRED),
    EventKind.SKIPPED: Edge(NOTHING | _RESTING, RunState.SKIPPED),
    EventKind.MISSED: Edge(NOTHING | _RESTING, RunState.MISSED),
    EventKind.COALESCED: Edge(NOTHING | _RESTING, RunState.COALESCED),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """An event that could not follow what came before it; `sentence` says so."""

    at: datetime
    kind: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a run's events come to.

    `state` None: nothing was recorded, or the run was withdrawn. `attempts` is the number of the last attempt,
    `failures` how many of them a retry followed. `since` is when the run got where it is: for one that ended, its end.
    """

    state: RunState | None = None
    since: datetime | None = None
    reason: str | None = None
    attempts: int = 0
    failures: int = 0
    is_cancel_requested: bool = False
    breaches: tuple[Breach, ...] = ()

    def is_at(self, state: RunState | None) -> bool:
        """Say whether a run whose rows say `state` is where its events left it; the three resting words are one."""
        return self.state == state or (self.state in RESTING and state in RESTING)


def fold(events: Iterable[Happened]) -> History:
    """Return what these events, the oldest first, come to."""
    history = History()
    for event in events:
        history = _after(history, event)
    return history


def _after(history: History, event: Happened) -> History:
    kind = _kind(event.kind)
    edge = None if kind is None else EDGES.get(kind)
    breaches = history.breaches + _breaches(history, event, edge)
    if edge is None or edge.stays:
        asked = history.is_cancel_requested or kind is EventKind.CANCEL_REQUESTED
        return replace(history, is_cancel_requested=asked, breaches=breaches)
    return replace(
        history,
        state=edge.to,
        since=event.at,
        reason=event.reason,
        attempts=event.attempt or history.attempts if kind is EventKind.CLAIMED else history.attempts,
        failures=history.failures + (kind is EventKind.RETRYING),
        breaches=breaches,
    )


def _kind(text: str) -> EventKind | None:
    try:
        return EventKind(text)
    except ValueError:
        return None


def _breaches(history: History, event: Happened, edge: Edge | None) -> tuple[Breach, ...]:
    sentence = _breach(history, event, edge)
    return () if sentence is None else (Breach(at=event.at, kind=event.kind, sentence=sentence),)


def _breach(history: History, event: Happened, edge: Edge | None) -> str | None:
    was = "nothing" if history.state is None else history.state.value
    if edge is None:
        return f"no event is called {event.kind}"
    if history.state not in edge.since:
        ended = " has ended and" if history.state in TERMINAL else ""
        return f"a run that is {was}{ended} cannot become {event.kind}"
    if event.kind == EventKind.CLAIMED and event.attempt != history.attempts + 1:
        return f"attempt {event.attempt} was claimed after attempt {history.attempts}"
    if not edge.stays and history.since is not None and event.at < history.since:
        return f"{event.kind} at {event.at.isoformat()} lies before {was} at {history.since.isoformat()}"
    return None
