"""The life of one attempt, as a pipeline: accept → bind → start → end → report.

Three parties may end an attempt: its function (returns or raises), the sweep (time-out), the lease (lost, cancelled,
or released by the drain). All of them meet on the event loop, in `_settle`, where the first one wins: an attempt is
settled once, and what comes later is counted as late and discarded.

A slot belongs to the *function*, not to the attempt: Python cannot stop a thread, so a function that outlives its
time-out keeps its slot until it returns. Freeing it earlier would let hung functions pile up without a bound.

An async function is cancelled and reported when it has ended, so that its clean-up is over before the next attempt
starts. If it refuses to end, its lease runs out (`renew_until`) and the server goes on without it. A sync function is
reported at once: nothing can make it end.
"""

import asyncio
import contextlib
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from everwhen import failpoints
from everwhen.worker import outcomes
from everwhen.worker._clock import Clock
from everwhen.worker.context import Context, enter
from everwhen.worker.errors import InputMismatch
from everwhen.worker.leases import NEVER, Lease
from everwhen.worker.logs import LogSender
from everwhen.worker.payloads import Download
from everwhen.worker.protocol import Report
from everwhen.worker.stats import Stats
from everwhen.worker.tasks import Task, TaskRegistry
from everwhen.worker.threads import Threads

log = logging.getLogger("everwhen.worker")

SWEEP_SECONDS: Final = 0.1

