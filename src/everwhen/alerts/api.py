"""Channels and subscriptions over HTTP."""

# ruff: noqa: FAST003  # the tenant in the path is read by the dependency that grants access

from typing import Annotated, Any, Final, cast
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from everwhen.alerts import service, subscribing
from everwhen.alerts.model import Channel, SubscriptionRow
from everwhen.alerts.reading import previewing
from everwhen.alerts.service import AlertsDesk, Kit
from everwhen.alerts.wire import (
    ChannelIn,
    ChannelOut,
    ChannelSettings,
    SubscriptionIn,
    SubscriptionOut,
    SubscriptionSettings,
    channel_out,
    subscription_out,
)
from everwhen.http.access import NAME_PATTERN, Access, Editor, Operator, Reader
from everwhen.http.auditing import audited
from everwhen.http.bodies import ControlRoute
from everwhen.http.fields import Sentence, Utc, Wire
from everwhen.http.pages import DEFAULT_ITEMS, Cursor, Limit, Page, filter_query, page_of, read_cursor
from everwhen.http.preconditions import Act, Change, tag

router = APIRouter(route_class=ControlRoute, tags=["alerts"])

ChannelName = Annotated[str, Path(pattern=NAME_PATTERN, description="The channel's name.")]
SubscriptionName = Annotated[str, Path(pattern=NAME_PATTERN, description="The subscription's name.")]
ChannelWhere = Annotated[str, filter_query(service.CHANNELS)]
SubscriptionWhere = Annotated[str, filter_query(subscribing.SUBSCRIPTIONS)]
Recipient = Annotated[str, Field(max_length=320)]

_CHANNELS: Final = "alert-channels"
_SUBSCRIPTIONS: Final = "alert-subscriptions"
_TAKEN: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The name is taken, or there are too many"}}
_IN_USE: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "Subscriptions send to it"}}
_TESTED: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "Tested a moment ago, or unsubscribed"}}


class SendTestIn(Wire):
    """Whom to send a test to."""

    recipient: Recipient | None = Field(default=None, description="Null: every receiver.")


class SentTestsOut(BaseModel):
    """The tests that are on their way."""

    deliveries: list[UUID]


class VerifyIn(Wire):
    """What the test message said."""

    code: str = Field(min_length=1, max_length=40)


class DisableIn(Wire):
    """Why nothing is to be sent."""

    reason: Sentence | None = None


class ResubscribeIn(Wire):
    """Whom to send to again."""

    recipient: Recipient


class WouldTellOut(BaseModel):
    """Something that a subscription would have told."""

    kind: str
    at: Utc
    subject: str
    run_id: UUID | None
    in_a_row: int | None
    sentence: str


class SubscriptionPreviewOut(BaseModel):
    """What a subscription would have told of the last day."""

    since: Utc
    matched: int
    looked_at: int
    complete: bool = Field(description="False: there was more than is looked at; these are the latest.")
    items: list[WouldTellOut]


def kit_of(request: Request) -> Kit:
    """Return what channels are made of in this process."""
    return cast("Kit", request.app.state.alerts)


def _desk(request: Request, access: Access) -> AlertsDesk:
    return AlertsDesk(database=access.database, kit=kit_of(request))


def _channel(response: Response, channel: Channel) -> ChannelOut:
    tag(response, channel.row.revision)
    return channel_out(channel)


def _subscription(response: Response, row: SubscriptionRow) -> SubscriptionOut:
    tag(response, row.revision)
    return subscription_out(row)


