"""Leases: what this worker may believe, and the thread that keeps it true.

A lease is the right to execute one attempt until an instant that only the database knows. The worker cannot read that
clock, so it keeps a *pessimistic* deadline of its own: the monotonic time **before** the request was sent that
obtained or renewed the lease, plus the duration granted. However long the answer took, the true lease ends no earlier.

Invariants
    * Before its deadline passes unrenewed a lease is renewed in thirds of its duration, so two renewals in a row may
      fail without harm.
    * Past its deadline an attempt is *lost*, at once and for good, even should the server still have let it go on:
      no renewal revives it, its report is not sent. Nobody needs to be right about this. The token fences every
      report in the database; being pessimistic here only saves work whose result would be refused.
    * A lease is held from the claim until the server has answered the attempt's report, so a result that waits for
      a server that is away stays deliverable as long as the lease can be renewed.
    * While a report is on its way the answer to that report decides. A heartbeat that crosses it will find the
      lease gone *because* the report was accepted; `reporting` makes the keeper ignore that.
    * An attempt whose time-out has passed is renewed for one more lease, in which the loop should have ended it. A
      coroutine that blocks the loop for ever cannot be ended; its lease runs out, and the server gives the run
      to somebody else.

Why a thread: task code may hold the event loop (an async function that blocks) or the interpreter (a loop in pure
Python). The keeper shares nothing with either: its own thread, its own connection, its own clock. The interpreter hands
over the GIL every few milliseconds, which is all it needs. Only C code that never releases the GIL for a whole lease
can starve it, and then the lease is lost, as it should be.

Crash points
    * The process dies, or is stopped, anywhere: no more renewals; the server's reaper takes the lease back.
    * It is stopped for longer than a lease and goes on (SIGSTOP, a paused machine): the first tick finds the deadline
      in the past, marks the attempt lost and asks nobody. The clock counts suspended time where the system can.
    * A heartbeat is carried out and its answer lost: the server's lease is longer than we believe. Harmless.
    * A heartbeat is delayed and overtaken by the next: the server extends twice. Harmless; the deadline here moves
      only with the time of sending.
    * The answer of a *claim* is lost: the server holds leases for runs that we do not know. They run out.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from everwhen.worker._clock import Clock, Jitter
from everwhen.worker.backoff import Outage
from everwhen.worker.errors import ServerAway, WorkerError
from everwhen.worker.protocol import NOTHING, ClaimedRun, HeartbeatRequest, HeartbeatResponse, HeldLease, LeaseResult

log = logging.getLogger("everwhen.worker")

MOST_LEASES_PER_BEAT: Final = 500
LONGEST_TICK_SECONDS: Final = 1.0
SHORTEST_TICK_SECONDS: Final = 0.05
TICKS_A_LEASE: Final = 12
NEVER: Final = float("inf")

Beat = Callable[[HeartbeatRequest], HeartbeatResponse]
Notify = Callable[[Sequence["Lease"]], None]


class Lease:
    """One attempt's hold, shared by the loop, the keeper's thread and the task's thread.

    Every flag goes from False to True once, so that readers need no lock.
    """

    __slots__ = (
        "cancel_requested",
        "cancel_seen",
        "deadline",
        "details",
        "duration",
        "last_details",
        "lost",
        "released",
        "renew_at",
        "renew_until",
        "reporting",
        "run",
        "started_at",
        "timed_out",
        "zombie",
    )

    def __init__(self, run: ClaimedRun, *, sent: float, received: float, duration: float) -> None:
        """Take a grant: asked for at `sent`, known at `received`, for `duration` seconds."""
        self.run = run
        self.duration = duration
        self.deadline = sent + duration
        # A long poll may have used up part of what we may believe: renew half-way to the deadline then.
        self.renew_at = received + min(duration / 3, max(0.0, self.deadline - received) / 2)
        self.renew_until = NEVER
        self.details: msgspec.Raw | None = None
        self.last_details: object = None
        self.started_at: datetime | None = None
        self.lost = False
        self.cancel_requested = False
        self.cancel_seen = False
        self.timed_out = False
        self.zombie = False
        self.released = False
        self.reporting = False

    @property
    def ended(self) -> bool:
        """Whether the attempt is over, whatever its function still does."""
        return self.lost or self.timed_out or self.released

    def renewed(self, *, sent: float) -> None:
        """Move the deadline: the server confirmed a request sent then."""
        self.deadline = sent + self.duration
        self.renew_at = sent + self.duration / 3


class LeaseKeeper:
    """Renews every held lease, batched, from a daemon thread; tells the loop what was lost or is to be cancelled.

    `on_lost` and `on_cancel` are called on the keeper's thread.
    """

    def __init__(
        self, *, worker_id: str, lease_seconds: float, beat: Beat, clock: Clock, jitter: Jitter, outage: Outage
    ) -> None:
        """Prepare; `start` makes the thread."""
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds
        self._beat = beat
        self._clock = clock
        self._jitter = jitter
        self._outage = outage
        self._held: set[Lease] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._not_before = 0.0
        self._tick_seconds = min(LONGEST_TICK_SECONDS, lease_seconds / TICKS_A_LEASE)
        self._thread = threading.Thread(target=self._keep, name="everwhen-leases", daemon=True)
        self.on_lost: Notify = _ignore
        self.on_cancel: Notify = _ignore

    @property
    def count(self) -> int:
        """How many leases are held: runs that wait here or execute, and those whose report is not answered yet."""
        return len(self._held)

    @property
    def in_use(self) -> dict[str, float]:
        """What the runs under these leases take of the worker's resources."""
        with self._changed:
            taken = [lease.run.resources for lease in self._held if lease.run.resources is not msgspec.UNSET]
        in_use: dict[str, float] = {}
        for resources in taken:
            for name, amount in resources.items():
                in_use[name] = in_use.get(name, 0.0) + amount
        return in_use

    def start(self) -> None:
        """Start renewing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing and wait for the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def hold(self, leases: Iterable[Lease]) -> None:
        """Renew these from now on."""
        with self._changed:
            was_idle = not self._held
            taken = list(leases)
            self._held.update(taken)
            # A task's heartbeat time-out makes leases shorter than was asked for: look as often as the shortest needs.
            shortest = min((lease.duration for lease in taken), default=NEVER)
            faster = shortest / TICKS_A_LEASE < self._tick_seconds
            self._tick_seconds = min(self._tick_seconds, max(shortest / TICKS_A_LEASE, SHORTEST_TICK_SECONDS))
            if (was_idle and self._held) or faster:
                self._changed.notify()

    def drop(self, leases: Iterable[Lease]) -> None:
        """Forget these: their reports are answered, or they are lost."""
        with self._changed:
            self._held.difference_update(leases)

    def tick(self) -> None:
        """Mark what ran out, renew what is due; the whole of the keeper's work, once."""
        self._expire()
        for batch in _batches(self._due(self._clock())):
            self._renew(batch)
        self._expire()

    def _keep(self) -> None:
        while self._wait():
            try:
                self.tick()
            except Exception:
                log.exception("leases.tick_failed; the next tick tries again")

    def _wait(self) -> bool:
        with self._changed:
            while not self._held and not self._stopping:
                self._changed.wait()
            if not self._stopping:
                self._changed.wait_for(lambda: self._stopping, timeout=self._tick_seconds)
            return not self._stopping

    def _due(self, now: float) -> list[Lease]:
        """Return what to renew: nothing before something is due, then also what would be due soon after."""
        if now < self._not_before:
            return []
        with self._changed:
            held = [lease for lease in self._held if lease.renew_until > now]
        if not any(lease.renew_at <= now or lease.details is not None for lease in held):
            return []
        horizon = now + self._lease_seconds / 12
        return [lease for lease in held if lease.renew_at <= horizon or lease.details is not None]

    def _renew(self, batch: Sequence[Lease]) -> None:
        sent = self._clock()
        request, details = self._request(batch)
        try:
            answer = self._beat(request)
        except WorkerError as error:
            _put_back(batch, details)
            self._failed(error)
            return
        self._outage.recovered()
        self._apply(batch, answer.results, sent=sent)

    def _request(self, batch: Sequence[Lease]) -> tuple[HeartbeatRequest, list[msgspec.Raw | None]]:
        details: list[msgspec.Raw | None] = []
        for lease in batch:
            taken, lease.details = lease.details, None
            details.append(taken)
        held = [
            HeldLease(
                tenant_id=lease.run.tenant_id,
                run_id=lease.run.run_id,
                lease_token=lease.run.lease_token,
                details=taken or NOTHING,
                started_at=lease.started_at,
                zombie=lease.zombie,
            )
            for lease, taken in zip(batch, details, strict=True)
        ]
        return HeartbeatRequest(worker=self._worker_id, lease_seconds=self._lease_seconds, leases=held), details

    def _failed(self, error: WorkerError) -> None:
        asked = error.retry_after if isinstance(error, ServerAway) else None
        # Never later than a quarter of a lease, whatever the server asks: a lost lease costs it more than a request.
        delay = min(asked or self._tick_seconds * (1 + self._jitter()), self._lease_seconds / 4)
        self._not_before = self._clock() + delay
        self._outage.failed(ServerAway(f"leases not renewed: {error}"), delay=max(delay, self._lease_seconds / 3))

    def _apply(self, batch: Sequence[Lease], results: Sequence[LeaseResult], *, sent: float) -> None:
        gone: list[Lease] = []
        cancelled: list[Lease] = []
        for lease, result in zip(batch, results, strict=False):
            if result.status == "held":
                lease.renewed(sent=sent)
            elif not lease.reporting:
                gone.append(lease)
            if result.cancel_requested and not lease.cancel_requested:
                lease.cancel_requested = True
                cancelled.append(lease)
        self._lose(gone, why="the server gave it away or ended it")
        if cancelled:
            self.on_cancel(cancelled)

    def _expire(self) -> None:
        now = self._clock()
        with self._changed:
            expired = [lease for lease in self._held if lease.deadline <= now and not lease.reporting]
        self._lose(expired, why="it was not renewed in time")

    def _lose(self, leases: Sequence[Lease], *, why: str) -> None:
        if not leases:
            return
        self.drop(leases)
        for lease in leases:
            lease.lost = True
            log.warning("lease.lost run_id=%s task=%s: %s", lease.run.run_id, lease.run.task, why)
        self.on_lost(leases)


def _put_back(batch: Sequence[Lease], details: Sequence[msgspec.Raw | None]) -> None:
    for lease, taken in zip(batch, details, strict=True):
        if lease.details is None:
            lease.details = taken


def _batches(leases: list[Lease]) -> Iterable[list[Lease]]:
    for start in range(0, len(leases), MOST_LEASES_PER_BEAT):
        yield leases[start : start + MOST_LEASES_PER_BEAT]


def _ignore(leases: Sequence[Lease]) -> None:
    """Stand in until the session has set its own."""
    del leases
