"""What can be done with subscriptions: say who wants to hear of what, by which channels."""

from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen.alerts import store
from everwhen.alerts.model import SubscriptionDraft, SubscriptionRow
from everwhen.core.alert_kinds import SUBSCRIBABLE, words_of
from everwhen.core.alerting import FILTER, Scope
from everwhen.core.filters import Vocabulary, Word
from everwhen.core.quotas import Limit
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.limits import quotas
from everwhen.lists import Listed, read_filter, walk
from everwhen.postgres.pool import Connection, Database
from everwhen.revisions import ANY, Expected, stale

SUBSCRIPTIONS: Final = Vocabulary(
    fields={
        "scope": Word(choices=frozenset(Scope)),
        "target": Word(),
        "kind": Word(choices=frozenset(SUBSCRIBABLE)),
        "channel": Word(),
        "enabled": Word(choices=frozenset({"yes", "no"})),
    }
)
"""What a filter of subscriptions says."""


async def create_subscription(
    db: Database, *, tenant_id: UUID, name: str, draft: SubscriptionDraft, by: str
) -> SubscriptionRow:
    """Subscribe; raise InvalidInput for what cannot be, Conflict when the name is taken."""
    async with db.tenant(tenant_id) as conn:
        asked = checked(draft, now=conn.now)
        await _check_channels(conn, tenant_id, draft)
        written = await store.insert_subscription(
            conn,
            tenant_id=tenant_id,
            name=name,
            scope=draft.scope,
            target=draft.target,
            kinds=sorted(draft.kinds),
            filter=asked,
            after_failures=draft.after_failures,
            pierces=draft.pierces,
            is_enabled=draft.is_enabled,
            by=by,
            now=conn.now,
        )
        if not written:
            raise Conflict(f"There is a subscription {name!r} already.", code="subscription.exists")
        await quotas.refuse_over(conn, Limit.SUBSCRIPTIONS, store.count_subscriptions, tenant_id=tenant_id)
        await _listen(conn, tenant_id, name, draft)
        return await _read(conn, tenant_id=tenant_id, name=name)


async def count_subscriptions(conn: Connection, *, tenant_id: UUID) -> int:
    """Return how many there are, in the caller's transaction."""
    return await store.count_subscriptions(conn, tenant_id=tenant_id)


async def update_subscription(
    db: Database, *, tenant_id: UUID, name: str, draft: SubscriptionDraft, expected: Expected = ANY
) -> SubscriptionRow:
    """Put another subscription in the place of this one."""
    async with db.tenant(tenant_id) as conn:
        asked = checked(draft, now=conn.now)
        await _check_channels(conn, tenant_id, draft)
        written = await store.update_subscription(
            conn,
            tenant_id=tenant_id,
            name=name,
            scope=draft.scope,
            target=draft.target,
            kinds=sorted(draft.kinds),
            filter=asked,
            after_failures=draft.after_failures,
            pierces=draft.pierces,
            is_enabled=draft.is_enabled,
            among=expected.among,
            now=conn.now,
        )
        if not written:
            raise stale(expected, (await _read(conn, tenant_id=tenant_id, name=name)).revision)
        await _listen(conn, tenant_id, name, draft)
        return await _read(conn, tenant_id=tenant_id, name=name)


async def get_subscription(db: Database, *, tenant_id: UUID, name: str) -> SubscriptionRow:
    """Return a subscription; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        return await _read(conn, tenant_id=tenant_id, name=name)


async def list_subscriptions(
    db: Database, *, tenant_id: UUID, after: str | None, limit: int, where: str = ""
) -> Listed[SubscriptionRow]:
    """Return up to `limit` subscriptions after `after` that the filter `where` finds, by name."""
    async with db.tenant(tenant_id) as conn:
        return await walk(
            lambda after, limit: store.list_subscriptions(conn, tenant_id=tenant_id, after=after, limit=limit),
            start=after or "",
            key=lambda row: row.name,
            limit=limit,
            asked=read_filter(where, SUBSCRIPTIONS, now=conn.now),
            values=lambda row: {
                "scope": row.scope,
                "target": row.target,
                "kind": row.kinds,
                "channel": row.channels,
                "enabled": "yes" if row.is_enabled else "no",
            },
        )


async def delete_subscription(db: Database, *, tenant_id: UUID, name: str, expected: Expected = ANY) -> None:
    """Tell nobody any longer; what gathers already is sent."""
    async with db.tenant(tenant_id) as conn:
        if not await store.delete_subscription(conn, tenant_id=tenant_id, name=name, among=expected.among):
            raise stale(expected, (await _read(conn, tenant_id=tenant_id, name=name)).revision)


def checked(draft: SubscriptionDraft, *, now: datetime) -> str:
    """Return the filter in its one spelling; raise InvalidInput for what makes no sense together."""
    if (draft.target is None) != (draft.scope is Scope.TENANT):
        detail = "A scope other than the tenant needs a target, and the tenant has none."
        raise InvalidInput.at("/target", detail, code="subscription.target")
    if not draft.filter:
        return ""
    return read_filter(draft.filter, FILTER, now=now, pointer="/filter").canonical


async def _check_channels(conn: Connection, tenant_id: UUID, draft: SubscriptionDraft) -> None:
    found = await store.find_channels(conn, tenant_id=tenant_id, names=draft.channels)
    if missing := sorted(set(draft.channels) - set(found)):
        raise InvalidInput.at("/channels", f"There is no channel {missing[0]!r}.", code="channel.unknown")


async def _listen(conn: Connection, tenant_id: UUID, name: str, draft: SubscriptionDraft) -> None:
    words = words_of(draft.kinds) if draft.is_enabled else []
    await store.put_listening(conn, tenant_id=tenant_id, subscription=name, words=words, now=conn.now)
    await store.put_routes(conn, tenant_id=tenant_id, subscription=name, channels=draft.channels)


async def _read(conn: Connection, *, tenant_id: UUID, name: str) -> SubscriptionRow:
    row = await store.get_subscription(conn, tenant_id=tenant_id, name=name)
    if row is None:
        raise _no_subscription(name)
    return row


def _no_subscription(name: str) -> NotFound:
    return NotFound(f"There is no subscription {name!r}.", code="subscription.unknown")
