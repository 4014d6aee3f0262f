"""Claiming: several long polls in flight, each for its share of the free slots and for no more than is free."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from everwhen import failpoints
from everwhen.worker._clock import Clock, Jitter
from everwhen.worker.backoff import Backoff, Outage
from everwhen.worker.completion import Completer
from everwhen.worker.errors import RequestRefused, ServerAway
from everwhen.worker.execution import Execution, ServerTime
from everwhen.worker.leases import Lease, LeaseKeeper
from everwhen.worker.protocol import ClaimRequest, ClaimResponse
from everwhen.worker.settings import Settings
from everwhen.worker.stats import Stats
from everwhen.worker.transport import Transport

log = logging.getLogger("everwhen.worker")

MOST_RUNS_PER_CLAIM: Final = 500
LINGER_SECONDS: Final = 0.005
EARLY_PAUSE_SECONDS: Final = 0.25
SWEEP_SECONDS: Final = 10.0
"""How often queues that a broker delivers are asked all the same."""
PART_SECONDS: Final = 1.0
"""How long a claim waits that offers only a part of the worker's resources."""


@dataclass(slots=True, kw_only=True)
class Room:
    """How many more runs this worker may ask for; claims in flight have theirs reserved."""

    capacity: int
    execution: Execution
    completer: Completer
    keeper: LeaseKeeper
    resources: Mapping[str, float]
    is_lent: bool = field(default=False, init=False)
    borrowers: int = field(default=0, init=False)
    """How many claims wait for the loan; those that ask all the time leave it to them."""
    reserved: int = 0
    is_open: bool = True
    """Whether anything may be claimed at all; a worker that is drained or cordoned claims nothing."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def free(self) -> int:
        """Return what may be claimed now: nothing while unanswered reports pile up, for each holds a lease."""
        if not self.is_open or self.completer.backlog >= max(1000, 4 * self.capacity):
            return 0
        return self.capacity - self.execution.held - self.reserved

    def lend(self) -> dict[str, float]:
        """Return what is free of the resources, for one claim to offer, and nothing to those beside it.

        Split between two claims, what is free would never be offered whole to a run that takes all of it.
        """
        if self.is_lent or self.borrowers or not self.resources:
            return {}
        return self._lend()

    async def borrow(self) -> dict[str, float]:
        """Do as `lend` does, for a claim that has to offer them: wait until the one that does so now is over."""
        if not self.resources:
            return {}
        self.borrowers += 1
        try:
            while self.is_lent:
                self._freed.clear()
                await self._freed.wait()
            return self._lend()
        finally:
            self.borrowers -= 1

    def _lend(self) -> dict[str, float]:
        self.is_lent = True
        in_use = self.keeper.in_use
        return {name: max(0.0, amount - in_use.get(name, 0.0)) for name, amount in self.resources.items()}

    def take_back(self, lent: Mapping[str, float]) -> None:
        """A claim is over; what it took is in use by now."""
        if lent:
            self.is_lent = False

    def freed(self) -> None:
        """Tell those who wait that something changed."""
        self._freed.set()

    async def quiet(self) -> None:
        """Wait until no claim is under way."""
        while self.reserved:
            self._freed.clear()
            await self._freed.wait()

    async def some(self) -> int:
        """Wait until something is free and return how much."""
        while (free := self.free) <= 0:
            self._freed.clear()
            await self._freed.wait()
        return free


@dataclass(slots=True, kw_only=True)
class Pace:
    """Which queues are asked all the time. Without a broker: all of them, and nothing ever changes.

    While a broker is listened to, its queues are not among them. `loops` share the worker's slots between them.
    """

    queues: tuple[str, ...]
    loops: int
    delivered: frozenset[str] = frozenset()
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def asked(self) -> list[str]:
        """Return the queues to ask all the time, in the worker's order."""
        return [queue for queue in self.queues if queue not in self.delivered]

    def deliver(self, queues: Iterable[str]) -> None:
        """Ask these rarely from now on, since somebody tells of their runs; the others all the time."""
        self.delivered = frozenset(queues)
        self._changed.set()

    async def some(self) -> list[str]:
        """Wait until there is a queue to ask all the time."""
        while not (asked := self.asked):
            self._changed.clear()
            await self._changed.wait()
        return asked


