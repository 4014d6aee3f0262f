"""What can be asked of the sentinel's notes: what is amiss, and how punctual a schedule is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen import metrics
from everwhen.alerts.backlog import show_backlog
from everwhen.audit.backlog import show_unsealed
from everwhen.core.filters import Moment, Vocabulary, Word, within
from everwhen.core.punctuality import DEFAULT_OBJECTIVE_SECONDS, Punctuality, summarise
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Database
from everwhen.revisions import ANY, Expected, stale
from everwhen.schedules import service as schedules
from everwhen.sentinel import store
from everwhen.sentinel.model import Finding, FindingKind

NEWEST: Final = (1 << 63) - 1
FINDINGS: Final = Vocabulary(
    fields={
        "kind": Word(choices=frozenset(FindingKind)),
        "subject": Word(),
        "tenant": Word(),
        "opened": Moment(),
    },
    short=within("opened"),
)
"""What a filter of findings says."""

PERIODS: Final = (7, 30)
"""The days that are summed up, today included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PunctualityView:
    """A schedule's objective, how far it is counted (None: not yet), and the sums of the last days, by their number."""

    objective_seconds: float
    measured_until: datetime | None
    revision: int
    periods: dict[int, Punctuality]


async def list_findings(
    db: Database, *, tenant_id: UUID | None, is_open: bool, before: int = NEWEST, limit: int, where: str = ""
) -> Listed[Finding]:
    """Return findings below `before` that the filter `where` finds, the newest first; of all tenants without one."""
    async with db.system() if tenant_id is None else db.tenant(tenant_id) as conn:

        async def read(before: int, limit: int) -> Sequence[Finding]:
            page: dict[str, Any] = {"is_open": is_open, "before": before, "limit": limit}
            if tenant_id is None:
                return await store.list_all_findings(conn, **page)
            return await store.list_findings(conn, **page, tenant_id=tenant_id)

        return await walk(
            read,
            start=before,
            key=lambda row: row.finding_id,
            limit=limit,
            asked=read_filter(where, FINDINGS, now=conn.now),
            values=lambda row: {
                "kind": row.kind,
                "subject": row.subject,
                "tenant": row.tenant,
                "opened": row.opened_at,
            },
        )


async def collect_metrics(db: Database, *, accept: str) -> tuple[bytes, str]:
    """Return this process's metrics with what the database says of lags and findings, and their media type."""
    async with db.system() as conn:
        lags = await store.look_at_lags(conn, now=conn.now)
        counts = {each.kind: each.findings for each in await store.count_open(conn)}
        await show_backlog(conn)
        await show_unsealed(conn)
        now = conn.now
    findings = {kind.value: counts.get(kind.value, 0) for kind in FindingKind}
    metrics.show(now=now, next_look_at=lags.next_look_at, oldest_due_at=lags.oldest_due_at, findings=findings)
    return metrics.render(accept)


async def set_objective(
    db: Database, *, tenant_id: UUID, name: str, objective_seconds: float, expected: Expected = ANY
) -> PunctualityView:
    """Say how late the starts of a schedule may be. What was counted stays as it was judged.

    Raises NotFound, and PreconditionFailed when it is not the revision that was expected.
    """
    uid = (await schedules.get_schedule(db, tenant_id=tenant_id, name=name)).uid
    async with db.tenant(tenant_id) as conn:
        key = {"tenant_id": tenant_id, "schedule_uid": uid}
        if not await store.set_objective(conn, **key, objective_seconds=objective_seconds, among=expected.among):
            current = await store.get_objective(conn, **key)
            raise stale(expected, 0 if current is None else current.revision)
    return await get_punctuality(db, tenant_id=tenant_id, name=name)


async def get_punctuality(db: Database, *, tenant_id: UUID, name: str) -> PunctualityView:
    """Return how punctual a schedule's runs started in each of PERIODS; raise NotFound."""
    uid = (await schedules.get_schedule(db, tenant_id=tenant_id, name=name)).uid
    async with db.tenant(tenant_id) as conn:
        objective = await store.get_objective(conn, tenant_id=tenant_id, schedule_uid=uid)
        today = conn.now.astimezone(UTC).date()
        first = today - timedelta(days=max(PERIODS))
        days = await store.read_punctuality(conn, tenant_id=tenant_id, schedule_uid=uid, after=first)
    periods = {n: summarise(day for day in days if day.day > today - timedelta(days=n)) for n in PERIODS}
    seconds = None if objective is None else objective.objective_seconds
    return PunctualityView(
        objective_seconds=DEFAULT_OBJECTIVE_SECONDS if seconds is None else seconds,
        measured_until=None if objective is None else objective.measured_until,
        revision=0 if objective is None else objective.revision,
        periods=periods,
    )
