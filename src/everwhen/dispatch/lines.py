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
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from everwhen.dispatch.service import Claim, Dispatch, Grant
from everwhen.postgres.wakeups import Waiter, Wakeups, queue_topic

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


class Lines:
    """The claims that wait in this process."""

    def __init__(self, dispatch: Dispatch, wakeups: Wakeups) -> None:
        self._dispatch = dispatch
        self._wakeups = wakeups
        self._lines: dict[Key, _Line] = {}
        self._asked: dict[Key, None] = {}
        self._closing = False

    def seen(self) -> list[Key]:
        """Return the lines at which claims have waited since the last call, or wait now: (tenant, queues, tasks)."""
        seen = [*self._asked, *self._lines]
        self._asked.clear()
        return seen

    def close(self) -> None:
        """Send everybody home with what there is, so that the process can stop."""
        self._closing = True
        self._wakeups.wake_everybody()

    async def take(
        self, claim: Claim, *, wait_seconds: float, still_there: Callable[[], Awaitable[bool]]
    ) -> Grant | None:
        """Claim, waiting up to `wait_seconds` for the first run; None when the caller is not there any more."""
        if wait_seconds <= 0 or self._closing:
            self._remember((claim.tenant_id, claim.queues, claim.tasks))
            return await self._dispatch.claim(claim)
        deadline = asyncio.get_running_loop().time() + wait_seconds
        with self._line(claim) as line:
            if line.rich and (grant := await self._look(claim, line)).leases:
                return grant
            waited = line.turn.locked()
            if not await _has_turn(line, deadline):
                return line.last or await self._dispatch.claim(claim)
            try:
                if waited and not await still_there():
                    return None
                return await self._watch(claim, line, deadline, still_there)
            finally:
                line.turn.release()

    async def _watch(
        self, claim: Claim, line: _Line, deadline: float, still_there: Callable[[], Awaitable[bool]]
    ) -> Grant | None:
        """Having the turn, look whenever it is worth while, until something is found or patience is over."""
        clock = asyncio.get_running_loop().time
        woken = False
        while True:
            patience = deadline - clock()
            if woken or patience <= 0 or self._closing or clock() >= line.look_at:
                grant = await self._look(claim, line)
                if grant.leases or patience <= 0 or self._closing:
                    return grant
            woken = await line.waiter.wait(max(0.0, min(deadline, line.look_at) - clock()))
            if not await still_there():
                return None

    async def _look(self, claim: Claim, line: _Line) -> Grant:
        clock = asyncio.get_running_loop().time
        line.look_at = clock() + SETTLE_SECONDS
        grant = await self._dispatch.claim(claim)
        line.rich = len(grant.leases) == claim.limit
        if line.rich:
            line.look_at = 0.0
        elif not grant.leases:
            line.last = grant
            line.look_at = clock() + _pause(claim, grant)
        return grant

    @contextmanager
    def _line(self, claim: Claim) -> Generator[_Line]:
        key = (claim.tenant_id, claim.queues, claim.tasks)
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
                self._remember(key)

    def _remember(self, key: Key) -> None:
        if len(self._asked) < MOST_REMEMBERED:
            self._asked[key] = None


async def _has_turn(line: _Line, deadline: float) -> bool:
    try:
        async with asyncio.timeout_at(deadline):
            return await line.turn.acquire()
    except TimeoutError:
        return False


def _pause(claim: Claim, grant: Grant) -> float:
    if claim.tenant_id is None:
        return SHARED_POLL_SECONDS
    if grant.next_due is None:
        return POLL_SECONDS
    return min(POLL_SECONDS, max(0.0, (grant.next_due - grant.now).total_seconds()) + EARLY_SECONDS)
