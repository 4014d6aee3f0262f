"""Dispatch: hand runs to workers under a lease, renew the lease, take the report.

A worker may receive a run again after a time-out or a failover; two workers never hold a valid lease on one run. The
lease row is the grant: who deletes it, by its token, closes the attempt. Each crash point:

* The claim commits, and the answer never reaches the worker: the lease runs out, the reaper puts the run back.
* The worker dies, hangs or loses the network: the same. If it comes back, its token is no longer the run's; the report
  is refused, recorded, and the run does not move.
* The report commits, and the answer never reaches the worker: it reports again, and is told that the lease is gone. It
  has nothing to do: what it reported has been counted.
* Two reports of one attempt at once: the second waits for the row lock and finds no lease.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final
from uuid import UUID

import psycopg

from everwhen import failpoints, metrics
from everwhen.claim_limits import releasing
from everwhen.claim_limits import service as claim_limits
from everwhen.claim_limits.sitting import Line
from everwhen.core import lanes as fairness
from everwhen.core.fleets import PLATFORM
from everwhen.core.lanes import Lane, Share
from everwhen.core.lifecycle import TERMINAL, Refused, Transition
from everwhen.core.named import Asked, Named
from everwhen.dispatch import naming, reports, sharing, store
from everwhen.dispatch.loads import freed_lanes, wake_freed, with_load
from everwhen.dispatch.model import DEADLINE_GRACE_SECONDS, HeldLease, Lease, Moved, Renewal, ToRenew
from everwhen.dispatch.refusals import Reporter, answer_to, refusal_of, refuse, was_closed, without_payload
from everwhen.dispatch.reports import Closing
from everwhen.dispatch.sharing import Round
from everwhen.dispatch.taking import Aged, AgedLines, Claim, UnmarkedLanes, take
from everwhen.errors import Unavailable
from everwhen.postgres.pool import Connection, Database
from everwhen.runs.ends import Ended, OnEnded, nobody_follows
from everwhen.worker.protocol import Report, ReportResult

MOST_TRIES: Final = 10
"""How often a claim begins anew, because it met runs of limited tasks in a line of which nobody knew that."""

UNSTORABLE: Final = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)
"""What PostgreSQL says of JSON that it cannot hold: NUL, lone surrogates, numbers without end, depth without end."""

UNREADABLE: Final = f"it nests deeper than {reports.MOST_DEPTH}, or holds a number that is too large to be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The leases of a claim, as of `now` by the database; without any, when the next run of its lines becomes due.

    `is_held_back`: the worker is drained, cordoned or about to stop, and is given nothing.
    `named` says what became of each run that the claim named.
    """

    leases: list[Lease]
    now: datetime
    next_due: datetime | None = None
    is_held_back: bool = False
    named: Mapping[UUID, Named] = field(default_factory=dict[UUID, Named])


