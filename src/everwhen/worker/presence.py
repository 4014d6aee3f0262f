"""Presence: a worker says that it is there, every few seconds, and hears how it is wanted.

    announce ──known──> beat ──known──> beat …            stop: one beat that says so, then, at the very end, leave
        ^                 │
        └────not known────┘        (lost for so long that it was forgotten, or another database)

Nothing else depends on it. A server that has no such routes, has too many workers, or is away, costs a line in the log:
the worker works, and is not listed. So presence has a thread of its own, beside the one that renews leases, and neither
waits for the other.

What is said: the number of leases held, what they take of the resources, and the wish that this worker goes by. A
worker goes by a wish when none of its claims is under way any more, since a claim may come back with runs until then.
So whoever reads "has heard, holds nothing" knows that nothing is left.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from everwhen.worker._clock import Clock, Jitter
from everwhen.worker.errors import ServerAway, WorkerError
from everwhen.worker.protocol import Announcement, Beat, Leave, Standing, Wish
from everwhen.worker.transport import Transport

log = logging.getLogger("everwhen.worker")

AWAY_SECONDS: Final = 10.0
UNLISTED_SECONDS: Final = 60.0
"""When to try again where the server does not list this worker."""

LEAST_BEAT_SECONDS: Final = 1.0
MOST_BEAT_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a worker holds now."""

    held: int
    in_use: dict[str, float]


class Presence:
    """Announces a worker, beats for it from a daemon thread, and passes on what is wanted of it.

    `load` and `on_order` are called on that thread.
    """

    def __init__(
        self,
        *,
        announcement: Announcement,
        transport: Transport,
        load: Callable[[], Load],
        on_order: Callable[[Standing], None],
        clock: Clock,
        jitter: Jitter,
    ) -> None:
        """Prepare; `start` makes the thread."""
        self._announcement = announcement
        self._transport = transport
        self._load = load
        self._on_order = on_order
        self._clock = clock
        self._jitter = jitter
        self._changed = threading.Condition()
        self._heard: Wish = "active"
        self._stopping = False
        self._ended = False
        self._is_known = False
        self._said_unlisted = False
        self._due = 0.0
        self._soon = False
        self._asked = 0
        self._answered = 0
        self._thread = threading.Thread(target=self._keep, name="everwhen-presence", daemon=True)

    def start(self) -> None:
        """Announce, and go on beating."""
        self._thread.start()

    def heard(self, wish: Wish) -> None:
        """Say from now on that the worker goes by this wish, and say so soon."""
        with self._changed:
            if self._heard != wish:
                self._heard = wish
                self._soon = True
                self._changed.notify_all()

    def say_soon(self) -> None:
        """Beat now: something has changed that somebody waits for."""
        with self._changed:
            self._soon = True
            self._changed.notify_all()

    def stopping(self, *, wait_seconds: float) -> bool:
        """Say that the worker is about to end; return whether the server has heard it. Blocks."""
        with self._changed:
            self._stopping = self._soon = True
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answered >= mine or self._ended, timeout=wait_seconds)
            return self._answered >= mine and self._is_known

    def leave(self, *, wait_seconds: float) -> bool:
        """Say that the worker has stopped, and beat no more. Blocks; what takes too long is left to itself."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(wait_seconds)
        return not self._thread.is_alive()

    def tick(self) -> float:
        """Announce or beat, once; return the seconds until the next time."""
        with self._changed:
            asked, self._soon = self._asked, False
        try:
            standing = self._say()
            self._is_known = standing.known
        except WorkerError as error:
            return self._failed(error)
        finally:
            with self._changed:
                self._answered = max(self._answered, asked)
                self._changed.notify_all()
        return self._apply(standing)

    def _say(self) -> Standing:
        if self._is_known and (standing := self._beat()).known:
            return standing
        standing = self._transport.announce(self._announcement)
        return self._beat() if standing.known and self._stopping else standing

    def _beat(self) -> Standing:
        load = self._load()
        beat = Beat(
            instance=self._announcement.instance,
            held=load.held,
            in_use=load.in_use,
            heard=self._heard,
            stopping=self._stopping,
        )
        return self._transport.beat(beat)

    def _apply(self, standing: Standing) -> float:
        if self._said_unlisted and standing.known:
            log.info("worker.listed again")
            self._said_unlisted = False
        self._on_order(standing)
        seconds = min(max(standing.beat_seconds, LEAST_BEAT_SECONDS), MOST_BEAT_SECONDS)
        return seconds * (0.9 + 0.2 * self._jitter())

    def _failed(self, error: WorkerError) -> float:
        """Go on without being listed; the lease keeper and the claims tell of a server that is away."""
        if isinstance(error, ServerAway):
            return (error.retry_after or AWAY_SECONDS) * (1 + self._jitter())
        self._is_known = False
        if not self._said_unlisted:
            log.warning("worker.unlisted: %s; it works, and is not among the workers that people see", error)
            self._said_unlisted = True
        return UNLISTED_SECONDS * (1 + self._jitter())

    def _keep(self) -> None:
        while self._wait():
            try:
                seconds = self.tick()
            except Exception:
                log.exception("presence.failed; the next beat tries again")
                seconds = AWAY_SECONDS
            with self._changed:
                self._due = self._clock() + seconds
        self._say_goodbye()

    def _wait(self) -> bool:
        with self._changed:
            while not (self._ended or self._soon) and (left := self._due - self._clock()) > 0:
                self._changed.wait(left)
            return not self._ended

    def _say_goodbye(self) -> None:
        if not self._is_known:
            return
        try:
            self._transport.leave(Leave(instance=self._announcement.instance))
        except WorkerError as error:
            log.info("worker.left without a word: %s", error)
