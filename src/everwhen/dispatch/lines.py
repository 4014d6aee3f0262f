"""Waiting in line: a claim that finds nothing sleeps until something is due, and no longer than it was told to.

What ends the sleep: the next instant at which a run of these lines becomes due (known, since runs are planned ahead),
a wake-up (somebody asked for a run now), POLL_SECONDS (a wake-up may be lost), the claim's own patience, or the end of
the process. The due instant itself therefore costs one claim, and no message.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from everwhen.dispatch.service import Claim, Dispatch, Grant
from everwhen.postgres.wakeups import Wakeups, queue_topic

POLL_SECONDS: Final = 1.0
SHARED_POLL_SECONDS: Final = 0.25
EARLY_SECONDS: Final = 0.002
"""Wake a little after the due instant: by the database's clock it must have come."""


class Lines:
    """The claims that wait in this process."""

    def __init__(self, dispatch: Dispatch, wakeups: Wakeups) -> None:
        self._dispatch = dispatch
        self._wakeups = wakeups
        self._closing = False

    def close(self) -> None:
        """Send everybody home with what there is, so that the process can stop."""
        self._closing = True
        self._wakeups.wake_everybody()

    async def take(self, claim: Claim, *, wait_seconds: float, still_there: Callable[[], Awaitable[bool]]) -> Grant:
        """Claim, waiting up to `wait_seconds` for the first run; never for a caller that is not there any more."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_seconds
        topics = [queue_topic(claim.tenant_id, queue) for queue in claim.queues]
        with self._wakeups.subscribe(*topics) as waiter:
            while True:
                grant = await self._dispatch.claim(claim)
                patience = deadline - clock()
                if grant.leases or patience <= 0 or self._closing:
                    return grant
                await waiter.wait(min(patience, _pause(claim, grant)))
                if not await still_there():
                    return grant


def _pause(claim: Claim, grant: Grant) -> float:
    if claim.tenant_id is None:
        return SHARED_POLL_SECONDS
    if grant.next_due is None:
        return POLL_SECONDS
    return min(POLL_SECONDS, max(0.0, (grant.next_due - grant.now).total_seconds()) + EARLY_SECONDS)
