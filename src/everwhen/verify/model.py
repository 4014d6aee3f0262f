"""What is asked of a check, and what it finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that breaks a promise."""

    tenant_id: UUID
    subject: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A promise that was checked: how much breaks it (counted up to a bound), and the first of it."""

    name: str
    invariants: tuple[str, ...]
    sentence: str
    count: int
    first: Sequence[Violation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How far a check goes.

    `sample` schedules, drawn by `seed`, are expanded anew over their last `days`; None: all of them. `as_of` stands for
    now where the data are a copy of earlier. `quiescent` says that nothing is due or under way any more, and has that
    checked, too.
    """

    sample: int | None = 100
    seed: str = ""
    days: float = 7.0
    as_of: datetime | None = None
    quiescent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSchedule:
    """A schedule that was drawn."""

    tenant_id: UUID
    uid: UUID
    name: str
    state: str
    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one schedule was, and what became of its instants, as one snapshot shows it.

    `since` is when it began, or when a calendar of it last changed; `is_settled` is false while such a change is being
    followed. The lists of runs, of spans and of revisions are columns, and so are those of stretches apart: what is
    still being caught up on, and what a revision intends from before it was made. `run_finals` is from when on a run's
    instant had its answer for good: when it was due, or cancelled before.
    """

    since: datetime
    decided_until: datetime
    tz_version: str | None
    is_settled: bool
    run_nominals: list[datetime]
    run_finals: list[datetime]
    run_releases: list[str | None]
    span_firsts: list[datetime]
    span_lasts: list[datetime]
    span_counts: list[int]
    revision_ats: list[datetime]
    revision_specs: list[str]
    apart_afters: list[datetime]
    apart_untils: list[datetime]


LIVENESS: Final = timedelta(minutes=5)
"""How long after its time a reaper may be before verify calls it absent."""
