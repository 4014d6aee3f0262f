"""A tenant with a task, a channel and what it takes to send: a kind of channel that does as it is told."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen import clock
from everwhen.alerts import service, subscribing
from everwhen.alerts.channels.protocol import Delivered, Outcome
from everwhen.alerts.delivering.courier import Courier, Post
from everwhen.alerts.message import Message, Rendered
from everwhen.alerts.model import Channel, ChannelDraft, SubscriptionDraft
from everwhen.alerts.notifier import Notifier
from everwhen.alerts.service import AlertsDesk, Kit
from everwhen.alerts.signing import Signer
from everwhen.core.alert_kinds import AlertKind
from everwhen.errors import InvalidInput
from everwhen.postgres.pool import Connection, Database
from everwhen.tenants.model import Tenant
from tests.factories import make_tenant

SIGNER = Signer.derived_from("a secret of tests")
URL = "https://everwhen.test"


class PlainSealer:
    """Turns a secret round: enough to see that it is not stored as it is."""

    async def seal(self, conn: Connection, tenant_id: UUID, secrets: Mapping[str, str]) -> dict[str, bytes]:
        return {name: f"{tenant_id}/{name}/{text[::-1]}".encode() for name, text in secrets.items()}

    async def open(self, conn: Connection, tenant_id: UUID, sealed: Mapping[str, bytes]) -> dict[str, str]:
        return {name: held.decode().removeprefix(f"{tenant_id}/{name}/")[::-1] for name, held in sealed.items()}


@dataclass(kw_only=True)
class Sent:
    """What a channel was given to send."""

    channel_of: str
    message: Message
    recipient: str
    link: str | None
    delivery_id: UUID
    secrets: Mapping[str, str]


@dataclass(kw_only=True)
class Scripted:
    """A kind of channel that does what the script says next, else delivers; addresses if it is a kind of email."""

    name: str
    secret_names: Sequence[str] = ("key",)
    script: deque[Outcome | Exception] = field(default_factory=deque)
    sent: list[Sent] = field(default_factory=list)
    messages: dict[UUID, Message] = field(default_factory=dict)
    hangs: asyncio.Event | None = None  # who waits for it hangs

    def check(self, configuration: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
        if "url" not in configuration and "to" not in configuration:
            raise InvalidInput.at("/configuration/url", "A url is needed.", code="channel.url")
        return dict(configuration)

    def recipients(self, configuration: Mapping[str, Any]) -> Sequence[str]:
        return configuration.get("to", [""])

    async def send(
        self,
        rendered: Rendered,
        *,
        tenant_id: UUID,
        recipient: str,
        unsubscribe_link: str | None,
        configuration: Mapping[str, Any],
        secrets: Mapping[str, str],
        delivery_id: UUID,
        now: datetime,
    ) -> Outcome:
        self.sent.append(
            Sent(
                channel_of=rendered.subject,
                message=self.messages[delivery_id],
                recipient=recipient,
                link=unsubscribe_link,
                delivery_id=delivery_id,
                secrets=dict(secrets),
            )
        )
        if self.hangs is not None and configuration.get("hangs"):
            await self.hangs.wait()
        outcome = self.script.popleft() if self.script else Delivered(response="250 ok")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@dataclass(kw_only=True)
class Scene:
    """The alerts of a database, and a notifier whose clock can be moved on."""

    db: Database
    tenant: Tenant
    hook: Scripted
    mail: Scripted
    notifier: Notifier

    @property
    def desk(self) -> AlertsDesk:
        return AlertsDesk(database=self.db, kit=Kit(kinds=self.kinds, sealer=PlainSealer(), signer=SIGNER))

    @property
    def kinds(self) -> dict[str, Any]:
        return {"webhook": self.hook, "email": self.mail}

    async def channel(
        self, name: str = "ops", *, tenant: Tenant | None = None, verify: bool = True, **changes: Any
    ) -> Channel:
        draft = ChannelDraft(**{"kind": "webhook", "configuration": {"url": "https://a.test"}, **changes})
        tenant_id = (tenant or self.tenant).id
        made = await service.create_channel(self.desk, tenant_id=tenant_id, name=name, draft=draft, by="tester")
        if verify:
            await self.execute("update everwhen.alert_outlets set verified_at = now() where channel = %s", name)
        return made

    async def subscribe(
        self,
        *kinds: AlertKind,
        name: str = "all",
        channels: Sequence[str] = ("ops",),
        tenant: Tenant | None = None,
        **changes: Any,
    ) -> None:
        draft = SubscriptionDraft(kinds=frozenset(kinds), channels=tuple(channels), **changes)
        await subscribing.create_subscription(
            self.db, tenant_id=(tenant or self.tenant).id, name=name, draft=draft, by="tester"
        )

    async def execute(self, query: str, *parameters: Any) -> None:
        async with self.db.system() as conn:
            await conn.execute(query, parameters or None)

    async def rows(self, query: str, *parameters: Any) -> list[Any]:
        async with self.db.system() as conn:
            return await (await conn.execute(query, parameters or None)).fetchall()

    async def count(self, what: str) -> int:
        return (await self.rows(f"select count(*) from everwhen.{what}"))[0][0]

    async def match(self) -> None:
        """Match all there is, and send nothing."""
        from everwhen.alerts.matching.matcher import match_signals

        while (await match_signals(self.db, public_url=URL))[1]:
            pass

    async def make_due(self) -> None:
        """Let the time pass until everything that waits is due."""
        await self.execute("update everwhen.alert_deliveries set look_at = now() where look_at is not null")

    async def send(self) -> None:
        """Send all that is due."""
        async with self.db.system() as conn:
            now = conn.now
        while await self.notifier.courier.begin(now):
            while await self.notifier.courier.wait(20):
                pass

    async def tell(self) -> None:
        """Match, let the window pass, and send."""
        await self.match()
        await self.make_due()
        await self.send()


async def make_scene(db: Database) -> Scene:
    hook, mail = Scripted(name="webhook"), Scripted(name="email")

    async def render(tenant_id: UUID, message: Message) -> Rendered:
        for kind in (hook, mail):
            kind.messages[message.delivery_id] = message
        return Rendered(subject=message.channel, text="", html="")

    post = Post(
        kinds={"webhook": hook, "email": mail}, sealer=PlainSealer(), render=render, signer=SIGNER, public_url=URL
    )
    courier = Courier(database=db, post=post, jitter=clock.jitter)
    tenant = await make_tenant(db)
    return Scene(db=db, tenant=tenant, hook=hook, mail=mail, notifier=Notifier(database=db, courier=courier))
