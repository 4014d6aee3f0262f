"""Writes what is posted to an endpoint: the run as JSON, what signs it, and what names it to those who read no bodies.

    {"type": "run.attempt", "timestamp": …, "data": {"run_id": …, "task": …, "input": …, "lease_token": …, …}}

`webhook-id` names the attempt: it is another one when the run is tried again, and the same if a proxy repeats the
request. `idempotency-key` names the run: it stays the same over all its attempts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from everwhen.dispatch.model import Lease
from everwhen.egress.standard_webhooks import signed

RUN: Final = "run.attempt"
TEST: Final = "endpoint.test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """What signs, the newest key first, and the tenant's own headers."""

    keys: tuple[bytes, ...] = field(repr=False)
    headers: Mapping[str, str]
    authorization: str | None = field(default=None, repr=False)

    def request(self, body: bytes, *, message_id: str, now: datetime) -> dict[str, str]:
        """Return the headers of a request with this body."""
        headers = dict(self.headers) | signed(body, keys=self.keys, message_id=message_id, now=now)
        return headers if self.authorization is None else headers | {"authorization": self.authorization}


def run_body(lease: Lease, *, tenant: str, token: str, now: datetime) -> bytes:
    """Write a run for the endpoint that is to execute it."""
    data: dict[str, Any] = {
        "tenant": tenant,
        "tenant_id": str(lease.tenant_id),
        "run_id": str(lease.run_id),
        "task": lease.task,
        "queue": lease.queue,
        "priority": lease.priority,
        "attempt": lease.attempt,
        "max_attempts": lease.max_attempts,
        "schedule": lease.schedule,
        "nominal_at": _instant(lease.nominal_at),
        "due_at": _instant(lease.due_at),
        "deadline_at": _instant(lease.deadline_at),
        "lease_token": token,
        "lease_until": _instant(lease.lease_until),
        "input": json.loads(lease.input),
    }
    if lease.stands_for is not None:
        data["stands_for"] = json.loads(lease.stands_for)
    return _written(RUN, data, now=now)


def run_headers(lease: Lease) -> dict[str, str]:
    """Return the headers that name a run and its attempt."""
    return {
        "idempotency-key": str(lease.run_id),
        "everwhen-run-id": str(lease.run_id),
        "everwhen-attempt": str(lease.attempt),
    }


def message_id(lease: Lease) -> str:
    """Return the id of the message: it names the attempt."""
    return f"{lease.run_id}-{lease.attempt}"


def test_body(*, tenant: str, queue: str, now: datetime) -> bytes:
    """Write a test: it carries no run."""
    return _written(TEST, {"tenant": tenant, "queue": queue}, now=now)


def _written(kind: str, data: Mapping[str, Any], *, now: datetime) -> bytes:
    message = {"type": kind, "timestamp": _instant(now), "data": data}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
