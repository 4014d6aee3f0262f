"""What was sent: looked up, and sent again."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from everwhen import clock
from everwhen.alerts.delivering.model import DeliveryState
from everwhen.alerts.reading import store
from everwhen.alerts.reading.model import DeliveryRow, TryRow
from everwhen.alerts.service import NOTIFIER_TOPIC
from everwhen.core.filters import BEFORE, FROM, Filter, FilterError, Moment, Vocabulary, Word, parse
from everwhen.core.ids import first_id_at
from everwhen.errors import Conflict, InvalidInput, NotFound
from everwhen.postgres.pool import Database
from everwhen.postgres.wakeups import notify

DELIVERIES: Final = Vocabulary(
    fields={
        "state": Word(choices=frozenset(DeliveryState)),
        "channel": Word(),
        "recipient": Word(),
        "created": Moment(),
    },
    short={"since": ("created", FROM), "until": ("created", BEFORE)},
)
FIRST_ID: Final = UUID(int=0)
LAST_ID: Final = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A delivery with its tries."""

    row: DeliveryRow
    tries: list[TryRow]


async def list_deliveries(
    db: Database, *, tenant_id: UUID, text: str, before: UUID, limit: int
) -> tuple[Filter, list[DeliveryRow]]:
    """Return the filter in force and deliveries that it lets through, the newest first; raise InvalidInput."""
    async with db.tenant(tenant_id) as conn:
        asked = _read_filter(text, now=conn.now)
        since, until = asked.instant("created", FROM), asked.instant("created", BEFORE)
        last = LAST_ID if until is None else _id_at(until)
        bounds = {"before": min(before, last), "since": FIRST_ID if since is None else _id_at(since)}
        channel, recipient, state = asked.text("channel"), asked.text("recipient"), asked.text("state")
        if state is None:
            rows = await store.list_deliveries(
                conn, tenant_id=tenant_id, **bounds, channel=channel, recipient=recipient, limit=limit
            )
        else:
            rows = await store.list_deliveries_in_state(
                conn, tenant_id=tenant_id, state=state, **bounds, channel=channel, recipient=recipient, limit=limit
            )
        return asked, rows


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


def _read_filter(text: str, *, now: datetime) -> Filter:
    try:
        return parse(text, DELIVERIES, now=now)
    except FilterError as error:
        detail = f"{error.message} (at character {error.position + 1})"
        raise InvalidInput.at("query:filter", detail, code=error.code) from error


def _id_at(instant: datetime) -> UUID:
    try:
        return first_id_at(instant)
    except ValueError:
        detail = "An instant lies between 1970 and the year 9999."
        raise InvalidInput.at("query:filter", detail, code="filter.value") from None
