"""Limits of a tenant, and what is counted against them."""

from dataclasses import dataclass
from datetime import date, datetime

from everwhen.core.quotas import KINDS, Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsRow:
    """A tenant's own limits as they are stored; without a row (no revision) it has none. None: what is usual."""

    revision: int | None
    attempts: int | None
    calendars: int | None
    channels: int | None
    in_flight: int | None
    log_bytes: int | None
    members: int | None
    minimum_interval_seconds: int | None
    payload_bytes: int | None
    queues: int | None
    requests_per_minute: int | None
    runs_per_day: int | None
    schedules: int | None
    subscriptions: int | None
    tasks: int | None
    tokens: int | None
    workflows: int | None
    changed_by: str | None
    changed_at: datetime | None

    def own(self, limit: Limit) -> int | None:
        """Return what was set for the tenant."""
        return getattr(self, limit.value)

    def of(self, limit: Limit, *, usual: int | None = None) -> int:
        """Return what holds; `usual` is for a limit whose usual value is a setting."""
        found = self.own(limit)
        if found is not None:
            return found
        otherwise = KINDS[limit].usual if usual is None else usual
        assert otherwise is not None
        return otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """For how many runs of a day there is room; `n` numbers what was asked, from 1."""

    n: int
    granted: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRow:
    """What was counted on a day (UTC): runs that became due, planned ones that were over the limit, requests."""

    day: date
    runs: int
    skipped: int
    requests: int
    refused: int
    worker_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRow:
    """What a draw came to: how many, in how many seconds the bucket is full, and by which allowance."""

    key: bytes
    granted: int
    full_in: float
    quota: int
    seconds: float
