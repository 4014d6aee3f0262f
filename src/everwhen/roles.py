"""Roles: every loop of the system is one bounded, idempotent tick under the one loop in this module.

A role's `tick(now)` does one batch of work and says whether there is more, and when it knows the next work to be due.
The loop goes round at once if there is more; else it sleeps until the earliest of that instant, the role's interval
(the fallback for a lost wake-up), a wake-up, or the order to stop.

Every role is safe in any number of copies: rows are taken with SKIP LOCKED, and every write is guarded by what it
assumed. There is no leader, so nothing waits for an election when a copy dies.

What goes wrong is told apart. The database being away is expected: logged once per back-off, retried for ever, with
the wait growing to MOST_BACK_OFF. Any other exception is a defect; it propagates and ends the process, whose
supervisor starts a fresh one. One bad row never gets that far: a tick quarantines it and goes on.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, runtime_checkable

import psycopg
import structlog

from everwhen import metrics

MOST_BACK_OFF: Final = timedelta(seconds=10)
FIRST_BACK_OFF: Final = timedelta(milliseconds=100)

OUTAGE: Final = (
    psycopg.OperationalError,
    psycopg.errors.IdleInTransactionSessionTimeout,  # this process was stopped in the middle of a tick, and goes on
    psycopg.errors.ReadOnlySqlTransaction,  # the primary has become a standby under our connection
    OSError,
    TimeoutError,
)
"""What means that the database is away, or that we were: the next try may succeed."""

log = structlog.get_logger("everwhen.roles")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one tick did: units of work committed, whether a full batch was done, when work is known to be due."""

    done: int = 0
    more: bool = False
    next_at: datetime | None = None


class Role(Protocol):
    """One loop of the system."""

    @property
    def name(self) -> str:
        """What the role is called in settings, logs and metrics."""
        ...

    @property
    def interval(self) -> timedelta:
        """The longest sleep between two ticks."""
        ...

    async def tick(self, now: datetime) -> Tick:
        """Do one bounded batch of work as of `now`."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A role that leaves something under way between its ticks, and ends it when it is told to stop."""

    async def close(self) -> None:
        """End what is under way, in bounded time."""
        ...


@runtime_checkable
class Attentive(Protocol):
    """A role that is woken by more than its own name."""

    @property
    def topics(self) -> frozenset[str]:
        """What wakes it, too; asked for before each sleep."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What the loop needs besides the role: the database's clock, a wake-up to wait for, and the order to stop."""

    clock: Callable[[], Awaitable[datetime]]
    wait_for_wakeup: Callable[[float], Awaitable[None]]
    stop: asyncio.Event


async def run(role: Role, loop: Loop) -> None:
    """Tick until told to stop."""
    back_off = FIRST_BACK_OFF
    while not loop.stop.is_set():
        try:
            now = await _now(loop)
            if now is None:
                return
            with metrics.TICK_SECONDS.labels(role.name).time():
                tick = await role.tick(now)
        except OUTAGE as error:
            metrics.ERRORS.labels(role.name).inc()
            log.warning("role.database_away", role=role.name, error=str(error), retry_seconds=back_off.total_seconds())
            await _stopped_within(loop.stop, back_off.total_seconds())
            back_off = min(back_off * 2, MOST_BACK_OFF)
            continue
        metrics.TICKS.labels(role.name).inc()
        metrics.WORK.labels(role.name).inc(tick.done)
        back_off = FIRST_BACK_OFF
        if not tick.more:
            await _rest(role, loop, now=now, next_at=tick.next_at)


async def _now(loop: Loop) -> datetime | None:
    """Ask the clock; None when told to stop first: while the database is away, the question may wait for long."""
    asked = asyncio.ensure_future(loop.clock())
    stopped = asyncio.ensure_future(loop.stop.wait())
    try:
        await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else None
    finally:
        asked.cancel()
        stopped.cancel()
        await asyncio.gather(asked, stopped, return_exceptions=True)


async def _rest(role: Role, loop: Loop, *, now: datetime, next_at: datetime | None) -> None:
    seconds = role.interval.total_seconds()
    if next_at is not None:
        seconds = max(0.0, min(seconds, (next_at - now).total_seconds()))
    stopped = asyncio.ensure_future(loop.stop.wait())
    woken = asyncio.ensure_future(loop.wait_for_wakeup(seconds))
    try:
        await asyncio.wait({stopped, woken}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in (stopped, woken):
            waiter.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiter


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