@router.post("/v1/tenants/{tenant}/alerts/channels", status_code=201, responses=_TAKEN)
async def create_alert_channel(
    *, request: Request, tenant: str, body: ChannelIn, access: Editor, response: Response
) -> ChannelOut:
    """Define where alerts go. Nothing is sent there before it is verified."""
    made = await service.create_channel(
        _desk(request, access),
        tenant_id=access.tenant_id,
        name=body.name,
        draft=body.draft(),
        by=access.principal.subject,
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/alerts/channels/{body.name}"
    return _channel(response, made)


@router.get("/v1/tenants/{tenant}/alerts/channels")
async def list_alert_channels(
    *, request: Request, access: Reader, where: ChannelWhere = "", limit: Limit = DEFAULT_ITEMS, cursor: Cursor = None
) -> Page[ChannelOut]:
    """List channels by name, with how they have done."""
    after = read_cursor(cursor, of=_CHANNELS)
    found = await service.list_channels(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_CHANNELS, out=channel_out)


@router.get("/v1/tenants/{tenant}/alerts/channels/{channel}")
async def get_alert_channel(*, channel: ChannelName, access: Reader, response: Response) -> ChannelOut:
    """Show a channel, whom it reaches and how it has done."""
    return _channel(response, await service.get_channel(access.database, tenant_id=access.tenant_id, name=channel))


@router.put("/v1/tenants/{tenant}/alerts/channels/{channel}")
async def update_alert_channel(
    *,
    request: Request,
    channel: ChannelName,
    body: ChannelSettings,
    access: Editor,
    expected: Change,
    response: Response,
) -> ChannelOut:
    """Change a channel. Secrets that are not named stay; where it sends to has to be verified anew when it changes."""
    desk = _desk(request, access)
    made = await service.update_channel(
        desk, tenant_id=access.tenant_id, name=channel, draft=body.draft(), expected=expected
    )
    return _channel(response, made)


@router.delete("/v1/tenants/{tenant}/alerts/channels/{channel}", status_code=204, responses=_IN_USE)
async def delete_alert_channel(*, channel: ChannelName, access: Editor, expected: Change) -> None:
    """Delete a channel that no subscription sends to."""
    await service.delete_channel(access.database, tenant_id=access.tenant_id, name=channel, expected=expected)


@router.post("/v1/tenants/{tenant}/alerts/channels/{channel}/test", status_code=202, responses=_TESTED)
@audited(tells_answer=True)
async def send_alert_test(*, channel: ChannelName, access: Editor, body: SendTestIn | None = None) -> SentTestsOut:
    """Send a test message. Of a channel without addresses its arrival is the proof; an address gets a code."""
    made = await service.send_tests(
        access.database, tenant_id=access.tenant_id, name=channel, recipient=body and body.recipient
    )
    return SentTestsOut(deliveries=made)


@router.post("/v1/tenants/{tenant}/alerts/channels/{channel}/verify")
async def verify_alert_channel(
    *, request: Request, channel: ChannelName, body: VerifyIn, access: Editor, response: Response
) -> ChannelOut:
    """Confirm an address by the code that its test message carried."""
    desk = _desk(request, access)
    made = await service.verify_channel(desk, tenant_id=access.tenant_id, name=channel, code=body.code)
    return _channel(response, made)


@router.post("/v1/tenants/{tenant}/alerts/channels/{channel}/disable")
async def disable_alert_channel(
    *, channel: ChannelName, access: Operator, expected: Act, response: Response, body: DisableIn | None = None
) -> ChannelOut:
    """Send nothing more to a channel. What it was to send is dead, and can be sent again later."""
    made = await service.set_enabled(
        access.database,
        tenant_id=access.tenant_id,
        name=channel,
        enabled=False,
        reason=body and body.reason,
        expected=expected,
    )
    return _channel(response, made)


@router.post("/v1/tenants/{tenant}/alerts/channels/{channel}/enable")
async def enable_alert_channel(
    *, channel: ChannelName, access: Operator, expected: Act, response: Response
) -> ChannelOut:
    """Send to a channel again that a person, or too many refusals, disabled."""
    made = await service.set_enabled(
        access.database, tenant_id=access.tenant_id, name=channel, enabled=True, reason=None, expected=expected
    )
    return _channel(response, made)


@router.post("/v1/tenants/{tenant}/alerts/channels/{channel}/resubscribe")
async def resubscribe_alert_receiver(
    *, channel: ChannelName, body: ResubscribeIn, access: Editor, response: Response
) -> ChannelOut:
    """Send again to somebody who had unsubscribed, and has changed his mind."""
    made = await service.resubscribe(
        access.database, tenant_id=access.tenant_id, name=channel, recipient=body.recipient
    )
    return _channel(response, made)


@router.post("/v1/tenants/{tenant}/alerts/subscriptions", status_code=201, responses=_TAKEN)
async def create_alert_subscription(
    *, tenant: str, body: SubscriptionIn, access: Editor, response: Response
) -> SubscriptionOut:
    """Say who wants to hear of what."""
    made = await subscribing.create_subscription(
        access.database,
        tenant_id=access.tenant_id,
        name=body.name,
        draft=body.draft(),
        by=access.principal.subject,
    )
    response.headers["Location"] = f"/v1/tenants/{tenant}/alerts/subscriptions/{body.name}"
    return _subscription(response, made)


@router.get("/v1/tenants/{tenant}/alerts/subscriptions")
async def list_alert_subscriptions(
    *,
    request: Request,
    access: Reader,
    where: SubscriptionWhere = "",
    limit: Limit = DEFAULT_ITEMS,
    cursor: Cursor = None,
) -> Page[SubscriptionOut]:
    """List subscriptions by name."""
    after = read_cursor(cursor, of=_SUBSCRIPTIONS)
    found = await subscribing.list_subscriptions(
        access.database, tenant_id=access.tenant_id, after=after, limit=limit, where=where
    )
    return page_of(request, found, of=_SUBSCRIPTIONS, out=subscription_out)


@router.post("/v1/tenants/{tenant}/alerts/subscriptions/preview")
async def preview_alert_subscription(*, body: SubscriptionSettings, access: Reader) -> SubscriptionPreviewOut:
    """Say what a subscription would have told of the last 24 hours; nothing is written or sent."""
    found = await previewing.preview(access.database, tenant_id=access.tenant_id, draft=body.draft())
    return SubscriptionPreviewOut(
        since=found.since,
        matched=found.matched,
        looked_at=found.looked_at,
        complete=found.is_complete,
        items=[
            WouldTellOut(
                kind=occasion.kind,
                at=occasion.at,
                subject=occasion.subject,
                run_id=occasion.run_id,
                in_a_row=occasion.in_a_row,
                sentence=occasion.sentence,
            )
            for occasion in found.occasions
        ],
    )


@router.get("/v1/tenants/{tenant}/alerts/subscriptions/{subscription}")
async def get_alert_subscription(
    *, subscription: SubscriptionName, access: Reader, response: Response
) -> SubscriptionOut:
    """Show a subscription."""
    found = await subscribing.get_subscription(access.database, tenant_id=access.tenant_id, name=subscription)
    return _subscription(response, found)


@router.put("/v1/tenants/{tenant}/alerts/subscriptions/{subscription}")
async def update_alert_subscription(
    *,
    subscription: SubscriptionName,
    body: SubscriptionSettings,
    access: Editor,
    expected: Change,
    response: Response,
) -> SubscriptionOut:
    """Put another subscription in the place of this one; what is not said is as if it were new."""
    made = await subscribing.update_subscription(
        access.database, tenant_id=access.tenant_id, name=subscription, draft=body.draft(), expected=expected
    )
    return _subscription(response, made)


@router.delete("/v1/tenants/{tenant}/alerts/subscriptions/{subscription}", status_code=204)
async def delete_alert_subscription(*, subscription: SubscriptionName, access: Editor, expected: Change) -> None:
    """Tell nobody any longer; what has gathered is sent."""
    await subscribing.delete_subscription(
        access.database, tenant_id=access.tenant_id, name=subscription, expected=expected
    )
