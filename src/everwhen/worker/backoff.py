"""What to do while the server is away: wait longer each time, out of step with the fleet, and say so once."""

import logging
from dataclasses import dataclass, field

from everwhen.worker._clock import Clock, Jitter
from everwhen.worker.errors import ServerAway

log = logging.getLogger("everwhen.worker")

FIRST_DELAY_SECONDS = 0.25
LONGEST_DELAY_SECONDS = 15.0


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Delays that double up to a limit, each drawn from the upper half of its range; one per loop."""

    jitter: Jitter
    first: float = FIRST_DELAY_SECONDS
    longest: float = LONGEST_DELAY_SECONDS
    _failures: int = field(default=0, init=False)

    def next_delay(self, error: ServerAway) -> float:
        """Return the seconds to wait after this failure, never less than the server asked for."""
        ceiling = min(self.longest, self.first * 2 ** min(self._failures, 16))
        self._failures += 1
        return max(ceiling * (0.5 + self.jitter() / 2), (error.retry_after or 0.0) * (1 + self.jitter() / 10))

    def reset(self) -> None:
        """Forget the failures: the server answered."""
        self._failures = 0


@dataclass(slots=True, kw_only=True)
class Outage:
    """The one voice of all loops about the server being away: a line per back-off period, and one when it is back."""

    clock: Clock
    _quiet_until: float = field(default=0.0, init=False)
    _since: float | None = field(default=None, init=False)

    def failed(self, error: ServerAway, *, delay: float) -> None:
        """Log the failure unless another loop did so in this period."""
        now = self.clock()
        if self._since is None:
            self._since = now
        if now >= self._quiet_until:
            self._quiet_until = now + delay
            log.warning("server.away, trying again in %.1f s: %s", delay, error)

    @property
    def is_on(self) -> bool:
        """Whether the server was away when it was asked last."""
        return self._since is not None

    def recovered(self) -> None:
        """Log that the server is back, if it was away."""
        since, self._since = self._since, None
        if since is not None:
            self._quiet_until = 0.0
            log.info("server.back after %.1f s", self.clock() - since)
