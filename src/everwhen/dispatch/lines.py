"""Waiting in line: a claim that finds nothing sleeps until something is due, and no longer than it was told to.

What ends the sleep: the next instant at which a run of these lines becomes due (known, since runs are planned ahead),
a wake-up (somebody asked for a run now), POLL_SECONDS (a wake-up may be lost), the claim's own patience, or the end of
the process. The due instant itself therefore costs one claim, and no message.

Of the claims that wait for the same lines one at a time has the *turn*: it alone sleeps until there is something to
see, and looks. The others wait for the turn, in the order they came. Who finds runs leaves with them. The next one
looks at once when those hands were full, since there may be more, and otherwise not before SETTLE_SECONDS are over, so
that what becomes due meanwhile is taken together. So a hundred workers cost no more looks than one, a run now and then
waits for nothing, and under load runs come in batches. While looks come back with full hands, those who arrive need not
wait for a turn: there is enough for all.

Whoever had its patience run out while others had the turn goes home with nothing: somebody has looked for it.

A worker that is drained, cordoned or about to stop is *called home*: its claims wait no longer, wherever they stand.
They look once more, or have looked, and the database says that they are given nothing; so no claim has to be broken
off, and no run is granted to a worker that has hung up. The call is a wake-up like any other; one that is lost costs
patience.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from everwhen.core.fleets import PLATFORM
from everwhen.dispatch.service import Claim, Dispatch, Grant
from everwhen.postgres.wakeups import Waiter, Wakeups, queue_topic, worker_topic

POLL_SECONDS: Final = 1.0
SHARED_POLL_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 0.02
EARLY_SECONDS: Final = 0.002
"""Wake a little after the due instant: by the database's clock it must have come."""

MOST_REMEMBERED: Final = 10_000
"""How many lines, at which nobody waits any more, are kept for the next `seen`."""

Key = tuple[UUID | None, tuple[str, ...], tuple[str, ...] | None]


@dataclass(slots=True)
class _Line:
    """Some claims that wait for the same lines.

    Before `look_at` (loop time) a look is not worth while; `rich` says that the last look came back with full hands;
    `last` is what the last look said that found nothing.
    """

    waiter: Waiter
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    look_at: float = 0.0
    rich: bool = False
    claims: int = 0
    last: Grant | None = None


class _Patience:
    """How long one claim waits. A call home ends it, whatever the claim waits for just then."""

    def __init__(self, seconds: float, line: _Line) -> None:
        self.deadline = asyncio.get_running_loop().time() + seconds
        self.is_called = False
        self._line = line
        self._turn: asyncio.Timeout | None = None

    @property
    def left(self) -> float:
        return self.deadline - asyncio.get_running_loop().time()

    async def has_turn(self) -> bool:
        """Wait for the line's turn; return False when patience was over first."""
        try:
            async with asyncio.timeout_at(self.deadline) as self._turn:
                return await self._line.turn.acquire()
        except TimeoutError:
            return False
        finally:
            self._turn = None

    def end(self) -> None:
        """Wait no longer: called home."""
        self.is_called, self.deadline = True, 0.0
        if self._turn is not None and not self._turn.expired():
            self._turn.reschedule(0.0)
        self._line.waiter.wake()  # in case this one has the turn; whoever has it looks once more


