"""Receiving: what a broker announces is claimed, and runs as whatever else was claimed.

    a message comes ──> claim that names its run ──> granted: it runs, under a lease as any other
                                                └──> not: gone, held elsewhere, paused, limited … ──> nothing to do
                    <── acknowledged in either case, once the server has answered

The lease is the right to work, and the server's to give; a message is a reason to ask for it. So nothing depends on
when, how often or in which order messages come. What is lost is found by `Fetcher.sweep`, which asks these queues
rarely, and told again by the server.

Acknowledged is what has been *claimed*, not what has ended. From the grant on it is the lease that says whose the run
is: if this process dies the server notices by it, and the run's next attempt is announced as such. A message that
stayed open until the end would be delivered again to somebody else in the midst of a long run, would have to be kept
alive beside the lease, and would have nothing to say that the lease does not. A message whose claim was refused is
acknowledged, too: the server knows that the run still waits, and announces it when it can be had.

While the broker cannot be reached, or delivers nothing for this worker, the worker asks for its runs all the time, as
one without a broker does (`Pace`).

Crash points: before the claim the message comes again to somebody else; after it the lease runs out; if only the
acknowledgement is lost the message comes again, and its run is gone or held.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from everwhen.worker._clock import Clock
from everwhen.worker.backoff import Backoff
from everwhen.worker.brokers.inbox import BrokerAddress, BrokerAway, Inbox
from everwhen.worker.brokers.kinds import INBOXES
from everwhen.worker.brokers.notices import Delivery
from everwhen.worker.errors import RequestRefused, ServerAway
from everwhen.worker.fetching import MOST_RUNS_PER_CLAIM, Intake, Pace, Room
from everwhen.worker.protocol import ClaimRequest, ClaimResponse, Mailbox, MailboxesRequest
from everwhen.worker.settings import Settings
from everwhen.worker.transport import Transport

log = logging.getLogger("everwhen.worker")

TAKE_SECONDS: Final = 1.0
ASK_SECONDS: Final = 30.0
"""How often the server is asked which queues a broker delivers."""

BUSY_SECONDS: Final = 1.0
ASK_AGAIN: Final = frozenset({"busy", "unfit"})
"""What is given back to the broker: another claim had its hand on the run, or another worker knows its task."""

LONGEST_BACK_OFF_SECONDS: Final = 5.0


@dataclass(slots=True, kw_only=True)
class Receiver:
    """The loop that listens to a broker."""

    settings: Settings
    tasks: list[str]
    transport: Transport
    intake: Intake
    room: Room
    pace: Pace
    backoff: Backoff
    clock: Clock
    instance: UUID
    on_held_back: Callable[[], None]
    _is_away: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Listen until cancelled; raise Unauthorised when the token is refused."""
        while True:
            try:
                await self.room.some()  # a worker that is cordoned leaves its mailboxes to others
                mailboxes = await self._mailboxes()
                if mailboxes:
                    await self._listen(mailboxes)
                else:
                    await asyncio.sleep(ASK_SECONDS)
            except (BrokerAway, ServerAway, RequestRefused) as error:
                self.pace.deliver(())
                away = error if isinstance(error, ServerAway) else ServerAway(str(error))
                delay = self.backoff.next_delay(away)
                self._say_away(error, delay)
                await asyncio.sleep(delay)

    async def _mailboxes(self) -> list[Mailbox]:
        answer = await self.transport.mailboxes(MailboxesRequest(queues=list(self.settings.queues)))
        return [each for each in answer.mailboxes if each.broker == self.settings.via]

    async def _listen(self, mailboxes: Sequence[Mailbox]) -> None:
        """Take what comes, for as long as these are the mailboxes and the worker may claim."""
        inbox = INBOXES[self.settings.via](_address(self.settings), self.settings.worker_id, self.settings.capacity)
        try:
            await inbox.open(mailboxes)
            self.backoff.reset()
            self._say_back()
            self.pace.deliver(each.queue for each in mailboxes)
            ask_at = self.clock() + ASK_SECONDS
            while self.room.is_open:
                if free := await self._free():
                    deliveries = await inbox.take(min(free, MOST_RUNS_PER_CLAIM), seconds=TAKE_SECONDS)
                    await self._claim(inbox, deliveries)
                if self.clock() >= ask_at:
                    if await self._mailboxes() != mailboxes:
                        return
                    ask_at = self.clock() + ASK_SECONDS
        finally:
            await inbox.close()

    async def _free(self) -> int:
        """Return how many more runs there is room for, waiting a little for the first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TAKE_SECONDS):
                return await self.room.some()
        return 0

    async def _claim(self, inbox: Inbox, deliveries: Sequence[Delivery]) -> None:
        """Claim what these announce, tenant by tenant; acknowledge what the server has answered."""
        by_tenant: dict[UUID, list[Delivery]] = {}
        for delivery in deliveries:
            if delivery.notice is None:
                log.warning("message.unreadable: it is put away")
                await inbox.ack([delivery])
            else:
                by_tenant.setdefault(delivery.notice.tenant_id, []).append(delivery)
        for tenant_id, group in by_tenant.items():
            run_ids = list(dict.fromkeys(each.notice.run_id for each in group if each.notice))
            free = await self.room.borrow()
            self.room.reserved += len(run_ids)
            try:
                busy = await self._claim_named(tenant_id, run_ids, free=free)
            except (ServerAway, RequestRefused):
                await inbox.give_back(group, seconds=BUSY_SECONDS)
                raise
            finally:
                self.room.take_back(free)
                self.room.reserved -= len(run_ids)
                self.room.freed()
            again = [each for each in group if each.notice and each.notice.run_id in busy]
            await inbox.ack([each for each in group if each not in again])
            await inbox.give_back(again, seconds=BUSY_SECONDS)

    async def _claim_named(self, tenant_id: UUID, run_ids: list[UUID], *, free: dict[str, float]) -> set[UUID]:
        """Claim these runs and start what is granted; return those that are to be asked for again.

        `free` is what this claim offers of the worker's resources.
        """
        sent = self.clock()
        response = await self.transport.claim(
            ClaimRequest(
                worker=self.settings.worker_id,
                queues=list(self.settings.queues),
                tasks=self.tasks,
                limit=len(run_ids),
                wait_seconds=0.0,
                lease_seconds=self.settings.lease_seconds,
                instance=self.instance,
                labels=dict(self.settings.labels),
                free=free,
                run_ids=run_ids,
                tenant_id=tenant_id,
            )
        )
        if response.held_back:
            self.on_held_back()
        if response.runs:
            self.intake.start(response, sent=sent, received=self.clock())
        return _busy(response)

    def _say_away(self, error: Exception, delay: float) -> None:
        if not self._is_away:
            log.warning("broker.away, asking the server meanwhile, trying again in %.1f s: %s", delay, error)
        self._is_away = True

    def _say_back(self) -> None:
        if self._is_away:
            log.info("broker.back")
        self._is_away = False


def _busy(response: ClaimResponse) -> set[UUID]:
    named = response.named or []
    return {each.run_id for each in named if each.outcome in ASK_AGAIN}


def _address(settings: Settings) -> BrokerAddress:
    return BrokerAddress(
        urls=tuple(part.strip() for part in settings.broker_url.split(",") if part.strip()),
        ca_file=_path(settings.broker_ca_file),
        cert_file=_path(settings.broker_cert_file),
        key_file=_path(settings.broker_key_file),
    )


def _path(name: str) -> Path | None:
    return Path(name) if name else None
