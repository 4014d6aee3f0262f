"""The sentinel: notices what is late or stands still, whoever is to blame, and keeps the punctuality of schedules.

    facts of a kind ──> a finding that is open: seen again     not seen, and all facts were: closed
                    ──> no finding: opened                     each opening and closing leaves an event

It looks at what is there, not at who ought to have done it, so it notices that all schedulers are gone as well as that
one schedule is stuck. It has no memory of its own: whichever copy looks next goes on.

Invariants

1. One finding is open for each tenant, kind and subject (a unique index), and a closed one is never touched again.
2. A finding is opened once and closed once, each with its event, in the transaction that changes it.
3. Each look is bounded: at most MOST_FACTS of a kind. While there are more, none of that kind is closed, since what was
   not seen may only not have been looked at.
4. A run is counted once: the watermark of its schedule moves in the transaction that counts it, and never beyond what
   the planner has decided, so that a run planned late is counted as late. It is counted a while after it was due, when
   it can be told whether it started in time.

Copies: one works at a time, by a row that is locked for the length of the look (SKIP LOCKED); the others rest. A copy
that dies gives the lock back with its connection, and what it had not committed is looked at again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from everwhen import failpoints
from everwhen.core.punctuality import DEFAULT_OBJECTIVE_SECONDS
from everwhen.postgres.pool import Connection, Database
from everwhen.roles import Tick
from everwhen.sentinel import store
from everwhen.sentinel.counting import count_days
from everwhen.sentinel.model import Fact, FindingKind, MeasuredSchedule, Start, WaitingLine

MOST_FACTS: Final = 1_000
PAGE: Final = 500
"""How many schedules one look counts for."""

MOST_STARTS: Final = 1_000
"""How many runs of one schedule one look counts."""

ROUND_EVERY: Final = timedelta(minutes=1)
SETTLE: Final = timedelta(minutes=10)
"""How long after it was due a run is counted, or as long as its objective, if that is longer."""

FIRST: Final = (UUID(int=0), UUID(int=0))


@dataclass(slots=True)
class _Place:
    """Where the count goes on, and when its last round ended."""

    after: tuple[UUID, UUID] = FIRST
    rested_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """The role. `overdue` and `waiting` are how long planning and claiming may be late before it is a finding."""

    database: Database
    overdue: timedelta = timedelta(seconds=60)
    waiting: timedelta = timedelta(seconds=60)
    name: str = "sentinel"
    interval: timedelta = timedelta(seconds=5)
    most_facts: int = MOST_FACTS
    place: _Place = field(default_factory=_Place)

    async def tick(self, now: datetime) -> Tick:
        """Look at everything once, and count for one page of schedules."""
        async with self.database.system() as conn:
            if await store.lock_sentinel(conn) is None:
                return Tick()
            changed = await self._look(conn, now)
            failpoints.hit("sentinel.before_commit")
        failpoints.hit("sentinel.after_commit")
        counted, more = await self._count(now)
        return Tick(done=changed + counted, more=more)

    async def _look(self, conn: Connection, now: datetime) -> int:
        before, limit = now - self.overdue, self.most_facts
        lines = await store.lines_that_wait(conn, before=now - self.waiting, limit=limit)
        found: dict[FindingKind, tuple[Sequence[Fact | WaitingLine], bool]] = {
            FindingKind.LINE_WAITING: ([line for line in lines if not line.is_unattended], len(lines) < limit),
            FindingKind.LINE_UNATTENDED: ([line for line in lines if line.is_unattended], len(lines) < limit),
        }
        for kind, facts in (
            (FindingKind.SCHEDULE_OVERDUE, await store.overdue_schedules(conn, before=before, limit=limit)),
            (FindingKind.SCHEDULE_PUT_OFF, await store.schedules_put_off(conn, limit=limit)),
            (FindingKind.GATE_STANDING_STILL, await store.gates_standing_still(conn, before=before, limit=limit)),
            (FindingKind.CATCH_UP_STANDING_STILL, await store.arrears_standing_still(conn, before=before, limit=limit)),
            (
                FindingKind.OPERATION_STANDING_STILL,
                await store.operations_standing_still(conn, before=before, limit=limit),
            ),
            (
                FindingKind.WORKFLOW_STANDING_STILL,
                await store.workflows_standing_still(conn, before=before, limit=limit),
            ),
            (FindingKind.LEASES_UNREAPED, await store.leases_unreaped(conn, before=before, limit=limit)),
            (FindingKind.RUNS_UNEXPIRED, await store.runs_unexpired(conn, before=before, limit=limit)),
            (FindingKind.ALERTS_STANDING_STILL, await store.alerts_standing_still(conn, before=before, limit=limit)),
            (FindingKind.CHANNEL_DISABLED, await store.channels_disabled(conn, limit=limit)),
        ):
            found[kind] = facts, len(facts) < limit
        return sum([
            await self._keep(conn, kind, facts, saw_all=saw_all, now=now) for kind, (facts, saw_all) in found.items()
        ])  # fmt: skip

    async def _keep(
        self, conn: Connection, kind: FindingKind, facts: Sequence[Fact | WaitingLine], *, saw_all: bool, now: datetime
    ) -> int:
        changed = 0
        if facts:
            changed += await store.record_facts(
                conn,
                kind=kind,
                tenant_ids=[fact.tenant_id for fact in facts],
                subjects=[fact.subject for fact in facts],
                sinces=[fact.since for fact in facts],
                details=[fact.detail for fact in facts],
                now=now,
            )
        if saw_all:
            changed += await store.close_unseen(conn, kind=kind, now=now, limit=self.most_facts)
        return changed

    async def _count(self, now: datetime) -> tuple[int, bool]:
        """Count for the next page of schedules; say how many runs, and whether the round goes on."""
        place = self.place
        if place.after == FIRST and place.rested_at is not None and now < place.rested_at + ROUND_EVERY:
            return 0, False
        async with self.database.system() as conn:
            if await store.lock_sentinel(conn) is None:
                return 0, False
            tenant_id, uid = place.after
            page = await store.page_measured(
                conn,
                after_tenant_id=tenant_id,
                after_uid=uid,
                default_objective=DEFAULT_OBJECTIVE_SECONDS,
                limit=PAGE,
            )
            counted, is_behind = await _count_page(conn, list(_ready(page, now=now)))
        if is_behind:
            return counted, True  # the same page again: some schedule has more to count
        if len(page) == PAGE:
            place.after = page[-1].tenant_id, page[-1].schedule_uid
            return counted, True
        place.after, place.rested_at = FIRST, now
        return counted, False


def _ready(page: Iterable[MeasuredSchedule], *, now: datetime) -> Iterable[tuple[MeasuredSchedule, datetime]]:
    """Yield what may be counted, and until when: what is decided, and old enough to be judged."""
    for each in page:
        settled = now - max(SETTLE, timedelta(seconds=each.objective_seconds))
        until = min(each.decided_until, settled)
        if until > each.measured_until:
            yield each, until


async def _count_page(conn: Connection, ready: Sequence[tuple[MeasuredSchedule, datetime]]) -> tuple[int, bool]:
    if not ready:
        return 0, False
    tenant_ids = [each.tenant_id for each, _ in ready]
    uids = [each.schedule_uid for each, _ in ready]
    afters = [each.measured_until for each, _ in ready]
    untils = [until for _, until in ready]
    starts = await store.read_starts(
        conn, tenant_ids=tenant_ids, uids=uids, afters=afters, untils=untils, limit=MOST_STARTS
    )
    starts, untils, is_behind = _cut(ready, starts)
    missed = await store.read_missed(conn, tenant_ids=tenant_ids, uids=uids, afters=afters, untils=untils)
    objectives = {(each.tenant_id, each.schedule_uid): each.objective_seconds for each, _ in ready}
    days = count_days(starts, missed, objectives)
    if days:
        await store.add_days(
            conn,
            tenant_ids=[day.tenant_id for day in days],
            uids=[day.schedule_uid for day in days],
            days=[day.day for day in days],
            on_times=[day.on_time for day in days],
            lates=[day.late for day in days],
            bucket_lists=[str(day.buckets) for day in days],
        )
    await store.set_measured(conn, tenant_ids=tenant_ids, uids=uids, untils=untils)
    return len(starts), is_behind


def _cut(
    ready: Sequence[tuple[MeasuredSchedule, datetime]], starts: Sequence[Start]
) -> tuple[list[Start], list[datetime], bool]:
    """Return the starts to count, how far each schedule is counted by them, and whether one had more than fit.

    Of one that had more, those that were due last wait for the next look, which will see all that were due with them.
    """
    dues: dict[UUID, list[datetime]] = {}
    for start in starts:
        dues.setdefault(start.schedule_uid, []).append(start.due_at)
    cuts = {
        uid: max((at for at in found if at < found[-1]), default=found[-1])
        for uid, found in dues.items()
        if len(found) == MOST_STARTS
    }
    kept = [start for start in starts if start.schedule_uid not in cuts or start.due_at <= cuts[start.schedule_uid]]
    return kept, [cuts.get(each.schedule_uid, until) for each, until in ready], bool(cuts)