class Lines:
    """The claims that wait in this process."""

    def __init__(self, dispatch: Dispatch, wakeups: Wakeups) -> None:
        self._dispatch = dispatch
        self._wakeups = wakeups
        self._lines: dict[tuple[Key, object], _Line] = {}
        self._asked: dict[Key, None] = {}
        self._closing = False

    def seen(self) -> list[Key]:
        """Return the lines at which claims have waited since the last call, or wait now: (tenant, queues, tasks)."""
        seen = [*dict.fromkeys([*self._asked, *(key for key, _ in self._lines)])]
        self._asked.clear()
        return seen

    def close(self) -> None:
        """Send everybody home with what there is, so that the process can stop."""
        self._closing = True
        self._wakeups.wake_everybody()

    async def claim_named(self, claim: Claim) -> Grant:
        """Claim the runs that the claim names; there is nothing to wait for."""
        self._remember((claim.tenant_id, claim.queues, claim.tasks))
        return await self._dispatch.claim(claim)

    async def take(
        self, claim: Claim, *, wait_seconds: float, still_there: Callable[[], Awaitable[bool]]
    ) -> Grant | None:
        """Claim, waiting up to `wait_seconds` for the first run; None when the caller is not there any more."""
        if wait_seconds <= 0 or self._closing:
            self._remember((claim.tenant_id, claim.queues, claim.tasks))
            return await self._dispatch.claim(claim)
        with self._line(claim) as line:
            if line.rich and (grant := await self._look(claim, line)).leases:
                return grant
            patience = _Patience(wait_seconds, line)
            with self._callable(claim, patience):
                return await self._wait(claim, line, patience, still_there)

    async def _wait(
        self, claim: Claim, line: _Line, patience: _Patience, still_there: Callable[[], Awaitable[bool]]
    ) -> Grant | None:
        waited = line.turn.locked()
        if not await patience.has_turn():
            return await self._dispatch.claim(claim) if patience.is_called or line.last is None else line.last
        try:
            if waited and not await still_there():
                return None
            return await self._watch(claim, line, patience, still_there)
        finally:
            line.turn.release()

    async def _watch(
        self, claim: Claim, line: _Line, patience: _Patience, still_there: Callable[[], Awaitable[bool]]
    ) -> Grant | None:
        """Having the turn, look whenever it is worth while, until something is found or patience is over."""
        clock = asyncio.get_running_loop().time
        woken = False
        while True:
            is_over = patience.left <= 0 or self._closing
            if woken or is_over or clock() >= line.look_at:
                grant = await self._look(claim, line)
                if grant.leases or grant.is_held_back or is_over:
                    return grant
            woken = await line.waiter.wait(max(0.0, min(patience.deadline, line.look_at) - clock()))
            if not await still_there():
                return None

    @contextmanager
    def _callable(self, claim: Claim, patience: _Patience) -> Generator[None]:
        """Let the claim be called home while it waits."""
        if claim.instance is None:
            yield
            return
        topic = worker_topic(claim.tenant_id or PLATFORM, claim.instance)
        with self._wakeups.subscribe(topic, on_wake=patience.end):
            yield

    async def _look(self, claim: Claim, line: _Line) -> Grant:
        clock = asyncio.get_running_loop().time
        line.look_at = clock() + SETTLE_SECONDS
        grant = await self._dispatch.claim(claim)
        if grant.is_held_back:  # that says nothing of the line: the next one looks for itself
            line.look_at = 0.0
            return grant
        line.rich = len(grant.leases) == claim.limit
        if line.rich:
            line.look_at = 0.0
        elif not grant.leases:
            line.last = grant
            line.look_at = clock() + _pause(claim, grant)
        return grant

    @contextmanager
    def _line(self, claim: Claim) -> Generator[_Line]:
        asked = (claim.tenant_id, claim.queues, claim.tasks)
        # What one worker's look finds nothing for may fit another one, so they do not look for each other.
        key = asked, (claim.labels, claim.free)
        line = self._lines.get(key)
        if line is None:
            topics = [queue_topic(claim.tenant_id, queue) for queue in claim.queues]
            line = self._lines[key] = _Line(self._wakeups.subscribe(*topics))
        line.claims += 1
        try:
            yield line
        finally:
            line.claims -= 1
            if line.claims == 0:
                del self._lines[key]
                line.waiter.close()
                self._remember(asked)

    def _remember(self, key: Key) -> None:
        if len(self._asked) < MOST_REMEMBERED:
            self._asked[key] = None


def _pause(claim: Claim, grant: Grant) -> float:
    if claim.tenant_id is None:
        return SHARED_POLL_SECONDS
    if grant.next_due is None:
        return POLL_SECONDS
    return min(POLL_SECONDS, max(0.0, (grant.next_due - grant.now).total_seconds()) + EARLY_SECONDS)
