"""Cuts, places, and events as streams tell them."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

MOST_PLACE: Final = 48
WHOLE_STRETCH: Final = (1 << 63) - 1
"""Comes after every event of a stretch."""

_PLACE: Final = re.compile(r"(?P<cut>[1-9][0-9]{0,17})(?:(?P<mark>[.~])(?P<event>0|[1-9][0-9]{0,17}))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a stream is: everything before this cut's stretch, and its events up to `event`, have been told.

    In a run's history from its beginning, the stretch is all that was committed at the cut.
    """

    cut: int
    event: int = WHOLE_STRETCH
    from_beginning: bool = False

    def __str__(self) -> str:
        """Write it as the `id` of a piece of a stream."""
        if self.event == WHOLE_STRETCH:
            return str(self.cut)
        return f"{self.cut}{'~' if self.from_beginning else '.'}{self.event}"


def read_place(text: str) -> Place | None:
    """Read what `str` has written; None when it is no place."""
    found = _PLACE.fullmatch(text) if len(text) <= MOST_PLACE else None
    if found is None:
        return None
    if found["mark"] is None:
        return Place(int(found["cut"]))
    return Place(int(found["cut"]), int(found["event"]), from_beginning=found["mark"] == "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCut:
    """The newest cut. `settled`: nothing has been written since; `knows`: the cut that was asked about is there."""

    cut: int
    age_seconds: float
    settled: bool
    knows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedEvent:
    """An event, the cut in whose stretch it lies, and as much of its run as one needs to recognise it.

    A run that was withdrawn before it was due has gone, and its event has stayed: then nothing is known of it.
    """

    cut: int
    event_id: int
    run_id: UUID
    at: datetime
    kind: str
    attempt: int | None
    reason: str | None
    detail: str | None
    task: str | None
    queue: str | None
    schedule: str | None
    due_at: datetime | None
