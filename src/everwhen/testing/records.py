"""What became of instants, as tests look at it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.testing.clock import instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run. `reason` is a code of docs/reference/reasons.md; `finished_at` is None while it goes on."""

    id: UUID
    ref: str | None
    schedule: str | None
    task: str
    source: str
    state: str
    reason: str | None
    attempts: int
    nominal_at: datetime | None
    due_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """Neighbouring instants with one verdict: `instants` of them, both ends included."""

    first_at: datetime
    last_at: datetime
    instants: int
    state: str
    reason: str


def record_of(run: dict[str, Any]) -> RunRecord:
    """Read a run as the API tells it."""
    return RunRecord(
        id=UUID(run["id"]),
        ref=run["ref"],
        schedule=run["schedule"],
        task=run["task"],
        source=run["source"],
        state=run["state"],
        reason=run["reason"],
        attempts=run["attempts"],
        nominal_at=None if run["nominal_at"] is None else instant(run["nominal_at"]),
        due_at=instant(run["due_at"]),
        finished_at=None if run["finished_at"] is None else instant(run["finished_at"]),
    )
