"""What an alert says, apart from how a channel writes it: the occasions, and the message that tells them.

An occasion is one thing that happened and that somebody subscribed to. A message is what one channel sends at once:
one occasion, or a digest of many that fell into one grouping window. The texts are made from the message, and only
from it, so that a preview needs no database and a template can reach nothing else.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.core.alert_kinds import AlertKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """One thing that happened. All instants are UTC; every text may hold whatever a tenant or a worker sent.

    `occasion_id` is a pure function of what happened (tenant, kind, run or subject, attempt), so that the same thing
    is never two occasions. `count` is above one for a span of instants with one verdict.
    """

    occasion_id: UUID
    kind: AlertKind
    at: datetime
    subject: str
    """The schedule's, task's, workflow's or queue's name: what people call it."""
    schedule: str | None = None
    task: str | None = None
    workflow: str | None = None
    queue: str | None = None
    tags: tuple[str, ...] = ()
    run_id: UUID | None = None
    attempt: int | None = None
    attempts: int | None = None
    nominal_at: datetime | None = None
    """The instant that the schedule intended."""
    due_at: datetime | None = None
    zone: str | None = None
    """The schedule's IANA zone, to tell `nominal_at` in."""
    reason: str | None = None
    """A code of the registry of reasons."""
    sentence: str = ""
    """What the reason means here, in one sentence for people."""
    remedy: str = ""
    """What to do."""
    error: str | None = None
    """The last error, as the worker told it, already capped."""
    fingerprint: str | None = None
    in_a_row: int | None = None
    """How many times running, where a threshold counts."""
    count: int = 1
    link: str = ""
    """The permalink of the run, workflow run, schedule or queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one channel sends at once. `shown` are the first occasions, oldest first; `total` counts them all."""

    delivery_id: UUID
    """The same over retries: receivers drop what they have seen."""
    tenant: str
    channel: str
    recipient: str
    """Whom of the channel it is for: an address of a channel of email; empty where a channel has one receiver."""
    subscriptions: tuple[str, ...]
    """Names of the subscriptions that asked for it."""
    shown: tuple[Occasion, ...]
    total: int
    counts: tuple[tuple[AlertKind, int], ...] = ()
    """How many of each kind, the most first; empty where `total` is one."""
    window_from: datetime | None = None
    window_to: datetime | None = None
    unsubscribe_link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A message as each channel writes it; made by `alerts.texts`, safe to send as it is.

    `subject` is one line. `blocks` is Slack's Block Kit, `payload` the JSON object of a webhook.
    """

    subject: str
    text: str
    html: str
    blocks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    payload: dict[str, Any] = field(default_factory=dict[str, Any])
