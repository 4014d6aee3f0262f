"""What was sent: looked up, and sent again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from everwhen import clock
from everwhen.alerts.delivering.model import DeliveryState
from everwhen.alerts.reading import store
from everwhen.alerts.reading.model import DeliveryRow, TryRow
from everwhen.alerts.service import NOTIFIER_TOPIC
from everwhen.core.filters import BEFORE, FROM, Moment, Vocabulary, Word, within
from everwhen.core.ids import first_id_at
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.lists import FIRST_ID, LAST_ID, Listed, read_filter, walk
from everwhen.postgres.pool import Database
from everwhen.postgres.wakeups import notify

DELIVERIES: Final = Vocabulary(
    fields={
        "state": Word(choices=frozenset(DeliveryState)),
        "channel": Word(),
        "recipient": Word(),
        "created": Moment(),
    },
    short=within("created"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A delivery with its tries."""

    row: DeliveryRow
    tries: list[TryRow]


async def list_deliveries(db: Database, *, tenant_id: UUID, text: str, before: UUID, limit: int) -> Listed[DeliveryRow]:
    """Return up to `limit` deliveries below `before` that a filter finds, the newest first; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        asked = read_filter(text, DELIVERIES, now=conn.now)
        since, until = asked.instant("created", FROM), asked.instant("created", BEFORE)
        last = LAST_ID if until is None else _id_at(until)
        first = FIRST_ID if since is None else _id_at(since)
        state = asked.text("state")

        async def read(before: UUID, limit: int) -> Sequence[DeliveryRow]:
            page: dict[str, Any] = {"tenant_id": tenant_id, "before": before, "since": first, "limit": limit}
            if state is None:
                return await store.list_deliveries(conn, **page)
            return await store.list_deliveries_in_state(conn, **page, state=state)

        return await walk(
            read,
            start=min(before, last),
            key=lambda row: row.delivery_id,
            limit=limit,
            asked=asked,
            values=lambda row: {
                "state": row.state,
                "channel": row.channel,
                "recipient": row.recipient,
                "created": row.created_at,
            },
        )


async def get_delivery(db: Database, *, tenant_id: UUID, delivery_id: UUID) -> Delivery:
    """Return a delivery; raise NotFound."""
    async with db.tenant(tenant_id) as conn:
        row = await store.get_delivery(conn, tenant_id=tenant_id, delivery_id=delivery_id)
        if row is None:
            raise NotFound("There is no such delivery.", code="delivery.unknown")
        tries = await store.list_tries(conn, tenant_id=tenant_id, delivery_id=delivery_id)
        return Delivery(row=row, tries=tries)


async def resend(db: Database, *, tenant_id: UUID, delivery_id: UUID) -> Delivery:
    """Send a message again: a dead one under its own id, a delivered one as another; raise Conflict for others."""
    async with db.tenant(tenant_id) as conn:
        made = delivery_id
        if not await store.revive(conn, tenant_id=tenant_id, delivery_id=delivery_id, now=conn.now):
            made = clock.new_id(conn.now)
            if not await store.copy_delivered(
                conn, tenant_id=tenant_id, delivery_id=delivery_id, new_id=made, now=conn.now
            ):
                row = await store.get_delivery(conn, tenant_id=tenant_id, delivery_id=delivery_id)
                if row is None:
                    raise NotFound("There is no such delivery.", code="delivery.unknown")
                what = "a test" if row.is_test else row.state
                raise Conflict(
                    f"The delivery is {what}; dead and delivered ones can be sent again.", code="delivery.state"
                )
        await notify(conn, [NOTIFIER_TOPIC])
    return await get_delivery(db, tenant_id=tenant_id, delivery_id=made)


def _id_at(instant: datetime) -> UUID:
    try:
        return first_id_at(instant)
    except ValueError:
        detail = "An instant lies between 1970 and the year 9999."
        raise InvalidInput.at("query:filter", detail, code="filter.value") from None
