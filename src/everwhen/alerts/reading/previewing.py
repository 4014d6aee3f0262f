"""What a subscription would have told: the last day's history, matched as it is when it happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen.alerts.matching.matcher import read_about, rule_of
from everwhen.alerts.matching.model import RuleRow, Signal
from everwhen.alerts.matching.telling import happening_of, occasion_of
from everwhen.alerts.message import Occasion
from everwhen.alerts.model import SubscriptionDraft
from everwhen.alerts.reading import store
from everwhen.alerts.reading.model import Found
from everwhen.alerts.subscribing import checked
from everwhen.core.alert_kinds import AlertKind, words_of
from everwhen.core.alerting import match_one
from everwhen.core.punctuality import DEFAULT_OBJECTIVE_SECONDS
from everwhen.core.reasons import Reason
from everwhen.postgres.pool import Connection, Database

SPAN: Final = timedelta(days=1)
MOST_LOOKED_AT: Final = 1_000
MOST_SHOWN: Final = 100
MOST_WALKED: Final = 5_000
"""Of how many of the tenant's latest runs is looked at what the watch would have told."""

_WATCHED: Final = frozenset({AlertKind.RUN_LATE, AlertKind.RUN_OVERDUE, AlertKind.RUN_ZOMBIE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What would have been told, the latest first; `occasions` are the first of `matched`."""

    since: datetime
    looked_at: int
    matched: int
    is_complete: bool
    occasions: list[Occasion]


async def preview(db: Database, *, tenant_id: UUID, draft: SubscriptionDraft) -> Preview:
    """Match the history of the last day with a subscription that need not exist."""
    async with db.tenant(tenant_id) as conn:
        since = conn.now - SPAN
        row = RuleRow(
            tenant_id=tenant_id,
            name="preview",
            scope=draft.scope,
            target=draft.target,
            kinds=sorted(draft.kinds),
            filter=checked(draft, now=conn.now),
            after_failures=draft.after_failures,
            pierces=draft.pierces,
            channels=[],
        )
        found = await _found(conn, tenant_id, words_of(draft.kinds), since=since, now=conn.now)
        signals = [
            Signal(
                tenant_id=tenant_id,
                signal_id=0,
                kind=each.kind,
                at=each.at,
                run_id=each.run_id,
                attempt=each.attempt,
                subject=each.subject,
                detail=each.detail,
            )
            for each in found
        ]
        read = await read_about(conn, signals)
        rule = rule_of(row, now=conn.now)
    occasions: dict[UUID, Occasion] = {}
    for signal in signals:
        happening = happening_of(signal, read)
        matched = None if happening is None or rule is None else match_one(happening, rule)
        if happening is not None and matched is not None:
            occasions.setdefault(matched.occasion_id, occasion_of(happening, matched, signal, read, base=""))
    return Preview(
        since=since,
        looked_at=len(signals),
        matched=len(occasions),
        is_complete=len(signals) < MOST_LOOKED_AT,
        occasions=list(occasions.values())[:MOST_SHOWN],
    )


async def _found(
    conn: Connection, tenant_id: UUID, words: Sequence[str], *, since: datetime, now: datetime
) -> list[Found]:
    """Return what happened since then and what the watch would have told, the latest first."""
    found = await store.find_signals(conn, tenant_id=tenant_id, words=words, since=since, limit=MOST_LOOKED_AT)
    if watched := sorted(_WATCHED & set(words)):
        found += await store.find_watched(
            conn,
            tenant_id=tenant_id,
            words=watched,
            deadlines=[Reason.DEADLINE_TOTAL],
            objective=DEFAULT_OBJECTIVE_SECONDS,
            since=since,
            walk=MOST_WALKED,
            limit=MOST_LOOKED_AT,
            now=now,
        )
        found.sort(key=lambda each: each.at, reverse=True)
    return found