@dataclass(slots=True, kw_only=True)
class Intake:
    """Where granted runs go: their leases are kept, their functions are called."""

    keeper: LeaseKeeper
    execution: Execution
    stats: Stats

    def start(self, response: ClaimResponse, *, sent: float, received: float) -> None:
        """Take what a claim was answered."""
        failpoints.hit("worker.after_claim")
        time = ServerTime(server=response.server_time, sent=sent, received=received)
        leases: list[Lease] = []
        for run in response.runs:
            granted = (run.lease_until - response.server_time).total_seconds()
            leases.append(Lease(run, sent=sent, received=received, duration=granted))
        self.stats.claimed += len(leases)
        self.keeper.hold(leases)
        self.execution.accept(leases, time)


@dataclass(slots=True, kw_only=True)
class Fetcher:
    """One loop of claims. Any number of them may run beside each other."""

    settings: Settings
    tasks: list[str]
    transport: Transport
    intake: Intake
    room: Room
    pace: Pace
    outage: Outage
    backoff: Backoff
    clock: Clock
    jitter: Jitter
    instance: UUID
    on_held_back: Callable[[], None]

    async def run(self) -> None:
        """Claim and start runs until cancelled; raise Unauthorised when the token is refused."""
        while True:
            await self.pace.some()
            limit = await self._limit()
            if not (queues := self.pace.asked):
                continue
            pause = await self._ask(queues, limit, wait_seconds=self.settings.poll_seconds, free=self.room.lend())
            if pause:
                await asyncio.sleep(pause)

    async def sweep(self) -> None:
        """Ask the queues that a broker delivers, rarely: what it lost is found, and workers are seen to be there."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS * (0.75 + self.jitter() / 4))
            if queues := sorted(self.pace.delivered):
                limit, free = await self._limit(), await self.room.borrow()
                await self._ask(queues, limit, wait_seconds=0.0, free=free)

    async def _ask(self, queues: list[str], limit: int, *, wait_seconds: float, free: dict[str, float]) -> float:
        self.room.reserved += limit
        try:
            return await self._claim(queues, limit, wait_seconds=wait_seconds, free=free)
        finally:
            self.room.take_back(free)
            self.room.reserved -= limit
            self.room.freed()

    async def _limit(self) -> int:
        """Return how many to ask for; a worker that is nearly full lets a few more slots come free first."""
        share = max(1, self.settings.capacity // self.pace.loops)
        free = await self.room.some()
        if free * 4 < share:
            await asyncio.sleep(LINGER_SECONDS)
            free = await self.room.some()
        return min(free, share, MOST_RUNS_PER_CLAIM)

    async def _claim(self, queues: list[str], limit: int, *, wait_seconds: float, free: dict[str, float]) -> float:
        """Make one claim and return the seconds to pause before the next."""
        request = self._request(queues, limit, wait_seconds=wait_seconds, free=free)
        sent = self.clock()
        try:
            response = await self.transport.claim(request)
        except (ServerAway, RequestRefused) as error:
            return self._failed(error)
        received = self.clock()
        self.backoff.reset()
        self.outage.recovered()
        if response.held_back:
            self.on_held_back()
        if not response.runs:
            return self._early(received - sent, wait=request.wait_seconds)
        self.intake.start(response, sent=sent, received=received)
        return 0.0

    def _request(self, queues: list[str], limit: int, *, wait_seconds: float, free: dict[str, float]) -> ClaimRequest:
        # What a run gives back meanwhile is offered by the next claim: it must not be long in coming.
        # Nor may what is offered here be kept for long from claims that a broker's messages cause.
        is_whole = not (free and self.pace.delivered) and all(
            amount == self.settings.resources[name] for name, amount in free.items()
        )
        return ClaimRequest(
            worker=self.settings.worker_id,
            queues=queues,
            tasks=self.tasks,
            limit=limit,
            wait_seconds=wait_seconds if is_whole else min(wait_seconds, PART_SECONDS),
            lease_seconds=self.settings.lease_seconds,
            instance=self.instance,
            labels=dict(self.settings.labels),
            free=free,
        )

    def _failed(self, error: ServerAway | RequestRefused) -> float:
        away = error if isinstance(error, ServerAway) else ServerAway(str(error), retry_after=5.0)
        delay = self.backoff.next_delay(away)
        self.outage.failed(away, delay=delay)
        return delay

    def _early(self, waited: float, *, wait: float) -> float:
        """Pause after an empty answer that came long before its time, so that a confused server is not hammered."""
        early = waited < max(wait / 2, EARLY_PAUSE_SECONDS)
        return EARLY_PAUSE_SECONDS * (1 + self.jitter()) if early else 0.0
