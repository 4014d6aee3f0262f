"""Reports on their way to the server: whatever has gathered goes in one request once the previous is answered.

A slow server makes the batches larger instead of the queue longer. A report is sent until it is answered or its lease
is lost; a server that carried out a request whose answer was lost refuses the second copy, which is harmless and logged
as what it is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from everwhen import failpoints
from everwhen.worker import outcomes
from everwhen.worker.backoff import Backoff, Outage
from everwhen.worker.errors import RequestRefused, ServerAway, WorkerError
from everwhen.worker.leases import Lease
from everwhen.worker.protocol import CompleteRequest, Report, ReportResult
from everwhen.worker.stats import Stats
from everwhen.worker.transport import Transport

log = logging.getLogger("everwhen.worker")

MOST_REPORTS_PER_REQUEST: Final = 500


class Pending:
    """A report, with what happened to it so far."""

    __slots__ = ("lease", "replaced", "report", "resent")

    def __init__(self, lease: Lease, report: Report) -> None:
        """Not sent yet."""
        self.lease = lease
        self.report = report
        self.resent = False
        self.replaced = False


class Completer:
    """Sends reports in natural batches; `forget` drops leases whose reports are answered."""

    def __init__(
        self,
        *,
        worker_id: str,
        transport: Transport,
        backoff: Backoff,
        outage: Outage,
        forget: Callable[[Iterable[Lease]], None],
        stats: Stats,
    ) -> None:
        """Prepare; `run` sends."""
        self._worker_id = worker_id
        self._transport = transport
        self._backoff = backoff
        self._outage = outage
        self._forget = forget
        self._stats = stats
        self._pending: deque[Pending] = deque()
        self._gathered = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.on_room: Callable[[], None] = _nothing

    @property
    def backlog(self) -> int:
        """How many reports wait to be answered."""
        return len(self._pending)

    def submit(self, lease: Lease, report: Report) -> None:
        """Send this report with the next batch."""
        self._pending.append(Pending(lease, report))
        self._gathered.set()
        self._empty.clear()

    def abandon(self, lease: Lease) -> None:
        """Count an attempt that ends without a report, because its lease is lost."""
        self._stats.lost += 1
        self._forget([lease])

    async def settled(self) -> None:
        """Wait until every report is answered or dropped."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send until cancelled; raise Unauthorised when the token is refused."""
        while True:
            await self._gathered.wait()
            self._gathered.clear()
            while self._pending:
                await self._flush(self._take())
            self._empty.set()

    def _take(self) -> list[Pending]:
        """Return the oldest reports, still pending, without those whose lease is lost: these are dropped."""
        batch: list[Pending] = []
        while self._pending and len(batch) < MOST_REPORTS_PER_REQUEST:
            pending = self._pending.popleft()
            if pending.lease.lost:
                log.warning("report.dropped run_id=%s: its lease is lost", pending.report.run_id)
                self.abandon(pending.lease)
            else:
                batch.append(pending)
        self._pending.extendleft(reversed(batch))
        return batch

    async def _flush(self, batch: list[Pending]) -> None:
        if not batch:
            return
        try:
            await self._send(batch)
        except ServerAway as error:
            delay = self._backoff.next_delay(error)
            self._outage.failed(error, delay=delay)
            await asyncio.sleep(delay)
        except RequestRefused as error:
            await self._divide(batch, error)

    async def _send(self, batch: Sequence[Pending]) -> None:
        for pending in batch:
            pending.lease.reporting = True
        request = CompleteRequest(worker=self._worker_id, reports=[pending.report for pending in batch])
        try:
            response = await self._transport.complete(request)
            _check_length(response.results, len(batch))
        except WorkerError:
            for pending in batch:
                pending.lease.reporting = False
                pending.resent = True
            raise
        failpoints.hit("worker.after_report")
        self._answered(batch, response.results)

    async def _divide(self, batch: list[Pending], error: RequestRefused) -> None:
        """Find the report that makes the server refuse a batch: by halves, so that one never holds up the others."""
        if len(batch) > 1:
            middle = len(batch) // 2
            for half in (batch[:middle], batch[middle:]):
                await self._flush(half)
            return
        pending = batch[0]
        if pending.replaced:
            log.error("report.refused run_id=%s, given up: %s", pending.report.run_id, error)
            self._stats.refused += 1
            self._done(batch)
            return
        log.warning("report.refused run_id=%s, reported as failed instead: %s", pending.report.run_id, error)
        pending.report, pending.replaced = outcomes.refused(pending.report, str(error)), True

    def _answered(self, batch: Sequence[Pending], results: Sequence[ReportResult]) -> None:
        self._backoff.reset()
        self._outage.recovered()
        for pending, result in zip(batch, results, strict=True):
            if result.accepted:
                outcome = pending.report.outcome
                setattr(self._stats, outcome, getattr(self._stats, outcome) + 1)
            else:
                self._not_accepted(pending, result)
        self._done(batch)

    def _not_accepted(self, pending: Pending, result: ReportResult) -> None:
        self._stats.refused += 1
        why = "the first copy was probably accepted, its answer lost" if pending.resent else "the lease was lost"
        log.warning("report.not_accepted run_id=%s state=%s code=%s: %s", result.run_id, result.state, result.code, why)

    def _done(self, batch: Sequence[Pending]) -> None:
        answered = set(batch)
        while self._pending and self._pending[0] in answered:
            self._pending.popleft()
        if any(pending in answered for pending in self._pending):
            self._pending = deque(pending for pending in self._pending if pending not in answered)
        self._forget(pending.lease for pending in batch)
        self.on_room()


def _check_length(results: Sequence[ReportResult], expected: int) -> None:
    if len(results) != expected:
        raise ServerAway(f"complete: {expected} reports sent, {len(results)} answered")


def _nothing() -> None:
    """Stand in until the session has set its own."""
