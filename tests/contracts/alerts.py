"""What each tenant has of alerts, in the tests that call every operation."""

from dataclasses import dataclass

from everwhen.alerts import service, subscribing
from everwhen.alerts.model import ChannelDraft, SubscriptionDraft
from everwhen.alerts.service import AlertsDesk, Kit
from everwhen.alerts.signing import Outlet
from everwhen.core.alert_kinds import AlertKind
from everwhen.postgres.pool import Database
from everwhen.tenants.model import Tenant
from tests.alerts.scene import SIGNER, PlainSealer, Scripted

KIT = Kit(kinds={"email": Scripted(name="email")}, sealer=PlainSealer(), signer=SIGNER)


@dataclass(frozen=True, kw_only=True)
class Alerts:
    """A channel with a receiver that was sent a code and one that has unsubscribed, and another that nobody uses."""

    channel: str
    unused_channel: str
    address: str
    code: str
    unsubscribed: str
    subscription: str
    delivery: str  # is dead


async def furnish_alerts(db: Database, tenant: Tenant, *, name: str) -> Alerts:
    """Give a tenant what it can have of alerts."""
    desk, channel = AlertsDesk(database=db, kit=KIT), f"{name}-channel"
    address, unsubscribed = f"{name}@ops.test", f"{name}@gone.test"
    for each in (channel, f"{name}-unused"):
        draft = ChannelDraft(kind="email", configuration={"to": [address, unsubscribed]}, secrets={"key": name})
        await service.create_channel(desk, tenant_id=tenant.id, name=each, draft=draft, by=name)
    await service.unsubscribe(db, Outlet(tenant.id, channel, unsubscribed))
    [test] = await service.send_tests(db, tenant_id=tenant.id, name=channel, recipient=address)
    async with db.system() as conn:
        await conn.execute(
            "update everwhen.alert_deliveries set state = 'dead', look_at = null, finished_at = now()"
            " where tenant_id = %s",
            (tenant.id,),
        )
    wish = SubscriptionDraft(kinds=frozenset({AlertKind.RUN_DEAD}), channels=(channel,))
    await subscribing.create_subscription(db, tenant_id=tenant.id, name=f"{name}-subscription", draft=wish, by=name)
    return Alerts(
        channel=channel,
        unused_channel=f"{name}-unused",
        address=address,
        code=SIGNER.code(Outlet(tenant.id, channel, address), test),
        unsubscribed=unsubscribed,
        subscription=f"{name}-subscription",
        delivery=str(test),
    )