Deliver = Callable[[Lease, Report], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTime:
    """The server's clock, as one claim's answer showed it, against ours."""

    server: datetime
    sent: float
    received: float

    def at(self, moment: float) -> datetime:
        """Return the server's time at a moment of ours; late by no more than the answer's way here."""
        return self.server + timedelta(seconds=moment - self.received)

    def moment(self, instant: datetime) -> float:
        """Return our moment for an instant of the server; never too late."""
        return self.sent + (instant - self.server).total_seconds()


class Attempt:
    """One attempt, from its claim to its report."""

    __slots__ = (
        "arguments",
        "context",
        "handle",
        "lease",
        "report",
        "settled",
        "started",
        "task",
        "time",
        "timeout_at",
    )

    def __init__(
        self, lease: Lease, time: ServerTime, download: Download | None = None, logs: LogSender | None = None
    ) -> None:
        """Start as claimed; the later fields are filled as the attempt moves on."""
        self.lease = lease
        self.time = time
        self.context = Context(lease, download, logs)
        self.task: Task
        self.arguments: dict[str, Any]
        self.started: float | None = None
        self.timeout_at = NEVER
        self.handle: asyncio.Task[None] | None = None
        self.report: Report | None = None
        self.settled = False

    @property
    def started_at(self) -> datetime | None:
        """When its function was called, by the server's clock."""
        return None if self.started is None else self.time.at(self.started)

    def cancel(self) -> None:
        """Make an async function stop, unless it has not begun; then it will not begin."""
        if self.handle is not None:
            self.handle.cancel()


class Execution:
    """Runs attempts in a bounded number of slots and hands each report to `deliver`. Belongs to one event loop."""

    def __init__(  # noqa: PLR0913  # what it is made of
        self,
        *,
        tasks: TaskRegistry,
        concurrency: int,
        clock: Clock,
        deliver: Deliver,
        abandon: Callable[[Lease], None],
        stats: Stats,
        download: Download | None = None,
        logs: LogSender | None = None,
    ) -> None:
        """Run these tasks; `abandon` is told of each attempt that ends without a report."""
        self._download = download
        self._logs = logs
        self._tasks = tasks
        self._concurrency = concurrency
        self._clock = clock
        self._deliver = deliver
        self._abandon = abandon
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Attempt] = deque()
        self._running: dict[Lease, Attempt] = {}
        self._in_threads = 0
        self._threads = Threads(self._call_in_thread, name="everwhen-task")
        self._returned: deque[Attempt] = deque()
        self._collecting = False
        self._sweep: asyncio.TimerHandle | None = None
        self.on_slot_free: Callable[[], None] = _nothing

    @property
    def held(self) -> int:
        """How many runs execute or wait for a slot here."""
        return len(self._running) + len(self._waiting)

    @property
    def running(self) -> Sequence[Attempt]:
        """The attempts whose functions have not ended."""
        return list(self._running.values())

    def accept(self, leases: Iterable[Lease], time: ServerTime) -> None:
        """Take claimed runs: start them, or keep them until a slot is free."""
        for lease in leases:
            self._waiting.append(Attempt(lease, time, self._download, self._logs))
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._concurrency:
            attempt = self._waiting.popleft()
            if attempt.lease.ended or attempt.lease.deadline <= self._clock():
                self._settle(attempt, None)
            elif self._is_too_late(attempt):
                self._settle(attempt, outcomes.timed_out(attempt.lease, started_at=None))
            elif self._bind(attempt):
                self._start(attempt)

    def _is_too_late(self, attempt: Attempt) -> bool:
        """Say whether the server's deadline for the attempt passed while it waited for a slot here."""
        deadline_at = attempt.lease.run.deadline_at
        return deadline_at is not None and attempt.time.moment(deadline_at) <= self._clock()

    def _bind(self, attempt: Attempt) -> bool:
        """Find the function and its arguments; report the attempt and return False when there are none."""
        run = attempt.lease.run
        task = self._tasks.get(run.task)
        if task is None:
            self._settle(attempt, outcomes.unknown_task(attempt.lease))
            return False
        try:
            attempt.arguments = task.bind(run.input, attempt.context)
        except InputMismatch as error:
            self._settle(attempt, outcomes.failed(attempt.lease, error, started_at=None))
            return False
        attempt.task = task
        return True

    def _start(self, attempt: Attempt) -> None:
        attempt.started = self._clock()
        attempt.lease.started_at = attempt.started_at
        self._limit(attempt)
        self._running[attempt.lease] = attempt
        if attempt.task.is_async:
            variables = contextvars.copy_context()
            variables.run(enter, attempt.context)
            self._loop.create_task(self._call_on_loop(attempt), context=variables)
        else:
            self._in_threads += 1
            self._threads.submit(attempt, busy=self._in_threads)

    def _limit(self, attempt: Attempt) -> None:
        """Set the moment of the time-out, the task's or the server's, whichever is first."""
        run, started = attempt.lease.run, attempt.started
        assert started is not None
        limits = [NEVER]
        if attempt.task.timeout_seconds is not None:
            limits.append(started + attempt.task.timeout_seconds)
        if run.deadline_at is not None:
            limits.append(attempt.time.moment(run.deadline_at))
        attempt.timeout_at = min(limits)
        if attempt.timeout_at < NEVER:
            attempt.lease.renew_until = attempt.timeout_at + attempt.lease.duration
            self._sweep = self._sweep or self._loop.call_later(SWEEP_SECONDS, self._end_overdue)

    async def _call_on_loop(self, attempt: Attempt) -> None:
        # Set by the first step, for a task that is cancelled before it never runs, not even its `except`.
        attempt.handle = asyncio.current_task()
        lease = attempt.lease
        try:
            if lease.ended or lease.cancel_requested:
                raise asyncio.CancelledError  # noqa: TRY301 - the same end as a cancellation one step later
            value = await attempt.task.function(**attempt.arguments)
            attempt.report = self._conclude(attempt, value)
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - one task never stops the loop
            attempt.report = outcomes.failed(lease, error, started_at=attempt.started_at)
        if attempt.context.has_log():
            with contextlib.suppress(asyncio.CancelledError):  # the report is made
                await asyncio.to_thread(attempt.context.close_log)
        self._end(attempt)

    def _call_in_thread(self, attempt: Attempt) -> None:
        try:
            contextvars.copy_context().run(self._call, attempt)
            attempt.context.close_log()
        finally:
            self._returned.append(attempt)
            # One wake-up of the loop serves all that return meanwhile: `_collect` clears the flag before it looks.
            if not self._collecting:
                self._collecting = True
                _call_soon(self._loop, self._collect)

    def _call(self, attempt: Attempt) -> None:
        enter(attempt.context)
        try:
            value = attempt.task.function(**attempt.arguments)
            attempt.report = self._conclude(attempt, value)
        except BaseException as error:  # noqa: BLE001 - one task never stops the worker, whatever it raises
            attempt.report = outcomes.failed(attempt.lease, error, started_at=attempt.started_at)

    def _conclude(self, attempt: Attempt, value: Any) -> Report | None:
        failpoints.hit("worker.after_effect")
        lease = attempt.lease
        if lease.lost:
            return None
        if lease.timed_out:
            return outcomes.timed_out(lease, started_at=attempt.started_at)
        return outcomes.succeeded(lease, value, started_at=attempt.started_at)

    def _collect(self) -> None:
        self._collecting = False
        while self._returned:
            self._in_threads -= 1
            self._end(self._returned.popleft())

    def _end(self, attempt: Attempt) -> None:
        """Free the slot of a function that has ended, and settle its attempt unless that has happened."""
        del self._running[attempt.lease]
        if attempt.settled:
            self._stats.late += 1
            log.warning("task.returned_late run_id=%s task=%s; discarded", attempt.lease.run.run_id, attempt.task.name)
        else:
            self._settle(attempt, attempt.report)
        if self._waiting:
            self._start_waiting()
        self.on_slot_free()

    def _settle(self, attempt: Attempt, report: Report | None) -> None:
        attempt.settled = True
        if report is None:
            self._abandon(attempt.lease)
        else:
            self._deliver(attempt.lease, report)

    def _end_overdue(self) -> None:
        """End every attempt past its time-out: one pass for all of them instead of a timer for each."""
        now = self._clock()
        limited = False
        for attempt in self.running:
            if attempt.timeout_at <= now:
                self._time_out(attempt)
            limited = limited or (attempt.timeout_at < NEVER and not attempt.settled)
        self._sweep = self._loop.call_later(SWEEP_SECONDS, self._end_overdue) if limited else None

    def _time_out(self, attempt: Attempt) -> None:
        lease = attempt.lease
        if attempt.settled or lease.timed_out:
            return
        lease.timed_out = True
        self._stats.timed_out += 1
        log.warning("attempt.timed_out run_id=%s task=%s", lease.run.run_id, attempt.task.name)
        if attempt.task.is_async:
            attempt.cancel()
        elif not lease.lost:
            self._settle(attempt, outcomes.timed_out(lease, started_at=attempt.started_at))

    def interrupt(self, leases: Iterable[Lease]) -> None:
        """Make async functions whose lease is lost, or whose cancel was requested, stop; sync ones see it."""
        for lease in leases:
            attempt = self._running.get(lease)
            if attempt is not None:
                attempt.cancel()

    def release_waiting(self) -> None:
        """Give back what has not started."""
        while self._waiting:
            attempt = self._waiting.popleft()
            self._settle(attempt, None if attempt.lease.lost else outcomes.released(attempt.lease))

    def release_running(self) -> None:
        """Give back what has not finished: async functions are cancelled first, sync ones are left behind."""
        for attempt in self.running:
            if attempt.settled or attempt.lease.lost:
                continue
            attempt.lease.released = True
            if attempt.task.is_async:
                attempt.cancel()
            else:
                self._settle(attempt, outcomes.released(attempt.lease))

    def release_stubborn(self) -> None:
        """Give back the async attempts whose functions did not end although they were cancelled."""
        for attempt in self.running:
            if not attempt.settled and not attempt.lease.lost:
                self._settle(attempt, outcomes.released(attempt.lease))

    def close(self) -> None:
        """Let the threads go."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._threads.close()


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:  # the loop is closed: the worker has gone and nobody waits for this result
        log.info("task.returned_after_exit; discarded")


def _nothing() -> None:
    """Stand in until the session has set its own."""