class Dispatch:
    """The use-cases of the hot path. Every method is one transaction, as a rule."""

    def __init__(self, database: Database, *, jitter: Callable[[], float], on_ended: OnEnded = nobody_follows) -> None:
        self._database = database
        self._jitter = jitter
        self._on_ended = on_ended
        self._turn = Round()
        self._aged = Aged()

    async def claim(self, claim: Claim, *, now: datetime | None = None) -> Grant:
        """Lease up to `limit` due runs; no lease is an ordinary answer."""
        line = claim.tenant_id, claim.queues
        claim = replace(claim, heeds_age=line in self._aged)
        for _ in range(MOST_TRIES):
            try:
                async with self._transaction(claim.tenant_id) as conn:
                    grant = await claim_on(conn, claim, turn=self._turn, now=now or conn.now)
                    failpoints.hit("claim.before_commit")
            except UnmarkedLanes as met:
                await self._mark(claim.tenant_id, met)
            except AgedLines:
                claim = replace(claim, heeds_age=True)
            else:
                self._aged.note(line, has_old=bool(grant.leases) and grant.leases[0].has_old)
                failpoints.hit("claim.after_commit")
                metrics.CLAIMED.inc(len(grant.leases))
                naming.count(grant.named)
                return grant
        raise Unavailable("The limits of these tasks change too fast; try again.", code="run.busy")

    async def _mark(self, tenant_id: UUID | None, met: UnmarkedLanes) -> None:
        for lane in met.lanes:  # one at a time: who locks several does it in their order
            async with self._transaction(tenant_id) as conn:
                await claim_limits.mark_lane(conn, lane, is_new=met.stale)

    async def renew(
        self,
        tenant_id: UUID | None,
        leases: Sequence[ToRenew],
        *,
        lease_seconds: float,
        queues: Collection[str] | None = None,
        now: datetime | None = None,
    ) -> dict[int, Renewal]:
        """Renew leases; one whose token is not in the answer is lost.

        `queues` are those that the caller may work at; None: all.
        """
        try:
            return await self._renew(tenant_id, leases, lease_seconds=lease_seconds, queues=queues, now=now)
        except UNSTORABLE:  # details are for people; the lease is what counts
            bare = [replace(lease, details=None) for lease in leases]
            return await self._renew(tenant_id, bare, lease_seconds=lease_seconds, queues=queues, now=now)

    async def held_input(
        self, tenant_id: UUID, run_id: UUID, token: int, *, queues: Collection[str] | None = None
    ) -> str | None:
        """Return the input of a run, as JSON text, for whoever holds its lease by this token; None: nobody does."""
        async with self._transaction(tenant_id) as conn:
            return await store.find_held_input(
                conn, tenant_id=tenant_id, run_id=run_id, token=token, allowed=queues, now=conn.now
            )

    async def complete(
        self,
        tenant_id: UUID | None,
        worker: str,
        batch: Sequence[Report],
        *,
        queues: Collection[str] | None = None,
        now: datetime | None = None,
    ) -> list[ReportResult]:
        """Take a batch of reports: decide each, write all, refuse the stale ones. The answers keep the order.

        A payload that the database cannot hold, or that nobody could read, is set aside, with a word in its place, and
        holds nobody else up.
        """
        readable = [each if reports.is_readable(each.result) else without_payload(each, UNREADABLE) for each in batch]
        return await self._complete_by_halves(Reporter(tenant_id, worker, queues), readable, now=now)

    async def _complete_by_halves(
        self, reporter: Reporter, batch: Sequence[Report], *, now: datetime | None
    ) -> list[ReportResult]:
        try:
            return await self._complete(reporter, batch, now=now)
        except UNSTORABLE as error:
            if len(batch) == 1:
                bare = without_payload(batch[0], str(error).splitlines()[0])
                return await self._complete(reporter, [bare], now=now)
        half = len(batch) // 2
        first = await self._complete_by_halves(reporter, batch[:half], now=now)
        return first + await self._complete_by_halves(reporter, batch[half:], now=now)

    async def _renew(
        self,
        tenant_id: UUID | None,
        leases: Sequence[ToRenew],
        *,
        lease_seconds: float,
        queues: Collection[str] | None,
        now: datetime | None,
    ) -> dict[int, Renewal]:
        async with self._transaction(tenant_id) as conn:
            renewals = await store.renew_leases(
                conn,
                tenant_ids=[lease.tenant_id for lease in leases],
                run_ids=[lease.run_id for lease in leases],
                tokens=[lease.lease_token for lease in leases],
                details=[lease.details for lease in leases],
                started_ats=[lease.started_at for lease in leases],
                allowed=queues,
                lease_seconds=lease_seconds,
                deadline_grace_seconds=DEADLINE_GRACE_SECONDS,
                now=now or conn.now,
            )
            kept = {renewal.lease_token for renewal in renewals}
            zombies = [lease for lease in leases if lease.is_zombie and lease.lease_token in kept]
            if zombies:
                await store.record_zombies(
                    conn,
                    tenant_ids=[lease.tenant_id for lease in zombies],
                    run_ids=[lease.run_id for lease in zombies],
                    tokens=[lease.lease_token for lease in zombies],
                    now=now or conn.now,
                )
            failpoints.hit("heartbeat.before_commit")
        failpoints.hit("heartbeat.after_commit")
        return {renewal.lease_token: renewal for renewal in renewals}

    async def _complete(
        self, reporter: Reporter, batch: Sequence[Report], *, now: datetime | None
    ) -> list[ReportResult]:
        async with self._transaction(reporter.tenant_id) as conn:
            now = now or conn.now
            held = await store.lock_leases(
                conn,
                tenant_ids={report.tenant_id for report in batch},
                run_ids=[report.run_id for report in batch],
                judged=[report.run_id for report in batch if reports.is_judged(report)],
                allowed=reporter.queues,
            )
            decided = self._decide(batch, held, now=now)
            closings = [c for c in decided if isinstance(c, Closing)]
            closed = await close(conn, closings, now=now, on_ended=self._on_ended)
            tokens = {closing.lease_token for closing in closed}
            refused = {i: refusal_of(c) for i, c in enumerate(decided) if not was_closed(c, tokens)}
            states = await refuse(conn, reporter, [(batch[i], reason) for i, reason in refused.items()], now=now)
            failpoints.hit("complete.before_commit")
        failpoints.hit("complete.after_commit")
        count_closed(closed)
        metrics.REFUSED.inc(len(refused))
        return [answer_to(report, decided[i], refused.get(i), states) for i, report in enumerate(batch)]

    def _decide(self, batch: Sequence[Report], held: Sequence[HeldLease], *, now: datetime) -> list[Closing | Refused]:
        leases = {lease.lease_token: lease for lease in held}  # no two leases ever have one token
        decided: list[Closing | Refused] = []
        for report in batch:
            token = reports.parse_token(report.lease_token)
            lease = leases.get(token)
            if lease is not None and (lease.run_id != report.run_id or lease.tenant_id != report.tenant_id):
                lease = None  # the token of another run
            answer = reports.decide_report(report, lease, token=token, now=now, jitter=self._jitter())
            if isinstance(answer, Transition):
                del leases[token]  # a second report of it in one batch finds no lease, as it would in a later batch
                decided.append(reports.closing(report, token=token, transition=answer))
            else:
                decided.append(answer)
        return decided

    @asynccontextmanager
    async def _transaction(self, tenant_id: UUID | None) -> AsyncGenerator[Connection]:
        scope = self._database.system() if tenant_id is None else self._database.tenant(tenant_id)
        async with scope as conn:
            yield conn


