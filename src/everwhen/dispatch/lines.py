"""Waiting in line: a claim that finds nothing sleeps until something is due, and no longer than it was told to.

What ends the sleep: the next instant at which a run of these lines becomes due (known, since runs are planned ahead),
a wake-up (somebody asked for a run now), POLL_SECONDS (a wake-up may be lost), the claim's own patience, or the end of
the process. The due instant itself therefore costs one claim, and no message.

Claims that wait for the same lines share what one of them has seen. Whoever looks, looks for all: for SETTLE_SECONDS
the others stay asleep, and what becomes due meanwhile is taken together. A look that found nothing tells when the next
is worth while; one that took as much as it could carry wakes the others at once, since there is more. So a hundred
workers cost no more looks than one, a run now and then waits for nothing, and under load runs come in batches.

What is shared is a hint, kept in this process only: a look that it delays comes with the next poll at the latest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from everwhen.dispatch.service import Claim, Dispatch, Grant
from everwhen.postgres.wakeups import Wakeups, queue_topic

POLL_SECONDS: Final = 1.0
SHARED_POLL_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 0.02
EARLY_SECONDS: Final = 0.002
"""Wake a little after the due instant: by the database's clock it must have come."""

Key = tuple[UUID | None, tuple[str, ...], tuple[str, ...] | None]


@dataclass(slots=True)
class _Line:
    """What is known of the lines that some claims wait for. Before `look_at` (loop time) a look is not worth while."""

    look_at: float = 0.0
    claims: int = 0


class Lines:
    """The claims that wait in this process."""

    def __init__(self, dispatch: Dispatch, wakeups: Wakeups) -> None:
        self._dispatch = dispatch
        self._wakeups = wakeups
        self._lines: dict[Key, _Line] = {}
        self._closing = False

    def close(self) -> None:
        """Send everybody home with what there is, so that the process can stop."""
        self._closing = True
        self._wakeups.wake_everybody()

    async def take(
        self, claim: Claim, *, wait_seconds: float, still_there: Callable[[], Awaitable[bool]]
    ) -> Grant | None:
        """Claim, waiting up to `wait_seconds` for the first run; None when the caller is not there any more."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_seconds
        topics = [queue_topic(claim.tenant_id, queue) for queue in claim.queues]
        with self._line(claim) as line, self._wakeups.subscribe(*topics) as waiter:
            woken = False
            while True:
                patience = deadline - clock()
                if woken or patience <= 0 or self._closing or clock() >= line.look_at:
                    grant = await self._look(claim, line)
                    if grant.leases or patience <= 0 or self._closing:
                        return grant
                woken = await waiter.wait(max(0.0, min(deadline, line.look_at) - clock()))
                if not await still_there():
                    return None

    async def _look(self, claim: Claim, line: _Line) -> Grant:
        clock = asyncio.get_running_loop().time
        line.look_at = clock() + SETTLE_SECONDS
        grant = await self._dispatch.claim(claim)
        if len(grant.leases) == claim.limit:
            line.look_at = 0.0
            for queue in claim.queues:
                self._wakeups.wake(queue_topic(claim.tenant_id, queue))
        elif not grant.leases:
            line.look_at = clock() + _pause(claim, grant)
        return grant

    @contextmanager
    def _line(self, claim: Claim) -> Generator[_Line]:
        key = (claim.tenant_id, claim.queues, claim.tasks)
        line = self._lines.setdefault(key, _Line())
        line.claims += 1
        try:
            yield line
        finally:
            line.claims -= 1
            if line.claims == 0 and self._lines.get(key) is line:
                del self._lines[key]


def _pause(claim: Claim, grant: Grant) -> float:
    if claim.tenant_id is None:
        return SHARED_POLL_SECONDS
    if grant.next_due is None:
        return POLL_SECONDS
    return min(POLL_SECONDS, max(0.0, (grant.next_due - grant.now).total_seconds()) + EARLY_SECONDS)
