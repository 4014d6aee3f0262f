"""Checks limits in the transaction that uses what they are about.

What can be counted (schedules, tasks, channels, …) is counted once it is made, under a lock of the tenant: the lock is
taken, then the next statement counts, which sees what the lock's last holder has committed. Of two who make the last
one that there may be, the second finds one too many, and its transaction makes nothing.

Runs are counted by the day on which they become due, in rows of `run_counts`; how that keeps from being a queue of all
who make runs is told in the migration that makes the function `use_runs`. Whoever gets less room than it asked for:

    a request for one run        409, quota.runs_per_day
    the planner                  the latest of the plan are recorded as skipped, quota.runs_per_day
    catching up, an operation    goes on when there is room again; where it stands it says why
"""

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from everwhen.core.quotas import KINDS, Day, Limit, day_of
from everwhen.core.reasons import Reason
from everwhen.core.triggers import Timing, fires, next_after
from everwhen.core.zones import add
from everwhen.errors import InvalidInput, QuotaUsedUp
from everwhen.limits import store
from everwhen.limits.model import LimitsRow
from everwhen.postgres.pool import Connection

MOST_FIRES: Final = 2_000
LOOKED_AT: Final = timedelta(days=400)
"""How many fires of a trigger are looked at, from its first one on, to say how often it fires."""

_usual_runs = KINDS[Limit.RUNS].usual
assert _usual_runs is not None
USUAL_RUNS: Final[int] = _usual_runs


class Count(Protocol):
    """A statement that counts what a tenant has."""

    def __call__(self, conn: Connection, /, *, tenant_id: UUID) -> Awaitable[int]:
        """Return how many there are."""
        ...


async def refuse_over(conn: Connection, limit: Limit, count: Count, *, tenant_id: UUID) -> LimitsRow:
    """Raise QuotaUsedUp when the transaction has made more than there may be; return the tenant's limits."""
    limits = await store.hold_limits(conn, tenant_id=tenant_id)
    used, most = await count(conn, tenant_id=tenant_id), limits.of(limit)
    if used > most:
        detail = f"The tenant may have {most:,} {limit.value}, and has them: remove some, or ask the platform for more."
        raise QuotaUsedUp(detail, code=f"quota.{limit.value}", told={"limit": most, "used": used - 1})
    return limits


async def read(conn: Connection, *, tenant_id: UUID) -> LimitsRow:
    """Return the tenant's limits."""
    return await store.read_limits(conn, tenant_id=tenant_id)


def refuse_attempts(limits: LimitsRow, attempts: int, *, pointer: str = "/retry/max_attempts") -> None:
    """Raise InvalidInput when a retry policy asks for more attempts than the tenant may have."""
    most = limits.of(Limit.ATTEMPTS)
    if attempts > most:
        detail = f"The tenant may ask for {most:,} attempts at most."
        raise InvalidInput.at(pointer, detail, code="quota.attempts")


def refuse_frequent(limits: LimitsRow, timing: Timing, *, after: datetime) -> None:
    """Raise InvalidInput when a trigger fires more often than the tenant's schedules may."""
    least = limits.of(Limit.MINIMUM_INTERVAL)
    if least <= 1:  # no trigger fires more than once a second
        return
    before, gap = None, timedelta(seconds=least)
    first = next_after(timing, after)
    until = None if first is None else add(first, LOOKED_AT)
    for at in fires(timing, after=after, until=until, count=MOST_FIRES):
        if before is not None and at - before < gap:
            detail = (
                f"It fires at {before.isoformat()} and {(at - before).total_seconds():g} s later; schedules of the"
                f" tenant fire every {least} s at most."
            )
            raise InvalidInput.at("/trigger", detail, code="quota.minimum_interval_seconds")
        before = at


async def use_runs(conn: Connection, wanted: Mapping[Day, int]) -> dict[Day, int]:
    """Count these runs; return, for the days where there is not room for all of them, for how many there is."""
    days = [day for day, count in wanted.items() if count > 0]
    if not days:
        return {}
    found = await store.use_runs(
        conn,
        tenant_ids=[tenant_id for tenant_id, _ in days],
        days=[day for _, day in days],
        wanted=[wanted[day] for day in days],
        usual=USUAL_RUNS,
    )
    return {day: room.granted for day, room in zip(days, found, strict=True) if room.granted < wanted[day]}


async def use_one_run(conn: Connection, *, tenant_id: UUID, due_at: datetime) -> None:
    """Count one run; raise QuotaUsedUp when there is no room for it."""
    day = tenant_id, day_of(due_at)
    if await use_runs(conn, {day: 1}):
        raise runs_used_up(due_at)


async def give_back_runs(conn: Connection, unused: Mapping[Day, int]) -> None:
    """Count so many runs less."""
    days = [day for day, count in unused.items() if count > 0]
    if days:
        await store.give_back_runs(
            conn,
            tenant_ids=[tenant_id for tenant_id, _ in days],
            days=[day for _, day in days],
            runs=[unused[day] for day in days],
        )


def runs_used_up(due_at: datetime) -> QuotaUsedUp:
    """Return what is answered to whoever asks for a run of a day that has as many as it may have."""
    day = day_of(due_at)
    detail = f"The tenant's runs of {day.isoformat()} (UTC) are used up: ask for one on another day, or for more."
    return QuotaUsedUp(detail, code=Reason.QUOTA_RUNS_PER_DAY, told={"day": day.isoformat()})


def next_day(now: datetime) -> datetime:
    """Return when there is room again."""
    return (now.astimezone(UTC) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
