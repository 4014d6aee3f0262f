"""What operators want of this worker, carried out: drained or cordoned it claims nothing, and goes on when it may.

    active ──drain──> claims nothing ──(no claim under way)──> heard ──(holds nothing)──> empty ──exits?──> stops
       ↑      └─ gives back what was fetched ahead and has not begun                        │
       └────────────────────────────── uncordon ────────────────────────────────────────────┘

What comes from claims that were under way is carried out like everything else. Belongs to the event loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from everwhen.worker.completion import Completer
from everwhen.worker.execution import Execution
from everwhen.worker.fetching import Room
from everwhen.worker.presence import Presence
from everwhen.worker.protocol import Standing, Wish

log = logging.getLogger("everwhen.worker")


class Orders:
    """Follows the last order that was heard; `idle` waits until nothing executes here, `stop` ends the worker."""

    def __init__(
        self,
        *,
        room: Room,
        execution: Execution,
        completer: Completer,
        presence: Presence,
        idle: Callable[[], Awaitable[None]],
        stop: Callable[[], None],
    ) -> None:
        """Start as active."""
        self._room = room
        self._execution = execution
        self._completer = completer
        self._presence = presence
        self._idle = idle
        self._stop = stop
        self._followed: tuple[Wish, bool] = ("active", False)
        self._following: asyncio.Task[None] | None = None

    def follow(self, standing: Standing) -> None:
        """Do as is wanted; what is done already changes nothing."""
        wish, exits = standing.wish, standing.exits
        if (wish, exits) == self._followed:
            return
        log.info("worker.%s: %s", wish, _MEANING[wish])
        self._followed = (wish, exits)
        self.close()
        self._room.is_open = wish == "active"
        if wish == "active":
            self._presence.heard(wish)
            self._room.freed()
        else:
            self._following = asyncio.get_running_loop().create_task(self._leave_off(wish, exits=exits))

    def close(self) -> None:
        """Follow no further."""
        if self._following is not None:
            self._following.cancel()

    async def _leave_off(self, wish: Wish, *, exits: bool) -> None:
        if wish == "draining":
            self._execution.release_waiting()
        await self._room.quiet()
        self._presence.heard(wish)
        if wish != "draining":
            return
        await self._idle()
        await self._completer.settled()
        log.info("worker.drained%s", "; it stops" if exits else "")
        self._presence.say_soon()
        if exits:
            self._stop()


_MEANING = {
    "active": "it claims again",
    "cordoned": "it claims nothing",
    "draining": "it claims nothing, and finishes what it has",
}
