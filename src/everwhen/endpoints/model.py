"""An endpoint of a queue, its secrets' names, and how it does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

USUAL_ANSWER_SECONDS: Final = 30.0
USUAL_ACCEPT_SECONDS: Final = 3_600.0
SECRETS: Final = ("secret", "secret_previous", "authorization")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDraft:
    """What an endpoint is to be. Secrets that are not named stay as they are; an empty one is removed.

    `answer_seconds` is how long an answer may take, `accept_seconds` how long a run may take that was accepted (202)
    and is not heard of.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    answer_seconds: float = USUAL_ANSWER_SECONDS
    accept_seconds: float = USUAL_ACCEPT_SECONDS
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    """An endpoint with its state. `headers` is JSON text; `failures` are in a row."""

    queue: str
    url: str
    headers: str
    answer_seconds: float
    accept_seconds: float
    revision: int
    changed_by: str
    created_at: datetime
    updated_at: datetime
    failures: int
    rests_until: datetime | None
    failing_since: datetime | None
    last_failure_at: datetime | None
    last_error: str | None
    test_wanted_at: datetime | None
    tested_at: datetime | None
    test_answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRow:
    """A secret of an endpoint, sealed."""

    tenant_id: UUID
    queue: str
    name: str
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedEndpoint:
    """What is there, locked, before it is changed."""

    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSeen:
    """An endpoint as the caller looks at it. `next_at` is when its queue's earliest run becomes due, None: it is empty.

    `has_test` says that somebody wants a test to be sent.
    """

    tenant_id: UUID
    tenant: str
    queue: str
    url: str
    headers: str
    answer_seconds: float
    accept_seconds: float
    failures: int
    rests_until: datetime | None
    has_test: bool
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRow:
    """How an endpoint does, locked."""

    failures: int
    rests_until: datetime | None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint and the names of its secrets."""

    row: EndpointRow
    secret_names: tuple[str, ...]
