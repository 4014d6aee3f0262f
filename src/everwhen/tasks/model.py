"""A task: what is to be done, by the name that a fleet of workers knows, with its queue and policies."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from everwhen.core.capability import Requirements, requirements_from_json, requirements_to_json
from everwhen.core.claim_limits import KeyLimit, Rate
from everwhen.core.filters import Moment, Vocabulary, Word, within
from everwhen.core.retry import Jitter, RetryPolicy

TASKS: Final = Vocabulary(fields={"tag": Word(), "queue": Word(), "updated": Moment()}, short=within("updated"))
"""What a filter of tasks says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it is now. A change holds for runs that are planned, and attempts that fail, from then on."""

    name: str
    queue: str
    priority: int
    retry: RetryPolicy
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    total_deadline_seconds: float | None
    heartbeat_timeout_seconds: float | None
    max_in_flight: int | None
    rate: Rate | None
    concurrency: KeyLimit | None
    requires: Requirements | None
    tags: tuple[str, ...]
    owner: str | None
    revision: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDraft:
    """What a caller decides about a task. Priority 9 goes first, 0 last."""

    name: str
    queue: str = "default"
    priority: int = 5
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_seconds: float | None = None
    start_deadline_seconds: float | None = None
    total_deadline_seconds: float | None = None
    heartbeat_timeout_seconds: float | None = None
    max_in_flight: int | None = None
    rate: Rate | None = None
    concurrency: KeyLimit | None = None
    requires: Requirements | None = None
    tags: tuple[str, ...] = ()
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task as it is stored."""

    name: str
    queue: str
    priority: int
    retry: str
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    total_deadline_seconds: float | None
    heartbeat_timeout_seconds: float | None
    max_in_flight: int | None
    rate: str | None
    concurrency: str | None
    requires: str | None
    tags: list[str]
    owner: str | None
    revision: int
    created_at: datetime
    updated_at: datetime


def retry_to_json(policy: RetryPolicy) -> dict[str, Any]:
    """Return the policy as it stands in the database and on the wire."""
    return {
        "max_attempts": policy.max_attempts,
        "base_seconds": policy.base.total_seconds(),
        "factor": policy.factor,
        "cap_seconds": policy.cap.total_seconds(),
        "jitter": policy.jitter.value,
        "max_age_seconds": None if policy.max_age is None else policy.max_age.total_seconds(),
        "non_retryable": list(policy.non_retryable),
    }


def retry_from_json(data: dict[str, Any]) -> RetryPolicy:
    """Read what `retry_to_json` made, now or before there was a maximum age.

    Raises ValueError when the numbers do not fit together.
    """
    max_age = data.get("max_age_seconds")
    return RetryPolicy(
        max_attempts=data["max_attempts"],
        base=timedelta(seconds=data["base_seconds"]),
        factor=data["factor"],
        cap=timedelta(seconds=data["cap_seconds"]),
        jitter=Jitter(data["jitter"]),
        max_age=None if max_age is None else timedelta(seconds=max_age),
        non_retryable=tuple(data.get("non_retryable", ())),
    )


def rate_to_json(rate: Rate) -> dict[str, Any]:
    """Return a rate as it stands in the database and on the wire."""
    return {"tokens": rate.tokens, "seconds": rate.seconds, "burst": rate.burst}


def rate_from_json(data: dict[str, Any]) -> Rate:
    """Read what `rate_to_json` made, or what a change said: no burst is one of as many as there are tokens."""
    return Rate(tokens=data["tokens"], seconds=data["seconds"], burst=data.get("burst") or data["tokens"])


def concurrency_to_json(limit: KeyLimit) -> dict[str, Any]:
    """Return the limits of a task's keys as they stand in the database and on the wire."""
    rate = None if limit.rate is None else rate_to_json(limit.rate)
    return {"key": list(limit.pointers), "max_in_flight": limit.max_in_flight, "rate": rate}


def concurrency_from_json(data: dict[str, Any]) -> KeyLimit:
    """Read what `concurrency_to_json` made."""
    rate = data.get("rate")
    return KeyLimit(
        pointers=tuple(data["key"]),
        max_in_flight=data.get("max_in_flight"),
        rate=None if rate is None else rate_from_json(rate),
    )


def limits_to_json(task: "Task | TaskDraft") -> dict[str, Any]:
    """Return a task's limits at the claim as they stand in the database and on the wire."""
    return {
        "max_in_flight": task.max_in_flight,
        "rate": None if task.rate is None else rate_to_json(task.rate),
        "concurrency": None if task.concurrency is None else concurrency_to_json(task.concurrency),
        "requires": None if task.requires is None else requirements_to_json(task.requires),
    }


def task_from_row(row: TaskRow) -> Task:
    """Read a stored task."""
    return Task(
        name=row.name,
        queue=row.queue,
        priority=row.priority,
        retry=retry_from_json(json.loads(row.retry)),
        timeout_seconds=row.timeout_seconds,
        start_deadline_seconds=row.start_deadline_seconds,
        total_deadline_seconds=row.total_deadline_seconds,
        heartbeat_timeout_seconds=row.heartbeat_timeout_seconds,
        max_in_flight=row.max_in_flight,
        rate=None if row.rate is None else rate_from_json(json.loads(row.rate)),
        concurrency=None if row.concurrency is None else concurrency_from_json(json.loads(row.concurrency)),
        requires=None if row.requires is None else requirements_from_json(json.loads(row.requires)),
        tags=tuple(row.tags),
        owner=row.owner,
        revision=row.revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
