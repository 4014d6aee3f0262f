"""What a parked run waits for, in numbers: for whoever asks why it has not begun."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.claim_limits import store
from everwhen.claim_limits.model import ParkedRun
from everwhen.core.claim_limits import waits_for
from everwhen.core.reasons import Reason
from everwhen.postgres.pool import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Why a run is parked, since when, and the numbers of its limit."""

    reason: Reason
    since: datetime | None
    facts: dict[str, Any]


async def why_parked(conn: Connection, *, tenant_id: UUID, run_id: UUID) -> Waited | None:
    """Return what a run is parked for, in the caller's transaction; None: no limit keeps it."""
    found = await store.find_parked(conn, tenant_id=tenant_id, run_id=run_id)
    reason = None if found is None else waits_for(found.limit_group)
    if found is None or reason is None:
        return None
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
