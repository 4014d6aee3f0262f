"""Sending: what is due is leased, rendered and sent outside any transaction, and what came of it is written.

    due ──claim──> sending ──┬─> delivered
                             ├─> retrying ──> (due again, with a growing pause, for an hour)
                             └─> dead          refused, given up, or its channel is no longer usable

Invariants

1. Who sends holds the lease: its token guards what is written of the try, and zero rows is an answer.
2. Each try is a row from before it begins, and names its notifier. One that nobody closed is `abandoned` when the
   delivery is taken again: the receiver may have the message, and gets it once more under the same delivery id. At
   least once, and counted.
3. A receiver that hangs holds back its own channel and a share of its tenant's sends, never another tenant's: no more
   than PER_CHANNEL and PER_TENANT of them are under way in a process, and none of theirs is taken until one has ended.
4. What raises while it is rendered or sent is a defect of ours: it is logged, and the delivery is tried again as if its
   receiver were away. It stops nobody else's.
5. Nothing is begun so late that another notifier might take it for abandoned meanwhile (`Times`).

Crash points: before the claim commits nothing has happened; between the claim and the send the try is abandoned and
nothing was sent; between the send and the write it is abandoned and the receiver has it.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
import structlog

from everwhen import failpoints, metrics
from everwhen.alerts.channels.protocol import ChannelKind, Delivered, Outcome, Refused, TryLater
from everwhen.alerts.delivering import store
from everwhen.alerts.delivering.model import Claimed, DeliveryState, TryOutcome
from everwhen.alerts.message import Message, Occasion, Rendered
from everwhen.alerts.model import MOST_REFUSALS, Sealer
from everwhen.alerts.signing import Outlet, Signer
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.alert_retry import Patience, next_try
from everwhen.errors import EverwhenError
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import OUTAGE

IN_FLIGHT: Final = 64
PER_TENANT: Final = 16
PER_CHANNEL: Final = 4
LOOK: Final = 500
WRITERS: Final = 3
"""How many results are written at once: sending must not take the connections from everybody else."""

MOST_RESPONSE: Final = 500

_NOT_BEGUN: Final = TryLater(response="not sent: the notifier had too much to do")

log = structlog.get_logger("everwhen.alerts")

Render = Callable[[UUID, Message], Awaitable[Rendered]]
"""Makes the texts of a tenant's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What sending is made of."""

    kinds: Mapping[str, ChannelKind]
    sealer: Sealer
    render: Render
    signer: Signer
    public_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long things may take: until a delivery is given up, and until a try is taken for abandoned.

    A third of the lease is for beginning to send, one for sending, whatever a kind's own bound, and one for writing it
    down: a notifier that has too much to do begins nothing that another one would take for abandoned meanwhile.
    """

    patience: Patience = field(default_factory=Patience)
    lease: timedelta = timedelta(minutes=2)

    @property
    def send(self) -> timedelta:
        """How long a kind of channel may take in any case."""
        return self.lease / 3


@dataclass(slots=True, kw_only=True)
class Courier:
    """Sends what is due. One for each process, `name` is its own; `jitter` draws from [0, 1)."""

    database: Database
    post: Post
    jitter: Callable[[], float]
    name: str = "notifier"
    times: Times = field(default_factory=Times)
    in_flight: dict["asyncio.Task[None]", tuple[UUID, str]] = field(
        default_factory=dict["asyncio.Task[None]", tuple[UUID, str]]
    )
    writers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WRITERS))

    async def begin(self, now: datetime) -> int:
        """Take what is due and there is room for, and begin to send it; return how much."""
        room = IN_FLIGHT - len(self.in_flight)
        if room <= 0:
            return 0
        tenants = Counter(tenant_id for tenant_id, _ in self.in_flight.values())
        channels = Counter(self.in_flight.values())
        taken_at = time.monotonic()
        async with self.database.system() as conn:
            claimed = await store.claim_due(
                conn,
                busy_tenants=[each for each, sends in tenants.items() if sends >= PER_TENANT],
                busy_channels=[f"{each}/{name}" for (each, name), sends in channels.items() if sends >= PER_CHANNEL],
                look=LOOK,
                per_tenant=PER_TENANT,
                per_channel=PER_CHANNEL,
                limit=room,
                lease_seconds=self.times.lease.total_seconds(),
                notifier=self.name,
                now=now,
            )
            secrets = await self._open_secrets(conn, claimed)
        for each in claimed:
            carrying = self._carry(each, secrets.get((each.tenant_id, each.channel), {}), now=now, taken_at=taken_at)
            task = asyncio.create_task(carrying)
            self.in_flight[task] = each.tenant_id, each.channel
            task.add_done_callback(self._forget)
        return len(claimed)

    async def wait(self, seconds: float) -> bool:
        """Wait until a send has ended, not for longer than that; return whether any is under way."""
        if not self.in_flight:
            return False
        await asyncio.wait(list(self.in_flight), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def close(self) -> None:
        """Give what is under way a moment to end, and leave the rest to whoever finds its leases run out."""
        if self.in_flight:
            _, pending = await asyncio.wait(list(self.in_flight), timeout=2)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self.in_flight.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("alert.result_not_written", error=repr(error))  # the lease runs out, and it is tried again

    async def _open_secrets(
        self, conn: Connection, claimed: Sequence[Claimed]
    ) -> dict[tuple[UUID, str], Mapping[str, str] | EverwhenError]:
        """Open the secrets of each channel; one whose secrets cannot be opened fails, and no other."""
        channels = sorted({(each.tenant_id, each.channel) for each in claimed})
        if not channels:
            return {}
        sealed: dict[tuple[UUID, str], dict[str, bytes]] = {}
        for row in await store.read_secrets(
            conn, tenant_ids=[each for each, _ in channels], channels=[name for _, name in channels]
        ):
            sealed.setdefault((row.tenant_id, row.channel), {})[f"{row.channel}/{row.name}"] = row.sealed
        opened: dict[tuple[UUID, str], Mapping[str, str] | EverwhenError] = {}
        for (tenant_id, channel), held in sealed.items():
            try:
                found = await self.post.sealer.open(conn, tenant_id, held)
                opened[tenant_id, channel] = {name.removeprefix(f"{channel}/"): text for name, text in found.items()}
            except EverwhenError as error:
                opened[tenant_id, channel] = error
        return opened

    async def _carry(
        self, claimed: Claimed, secrets: Mapping[str, str] | EverwhenError, *, now: datetime, taken_at: float
    ) -> None:
        failpoints.hit("courier.before_send")
        began = time.monotonic()
        outcome, was_sent = await self._try(claimed, secrets, now=now, taken_at=taken_at)
        failpoints.hit("courier.after_send")
        try:
            async with self.writers, self.database.system() as conn:
                await self._write(conn, claimed, outcome, seconds=time.monotonic() - began, was_sent=was_sent)
                failpoints.hit("courier.before_commit")
        except OUTAGE as error:
            log.warning("alert.result_not_written", delivery_id=str(claimed.delivery_id), error=str(error))

    async def _try(
        self, claimed: Claimed, secrets: Mapping[str, str] | EverwhenError, *, now: datetime, taken_at: float
    ) -> tuple[Outcome, bool]:
        """Write the message and send it; return what came of it, and whether that says anything about its channel."""
        if (unfit := why_not(claimed)) is not None:
            return Refused(response=unfit), False
        if isinstance(secrets, EverwhenError):
            return TryLater(response=f"the channel's secrets cannot be opened: {secrets.detail}"), True
        link, seconds = self._link_of(claimed), self.times.send.total_seconds()
        try:
            rendered = await self.post.render(claimed.tenant_id, self._message(claimed, link))
            if time.monotonic() - taken_at > seconds:
                return _NOT_BEGUN, False
            async with asyncio.timeout(seconds):
                return await self._send(claimed, rendered, secrets, link=link, now=now), True
        except TimeoutError:
            return TryLater(response=f"no answer within {seconds:g} s"), True
        except Exception as error:
            log.exception("alert.send_defect", delivery_id=str(claimed.delivery_id), channel=claimed.channel)
            return TryLater(response=f"it could not be sent, by a defect: {type(error).__name__}"), True

    async def _send(
        self, claimed: Claimed, rendered: Rendered, secrets: Mapping[str, str], *, link: str | None, now: datetime
    ) -> Outcome:
        return await self.post.kinds[claimed.kind or ""].send(
            rendered,
            tenant_id=claimed.tenant_id,
            recipient=claimed.recipient,
            unsubscribe_link=link,
            configuration=json.loads(claimed.configuration or "{}"),
            secrets=secrets,
            delivery_id=claimed.delivery_id,
            now=now,
        )

    def _link_of(self, claimed: Claimed) -> str | None:
        """Return the link by which its receiver unsubscribes; a test, and whoever has no address, has none."""
        if claimed.is_test or not claimed.recipient:
            return None
        outlet = Outlet(claimed.tenant_id, claimed.channel, claimed.recipient)
        return f"{self.post.public_url}/v1/alerts/unsubscribe/{self.post.signer.token(outlet)}"

    def _message(self, claimed: Claimed, link: str | None) -> Message:
        shown = tuple(msgspec.json.decode(claimed.shown, type=list[Occasion]))
        if claimed.is_test and claimed.recipient:
            outlet = Outlet(claimed.tenant_id, claimed.channel, claimed.recipient)
            code = self.post.signer.code(outlet, claimed.delivery_id)
            shown = (replace(shown[0], remedy=f"Confirm the channel with the code {code}."), *shown[1:])
        counts = sorted(json.loads(claimed.counts).items(), key=lambda item: (-item[1], item[0]))
        return Message(
            delivery_id=claimed.delivery_id,
            tenant=claimed.tenant,
            channel=claimed.channel,
            recipient=claimed.recipient,
            subscriptions=tuple(json.loads(claimed.subscriptions)),
            shown=shown,
            total=claimed.total,
            counts=tuple((AlertKind(kind), count) for kind, count in counts) if claimed.total > 1 else (),
            window_from=claimed.window_from,
            window_to=claimed.window_to,
            unsubscribe_link=link,
        )

    async def _write(
        self, conn: Connection, claimed: Claimed, outcome: Outcome, *, seconds: float, was_sent: bool
    ) -> None:
        state, look_at, word = self._verdict(claimed, outcome, now=conn.now)
        response = outcome.response[:MOST_RESPONSE]
        settled = await store.settle(
            conn,
            tenant_id=claimed.tenant_id,
            delivery_id=claimed.delivery_id,
            lease_token=claimed.lease_token,
            state=state,
            look_at=look_at,
            outcome=word,
            response=response,
            seconds=seconds,
            now=conn.now,
        )
        kind = claimed.kind or "deleted"
        metrics.ALERT_TRIES.labels(kind, word).inc()
        metrics.ALERT_SECONDS.labels(kind).observe(seconds)
        if not settled:
            log.warning("alert.lease_lost", delivery_id=str(claimed.delivery_id), outcome=word)
            return
        if state is DeliveryState.DEAD:
            metrics.ALERTS_DEAD.inc()
        if was_sent:
            await self._note_health(conn, claimed, outcome, response)

    def _verdict(
        self, claimed: Claimed, outcome: Outcome, *, now: datetime
    ) -> tuple[DeliveryState, datetime | None, TryOutcome]:
        match outcome:
            case Delivered():
                return DeliveryState.DELIVERED, None, TryOutcome.DELIVERED
            case Refused():
                return DeliveryState.DEAD, None, TryOutcome.REFUSED
            case TryLater() if (
                outcome is _NOT_BEGUN
            ):  # that is no fault of its receiver's, whose hour it does not use up
                return DeliveryState.RETRYING, now + self.times.patience.first, TryOutcome.FAILED
            case TryLater(after=after):
                at = next_try(
                    self.times.patience,
                    tries=claimed.tries,
                    first_tried_at=claimed.first_tried_at,
                    now=now,
                    after=after,
                    jitter=self.jitter(),
                )
                return DeliveryState.DEAD if at is None else DeliveryState.RETRYING, at, TryOutcome.FAILED

    async def _note_health(self, conn: Connection, claimed: Claimed, outcome: Outcome, response: str) -> None:
        tenant_id, channel = claimed.tenant_id, claimed.channel
        if isinstance(outcome, Delivered):
            await store.channel_succeeded(conn, tenant_id=tenant_id, channel=channel, now=conn.now)
            if claimed.is_test:
                await store.verify_by_test(
                    conn, tenant_id=tenant_id, channel=channel, delivery_id=claimed.delivery_id, now=conn.now
                )
            return
        health = await store.channel_failed(
            conn,
            tenant_id=tenant_id,
            channel=channel,
            error=response,
            is_refusal=isinstance(outcome, Refused) and not claimed.is_test,
            most_refusals=MOST_REFUSALS,
            now=conn.now,
        )
        if health is not None and health.state == "disabled":
            log.warning("alert.channel_disabled", tenant_id=str(tenant_id), channel=channel, error=response)


def why_not(claimed: Claimed) -> str | None:
    """Say why a delivery may not be sent now; None when it may."""
    if claimed.kind is None:
        return "the channel was deleted"
    if not claimed.is_known:
        return "the channel no longer has this receiver"
    if claimed.is_unsubscribed:
        return "the receiver has unsubscribed"
    if claimed.is_test:
        return None
    if claimed.channel_state == "disabled":
        return f"the channel is disabled: {claimed.state_reason or 'by a person'}"
    return None if claimed.is_verified else "the receiver is not verified: test the channel, then confirm it"


def retention_ends(now: datetime, days: float) -> datetime:
    """Return until when deliveries that have ended are past their retention."""
    return now - timedelta(days=days)