async def held_attempt(
    conn: Connection, *, tenant_id: UUID, run_id: UUID, token: int, queues: Collection[str] | None = None
) -> int | None:
    """Return which attempt of a run is held by this token, in the caller's transaction; None: it is not held so."""
    return await store.find_held_attempt(
        conn, tenant_id=tenant_id, run_id=run_id, token=token, allowed=queues, now=conn.now
    )


async def claim_on(conn: Connection, claim: Claim, *, turn: Round, now: datetime) -> Grant:
    """Lease up to `limit` due runs in the caller's transaction.

    Raises:
        UnmarkedLanes: it has to begin anew, once these lines are marked.
    """
    if claim.run_ids is not None and claim.tenant_id is not None:
        return await _claim_named(conn, claim, claim.tenant_id, claim.run_ids, turn=turn, now=now)
    shares = await _shares(conn, claim, turn=turn, now=now)
    claim = _within_room(claim, shares)
    leases, look_at = await _leased(conn, claim, shares, now=now) if shares else ([], None)
    if leases and claim.tenant_id is None:
        if more := sharing.second_helping(shares, leases, limit=claim.limit):
            rest = replace(claim, limit=claim.limit - len(leases), free=sharing.left_free(claim.free, leases))
            leases = [*leases, *(await _leased(conn, rest, more, now=now, is_second=True))[0]]
        await sharing.charge(conn, shares, leases, limit=claim.limit)
    if leases:
        return Grant(leases=leases, now=now)
    if claim.instance is not None and await store.is_held_back(
        conn, tenant_id=claim.tenant_id or PLATFORM, instance=claim.instance
    ):
        return Grant(leases=[], now=now, is_held_back=True)
    if claim.tenant_id is None:
        return Grant(leases=[], now=now)
    due_at = await store.next_due(conn, tenant_id=claim.tenant_id, queues=claim.queues, now=now)
    next_due = min((each for each in (due_at, look_at) if each is not None), default=None)
    return Grant(leases=[], now=now, next_due=next_due)


def _within_room(claim: Claim, shares: Sequence[Share]) -> Claim:
    """Return a claim of a tenant's for no more than its limit leaves to its lines together."""
    rooms = [each.lane.tenant_room for each in shares if each.lane.tenant_room is not None]
    return replace(claim, limit=min(claim.limit, *rooms)) if rooms and claim.tenant_id is not None else claim


async def _claim_named(
    conn: Connection, claim: Claim, tenant_id: UUID, run_ids: Sequence[UUID], *, turn: Round, now: datetime
) -> Grant:
    """Lease those of the named runs that can be had, and say of the others why not."""
    shares = await _shares(conn, claim, turn=turn, now=now)
    claim = _within_room(claim, shares)
    lines = [Line(tenant_id=share.lane.tenant_id, queue=share.lane.queue, quota=share.quota) for share in shares]
    sitting = await claim_limits.choose_named(
        conn, lines, run_ids=run_ids, tasks=claim.tasks, limit=claim.limit, now=now, capacity=claim.capacity
    )
    leases = await take(conn, claim, (), now=now, capped=shares, chosen=sitting.taken) if sitting.taken else []
    await claim_limits.settle(conn, sitting)
    if (
        not leases
        and claim.instance is not None
        and await store.is_held_back(conn, tenant_id=tenant_id, instance=claim.instance)
    ):
        return Grant(leases=[], now=now, is_held_back=True, named=dict.fromkeys(run_ids, Named.BUSY))
    open_queues = {line.queue for line in lines if (tenant_id, line.queue) not in sitting.dry}
    asked = Asked(queues=claim.queues, tasks=claim.tasks, open_queues=open_queues)
    told = await naming.tell(conn, tenant_id=tenant_id, run_ids=run_ids, leases=leases, asked=asked, now=now)
    return Grant(leases=leases, now=now, named=told)


