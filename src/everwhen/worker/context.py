"""What a task may know and say about the attempt it is: one `Context` per attempt."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import IO, Any, NoReturn, TypedDict, Unpack
from uuid import UUID

import msgspec

from everwhen.worker._clock import monotonic
from everwhen.worker.errors import AttemptTimedOut, CancelRequested, LeaseLost, Skip
from everwhen.worker.leases import NEVER, Lease
from everwhen.worker.logs import AttemptLog, LogSender
from everwhen.worker.payloads import Download, fetch_open, fetch_to, given
from everwhen.worker.protocol import ClaimedRun, StandsFor

_FAKE_ID = UUID("00000000-0000-8000-8000-000000000001")
_FAKE_INSTANT = datetime(2026, 1, 1, tzinfo=UTC)
_FAKE_RUN: dict[str, Any] = {
    "tenant_id": _FAKE_ID,
    "run_id": _FAKE_ID,
    "task": "fake",
    "queue": "default",
    "attempt": 1,
    "lease_token": "fake",
    "nominal_at": _FAKE_INSTANT,
    "due_at": _FAKE_INSTANT,
    "claimed_at": _FAKE_INSTANT,
}

_encode_details = msgspec.json.Encoder().encode


class FakeFields(TypedDict, total=False):
    """What `Context.fake` can be told; all of it has a default."""

    tenant_id: UUID
    run_id: UUID
    task: str
    queue: str
    schedule: str | None
    attempt: int
    max_attempts: int
    priority: int
    nominal_at: datetime | None
    due_at: datetime
    claimed_at: datetime
    deadline_at: datetime | None
    total_deadline_at: datetime | None
    stands_for: StandsFor
    lease_token: str
    cancel_requested: bool
    lease_lost: bool
    payloads: Mapping[str, bytes]


class Context:
    """One attempt, as its function sees it. Safe to use from any thread."""

    __slots__ = ("_download", "_lease", "_log", "_logged", "_logs")

    def __init__(self, lease: Lease, download: Download | None = None, logs: LogSender | None = None) -> None:
        """Belong to the attempt that holds this lease; tests use `Context.fake`."""
        self._lease = lease
        self._download = download or given({})
        self._logs = logs
        self._log: AttemptLog | None = None
        self._logged = bytearray()

    @classmethod
    def fake(cls, **fields: Unpack[FakeFields]) -> "Context":
        """Return a context for tests, without server or worker; see `last_details` and `logged` for what it was told.

        `payloads` are contents by their digests, which `payload` and `open_payload` then find.
        """
        run_fields: dict[str, Any] = {**_FAKE_RUN, **fields}
        cancel_requested = bool(run_fields.pop("cancel_requested", False))
        lost = bool(run_fields.pop("lease_lost", False))
        contents = run_fields.pop("payloads", {})
        run = ClaimedRun(lease_until=run_fields["claimed_at"], **run_fields)
        lease = Lease(run, sent=0.0, received=0.0, duration=NEVER)
        lease.cancel_requested = cancel_requested
        lease.lost = lost
        return cls(lease, given(contents))

    @property
    def tenant_id(self) -> UUID:
        """The tenant whose run this is."""
        return self._lease.run.tenant_id

    @property
    def run_id(self) -> UUID:
        """The run's id: the same for every attempt, in every region, after every recovery."""
        return self._lease.run.run_id

    @property
    def idempotency_key(self) -> str:
        """The run id as text: hand it to systems that must not do a thing twice."""
        return str(self._lease.run.run_id)

    @property
    def task(self) -> str:
        """The task's name."""
        return self._lease.run.task

    @property
    def queue(self) -> str:
        """The queue it was claimed from."""
        return self._lease.run.queue

    @property
    def schedule(self) -> str | None:
        """The schedule that intended this run, None when somebody asked for it."""
        return self._lease.run.schedule

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self._lease.run.attempt

    @property
    def max_attempts(self) -> int:
        """How many tries there are."""
        return self._lease.run.max_attempts

    @property
    def priority(self) -> int:
        """The run's priority."""
        return self._lease.run.priority

    @property
    def nominal_at(self) -> datetime | None:
        """The instant the schedule intended; compute with this, not with the present. None without a schedule."""
        return self._lease.run.nominal_at

    @property
    def due_at(self) -> datetime:
        """The instant from which the run was to start."""
        return self._lease.run.due_at

    @property
    def claimed_at(self) -> datetime:
        """The instant at which this worker was given it, by the server's clock."""
        return self._lease.run.claimed_at

    @property
    def deadline_at(self) -> datetime | None:
        """The instant at which the server ends this attempt, None without one."""
        return self._lease.run.deadline_at

    @property
    def total_deadline_at(self) -> datetime | None:
        """The instant by which the run has to have ended, over all its attempts; None without one."""
        return self._lease.run.total_deadline_at

    @property
    def stands_for(self) -> StandsFor | None:
        """The missed instants that this run stands for, when it caught up on several; None: for its own only."""
        found = self._lease.run.stands_for
        return None if found is msgspec.UNSET else found

    @property
    def lease_token(self) -> str:
        """The attempt's fencing token."""
        return self._lease.run.lease_token

    @property
    def last_details(self) -> object:
        """What was last given to `heartbeat` in this attempt."""
        return self._lease.last_details

    @property
    def cancelled(self) -> bool:
        """Whether to stop: cancel requested, lease lost, or timed out.

        A function that has read True here and returns is taken to have stopped: the attempt ends `cancelled`.
        """
        lease = self._lease
        if lease.cancel_requested:
            lease.cancel_seen = True
            return True
        return lease.ended or lease.deadline <= monotonic()

    def check(self) -> None:
        """Raise LeaseLost, AttemptTimedOut or CancelRequested when the attempt is over; otherwise do nothing."""
        lease, run = self._lease, self._lease.run
        if lease.timed_out:
            raise AttemptTimedOut(f"run {run.run_id}, attempt {run.attempt}: the time-out has passed; stop")
        if lease.lost or lease.deadline <= monotonic():
            raise LeaseLost(
                f"run {run.run_id}, attempt {run.attempt}: the lease is lost, the result is discarded; stop"
            )
        if lease.released:
            raise LeaseLost(f"run {run.run_id}, attempt {run.attempt}: the worker stops and gave the run back; stop")
        if lease.cancel_requested:
            lease.cancel_seen = True
            raise CancelRequested(f"run {run.run_id}, attempt {run.attempt}: cancel was requested; stop")

    def payload(self, reference: object, path: str | PathLike[str]) -> Path:
        """Fetch a payload that the run's input refers to, write it to this file, and return the file.

        `reference` is what stands in the input, `{"$payload": "sha256:…"}`. The file is whole, and its digest right, or
        it is not there. Blocks: an async function awaits `asyncio.to_thread(ctx.payload, …)`. Raises PayloadUnknown,
        PayloadBroken, ServerAway, and otherwise as `check`.
        """
        return fetch_to(Path(path), reference, self._lease.run, self._download, check=self.check)

    @contextmanager
    def open_payload(self, reference: object) -> Generator[IO[bytes]]:
        """Open a payload as a temporary file that is gone when the block ends; else as `payload`."""
        with fetch_open(reference, self._lease.run, self._download, check=self.check) as file:
            yield file

    def log(self, *values: object) -> None:
        """Write a line to the attempt's log, as `print` would: `everwhen logs RUN` shows it.

        Never waits; while the server is away a bounded part is kept.
        """
        self.write_log((" ".join(map(str, values)) + "\n").encode("utf-8", "replace"))

    def write_log(self, data: bytes, *, wait_seconds: float = 0.0) -> None:
        """Write bytes to the attempt's log as they are; wait so long for room before some are dropped."""
        if self._logs is None:
            self._logged += data
            return
        if self._log is None:
            self._log = self._logs.open(self._lease)
        self._log.write(data, wait_seconds=wait_seconds)

    @property
    def log_is_over(self) -> bool:
        """Whether nothing more of the attempt's log is kept, so that nothing more need be written."""
        return self._log is not None and self._log.is_over

    @property
    def logged(self) -> bytes:
        """What was written to the log of a context for tests."""
        return bytes(self._logged)

    def tell_zombie(self, details: object) -> None:
        """Tell that the attempt does nothing, with progress that says so; for executors, which can see that."""
        self._lease.zombie = True
        self.heartbeat(details)

    def has_log(self) -> bool:
        """Say whether anything was written to the log."""
        return self._log is not None

    def close_log(self) -> None:
        """Send what is left of the log, and wait until it is there, for a while; the worker calls it."""
        if self._log is not None:
            self._log.close()

    def skip(self, reason: str) -> NoReturn:
        """Skip this node of a workflow, by raising Skip: what needs it is told `skipped`, by its trigger rule."""
        raise Skip(reason)

    def heartbeat(self, details: object = None) -> None:
        """Publish progress and `check()`. Costs microseconds: details travel with the next lease renewal.

        The lease is kept without it. `details` is any JSON value; only the latest is sent. Raises TypeError when it
        cannot be written as JSON, otherwise as `check`.
        """
        self.check()
        if details is not None:
            self._lease.details = msgspec.Raw(_encode_details(details))
            self._lease.last_details = details


_current: ContextVar[Context] = ContextVar("everwhen_worker_context")


def current_context() -> Context:
    """Return the context of the attempt that this code belongs to; raise LookupError outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no task is being executed here; current_context() works inside of one") from None


def enter(context: Context) -> None:
    """Make this the current context, in the contextvars context of the caller."""
    _current.set(context)
