"""Calling: a run of a queue that has an endpoint is leased, posted, and closed by what the endpoint answers.

    due ──claim──> leased ──post──> 2xx        succeeded
                                    202        accepted: the lease is made longer, and whoever accepted it reports
                                    429, 503   given back, and the endpoint rests (core/endpoints.py)
                                    otherwise  failed; another attempt, or none, by the task's policy

The caller is a worker like any other: it claims, and it reports with its lease token. What a broker or a worker in
another process might do at the same time, a lost lease, a limit, a pause and a cancel are therefore nothing of its
own.

Invariants

1. Nothing is posted without a lease, and no report counts without it: zero rows is an answer.
2. A lease outlasts the request by GRACE, so no other caller posts the same attempt. Whoever finds the lease run out
   posts the next attempt: the endpoint may have had this one. At least once, and counted; `idempotency-key` is the
   same.
3. An endpoint that hangs holds back its own queue: no more than PER_ENDPOINT of its requests, and PER_TENANT of its
   tenant's, are under way in a process, and nothing is claimed for it that has no room.
4. What raises while a run is written or posted is a defect of ours: it is logged, the attempt fails, and nobody
   else's is held up.
5. What the endpoint says in its body is not read: a tenant could make this server ask, and read the answer.

Crash points. Before the claim commits nothing has happened. Between the claim and the post, and between the post and
the report, the lease runs out, the reaper closes the attempt as lost, and the run is tried again by its policy.
Between the answer 202 and the longer lease, the lease runs out sooner than the endpoint was promised: its report is
refused, and the next attempt carries the same `idempotency-key`.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from everwhen import failpoints, metrics
from everwhen.core import endpoints
from everwhen.core.endpoints import Health, Meaning, Verdict
from everwhen.dispatch.model import Lease, ToRenew
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.egress.answers import line, retry_after, status_name
from everwhen.egress.client import Answer, Answered, Away, Egress, RefusedByPolicy
from everwhen.endpoints import store
from everwhen.endpoints.model import EndpointSeen
from everwhen.endpoints.writing import Signing, message_id, run_body, run_headers, test_body
from everwhen.postgres.pool import Database
from everwhen.roles import OUTAGE
from everwhen.worker.protocol import Report, RunError

IN_FLIGHT: Final = 256
PER_TENANT: Final = 64
PER_ENDPOINT: Final = 32
GRACE_SECONDS: Final = 30.0
"""How long a lease outlasts the request: to write down what came of it, also when the database is away for a while."""

MOST_REPORTS: Final = 200
REPORT_TRIES: Final = 8
WORKER: Final = "everwhen:caller"

Key = tuple[UUID, str]

log = structlog.get_logger("everwhen.endpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What calling is made of."""

    egress: Egress
    tokens: LeaseTokens
    jitter: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Called:
    """What came of a request: the verdict, and one line that may be told."""

    verdict: Verdict
    said: str