async def _shares(conn: Connection, claim: Claim, *, turn: Round, now: datetime) -> list[Share]:
    if claim.tenant_id is None:
        rows = await sharing.lock_lanes(
            conn,
            claim.queues,
            claim.tasks,
            instance=claim.instance,
            capacity=claim.capacity,
            turn=turn,
            now=now,
        )
        return fairness.allot(await with_load(conn, rows, waits=False), limit=claim.limit)
    limited = await store.lock_limited_lanes(
        conn, tenant_id=claim.tenant_id, queues=claim.queues, instance=claim.instance, now=now
    )
    by_queue = {lane.queue: lane for lane in await with_load(conn, limited, waits=True)}
    # Between the queues of one tenant the worker's order decides: each may fill the claim as far as its limit allows.
    lines = [by_queue.get(queue) or Lane(tenant_id=claim.tenant_id, queue=queue) for queue in claim.queues]
    return [share for lane in lines for share in fairness.allot([lane], limit=claim.limit)]


async def _leased(
    conn: Connection, claim: Claim, shares: Sequence[Share], *, now: datetime, is_second: bool = False
) -> tuple[list[Lease], datetime | None]:
    """Lease; return as well when another look is worth while, where limits know."""
    if any(share.lane.is_limited for share in shares):
        return await _take_within_limits(conn, claim, shares, now=now, is_second=is_second)
    leases = await take(conn, claim, shares, capped=shares, now=now)
    if unmarked := {(lease.tenant_id, lease.queue) for lease in leases if lease.is_limited}:
        raise UnmarkedLanes(unmarked)
    return leases, None


async def _take_within_limits(
    conn: Connection, claim: Claim, shares: Sequence[Share], *, now: datetime, is_second: bool
) -> tuple[list[Lease], datetime | None]:
    lines = [Line(tenant_id=share.lane.tenant_id, queue=share.lane.queue, quota=share.quota) for share in shares]
    sitting = await claim_limits.choose(
        conn,
        lines,
        tasks=claim.tasks,
        limit=claim.limit,
        now=now,
        capacity=claim.capacity,
        is_second=is_second,
    )
    leases: list[Lease] = []
    if sitting.taken:
        leases = await take(conn, claim, (), capped=shares, now=now, chosen=sitting.taken)
    await claim_limits.settle(conn, sitting)
    return leases, sitting.look_at


async def close(
    conn: Connection, closings: Sequence[Closing], *, now: datetime, on_ended: OnEnded
) -> Sequence[Closing]:
    """Write these decisions, and what follows from them; return those whose lease still held.

    What they free of limits is given on right before the caller's transaction commits.
    """
    if not closings:
        return ()
    rows = await store.close_attempts(conn, now=now, **reports.columns(closings))
    followed = {row.lease_token: row.followed_end for row in rows}
    closed = [closing for closing in closings if closing.lease_token in followed]
    freed = {row.lease_token: row.freed_queue for row in rows if row.freed_queue is not None}
    await wake_freed(conn, freed_lanes({each.lease_token: each.tenant_id for each in closed}, freed))
    limited = {row.lease_token: row for row in rows if row.limited_task is not None}
    for closing in closed if limited else ():
        if (row := limited.get(closing.lease_token)) is not None and row.limited_task is not None:
            releasing.free(conn, (closing.tenant_id, row.limited_task), row.limit_key or "")
    moved = [
        Moved(
            tenant_id=closing.tenant_id,
            run_id=closing.run_id,
            followed_end=end,
            reason=closing.transition.reason and closing.transition.reason.value,
        )
        for closing in closed
        if (end := followed[closing.lease_token]) is not None
    ]
    await follow(conn, moved, now=now, on_ended=on_ended)
    return closed


async def follow(conn: Connection, moved: Sequence[Moved], *, now: datetime, on_ended: OnEnded) -> None:
    """Hand over the ends that somebody follows."""
    ended = [
        Ended(tenant_id=each.tenant_id, run_id=each.run_id, state=each.followed_end, reason=each.reason)
        for each in moved
        if each.followed_end is not None
    ]
    if ended:
        await on_ended(conn, ended, now)


def count_closed(closings: Iterable[Closing]) -> None:
    """Count what was committed, for whoever collects metrics: once for each word, since a counter takes a lock."""
    transitions = [closing.transition for closing in closings]
    for outcome, count in Counter(each.outcome for each in transitions).items():
        if outcome is not None:
            metrics.CLOSED.labels(outcome.value).inc(count)
    for state, count in Counter(each.to for each in transitions).items():
        if state in TERMINAL:
            metrics.ENDED.labels(state.value).inc(count)
