"""Dead letters: dead runs, and what people have done about them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.core.overlap import OverlapWish


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Dead runs whose last errors are alike. `fingerprint` '' stands for those without one.

    Counted are the letters in one state among the latest MOST_COUNTED runs; `looked_at` says how many those were.
    `tasks` are those of its latest runs; `error` is the last error of the latest one, as JSON text.
    """

    fingerprint: str
    letters: int
    looked_at: int
    first_at: datetime
    last_at: datetime
    latest_run_id: UUID
    tasks: list[str]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group as it is counted; without a letter in the state that was asked for it has no first and no latest one."""

    fingerprint: str
    letters: int
    looked_at: int
    first_at: datetime | None
    last_at: datetime | None
    latest_run_id: UUID | None
    tasks: list[str]
    error: str | None

    @property
    def group(self) -> Group | None:
        """The group, if it has such letters."""
        if self.first_at is None or self.last_at is None or self.latest_run_id is None:
            return None
        return Group(
            fingerprint=self.fingerprint,
            letters=self.letters,
            looked_at=self.looked_at,
            first_at=self.first_at,
            last_at=self.last_at,
            latest_run_id=self.latest_run_id,
            tasks=self.tasks,
            error=self.error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What was done about one dead run, last."""

    run_id: UUID
    state: str
    redrives: int
    redriven_as: UUID | None
    changed_by: str
    reason: str | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOfRun:
    """A run that is a node of a workflow's run."""

    run_id: UUID
    workflow_run_id: UUID
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRequest:
    """How to redrive one run. `input` counts only when `has_input`; `again`: although it was redriven before."""

    by: str
    reason: str | None = None
    again: bool = False
    input: Any = field(default_factory=dict[str, Any])
    has_input: bool = False
    priority: int | None = None
    overlap: OverlapWish = OverlapWish.WAIT
