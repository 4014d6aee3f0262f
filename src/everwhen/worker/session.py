"""One running of a worker, from its first claim to its exit: assembles the parts, and drains them in order.

Drain: stop claiming → give back what has not started → let what runs finish, up to `drain_seconds`, with its leases
renewed → give back what has not finished → send the reports → stop renewing. A second signal skips the wait.
The server is told first, and sends claims in flight home: what they bring is carried out like everything else, so no
run is granted to a worker that has hung up. Only where the server does not hear it are claims broken off; should it
have granted runs in that very moment, their leases run out.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from enum import IntEnum
from typing import Any, Final

from everwhen import __version__
from everwhen.worker._clock import Clock, Jitter, new_instance
from everwhen.worker.backoff import Backoff, Outage
from everwhen.worker.completion import Completer
from everwhen.worker.errors import Unauthorised
from everwhen.worker.execution import Execution
from everwhen.worker.fetching import Fetcher, Intake, Pace, Room
from everwhen.worker.leases import Lease, LeaseKeeper
from everwhen.worker.logs import LogSender
from everwhen.worker.orders import Orders
from everwhen.worker.presence import Load, Presence
from everwhen.worker.probing import Probe
from everwhen.worker.protocol import Announcement, ClaimedRun, LogAnswer, Standing
from everwhen.worker.receiving import LONGEST_BACK_OFF_SECONDS, Receiver
from everwhen.worker.settings import Settings
from everwhen.worker.stats import Stats
from everwhen.worker.tasks import TaskRegistry
from everwhen.worker.transport import Transport

log = logging.getLogger("everwhen.worker")

CLEAN_UP_SECONDS: Final = 2.0
FLUSH_SECONDS: Final = 5.0
TELL_SECONDS: Final = 2.0
"""How long the server is told, at the start and at the end of a drain, that this worker ends."""
HOME_SECONDS: Final = 3.0
"""How long claims may take to come home once the server has heard that."""


class ExitCode(IntEnum):
    """How a worker ended, as the command line reports it."""

    DRAINED = 0
    FAILED = 1
    UNAUTHORISED = 4


class Session:
    """One running of a worker on the current event loop."""

    def __init__(
        self,
        *,
        settings: Settings,
        tasks: TaskRegistry,
        transport: Transport,
        clock: Clock,
        jitter: Jitter,
        stats: Stats,
    ) -> None:
        """Assemble; `run` starts."""
        self._settings = settings
        self._tasks = tasks
        self._transport = transport
        self._clock = clock
        self._jitter = jitter
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._outage = Outage(clock=clock)
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._slot_freed = asyncio.Event()
        self._failure: BaseException | None = None
        self._sending: asyncio.Task[None]
        self._logs = LogSender(self._send_log, secrets=settings.secrets)
        self._keeper = self._make_keeper()
        self._completer = self._make_completer()
        self._execution = self._make_execution()
        self._room = Room(
            capacity=settings.capacity,
            execution=self._execution,
            completer=self._completer,
            keeper=self._keeper,
            resources=settings.resources,
        )
        self._execution.on_slot_free = self._freed
        self._completer.on_room = self._room.freed
        self._instance = new_instance()
        self._presence = self._make_presence()
        self._orders = self._make_orders()

    async def run(self) -> ExitCode:
        """Work until told to stop, then drain; return how it ended. Raises ConfigurationError before it starts."""
        if not self._settings.probe:
            return await self._run()
        async with Probe(not_ready=self.not_ready).listening(self._settings.probe):
            return await self._run()

    def not_ready(self) -> str | None:
        """Say why no runs are claimed; None: they are."""
        if self._stopping.is_set():
            return "it stops"
        if not self._room.is_open:
            return "it is held back"
        return "the server is away" if self._outage.is_on else None

    async def _run(self) -> ExitCode:
        names = [task.name for task in self._tasks]
        self._keeper.start()
        self._presence.start()
        completer = self._sending = self._spawn(self._completer.run())
        fetchers = [self._spawn(work) for work in self._claims(names)]
        try:
            await self._stopping.wait()
            self._orders.close()
            await self._stop_claiming(fetchers)
            return await self._drain()
        finally:
            self._orders.close()
            await _cancel([*fetchers, completer])
            self._logs.stop()
            self._keeper.stop()
            self._execution.close()
            await self._tell(self._presence.leave)
            await self._transport.close()

    def stop(self) -> None:
        """Drain; called again, do not wait for what runs. Call it on the loop."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def _stop_claiming(self, fetchers: Sequence[asyncio.Task[None]]) -> None:
        """Claim nothing more, and let those claims come home that are under way."""
        self._room.is_open = False
        if await self._tell(self._presence.stopping) and self._failure is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HOME_SECONDS):
                    await self._room.quiet()
        await _cancel(fetchers)

    async def _tell(self, say: Callable[..., bool]) -> bool:
        """Let the presence thread say something, and wait for it a little, whatever runs on this loop meanwhile."""
        return await asyncio.to_thread(say, wait_seconds=TELL_SECONDS)

    async def _drain(self) -> ExitCode:
        log.info("worker.draining, %d runs to finish", len(self._execution.running))
        self._execution.release_waiting()
        finished = await self._until_idle(self._settings.drain_seconds)
        if not finished:
            log.warning("worker.giving_back %d unfinished runs", len(self._execution.running))
            self._execution.release_running()
            await self._until_ended()
            self._execution.release_stubborn()
        delivered = await self._flush()
        return self._exit_code(delivered=delivered)

    async def _until_idle(self, seconds: float) -> bool:
        """Wait for every function to return, at most so long and not past a second signal."""
        hurry = self._loop.create_task(self._hurry.wait())
        idle = self._loop.create_task(self._idle())
        try:
            await asyncio.wait([hurry, idle], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return idle.done()
        finally:
            await _cancel([hurry, idle])

    async def _idle(self) -> None:
        while self._execution.held:
            self._slot_freed.clear()
            await self._slot_freed.wait()

    async def _until_ended(self) -> None:
        """Give cancelled coroutines a moment for their clean-up."""
        handles = [attempt.handle for attempt in self._execution.running if attempt.handle is not None]
        if handles:
            await asyncio.wait(handles, timeout=CLEAN_UP_SECONDS)

    async def _flush(self) -> bool:
        """Wait until every report is answered; return False when time is up or nobody sends any more."""
        settled = self._loop.create_task(self._completer.settled())
        both = [settled, self._sending]
        await asyncio.wait(both, timeout=FLUSH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        delivered = settled.done()
        await _cancel([settled])
        if not delivered:
            log.error("worker.reports_undelivered %d; their leases run out", self._completer.backlog)
        return delivered

    def _exit_code(self, *, delivered: bool) -> ExitCode:
        if isinstance(self._failure, Unauthorised):
            return ExitCode.UNAUTHORISED
        return ExitCode.DRAINED if delivered and self._failure is None else ExitCode.FAILED

    def _freed(self) -> None:
        self._slot_freed.set()
        self._room.freed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Stop the worker when one of its loops fails: half a worker is worse than none."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._failure = self._failure or error
        if isinstance(error, Unauthorised):
            log.error("worker.unauthorised: %s; check EVERWHEN_TOKEN and what it may claim", error)
        else:
            log.error("worker.failed", exc_info=error)
        self._stopping.set()

    def _make_keeper(self) -> LeaseKeeper:
        keeper = LeaseKeeper(
            worker_id=self._settings.worker_id,
            lease_seconds=self._settings.lease_seconds,
            beat=self._transport.heartbeat,
            clock=self._clock,
            jitter=self._jitter,
            outage=self._outage,
        )
        keeper.on_lost = keeper.on_cancel = self._interrupt
        return keeper

    def _interrupt(self, leases: Sequence[Lease]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._execution.interrupt, leases)
        except RuntimeError:  # the loop is closed: there is nothing left to interrupt
            log.info("worker.gone before %d attempts could be interrupted", len(leases))

    def _make_presence(self) -> Presence:
        settings = self._settings
        return Presence(
            announcement=Announcement(
                instance=self._instance,
                worker=settings.worker_id,
                slots=settings.concurrency,
                queues=list(settings.queues),
                tasks=[task.name for task in self._tasks],
                sdk=f"python {__version__}",
                version=settings.version,
                host=socket.gethostname() or None,
                pid=os.getpid(),
                labels=dict(settings.labels),
                resources=dict(settings.resources),
            ),
            transport=self._transport,
            load=lambda: Load(held=self._keeper.count, in_use=self._keeper.in_use),
            on_order=self._ordered,
            clock=self._clock,
            jitter=self._jitter,
        )

    def _make_orders(self) -> Orders:
        return Orders(
            room=self._room,
            execution=self._execution,
            completer=self._completer,
            presence=self._presence,
            idle=self._idle,
            stop=self.stop,
        )

    def _ordered(self, standing: Standing) -> None:
        try:
            self._loop.call_soon_threadsafe(self._orders.follow, standing)
        except RuntimeError:  # the loop is closed: nobody is left to follow
            log.info("worker.gone before it was %s", standing.wish)

    def _make_completer(self) -> Completer:
        return Completer(
            worker_id=self._settings.worker_id,
            transport=self._transport,
            backoff=Backoff(jitter=self._jitter),
            outage=self._outage,
            forget=self._keeper.drop,
            stats=self._stats,
        )

    def _make_execution(self) -> Execution:
        return Execution(
            tasks=self._tasks,
            concurrency=self._settings.concurrency,
            clock=self._clock,
            deliver=self._completer.submit,
            abandon=self._completer.abandon,
            stats=self._stats,
            download=self._download,
            logs=self._logs,
        )

    def _download(self, run: ClaimedRun, digest: str, write: Callable[[bytes], object]) -> None:
        self._transport.download(run, digest, write)

    def _send_log(self, run: ClaimedRun, piece: int, data: bytes) -> LogAnswer:
        return self._transport.send_log(run, piece, data)

    def _claims(self, names: list[str]) -> list[Coroutine[Any, Any, None]]:
        """Return the loops that bring runs: those that ask for them, and the one that listens to a broker."""
        is_told = bool(self._settings.via)
        pace = Pace(queues=self._settings.queues, loops=self._settings.fetchers + is_told)
        intake = Intake(keeper=self._keeper, execution=self._execution, stats=self._stats)
        loops: list[Coroutine[Any, Any, None]] = [
            self._make_fetcher(names, intake, pace).run() for _ in range(self._settings.fetchers)
        ]
        if is_told:
            loops += [self._make_fetcher(names, intake, pace).sweep(), self._make_receiver(names, intake, pace).run()]
        return loops

    def _make_fetcher(self, names: list[str], intake: Intake, pace: Pace) -> Fetcher:
        return Fetcher(
            settings=self._settings,
            tasks=names,
            transport=self._transport,
            intake=intake,
            room=self._room,
            pace=pace,
            outage=self._outage,
            backoff=Backoff(jitter=self._jitter),
            clock=self._clock,
            jitter=self._jitter,
            instance=self._instance,
            on_held_back=self._presence.say_soon,
        )

    def _make_receiver(self, names: list[str], intake: Intake, pace: Pace) -> Receiver:
        return Receiver(
            settings=self._settings,
            tasks=names,
            transport=self._transport,
            intake=intake,
            room=self._room,
            pace=pace,
            backoff=Backoff(jitter=self._jitter, longest=LONGEST_BACK_OFF_SECONDS),
            clock=self._clock,
            instance=self._instance,
            on_held_back=self._presence.say_soon,
        )


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
