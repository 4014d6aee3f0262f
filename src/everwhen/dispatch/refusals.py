"""What is answered to reports: those that count, and those that are refused, and recorded as such."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from everwhen.core.lifecycle import Refused
from everwhen.core.reasons import Reason
from everwhen.core.sentences import SENTENCES
from everwhen.dispatch import reports, store
from everwhen.dispatch.reports import Closing
from everwhen.postgres.pool import Connection
from everwhen.worker.protocol import NOTHING, Report, ReportResult, RunError


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports: for which tenant (None: the platform), as which worker, and at which queues it may (None: all)."""

    tenant_id: UUID | None
    worker: str
    queues: Collection[str] | None


def without_payload(report: Report, why: str) -> Report:
    note = RunError(type="UnstorablePayload", message=f"the payload was set aside: {why}")
    return msgspec.structs.replace(report, result=NOTHING, error=note)


def was_closed(decision: Closing | Refused, tokens: Collection[int]) -> bool:
    return isinstance(decision, Closing) and decision.lease_token in tokens


def refusal_of(decision: Closing | Refused) -> Reason:
    return decision.reason if isinstance(decision, Refused) else Reason.LEASE_LOST


async def refuse(
    conn: Connection, reporter: Reporter, refused: Sequence[tuple[Report, Reason]], *, now: datetime
) -> dict[UUID, str]:
    if not refused:
        return {}
    tenant_ids, run_ids = reports.keys(report for report, _ in refused)
    details = [_refusal_detail(reporter.worker, report) for report, _ in refused]
    reasons = [reason.value for _, reason in refused]
    await store.record_refusals(
        conn,
        tenant_ids=tenant_ids,
        run_ids=run_ids,
        reasons=reasons,
        details=details,
        allowed=reporter.queues,
        now=now,
    )
    states = await store.find_states(conn, tenant_ids=tenant_ids, run_ids=run_ids, allowed=reporter.queues)
    return {found.run_id: found.state for found in states}


def _refusal_detail(worker: str, report: Report) -> str:
    # A token that is none may be any text, of any length, and must not get into the history.
    token = report.lease_token if reports.parse_token(report.lease_token) >= 0 else None
    return msgspec.json.encode({"worker": worker, "outcome": report.outcome, "lease_token": token}).decode()


def answer_to(
    report: Report, decision: Closing | Refused, refusal: Reason | None, states: dict[UUID, str]
) -> ReportResult:
    if refusal is None and isinstance(decision, Closing):
        return ReportResult(run_id=report.run_id, accepted=True, state=decision.transition.to.value)
    reason = refusal or Reason.LEASE_LOST
    return ReportResult(
        run_id=report.run_id,
        accepted=False,
        state=states.get(report.run_id),
        code=reason.value,
        detail=SENTENCES[reason],
    )
