"""Deliveries over HTTP: what was sent, what came of it, and once more."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

import json
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from everwhen.alerts.reading import deliveries
from everwhen.alerts.reading.deliveries import Delivery
from everwhen.alerts.reading.model import DeliveryRow
from everwhen.http.access import Operator, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Utc
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_id
from everwhen.lists import LAST_ID

router = APIRouter(route_class=ControlRoute, tags=["alerts"])

DeliveryId = UUID
Where = Annotated[str, filter_query(deliveries.DELIVERIES)]

_LIST: Final = "alert-deliveries"
_STATE: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "It is on its way, or a test"}}


class TryOut(BaseModel):
    """One try. Abandoned: its notifier ended in the middle of it, and the receiver may have the message."""

    number: int
    began_at: Utc
    ended_at: Utc | None
    outcome: Literal["delivered", "failed", "refused", "abandoned"] | None
    response: str | None
    seconds: float | None


class DeliveryOut(BaseModel):
    """A message to one receiver."""

    id: UUID = Field(description="The same over tries; receivers drop what they have.")
    channel: str
    recipient: str
    state: Literal["gathering", "sending", "retrying", "delivered", "dead"]
    is_test: bool
    resend_of: UUID | None
    subscriptions: list[str]
    total: int = Field(description="How many occasions it tells.")
    counts: dict[str, int] = Field(description="How many of each kind.")
    happened_from: Utc
    happened_until: Utc
    created_at: Utc
    due_at: Utc
    next_try_at: Utc | None = Field(description="When it is tried; null when it has ended.")
    tries: int
    finished_at: Utc | None
    response: str | None = Field(description="What the receiver said last.")


class DeliveryDetailOut(DeliveryOut):
    """A delivery with its tries, and the occasions that it tells whole."""

    attempts: list[TryOut]
    shown: list[dict[str, Any]]


@router.get("/v1/tenants/{tenant}/alerts/deliveries")
async def list_alert_deliveries(
    *, request: Request, access: Reader, where: Where = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[DeliveryOut]:
    """List what was sent and is to be sent, the newest first."""
    before = read_id(cursor, of=_LIST, default=LAST_ID)
    found = await deliveries.list_deliveries(
        access.database, tenant_id=access.tenant_id, text=where, before=before, limit=limit
    )
    return page_of(request, found, of=_LIST, out=lambda row: DeliveryOut(**_fields(row)))


@router.get("/v1/tenants/{tenant}/alerts/deliveries/{delivery}")
async def get_alert_delivery(*, delivery: DeliveryId, access: Reader) -> DeliveryDetailOut:
    """Show a delivery with each try and what the receiver said."""
    return _detail(await deliveries.get_delivery(access.database, tenant_id=access.tenant_id, delivery_id=delivery))


@router.post("/v1/tenants/{tenant}/alerts/deliveries/{delivery}/resend", status_code=202, responses=_STATE)
async def resend_alert_delivery(*, delivery: DeliveryId, access: Operator) -> DeliveryDetailOut:
    """Send once more: a dead one under its own id, a delivered one as a new message."""
    return _detail(await deliveries.resend(access.database, tenant_id=access.tenant_id, delivery_id=delivery))


def _fields(row: DeliveryRow) -> dict[str, Any]:
    return {
        "id": row.delivery_id,
        "channel": row.channel,
        "recipient": row.recipient,
        "state": row.state,
        "is_test": row.is_test,
        "resend_of": row.resend_of,
        "subscriptions": json.loads(row.subscriptions),
        "total": row.total,
        "counts": json.loads(row.counts),
        "happened_from": row.window_from,
        "happened_until": row.window_to,
        "created_at": row.created_at,
        "due_at": row.due_at,
        "next_try_at": row.look_at,
        "tries": row.tries,
        "finished_at": row.finished_at,
        "response": row.response,
    }


def _detail(found: Delivery) -> DeliveryDetailOut:
    attempts = [
        TryOut.model_validate({
            "number": each.number,
            "began_at": each.began_at,
            "ended_at": each.ended_at,
            "outcome": each.outcome,
            "response": each.response,
            "seconds": each.seconds,
        })
        for each in found.tries
    ]  # fmt: skip
    return DeliveryDetailOut(**_fields(found.row), attempts=attempts, shown=json.loads(found.row.shown))
