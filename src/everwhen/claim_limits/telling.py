"""What a parked run waits for, in numbers: for whoever asks why it has not begun."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from everwhen.claim_limits import store
from everwhen.claim_limits.model import LineLimits, ParkedRun
from everwhen.core.claim_limits import Rate, waits_for
from everwhen.core.reasons import Reason
from everwhen.postgres.pool import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Why a run is parked, since when, and the numbers of its limit; of one that fits nobody, what it requires."""

    reason: Reason
    since: datetime | None
    facts: dict[str, Any]
    requires: str | None = None


async def count_in_flight(conn: Connection, tenant_id: UUID) -> int:
    """Return how many runs of a tenant are in flight, in the caller's transaction."""
    return await store.count_tenant(conn, tenant_id=tenant_id)


async def why_parked(conn: Connection, *, tenant_id: UUID, run_id: UUID) -> Waited | None:
    """Return what a run is parked for, in the caller's transaction; None: no limit keeps it."""
    found = await store.find_parked(conn, tenant_id=tenant_id, run_id=run_id)
    reason = None if found is None else waits_for(found.limit_group)
    if found is None or reason is None:
        return None
    if reason is Reason.WORKER_NO_CAPABILITY_MATCH:
        return Waited(reason=reason, since=found.parked_at, facts={"task": found.task}, requires=found.requires)
    return Waited(reason=reason, since=found.parked_at, facts=_facts(found, reason))


def _facts(run: ParkedRun, reason: Reason) -> dict[str, Any]:
    is_keyed = "key" in run.limit_group
    said: dict[str, Any]
    if reason is Reason.LIMIT_RATE:
        tokens, seconds = (
            (run.key_rate_tokens, run.key_rate_seconds) if is_keyed else (run.rate_tokens, run.rate_seconds)
        )
        said = {"tokens": tokens, "seconds": seconds, "next_at": run.release_at and run.release_at.isoformat()}
    elif is_keyed:
        said = {"in_flight": run.key_in_flight, "limit": run.key_max_in_flight}
    else:
        said = {"in_flight": run.in_flight, "limit": run.max_in_flight}
    return {"task": run.task} | {name: value for name, value in said.items() if value is not None}


async def limits_of_lines(conn: Connection, tenant_id: UUID, queues: Sequence[str]) -> dict[str, LineLimits]:
    """Return what limits these lines of a tenant, by queue, in the caller's transaction."""
    found = await store.read_line_limits(conn, tenant_id=tenant_id, queues=queues)
    return {line.queue: line for line in found}


def facts_of_line(line: LineLimits, *, now: datetime) -> dict[Reason, dict[str, Any]]:
    """Return which limits of a line are used up, each with its numbers."""
    found: dict[Reason, dict[str, Any]] = {}
    if (
        line.tenant_limit is not None
        and line.tenant_in_flight is not None
        and line.tenant_in_flight >= line.tenant_limit
    ):
        found[Reason.LIMIT_TENANT] = {"in_flight": line.tenant_in_flight, "limit": line.tenant_limit}
    if line.max_in_flight is not None and line.in_flight >= line.max_in_flight:
        found[Reason.LIMIT_QUEUE] = {"in_flight": line.in_flight, "limit": line.max_in_flight}
    if (rate := line.rate) is not None and rate.left(line.full_at, now) == 0:
        found[Reason.LIMIT_RATE] = rate_facts(rate, line.full_at, now=now)
    return found


def rate_facts(rate: Rate, full_at: datetime | None, *, now: datetime) -> dict[str, Any]:
    """Return what is told of a rate: how many tokens there are, of how many, and when the next one is there."""
    return {
        "tokens": rate.tokens,
        "seconds": rate.seconds,
        "burst": rate.burst,
        "left": rate.left(full_at, now),
        "next_at": rate.next_at(full_at, now).astimezone(UTC).isoformat(),
    }


async def full_lines(
    conn: Connection, lines: Sequence[tuple[UUID, str]], *, now: datetime
) -> dict[tuple[UUID, str], Reason]:
    """Return which of these lines a limit shuts, in the caller's transaction: its own, its tenant's, or its rate."""
    if not lines:
        return {}
    found = await store.find_full_lines(
        conn, tenant_ids=[tenant_id for tenant_id, _ in lines], queues=[queue for _, queue in lines], now=now
    )
    return {(each.tenant_id, each.queue): Reason(each.reason) for each in found}