@dataclass(slots=True, kw_only=True)
class Calls:
    """The requests under way in this process, and the reports that they have left."""

    database: Database
    dispatch: Dispatch
    outside: Outside
    in_flight: dict["asyncio.Task[None]", Key] = field(default_factory=dict["asyncio.Task[None]", Key])
    _reports: list[Report] = field(default_factory=list[Report])
    _writing: "asyncio.Task[None] | None" = None

    def room_for(self, key: Key) -> int:
        """Return how many more runs of this endpoint may be taken now."""
        under_way = Counter(self.in_flight.values())
        of_tenant = sum(count for (tenant_id, _), count in under_way.items() if tenant_id == key[0])
        return min(IN_FLIGHT - len(self.in_flight), PER_TENANT - of_tenant, PER_ENDPOINT - under_way[key])

    async def begin(self, seen: EndpointSeen, signing: Signing, *, most: int) -> int:
        """Claim up to `most` due runs of an endpoint and begin to post them; return how many."""
        claim = Claim(
            tenant_id=seen.tenant_id,
            queues=(seen.queue,),
            tasks=None,
            worker=WORKER,
            limit=most,
            lease_seconds=seen.answer_seconds + GRACE_SECONDS,
        )
        grant = await self.dispatch.claim(claim)
        for lease in grant.leases:
            self._start(self._call(seen, signing, lease, now=grant.now), (seen.tenant_id, seen.queue))
        return len(grant.leases)

    def begin_test(self, seen: EndpointSeen, signing: Signing, *, now: datetime) -> None:
        """Post a test, which somebody has asked for and the caller has taken at `now`."""
        self._start(self._test(seen, signing, now=now), (seen.tenant_id, seen.queue))

    async def wait(self, seconds: float) -> bool:
        """Wait until a request has ended, not for longer than that; return whether any is under way."""
        if not self.in_flight:
            return False
        await asyncio.wait(list(self.in_flight), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def settle(self) -> None:
        """Wait until all that is under way has ended, and its reports are written."""
        while self.in_flight or not self._is_written():
            await asyncio.wait([*self.in_flight, *([self._writing] if self._writing else [])])

    async def close(self, *, seconds: float) -> None:
        """Give what is under way a moment to end, and leave the rest to whoever finds its leases run out."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.settle()
        left = [*self.in_flight, *([self._writing] if self._writing else [])]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _is_written(self) -> bool:
        return self._writing is None or self._writing.done()

    def _start(self, call: Coroutine[Any, Any, None], key: Key) -> None:
        task = asyncio.create_task(call)
        self.in_flight[task] = key
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self.in_flight.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("endpoint.call_defect", error=repr(error))  # the lease runs out, and it is tried again

    async def _call(self, seen: EndpointSeen, signing: Signing, lease: Lease, *, now: datetime) -> None:
        failpoints.hit("caller.before_post")
        began = time.monotonic()
        called = await self._post_run(seen, signing, lease, now=now)
        failpoints.hit("caller.after_post")
        metrics.ENDPOINT_CALLS.labels(called.verdict.meaning.value).inc()
        metrics.ENDPOINT_SECONDS.observe(time.monotonic() - began)
        if called.verdict.meaning is Meaning.ACCEPTED:
            await self._hold(seen, lease, now=now)
        else:
            self._report(_report_of(lease, called, now=now))
        await self._note(seen, called)

    async def _post_run(self, seen: EndpointSeen, signing: Signing, lease: Lease, *, now: datetime) -> _Called:
        try:
            body = run_body(lease, tenant=seen.tenant, token=self._token(lease), now=now)
            headers = signing.request(body, message_id=message_id(lease), now=now) | run_headers(lease)
            return await self._post(seen, headers, body, seconds=_seconds(seen, lease, now=now))
        except Exception as error:
            log.exception("endpoint.call_defect", run_id=str(lease.run_id))
            return _Called(verdict=Verdict(meaning=Meaning.FAILED), said=f"a defect: {type(error).__name__}")

    async def _post(self, seen: EndpointSeen, headers: dict[str, str], body: bytes, *, seconds: float) -> _Called:
        answer = await self.outside.egress.post(
            seen.url, tenant_id=seen.tenant_id, headers=headers, content=body, seconds=seconds, with_body=False
        )
        async with self.database.system() as conn:
            return _judged(answer, now=conn.now)

    async def _test(self, seen: EndpointSeen, signing: Signing, *, now: datetime) -> None:
        body = test_body(tenant=seen.tenant, queue=seen.queue, now=now)
        headers = signing.request(body, message_id=f"test-{int(now.timestamp() * 1e6)}", now=now)
        called = await self._post(seen, headers, body, seconds=min(seen.answer_seconds, 10.0))
        async with self.database.system() as conn:
            await store.note_test(conn, tenant_id=seen.tenant_id, queue=seen.queue, answer=called.said, tested_at=now)

    async def _hold(self, seen: EndpointSeen, lease: Lease, *, now: datetime) -> None:
        """Make the lease as long as the endpoint was promised, and say that the run has begun."""
        told = ToRenew(tenant_id=lease.tenant_id, run_id=lease.run_id, lease_token=lease.lease_token, started_at=now)
        renewed = await self.dispatch.renew(lease.tenant_id, [told], lease_seconds=seen.accept_seconds)
        if lease.lease_token not in renewed:
            log.warning("endpoint.lease_lost", run_id=str(lease.run_id))

    def _report(self, report: Report) -> None:
        """Leave a report to whoever writes them: all that come while a batch is written are the next batch."""
        self._reports.append(report)
        if self._is_written():
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._reports:
            batch, self._reports[:] = self._reports[:MOST_REPORTS], self._reports[MOST_REPORTS:]
            await self._complete(batch)

    async def _complete(self, batch: Sequence[Report]) -> None:
        for n in range(REPORT_TRIES):
            try:
                await self.dispatch.complete(None, WORKER, batch)
            except OUTAGE as error:
                log.warning("endpoint.report_not_written", reports=len(batch), error=str(error))
                await asyncio.sleep(min(0.1 * 2**n, 5.0))
            else:
                return
        log.error("endpoint.reports_lost", reports=len(batch))  # their leases run out, and they are tried again

    async def _note(self, seen: EndpointSeen, called: _Called) -> None:
        """Write how the endpoint does, when that is news: a success of one that is well is none."""
        verdict = called.verdict
        if seen.failures == 0 and seen.rests_until is None and not verdict.is_unwell and verdict.rest is None:
            return
        async with self.database.system() as conn:
            row = await store.lock_health(conn, tenant_id=seen.tenant_id, queue=seen.queue)
            if row is None:
                return
            known = Health(failures=row.failures, rests_until=row.rests_until)
            health = endpoints.after(known, verdict, now=conn.now, jitter=self.outside.jitter())
            if health != known or verdict.is_unwell:
                await store.note_health(
                    conn,
                    tenant_id=seen.tenant_id,
                    queue=seen.queue,
                    failures=health.failures,
                    rests_until=health.rests_until,
                    error=called.said if verdict.is_unwell or verdict.rest is not None else None,
                    now=conn.now,
                )

    def _token(self, lease: Lease) -> str:
        return self.outside.tokens.seal(lease.run_id, lease.lease_token)


def _judged(answer: Answer, *, now: datetime) -> _Called:
    match answer:
        case Away():
            return _Called(verdict=endpoints.NO_ANSWER, said=line(answer.why))
        case RefusedByPolicy():
            return _Called(verdict=endpoints.NOT_REACHABLE, said=line(answer.why))
        case Answered():
            asked = retry_after(answer.retry_after, now=now)
            return _Called(verdict=endpoints.judge(answer.status, retry_after=asked), said=status_name(answer.status))


def _seconds(seen: EndpointSeen, lease: Lease, *, now: datetime) -> float:
    """Return how long the request may take: not beyond the time-out of the attempt."""
    if lease.deadline_at is None:
        return seen.answer_seconds
    return max(0.1, min(seen.answer_seconds, (lease.deadline_at - now).total_seconds()))


def _report_of(lease: Lease, called: _Called, *, now: datetime) -> Report:
    """Say what came of an attempt as a worker would. The token is the number: nothing of it leaves this process."""
    key: dict[str, Any] = {"tenant_id": lease.tenant_id, "run_id": lease.run_id, "lease_token": str(lease.lease_token)}
    match called.verdict.meaning:
        case Meaning.SUCCEEDED:
            answered = msgspec.Raw(msgspec.json.encode({"answer": called.said}))
            return Report(**key, outcome="succeeded", result=answered, started_at=now)
        case Meaning.NOT_NOW:
            return Report(**key, outcome="released", started_at=now)
        case meaning:
            error = RunError(type=f"endpoint.{meaning.value}", message=f"the endpoint: {called.said}")
            return Report(**key, outcome="failed", error=error, retryable=meaning is Meaning.FAILED, started_at=now)
