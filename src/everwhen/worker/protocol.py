"""What goes over the wire between a worker and the server, as msgspec structs.

One struct per message, no behaviour: a transport encodes and decodes them, whatever carries them.
"""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

NOTHING = msgspec.Raw(b"null")
"""What stands for no payload: msgspec decodes Raw from any JSON, but not Raw or None."""

Outcome = Literal["succeeded", "failed", "cancelled", "released"]


NamedOutcome = Literal["granted", "gone", "elsewhere", "not_due", "paused", "limited", "unfit", "busy"]
"""What became of a run that a claim named. `busy`: another claim was looking at it just then; ask again."""


class ClaimRequest(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Ask for up to `limit` runs; wait up to `wait_seconds` for the first one.

    With `run_ids` only these are asked for, and nothing is waited for. They are of one tenant, which a worker of the
    platform names by `tenant_id`. `labels` and `free` say what the worker is, and what is free of its resources: runs
    that require more are not given.
    """

    worker: str
    queues: list[str]
    tasks: list[str] | None
    limit: int
    wait_seconds: float
    lease_seconds: float
    instance: UUID | None = None
    run_ids: list[UUID] | None = None
    tenant_id: UUID | None = None
    labels: dict[str, str] = {}
    free: dict[str, float] = {}


class StandsFor(msgspec.Struct, kw_only=True, frozen=True):
    """The missed instants that one run stands for, its own among them: all of them counted, the oldest listed."""

    count: int
    first: datetime
    last: datetime
    instants: list[datetime]


class ClaimedRun(msgspec.Struct, kw_only=True, frozen=True):
    """A run under a lease of this worker."""

    tenant_id: UUID
    run_id: UUID
    task: str
    queue: str
    attempt: int
    lease_token: str
    lease_until: datetime
    due_at: datetime
    claimed_at: datetime
    max_attempts: int = 1
    nominal_at: datetime | None = None
    deadline_at: datetime | None = None
    total_deadline_at: datetime | None = None
    schedule: str | None = None
    priority: int = 0
    input: Any = None
    stands_for: StandsFor | msgspec.UnsetType = msgspec.UNSET
    resources: dict[str, float] | msgspec.UnsetType = msgspec.UNSET


class NamedRun(msgspec.Struct, kw_only=True, frozen=True):
    """What became of a run that the claim named."""

    run_id: UUID
    outcome: NamedOutcome


class ClaimResponse(msgspec.Struct, kw_only=True, frozen=True):
    """The runs granted, the server's time at the grant, and what became of each run that was named.

    `held_back`: this worker is given nothing; its next beat says why.
    """

    runs: list[ClaimedRun]
    server_time: datetime
    held_back: bool = False
    named: list[NamedRun] | msgspec.UnsetType = msgspec.UNSET


class MailboxesRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Ask where the notices of these queues lie."""

    queues: list[str]


class Mailbox(msgspec.Struct, kw_only=True, frozen=True):
    """Where a broker keeps the notices of one tenant's queue: a consumer of a stream, or a queue of its own."""

    tenant_id: UUID
    queue: str
    broker: str
    name: str
    stream: str = ""


class MailboxesResponse(msgspec.Struct, kw_only=True, frozen=True):
    """The mailboxes of the queues that a broker delivers; the others are claimed from without one."""

    mailboxes: list[Mailbox]


class HeldLease(msgspec.Struct, kw_only=True, frozen=True):
    """One lease to renew; `details` is progress for people, not for the server.

    `started_at` is when the function was called, by the server's clock as the worker knows it; None before.
    `zombie`: an executor has found that the attempt does nothing.
    """

    tenant_id: UUID
    run_id: UUID
    lease_token: str
    details: msgspec.Raw = NOTHING
    started_at: datetime | None = None
    zombie: bool = False


class HeartbeatRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Renew all of these by `lease_seconds` from now."""

    worker: str
    lease_seconds: float
    leases: list[HeldLease]


class LeaseResult(msgspec.Struct, kw_only=True, frozen=True):
    """What became of one lease."""

    run_id: UUID
    status: Literal["held", "lost"]
    lease_until: datetime | None = None
    cancel_requested: bool = False


class HeartbeatResponse(msgspec.Struct, kw_only=True, frozen=True):
    """One result per lease, in the order of the request."""

    results: list[LeaseResult]


class RunError(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Why an attempt failed: the error's class, what it said, and the names of the classes that it inherits from.

    A retry policy's `non_retryable` is compared with `type` and with `bases`.
    """

    type: str
    message: str
    traceback: str | None = None
    bases: tuple[str, ...] = ()


class Report(msgspec.Struct, kw_only=True, frozen=True):
    """The outcome of one attempt. `reason`: a code of the registry, from an executor that knows why it failed."""

    tenant_id: UUID
    run_id: UUID
    lease_token: str
    outcome: Outcome
    result: msgspec.Raw = NOTHING
    error: RunError | None = None
    retryable: bool = True
    reason: str | None = None
    retry_after_seconds: float | None = None
    started_at: datetime | None = None


class CompleteRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Outcomes to record, any number of them in one transaction of the server."""

    worker: str
    reports: list[Report]


class ReportResult(msgspec.Struct, kw_only=True, frozen=True):
    """Whether a report counted, the run's state now, and the reason when it did not."""

    run_id: UUID
    accepted: bool
    state: str | None = None
    code: str | None = None
    detail: str | None = None


class CompleteResponse(msgspec.Struct, kw_only=True, frozen=True):
    """One result per report, in the order of the request."""

    results: list[ReportResult]


Wish = Literal["active", "draining", "cordoned"]


class Announcement(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker says of itself when it starts, and again when it is not known any more.

    `instance` is a random id of this running of the worker, which nobody else hears: by it the worker speaks of itself.
    `tasks` None: it takes any.
    """

    instance: UUID
    worker: str
    slots: int
    queues: list[str]
    tasks: list[str] | None = None
    sdk: str | None = None
    version: str | None = None
    host: str | None = None
    pid: int | None = None
    labels: dict[str, str] = {}
    resources: dict[str, float] = {}


class Beat(msgspec.Struct, kw_only=True, frozen=True):
    """That a worker lives: what it holds, which wish it goes by, and whether it is about to end."""

    instance: UUID
    held: int
    heard: Wish
    stopping: bool = False
    in_use: dict[str, float] = {}


class Leave(msgspec.Struct, kw_only=True, frozen=True):
    """That a worker has stopped."""

    instance: UUID


class Standing(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker is told in return. Not `known`: announce yourself again. `exits`: end once you are empty."""

    known: bool
    worker_id: UUID | None = None
    wish: Wish = "active"
    exits: bool = False
    beat_seconds: float = 10.0


class LogAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """How an attempt's log stands: the number of the next piece, its bytes, and whether more of it is kept."""

    pieces: int
    size_bytes: int
    is_capped: bool


class Problem(msgspec.Struct, kw_only=True, frozen=True):
    """An error of the server (RFC 9457), as far as the worker reads it."""

    title: str = ""
    detail: str | None = None
    code: str | None = None
    request_id: str | None = None
